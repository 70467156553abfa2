package oomlog

// parseCuPy reads CuPy's message. Up to version 6 its "total" counts the request that failed.
//
//	out of memory to allocate 1073741824 bytes (total 12373894656 bytes)
//	Out of memory allocating 393,216,000 bytes (allocated so far: 84,043,158,016 bytes, limit set to: 8,589,934,592 bytes).
func parseCuPy(v *view) (found, bool) {
	m := found{Message: Message{Framework: "cupy", Backend: "cuda", Device: -1, Cause: CauseBudget}}
	if a := v.anchor("outofmemorytoallocate", 40, 0); a >= 0 {
		s, p := v.bytesAt(a + len("outofmemorytoallocate"))
		p, ok := v.take(p, "bytes(total")
		total, q := v.bytesAt(p)
		if !s.Known || !ok || !total.Known {
			return found{}, false
		}
		m.Requested, m.Allocated = s, total.Minus(s)
		m.start, m.end, m.Format = a, q, "CuPy up to 6"
		cupyLimit(v, &m)
		return m, m.Allocated.Bytes >= 0
	}
	a := v.anchor("outofmemoryallocating", 40, 0)
	if a < 0 {
		return found{}, false
	}
	s, p := v.bytesAt(a + len("outofmemoryallocating"))
	p, ok := v.take(p, "bytes(allocatedsofar:")
	if !ok || !s.Known {
		return found{}, false
	}
	m.Requested = s
	m.Allocated, p = v.bytesAt(p)
	m.start, m.end, m.Format = a, p, "CuPy 7+"
	cupyLimit(v, &m)
	return m, m.Allocated.Known
}

func cupyLimit(v *view, m *found) {
	if i := v.index("limitsetto:", m.end, m.end+24); i >= 0 {
		if s, p := v.bytesAt(i + len("limitsetto:")); s.Known {
			m.Limit, m.end = s, p
		}
	}
}

// parsePaddle reads Paddle's message. Its GB are GiB. What it calls allocated is all that is in use on the
// device: total less available.
//
//	Out of memory error on GPU 0. Cannot allocate 3.621826GB memory on GPU 0, 21.184814GB memory has been
//	allocated and available memory is only 2.814575GB.
func parsePaddle(v *view) (found, bool) {
	m := found{Message: Message{Framework: "paddle", Backend: "cuda", Device: -1, Format: "Paddle"}}
	for _, key := range [...]string{"cannotallocate", "cannotmalloc"} {
		a := v.anchor(key, 250, 40)
		if a < 0 {
			continue
		}
		s, p := v.size(a + len(key))
		p, ok := v.take(p, "memoryongpu")
		if !s.Known || !ok {
			continue
		}
		m.Requested, m.start = s, a
		m.Device, m.end = v.ordinal(p)
		if i := v.anchorBefore("outofmemoryerrorongpu", a, 40); i >= 0 {
			m.start = i
		}
		if i := v.index("memoryhasbeenallocated", m.end, m.end+40); i >= 0 {
			m.Allocated, _ = v.sizeBefore(i)
			m.end = i + len("memoryhasbeenallocated")
			if q, ok := v.take(m.end, "(actualusingallocatedmemory"); ok {
				// What all hold is free memory's complement; what this process uses is told apart.
				m.Process = m.Allocated
				m.Allocated, m.end = v.size(q)
				m.Format = "Paddle, own use told apart"
			}
		}
		for _, field := range [...]struct {
			label string
			size  *Size
		}{{"availablememoryisonly", &m.Free}, {",available", &m.Free}, {",total", &m.Capacity}, {"gpumemoryused:", &m.Process}} {
			if i := v.index(field.label, m.end, m.end+140); i >= 0 {
				if s, p := v.size(i + len(field.label)); s.Known {
					*field.size = s
					if p-m.end < 60 {
						m.end = p
					}
				}
			}
		}
		return m, true
	}
	return found{}, false
}

