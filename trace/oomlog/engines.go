package oomlog

// parseVLLM reads the refusals of vLLM's and SGLang's start: they plan a share of the card in advance, and
// stop before anything is asked of the driver.
func parseVLLM(v *view) (found, bool) {
	m := found{Message: Message{Framework: "vllm", Device: -1, Cause: CauseBudget}}
	if a := v.anchor("freememoryondevice", 90, 60); a >= 0 {
		return vllmStartup(v, m, a)
	}
	if a := v.anchor("kvcacheisneeded", 60, 20); a >= 0 {
		m.Requested, m.start = v.sizeBefore(a)
		if i := v.index("availablekvcachememory(", a, a+90); i >= 0 && m.Requested.Known {
			m.Free, m.end = v.size(i + len("availablekvcachememory("))
			m.Format = "vLLM KV cache budget"
			return m, m.Free.Known
		}
	}
	for _, shape := range [...]struct{ key, framework, format string }{
		{"error:noavailablememoryforthecacheblocks", "vllm", "vLLM KV cache budget"},
		{"islargerthanthemaximumnumberoftokensthatcanbestoredinkvcache", "vllm", "vLLM KV cache budget"},
		{"error:notenoughmemory.pleasetrytoincrease--mem-fraction-static", "sglang", "SGLang static memory budget"},
		{"notenoughmemorytohandle", "tgi", "Text Generation Inference warm-up"},
	} {
		if a := v.anchor(shape.key, 100, 30); a >= 0 {
			m.start, m.end, m.Framework, m.Format = a, a+len(shape.key), shape.framework, shape.format
			if shape.framework == "tgi" {
				m.Cause = CauseMarker
			}
			return m, true
		}
	}
	return found{}, false
}

// vllmStartup reads "Free memory on device cuda:0 (31.44/47.38 GiB) on startup is less than desired GPU
// memory utilization (0.95, 45.01 GiB)". The first number has no unit of its own.
func vllmStartup(v *view, m found, a int) (found, bool) {
	m.start = a
	p := a + len("freememoryondevice")
	if q, ok := v.take(p, "cuda:"); ok {
		m.Device, p = v.ordinal(q)
	}
	p, ok := v.take(p, "(")
	if !ok {
		return found{}, false
	}
	n, fraction := numberLen(v.text[p:])
	if n == 0 || !v.has(p+n, "/") {
		return found{}, false
	}
	capacity, q := v.size(p + n + 1)
	if !capacity.Known {
		return found{}, false
	}
	m.Capacity = capacity
	m.Free, _ = makeSize(v.text[p:p+n], fraction, gib)
	i := v.index("desiredgpumemoryutilization(", q, q+60)
	if i < 0 {
		return found{}, false
	}
	p = i + len("desiredgpumemoryutilization(")
	n, _ = numberLen(v.text[p:])
	if p, ok = v.take(p+n, ","); ok {
		m.Requested, m.end = v.size(p)
	}
	m.Cause, m.Format = CauseStartup, "vLLM free memory at start"
	return m, m.Requested.Known
}

// parseORT reads the failures of ONNX Runtime's arena.
func parseORT(v *view) (found, bool) {
	m := found{Message: Message{Framework: "onnxruntime", Device: -1}}
	if a := v.anchor("availablememoryof", 60, 20); a >= 0 {
		free, p := v.bytesAt(a + len("availablememoryof"))
		p, ok := v.take(p, "issmallerthanrequestedbytesof")
		if !free.Known || !ok {
			return found{}, false
		}
		m.Free = free
		m.Requested, m.end = v.bytesAt(p)
		m.start, m.Cause, m.Format = a, CauseBudget, "ONNX Runtime arena limit"
		return m, m.Requested.Known
	}
	const key = "failedtoallocatememoryforrequestedbufferofsize"
	a := v.anchor(key, 60, 0)
	if a < 0 {
		return found{}, false
	}
	m.Requested, m.end = v.bytesAt(a + len(key))
	m.start, m.Cause, m.Format = a, CauseMarker, "ONNX Runtime"
	return m, m.Requested.Known
}

