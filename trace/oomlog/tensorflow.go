package oomlog

// TensorFlow, and JAX where it uses the same allocator, say it in up to four ways for one failure: the BFC
// allocator's warning, its dump (bfc.go), the exception with the shape of the tensor, and the driver's
// refusal when the pool tried to grow. The warning also comes in a form that says itself that nothing
// failed; it is only noted.

// parseBFC reads "Allocator (GPU_0_bfc) ran out of memory trying to allocate 18.00MiB (rounded to
// 18874368)requested by op Mul".
func parseBFC(v *view) (found, bool) {
	const key = "ranoutofmemorytryingtoallocate"
	a := v.anchor(key, 60, 40)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "tensorflow", Device: -1, Cause: CausePool, Format: "TensorFlow BFC"}, start: a, end: a + len(key)}
	if m.Requested, m.end = v.size(m.end); !m.Requested.Known {
		return found{}, false
	}
	if p, ok := v.take(m.end, "(roundedto"); ok {
		if s, p := v.bytesAt(p); s.Known {
			m.Requested, m.end = s, p
		}
	}
	if i := v.anchorBefore("allocator(", a, 80); i >= 0 {
		m.start = i
		m.bfcAllocator(v.text[i+len("allocator(") : a])
	}
	limit := min(len(v.text), m.end+400)
	if i := v.index(key, m.end, limit); i >= 0 {
		limit = i
	}
	if i := v.index("thisisnotafailure", m.end, limit); i >= 0 {
		m.end = i + len("thisisnotafailure")
		m.SoftBefore = true // nothing failed yet
	}
	if indexString(v.text[max(0, a-160):a], "xla") >= 0 || indexString(v.text[max(0, a-160):a], "tsl") >= 0 {
		m.Format = "TensorFlow/XLA BFC"
	}
	return m, true
}

// bfcAllocator takes the device from the name of an allocator such as gpu_1_bfc. Names with host or cpu in
// them are pools of the host's memory.
func (m *found) bfcAllocator(name []byte) {
	if indexString(name, "host") >= 0 || indexString(name, "cpu") >= 0 {
		m.Cause, m.Device, m.Format = CauseHost, -1, "TensorFlow host pool"
		return
	}
	if i := indexString(name, "gpu_"); i >= 0 {
		n := digitsLen(name[i+4:])
		if n > 0 && n < 4 {
			m.Device = 0
			for _, c := range name[i+4 : i+4+n] {
				m.Device = m.Device*10 + int(c-'0')
			}
		}
	}
}

// anchorBefore finds the last key that starts within back bytes before i.
func (v *view) anchorBefore(key string, i, back int) int {
	lo := max(0, i-back)
	for at := i - len(key); at >= lo; at-- {
		if v.has(at, key) {
			return at
		}
	}
	return -1
}

// typeSizes are the bytes of an element, by the names that TensorFlow prints.
var typeSizes = [...]struct {
	name string
	size int64
}{
	{"double", 8}, {"float", 4}, {"half", 2}, {"bfloat16", 2}, {"int64", 8}, {"int32", 4}, {"int16", 2},
	{"int8", 1}, {"uint8", 1}, {"bool", 1}, {"complex64", 8}, {"complex128", 16},
}

// parseTensor reads "OOM when allocating tensor with shape[64,512,28,28] and type float on …device:GPU:0 by
// allocator GPU_0_bfc". The size of the tensor follows from its shape.
func parseTensor(v *view) (found, bool) {
	const key = "oomwhenallocatingtensorwithshape"
	a := v.anchor(key, 20, 30)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "tensorflow", Device: -1, Cause: CausePool, Format: "TensorFlow tensor"}, start: a, end: a + len(key)}
	elements, end := v.shape(m.end)
	m.end = end
	if p, ok := v.take(end, "andtype"); ok {
		for _, t := range typeSizes {
			if v.has(p, t.name) && !v.has(p, "float16") {
				if elements > 0 && elements < (1<<62)/t.size {
					m.Requested = Exact(elements * t.size)
				}
				m.end = p + len(t.name)
				break
			}
		}
	}
	if i := v.index("device:", m.end, m.end+90); i >= 0 {
		p := i + len("device:")
		if v.has(p, "cpu") {
			m.Cause, m.Format = CauseHost, "TensorFlow tensor on the host"
		}
		if p, ok := v.take(p, "gpu:"); ok {
			m.Device, m.end = v.ordinal(p)
		}
	}
	if i := v.index("byallocator", m.end, m.end+40); i >= 0 {
		m.end = i + len("byallocator")
		name := v.text[m.end:min(len(v.text), m.end+16)]
		if hasPrefixFold(name, "cpu") || hasPrefixFold(name, "mklcpu") || hasPrefixFold(name, "gpu_host") || hasPrefixFold(name, "cuda_host") {
			m.Cause, m.Format = CauseHost, "TensorFlow tensor on the host"
		}
	}
	return m, true
}

