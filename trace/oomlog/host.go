package oomlog

// parseHost reads the failures of the host's memory. They often stand in the same logs and are often
// taken for the GPU's.
func parseHost(v *view) (found, bool) {
	m := found{Message: Message{Framework: "host", Device: -1, Cause: CauseHost}}
	if a := v.anchor("defaultcpuallocator:", 20, 20); a >= 0 {
		if i := v.index("youtriedtoallocate", a, a+80); i >= 0 {
			m.Framework, m.Format, m.start = "pytorch", "PyTorch CPU allocator", a
			m.Requested, m.end = v.size(i + len("youtriedtoallocate"))
			return m, m.Requested.Known
		}
	}
	if a := v.anchor("killedprocess", 30, 30); a >= 0 {
		if _, p, ok := v.number(a + len("killedprocess")); ok && (v.has(p, "(") || v.has(p, ",")) {
			m.start, m.end, m.Format = a, p, "Linux out-of-memory killer"
			if i := v.anchorBefore("outofmemory:", a, 20); i >= 0 {
				m.start = i
			}
			return m, true
		}
	}
	if a := v.anchor("unabletoallocate", 20, 0); a >= 0 {
		if s, p := v.size(a + len("unabletoallocate")); s.Known && v.has(p, "foranarraywithshape") {
			m.Requested, m.start, m.end, m.Format = s, a, p, "NumPy"
			return m, true
		}
	}
	for _, shape := range [...]struct{ key, format string }{
		{"outofmemoryerror:taskwaskilledduetothenoderunninglowonmemory", "Ray memory monitor"},
		{"workersarekilledduetomemorypressure", "Ray memory monitor"},
		{"[errno12]cannotallocatememory", "operating system"},
		{"error:cannotallocatememory", "operating system"},
		{"fork:cannotallocatememory", "operating system"},
		{"reason:oomkilled", "Kubernetes"},
		{"what():std::bad_alloc", "C++"},
	} {
		a := v.anchor(shape.key, 40, 30)
		if a < 0 || shape.format == "C++" && v.has(a+len(shape.key), ":") {
			continue
		}
		m.start, m.end, m.Format = a, a+len(shape.key), shape.format
		return m, true
	}
	return found{}, false
}