// parseRMM reads the failures of RAPIDS Memory Manager: its pool at its maximum, or the driver's refusal
// behind any of its resources.
func parseRMM(v *view) (found, bool) {
	m := found{Message: Message{Framework: "rmm", Backend: "cuda", Device: -1}}
	if a := v.anchor("maximumpoolsizeexceeded", 300, 200); a >= 0 {
		if indexString(v.text[max(0, a-260):a], "rmm") < 0 && indexString(v.text[max(0, a-260):a], "bad_alloc") < 0 &&
			v.index("current/max/trysize", a, a+120) < 0 {
			return found{}, false
		}
		m.start, m.end, m.Cause, m.Format = a, a+len("maximumpoolsizeexceeded"), CauseBudget, "RMM pool"
		if i := v.anchorBefore("std::bad_alloc", a, 260); i >= 0 {
			m.start = i
		} else if i := v.anchorBefore("[upstream", a, 60); i >= 0 {
			m.Requested, _ = v.size(i + len("[upstream"))
		}
		if q, ok := v.take(m.end, "(failedtoallocate"); ok {
			m.Requested, m.end = v.size(q)
		}
		if i := v.index("current/max/trysize=", m.end, m.end+60); i >= 0 {
			p := i + len("current/max/trysize=")
			for _, s := range [...]*Size{&m.Reserved, &m.Limit, &m.Requested} {
				*s, p = v.size(p)
				m.end = p
				p, _ = v.take(p, ",")
			}
			if m.Limit.Bytes >= noSize {
				m.Limit = Size{}
			}
		}
		return m, true
	}
	a := v.anchor("std::bad_alloc:", 60, 40)
	if a < 0 {
		return found{}, false
	}
	m.start, m.end, m.Cause, m.Format = a, a+len("std::bad_alloc:"), CauseMarker, "RMM"
	named := v.has(m.end, "out_of_memory:")
	if i := v.index("failedtoallocate", m.end, m.end+240); i >= 0 {
		if s, p := v.size(i + len("failedtoallocate")); s.Known {
			m.Requested, m.end = s, p
		}
	}
	if i := v.index("cudaerrormemoryallocation", m.end, m.end+260); i >= 0 {
		named = true
		m.end = i + len("cudaerrormemoryallocation")
		m.end, _ = v.take(m.end, "outofmemory")
	}
	return m, named
}

// parseJulia reads CUDA.jl's message: "Out of GPU memory trying to allocate 190.735 MiB", "Effective GPU
// memory usage: 99.35% (7.790 GiB/7.840 GiB)", "Memory pool usage: 6.200 GiB (6.500 GiB reserved)".
func parseJulia(v *view) (found, bool) {
	const key = "outofgpumemorytryingtoallocate"
	a := v.anchor(key, 60, 0)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "cuda.jl", Backend: "cuda", Device: -1, Cause: CauseStream, Format: "CUDA.jl"}, start: a}
	m.Requested, m.end = v.size(a + len(key))
	if i := v.index("effectivegpumemoryusage:", m.end, m.end+40); i >= 0 {
		if open := v.index("(", i, i+40); open >= 0 {
			used, p := v.size(open + 1)
			if p, ok := v.take(p, "/"); ok {
				m.Capacity, m.end = v.size(p)
				m.Free = m.Capacity.Minus(used).AtLeastZero()
			}
		}
	}
	if i := v.index("memorypoolusage:", m.end, m.end+40); i >= 0 {
		var p int
		m.Allocated, p = v.size(i + len("memorypoolusage:"))
		m.end = p
		if p, ok := v.take(p, "("); ok {
			if m.Reserved, p = v.size(p); m.Reserved.Known {
				m.end = p
				m.Unallocated = m.Reserved.Minus(m.Allocated).AtLeastZero()
				m.Cause = CauseAllocator
			}
		}
	}
	return m, m.Requested.Known
}