// shape reads [64,512,28,28] and returns the number of elements, 0 if it is not that.
func (v *view) shape(i int) (elements int64, end int) {
	p, ok := v.take(i, "[")
	if !ok {
		return 0, i
	}
	elements = 1
	for range 16 {
		n, next, ok := v.number(p)
		if !ok || n > 1<<40 || n > 0 && elements > (1<<62)/n {
			return 0, i
		}
		elements *= n
		if next, ok = v.take(next, ","); ok {
			p = next
			continue
		}
		if end, ok := v.take(next, "]"); ok {
			return elements, end
		}
		return 0, i
	}
	return 0, i
}

// parseTFDriver reads the driver's refusals as TensorFlow's stream executor prints them: "failed to
// allocate 3.81G (4090953728 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY". Its M and G are binary.
func parseTFDriver(v *view) (found, bool) {
	m := found{Message: Message{Framework: "tensorflow", Device: -1, Cause: CausePool, Format: "TensorFlow driver error"}}
	for _, host := range [...]string{"couldnotallocatepinnedhostmemoryofsize:", "failedtoallocatehostmemoryofsize:"} {
		if a := v.anchor(host, 60, 0); a >= 0 {
			m.start = a
			m.Requested, m.end = v.bytesAt(a + len(host))
			m.Cause, m.Format = CauseHost, "TensorFlow pinned memory"
			return m, m.Requested.Known
		}
	}
	if a := v.anchor("failedtoalloc", 80, 0); a >= 0 {
		if s, p := v.size(a + len("failedtoalloc")); s.Known && v.has(p, "onhost:") {
			m.Requested, m.start, m.end = s, a, p
			m.Cause, m.Format = CauseHost, "TensorFlow pinned memory"
			return m, true
		}
	}
	a := v.anchor("failedtoallocate", 80, 0)
	if a < 0 {
		return found{}, false
	}
	m.start = a
	s, p := v.size(a + len("failedtoallocate"))
	if !s.Known {
		return found{}, false
	}
	m.Requested = s
	if q, ok := v.take(p, "("); ok {
		if exact, q := v.size(q); exact.Known && v.has(q, ")") {
			m.Requested, p = exact, q+1
		}
	}
	p, ok := v.take(p, "fromdevice:")
	if !ok {
		return found{}, false
	}
	m.end = p
	if i := v.index("out_of_memory", p, p+80); i >= 0 {
		m.end = i + len("out_of_memory")
	}
	if q, ok := v.take(m.end, ":outofmemory"); ok {
		m.end = q
	}
	return m, true
}

// parseTFDevice reads how much memory TensorFlow gave to its pool: "Created device …device:GPU:0 with 67 MB
// memory". It is no failure, but later messages need it.
func parseTFDevice(v *view) (device int, limit Size, ok bool) {
	a := v.anchor("created", 0, 0)
	if a < 0 {
		return 0, Size{}, false
	}
	i := v.index("device:gpu:", a, a+120)
	if i < 0 {
		return 0, Size{}, false
	}
	device, p := v.ordinal(i + len("device:gpu:"))
	p, with := v.take(p, "with")
	limit, p = v.size(p)
	return device, limit, device >= 0 && with && limit.Known && v.has(p, "memory")
}
