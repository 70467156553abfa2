package oomlog

// The messages of PyTorch that do not come from its caching allocators: cudaMallocAsync, MPS, the
// assertion that replaces a message where NVML refuses to answer, the bare errors of old versions, and
// messages of which only the name is left.

// parseStream reads the block of lines that the cudaMallocAsync backend prints:
//
//	Allocation on device 0 would exceed allowed memory. (out of memory)
//	Currently allocated     : 4.86 GiB
//	Requested               : 10.12 GiB
//	Device limit            : 24.00 GiB
//	Free (according to CUDA): 0 bytes
//	PyTorch limit (set by user-supplied memory fraction)
//	                        : 17179869184.00 GiB
//
// The last number means that there is no limit. Some programs keep only the first words.
func parseStream(v *view) (found, bool) {
	const key = "allocationondevice"
	a := v.anchor(key, 700, 60)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "pytorch", Backend: "cuda", Device: -1, Format: "PyTorch cudaMallocAsync"}, start: a, end: a + len(key)}
	named := v.endsWith(a, "outofmemoryerror:")
	if named {
		m.start = a - len("outofmemoryerror:")
	}
	m.Device, m.end = v.ordinal(m.end)
	p, exceed := v.take(m.end, "wouldexceedallowedmemory")
	if !exceed {
		m.Cause = CauseMarker
		return m, named
	}
	m.end = p
	for _, field := range [...]struct {
		label string
		size  *Size
	}{
		{"currentlyallocated:", &m.Allocated}, {"requested:", &m.Requested}, {"devicelimit:", &m.Capacity},
		{"free(accordingtocuda):", &m.Free}, {"memoryfraction):", &m.Limit},
	} {
		i := v.index(field.label, m.end, m.end+160)
		if i < 0 {
			continue
		}
		if s, p := v.size(i + len(field.label)); s.Known {
			*field.size, m.end = s, p
		}
	}
	if m.Limit.Known && m.Limit.Bytes >= noSize {
		m.Limit = Size{}
	}
	m.Cause = CauseStream
	if m.known() == 0 {
		m.Cause = CauseMarker
	}
	return m, true
}

// parseMPS reads the message of Apple's backend. Its MB and GB are binary.
func parseMPS(v *view) (found, bool) {
	const key = "mpsbackendoutofmemory"
	a := v.anchor(key, 250, 0)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "pytorch", Backend: "mps", Device: -1, Format: "PyTorch MPS"}, start: a, end: a + len(key)}
	for _, field := range [...]struct {
		label string
		size  *Size
	}{{"mpsallocated:", &m.Allocated}, {"otherallocations:", &m.Elsewhere}, {"maxallowed:", &m.Limit}, {triedTo, &m.Requested}} {
		i := v.index(field.label, m.end, m.end+80)
		if i < 0 {
			continue
		}
		if s, p := v.size(i + len(field.label)); s.Known {
			*field.size, m.end = s, p
		}
	}
	if m.known() == 0 {
		m.Cause = CauseMarker
		return m, v.endsWith(a, "error:")
	}
	return m, true
}

// parseMPSBuffer reads the refusal of a buffer that is longer than Metal allows.
func parseMPSBuffer(v *view) (found, bool) {
	const key = "error:invalidbuffersize:"
	a := v.anchor(key, 30, 0)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "pytorch", Backend: "mps", Device: -1, Cause: CausePlatform, Format: "PyTorch MPS, buffer size"}, start: a}
	m.Requested, m.end = v.size(a + len(key))
	return m, m.Requested.Known
}

// parseAssert reads the failed assertion that stands in for an out-of-memory message where NVML does not
// tell how much memory there is: on a MIG slice, on a Jetson. The assertion is on the way to the message,
// so the memory had run out already.
func parseAssert(v *view) (found, bool) {
	const key = "nvml_success=="
	a := v.anchor(key, 60, 60)
	if a < 0 || v.index("internalassertfailed", a, a+80) < 0 || v.index("cachingallocator", a, a+400) < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "pytorch", Backend: "cuda", Device: -1, Cause: CauseMarker, Format: "PyTorch, NVML assertion"}, start: a}
	m.end = v.index("cachingallocator", a, a+400)
	if v.around("NvMapMemAlloc") {
		m.Cause, m.Format = CausePlatform, "PyTorch on Jetson, NVML assertion"
	}
	return m, true
}