// parseGGML reads the failures of llama.cpp and its kin. They come in two lines; the second has the exact
// number of bytes.
func parseGGML(v *view) (found, bool) {
	m := found{Message: Message{Framework: "ggml", Device: -1, Cause: CauseMarker, Format: "ggml"}}
	first, second := v.anchor(":cudamallocfailed:outofmemory", 100, 80), ggmlBuffer(v)
	if first >= 0 {
		d := first
		for d > 0 && isDigit(v.text[d-1]) {
			d--
		}
		m.Device, _ = v.ordinal(d)
		if i := v.anchorBefore("allocating", d, 50); i >= 0 && v.endsWith(d, "ondevice") {
			m.Requested, _ = v.size(i + len("allocating"))
			m.start, m.end = i, first+len(":cudamallocfailed:outofmemory")
			m.Backend = "cuda"
		} else {
			first = -1
		}
	}
	if second >= 0 && (first < 0 || second > m.end && second < m.end+120) {
		p := second + len("failedtoallocate")
		if first < 0 {
			m.start = second
		}
		size := v.index("bufferofsize", p, p+40)
		if size < 0 { // the mark is another one's, farther away
			return found{}, false
		}
		digits := size
		for digits > p && isDigit(v.text[digits-1]) {
			digits--
		}
		switch string(v.text[p:digits]) {
		case "cuda":
			m.Backend = "cuda"
		case "rocm":
			m.Backend = "hip"
		case "cpu", "":
			m.Cause, m.Format = CauseHost, "ggml on the host"
		}
		if d, _ := v.ordinal(digits); d >= 0 {
			m.Device = d
		}
		m.Requested, m.end = v.bytesAt(size + len("bufferofsize"))
		return m, m.Requested.Known
	}
	if first >= 0 {
		return m, m.Requested.Known
	}
	return ggmlOther(v, m)
}

// ggmlBuffer finds "failed to allocate CUDA0 buffer of size ".
func ggmlBuffer(v *view) int {
	a := v.anchor("failedtoallocate", 100, 260)
	if a < 0 || v.index("bufferofsize", a, a+60) < 0 {
		return -1
	}
	return a
}

// ggmlOther reads the shapes of ggml's other backends and of its virtual memory pool.
func ggmlOther(v *view, m found) (found, bool) {
	if a := v.anchor("devicememoryallocationofsize", 60, 60); a >= 0 {
		m.start, m.Format = a, "ggml Vulkan"
		m.Requested, m.end = v.bytesAt(a + len("devicememoryallocationofsize"))
		if i := v.index("exceedsdevicememoryallocationlimit", m.end, m.end+160); i >= 0 {
			m.Cause, m.end = CausePlatform, i+len("exceedsdevicememoryallocationlimit")
		}
		return m, m.Requested.Known
	}
	if a := v.anchor("allocatememory:erroroutofdevicememory", 60, 0); a >= 0 {
		m.start, m.end, m.Format = a, a+len("allocatememory:erroroutofdevicememory"), "ggml Vulkan"
		return m, true
	}
	if a := v.anchor("cudaerror:outofmemory", 40, 0); a >= 0 {
		end := a + len("cudaerror:outofmemory")
		if i := v.index("currentdevice:", end, end+60); i >= 0 && v.index("ggml", i, i+260) >= 0 {
			m.Device, m.end = v.ordinal(i + len("currentdevice:"))
			m.start, m.Backend, m.Format = a, "cuda", "ggml CUDA error"
			return m, true
		}
	}
	return found{}, false
}

// parseTensorRT reads TensorRT's failures, up to three lines for one. While it builds an engine it also
// tries tactics that need too much and skips them; that is no failure.
func parseTensorRT(v *view) (found, bool) {
	m := found{Message: Message{Framework: "tensorrt", Backend: "cuda", Device: -1, Cause: CauseMarker, Format: "TensorRT"}}
	m.start = -1
	for _, key := range [...]string{"errorcode1:cudaruntime(outofmemory)", "requestedamountofgpumemory(", "errorcode2:outofmemory("} {
		a := v.anchor(key, 420, 0)
		if a < 0 || m.start >= 0 && (a < m.start || a > m.end+200) {
			continue
		}
		if m.start < 0 {
			m.start = a
		}
		m.end = a + len(key)
	}
	if m.start < 0 {
		return found{}, false
	}
	// The lines after the first, wherever the scanner stopped.
	for range 3 {
		if i := v.index("requestedamountofgpumemory(", max(m.start, m.end-30), m.end+220); i >= 0 {
			if s, p := v.size(i + len("requestedamountofgpumemory(")); s.Known && p > m.end {
				m.Requested, m.end = s, p
			}
		}
		if i := v.index("errorcode2:outofmemory(", max(m.start, m.end-30), m.end+260); i >= 0 {
			p := i + len("errorcode2:outofmemory(")
			m.end = max(m.end, p)
			if q, ok := v.take(p, "requestedsizewas"); ok {
				if s, q := v.size(q); s.Known {
					m.Requested, m.end = s, max(m.end, q)
				}
			}
		}
	}
	if i := v.index("skippingtactic", m.end, m.end+260); i >= 0 {
		m.end = i + len("skippingtactic")
		m.SoftBefore = true // nothing failed
	}
	return m, true
}
