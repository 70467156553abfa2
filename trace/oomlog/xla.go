package oomlog

// parseXLA reads the status RESOURCE_EXHAUSTED as XLA reports it, under JAX or TensorFlow, on GPUs and
// TPUs. Other programs use the same status for other things (gRPC for messages that are too long), so
// the sentence after it decides.
func parseXLA(v *view) (found, bool) {
	m := found{Message: Message{Framework: "xla", Device: -1, Cause: CausePool, Format: "XLA RESOURCE_EXHAUSTED"}}
	ok := xlaAllocate(v, &m) || xlaCompile(v, &m) || xlaTPU(v, &m)
	if !ok {
		return found{}, false
	}
	if i := v.anchorBefore("resource_exhausted:", m.start, 120); i >= 0 {
		m.start = i
	}
	head := v.text[max(0, m.start-120):m.start]
	if indexString(head, "jax") >= 0 || indexString(head, "xlaruntimeerror") >= 0 {
		m.Framework = "jax"
	}
	if i := v.index("bufferassignmentstats:", m.end, m.end+120); i >= 0 {
		m.end = i + len("bufferassignmentstats:")
		if i := v.index("totalallocation:", m.end, m.end+500); i >= 0 {
			if s, p := v.size(i + len("totalallocation:")); s.Known {
				m.Plan, m.end = s, p
				m.Cause, m.Format = CausePlan, "XLA RESOURCE_EXHAUSTED, buffer assignment"
			}
		}
	}
	return m, true
}

// xlaAllocate reads the failures at run time.
func xlaAllocate(v *view, m *found) bool {
	for _, key := range [...]string{"outofmemorywhiletryingtoallocate", "outofmemoryallocating", "failedtoallocaterequestfor"} {
		a := v.anchor(key, 60, 60)
		if a < 0 {
			continue
		}
		s, p := v.size(a + len(key))
		if !s.Known || v.has(p, "(allocatedsofar") {
			continue
		}
		m.Requested, m.start, m.end = s, a, p
		if q, ok := v.take(p, "("); ok {
			if exact, q := v.size(q); exact.Known && v.has(q, ")") {
				m.Requested, m.end = exact, q+1
			}
		}
		if i := v.index("deviceordinal", m.end, m.end+30); i >= 0 {
			m.Device, m.end = v.ordinal(i + len("deviceordinal"))
		}
		return true
	}
	return false
}

// xlaCompile reads the failures of the TPU compiler: the program itself needs more than there is.
func xlaCompile(v *view, m *found) bool {
	if a := v.anchor("ranoutofmemoryinmemoryspacehbm.", 80, 60); a >= 0 {
		if i := v.index("used", a, a+50); i >= 0 {
			var p int
			m.Plan, p = v.size(i + len("used"))
			if q, ok := v.take(p, "of"); ok {
				m.Capacity, p = v.size(q)
			}
			m.start, m.end = a, p
			m.Cause, m.Format = CausePlan, "XLA for TPU, compiling"
			return m.Plan.Known && m.Capacity.Known
		}
	}
	if a := v.anchor("hbmusage:", 60, 60); a >= 0 {
		var p int
		m.Plan, p = v.size(a + len("hbmusage:"))
		if i := v.index("exceedingavailablebytes:", p, p+80); i >= 0 && m.Plan.Known {
			m.Capacity, m.end = v.size(i + len("exceedingavailablebytes:"))
			m.start, m.Cause, m.Format = a, CausePlan, "XLA for TPU, compiling"
			return m.Capacity.Known
		}
	}
	return false
}

// xlaTPU reads the failures of the TPU's runtime: "Attempting to allocate 64.00G. That was not possible.
// There are 10.51G free."
func xlaTPU(v *view, m *found) bool {
	for _, key := range [...]string{"attemptingtoallocate", "attemptingtoreserve"} {
		a := v.anchor(key, 60, 60)
		if a < 0 {
			continue
		}
		s, p := v.size(a + len(key))
		i := v.index("thereare", p, p+120)
		if !s.Known || i < 0 || v.index("notpossible", p, p+80) < 0 {
			continue
		}
		m.Requested, m.start = s, a
		m.Free, m.end = v.size(i + len("thereare"))
		m.Format = "XLA for TPU, running"
		return true
	}
	return false
}

// parseXLAStream reads the refusal of cudaMallocAsync under XLA and TensorFlow: "gpu_async_1 cuMemAllocAsync
// failed to allocate 1225195446464 bytes: RESOURCE_EXHAUSTED: …", with the driver's own numbers on the next
// line. The statistics after it have zeros where this allocator keeps no count.
func parseXLAStream(v *view) (found, bool) {
	const key = "cumemallocasyncfailedtoallocate"
	a := v.anchor(key, 60, 60)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "xla", Backend: "cuda", Device: -1, Cause: CauseStream, Format: "XLA cudaMallocAsync"}, start: a}
	m.Requested, m.end = v.size(a + len(key))
	if i := v.anchorBefore("gpu_async_", a, 16); i >= 0 {
		m.Device, _ = v.ordinal(i + len("gpu_async_"))
		m.start = i
	}
	for _, words := range [...]string{"cuda_error_out_of_memory:outofmemory", "cudaerror:outofmemory(cuda_error_out_of_memory)", "outofmemory"} {
		if i := v.index(words, m.end, m.end+90); i >= 0 {
			m.end = i + len(words)
			break
		}
	}
	if i := v.index("freememory/totalmemory:", m.end, m.end+60); i >= 0 {
		free, p := v.bytesAt(i + len("freememory/totalmemory:"))
		if p, ok := v.take(p, "/"); ok && free.Known {
			m.Free = free
			m.Capacity, m.end = v.bytesAt(p)
		}
	}
	return m, m.Requested.Known
}