// parseNvMap reads the refusal of a Jetson's kernel, whose GPU shares the host's memory.
func parseNvMap(v *view) (found, bool) {
	const key = "nvmapmemalloc"
	a := v.anchor(key, 20, 0)
	if a < 0 {
		return found{}, false
	}
	end := v.index("error12", a, a+80)
	if end < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "cuda", Backend: "cuda", Device: -1, Cause: CausePlatform, Format: "Jetson NvMap"}, start: a, end: end + 7}
	if i := v.index("nvml_success==", m.end, m.end+2500); i >= 0 && v.index("internalassertfailed", i, i+80) >= 0 {
		m.Framework, m.Format, m.end = "pytorch", "PyTorch on Jetson, NVML assertion", i+80
	}
	return m, true
}

// parseTHC reads "cuda runtime error (2) : out of memory at FILE:LINE" of PyTorch up to 0.4 and of Torch 7,
// with or without the THCudaCheck line before it. It has no numbers; the name of the file tells where it
// happened.
func parseTHC(v *view) (found, bool) {
	const check, key = "thcudacheckfail", "cudaruntimeerror(2):outofmemory"
	m := found{Message: Message{Framework: "pytorch", Backend: "cuda", Device: -1, Cause: CauseMarker, Format: "PyTorch up to 0.4 (THC)"}}
	a := v.anchor(key, 300, 500)
	c := v.anchor(check, 500, 0)
	switch {
	case a >= 0:
		m.start, m.end = a, a+len(key)
		if c >= 0 && c < a && a-c < 500 {
			m.start = c
		}
	case c >= 0:
		e := v.index("error=2:outofmemory", c, c+400)
		if e < 0 {
			return found{}, false
		}
		m.start, m.end = c, e+len("error=2:outofmemory")
	default:
		return found{}, false
	}
	where := v.text[m.start:min(len(v.text), m.end+200)]
	for _, w := range [...]struct {
		file  string
		cause Cause
	}{{"thccachinghostallocator", CauseHost}, {"pinnedmemory", CauseHost}, {"thcgeneral", CauseContext}} {
		if i := indexString(where, w.file); i >= 0 {
			m.Cause = w.cause
			break
		}
	}
	return m, true
}

// parseBare reads an exception that has no numbers: "RuntimeError: CUDA out of memory." cut there, or
// "RuntimeError: CUDA error: out of memory". Only an exception counts, not a mention: the name of a class
// and a colon must stand before it.
func parseBare(v *view) (found, bool) {
	for _, name := range [...]string{"cuda", "hip", "xpu", "npu", "mps"} {
		a := v.anchor(name+"outofmemory", 40, 0)
		if a < 0 || !v.exceptionBefore(a) {
			continue
		}
		end := a + len(name) + len("outofmemory")
		m := Message{Framework: "pytorch", Backend: name, Device: -1, Cause: CauseMarker, Format: "PyTorch, no numbers"}
		return found{m, a, end}, true
	}
	return found{}, false
}

// parseCUDAError reads PyTorch's report of any other CUDA call that was refused memory.
func parseCUDAError(v *view) (found, bool) {
	for _, key := range [...]string{"cudaerror:outofmemory", "hiperror:outofmemory", "cudadrivererror:outofmemory"} {
		a := v.anchor(key, 40, 0)
		if a < 0 || !v.exceptionBefore(a) {
			continue
		}
		end := a + len(key)
		m := Message{Framework: "pytorch", Backend: key[:len(key)-len("error:outofmemory")], Device: -1, Cause: CauseMarker, Format: "PyTorch CUDA error"}
		if key[4:10] == "driver" {
			m.Backend, m.Format = "cuda", "PyTorch CUDA driver error"
		}
		// Since it says that errors may come late, PyTorch's own allocator reports its failures otherwise.
		modern := v.index("kernelerrorsmightbeasynchronously", end, end+200) >= 0 || v.endsWith(a, "acceleratorerror:")
		switch {
		case v.around("_cuda_init") || v.around("_lazy_init"):
			m.Cause, m.Format = CauseContext, m.Format+" while CUDA starts"
		case v.around("pin_memory") || v.around("cudaHostAlloc"):
			m.Cause, m.Format = CauseHost, m.Format+" while pinning memory"
		case modern:
			m.Cause = CauseLibrary
		}
		return found{m, a, end}, true
	}
	return found{}, false
}

// exceptionBefore tells whether the flat text before i ends with the name of an exception and a colon.
func (v *view) exceptionBefore(i int) bool {
	for _, name := range [...]string{"runtimeerror:", "outofmemoryerror:", "acceleratorerror:", "exception:", "error:"} {
		if v.endsWith(i, name) {
			return true
		}
	}
	return false
}
