package oomlog

// PyTorch's caching allocators, all of one family of wordings:
//
//	1.0    CUDA out of memory. Tried to allocate X (GPU d; T total capacity; A already allocated; F free; C cached)
//	1.4    … R reserved in total by PyTorch); from 1.8 "L allowed; " before it if a fraction is set
//	1.10   … with the hint to set max_split_size_mb
//	2.1    CUDA out of memory. Tried to allocate X. GPU d has a total capacty of T of which F is free.
//	       [Process P has M memory in use.]… [Including non-PyTorch memory, this process has M memory in use.]
//	       Of the allocated memory A is allocated by PyTorch, and U is reserved by PyTorch but unallocated.
//	2.2    the same with "capacity"; "L allowed; " before "Of the allocated memory"
//	2.4    the same with ", with P allocated in private pools (e.g., CUDA Graphs)"
//
// HIP, XPU, NPU and others say the same under their own names. Any sentence can be missing where a text
// was cut, and unknown text can stand between two sentences: each is looked for on its own, not far from
// the one before.

const triedTo = "triedtoallocate"

// sentenceGap is how much foreign text may stand between two sentences of one message.
const sentenceGap = 300

// parseTorch reads a message of the caching allocator.
func parseTorch(v *view) (found, bool) {
	a := v.anchor(triedTo, 4500, 40)
	if a < 0 || v.endsWith(a, "you") {
		return found{}, false
	}
	m := found{Message: Message{Framework: "pytorch", Device: -1}, start: a, end: a + len(triedTo)}
	headed := torchHead(v, &m, a)
	if v.has(m.end, "morethan1eb") {
		m.end += len("morethan1ebmemory")
		m.Cause, m.Format = CauseHuge, "PyTorch, above 1 EB"
		return m, headed
	}
	var end int
	if m.Requested, end = v.size(m.end); !m.Requested.Known {
		return found{}, false
	}
	m.end = end
	if v.has(end, "(") {
		torchOld(v, &m)
	} else {
		torchNew(v, &m)
	}
	if m.Format == "" { // nothing but the request
		m.Cause, m.Format = CauseMarker, "PyTorch, cut"
		return m, headed
	}
	torchHint(v, &m)
	if m.Backend == "" {
		m.Backend = "cuda"
	}
	m.Windows = v.around(`:\`)
	return m, true
}

// torchHead reads what stands before "Tried to allocate": the name of the backend and "out of memory".
func torchHead(v *view, m *found, a int) bool {
	at := a
	if v.endsWith(at, "npuworkspaceallocator") {
		at -= len("npuworkspaceallocator")
	}
	if v.endsWith(at, "largerthan4gb!") {
		at -= len("largerthan4gb!")
		if i := v.anchor("currentplatformcannotallocatememoryblock", 200, 0); i >= 0 && i < at {
			m.start, m.Cause, m.Backend = i, CausePlatform, "xpu"
			return true
		}
	}
	switch {
	case v.endsWith(at, "outofmemory."):
		at -= len("outofmemory.")
	case v.endsWith(at, "outofmemory"):
		at -= len("outofmemory")
	default:
		return false
	}
	for _, name := range [...]string{"cuda", "hip", "xpu", "npu", "mps", "musa", "mlu", "gcu", "hpu"} {
		if v.endsWith(at, name) {
			m.start, m.Backend = at-len(name), name
			return true
		}
	}
	m.start = at
	return v.endsWith(at, "gpu") || v.endsWith(at, "device")
}

// torchOld reads the list in parentheses that versions before 2.1 print.
func torchOld(v *view, m *found) {
	p := m.end + 1
	cached := false
	for range 8 {
		s, next := v.size(p)
		if !s.Known {
			// The first item is the device: a name and perhaps a number.
			for next < len(v.text) && isLetter(v.text[next]) {
				next++
			}
			if next == p {
				break
			}
			if m.Backend == "" || m.Backend == "cuda" {
				if name := string(v.text[p:next]); name == "xpu" || name == "npu" || name == "mlu" || name == "musa" {
					m.Backend = name
				}
			}
			m.Device, next = v.ordinal(next)
		} else {
			label := v.text[next:min(len(v.text), next+40)]
			switch {
			case hasPrefixFold(label, "totalcap"):
				m.Capacity = s
			case hasPrefixFold(label, "alreadyalloc"):
				m.Allocated = s
			case hasPrefixFold(label, "currentactive"):
			case hasPrefixFold(label, "free"):
				m.Free = s
			case hasPrefixFold(label, "allowed"):
				m.Limit = s
			case hasPrefixFold(label, "cached"):
				m.Unallocated, cached = s, true
			case hasPrefixFold(label, "reserved"):
				m.Reserved = s
			}
			for next < len(v.text) && v.text[next] != ';' && v.text[next] != ')' && next < p+80 {
				next++
			}
		}
		m.end = min(next+1, len(v.text))
		if next >= len(v.text) || v.text[next] != ';' {
			break
		}
		p = next + 1
	}
	switch {
	case !m.Capacity.Known:
		return
	case cached:
		m.Reserved = m.Allocated.Plus(m.Unallocated)
		m.Format = "PyTorch 1.0-1.3"
	case m.Reserved.Known:
		m.Unallocated = m.Reserved.Minus(m.Allocated).AtLeastZero()
		m.Format = "PyTorch 1.4-1.9"
	default:
		m.Format = "PyTorch 1.x, cut"
	}
	switch {
	case v.has(m.start, "npuoutofmemory.npuworkspace"):
		m.Format = "torch_npu workspace"
	case m.Cause == CausePlatform:
		m.Format = "PyTorch XPU, 4 GB blocks"
	case m.Backend == "npu":
		m.Format = "torch_npu"
	case m.Backend == "xpu":
		m.Format = "PyTorch XPU 1.x"
	}
}

// torchNew reads the sentences that versions from 2.1 on print.
func torchNew(v *view, m *found) {
	limit := min(len(v.text), m.end+4500)
	for _, next := range [...]string{triedTo, "cudaoutofmemory", "hipoutofmemory", "xpuoutofmemory"} {
		if i := v.index(next, m.end, limit); i >= 0 {
			limit = i
		}
	}
	torchCapacity(v, m, limit)
	if !m.Capacity.Known {
		return
	}
	tail := v.index("oftheallocatedmemory", m.end, limit)
	lists := limit
	if tail >= 0 {
		lists = tail
	}
	torchProcesses(v, m, lists)
	if i := v.index("allowed;", m.end, min(lists+1, m.end+sentenceGap)); i >= 0 {
		if s, _ := v.sizeBefore(i); s.Known {
			m.Limit, m.end = s, i+len("allowed;")
		}
	}
	if tail >= 0 && tail <= m.end+sentenceGap {
		torchTail(v, m, tail)
	}
}

// torchCapacity reads "GPU d has a total capacity of T of which F is free."
func torchCapacity(v *view, m *found, limit int) {
	i := v.index("hasatotalcapac", m.end, min(limit, m.end+sentenceGap))
	if i < 0 {
		return
	}
	digits := i
	for digits > 0 && isDigit(v.text[digits-1]) {
		digits--
	}
	m.Device, _ = v.ordinal(digits)
	if m.Backend == "" && v.endsWith(digits, "npu") {
		m.Backend = "npu"
	}
	p := i + len("hasatotalcapac")
	m.Format, m.HidesLimit = "PyTorch 2.2+", false
	if v.has(p, "ty") { // the misspelling of 2.1
		m.Format, m.HidesLimit = "PyTorch 2.1", true
	}
	of := v.index("of", p, p+8)
	if of < 0 {
		return
	}
	m.Capacity, m.end = v.size(of + 2)
	if p, ok := v.take(m.end, "ofwhich"); ok {
		if m.Free, p = v.size(p); m.Free.Known {
			m.end = p
			m.end, _ = v.take(m.end, "isfree.")
		}
	}
}

// noSize is above any memory. Sizes from there on stand for "not known" and "no limit".
const noSize = 1 << 60

// torchProcesses reads the list of processes on the device, this one among them or not.
func torchProcesses(v *view, m *found, limit int) {
	for {
		i := v.index("process", m.end, min(limit, m.end+sentenceGap))
		if i < 0 {
			return
		}
		p := i + len("process")
		pid, p, other := v.number(p)
		p, has := v.take(p, "has")
		s, end := v.size(p)
		if !has || !s.Known {
			return
		}
		switch {
		case s.Bytes >= noSize: // NVML would not tell (WSL, MIG): -1, printed as if it were a size
		case other:
			m.Others = append(m.Others, Process{PID: int(pid), Size: s})
		default:
			m.Process = s
		}
		m.end, _ = v.take(end, "memoryinuse.")
	}
}

// torchTail reads "Of the allocated memory A is allocated by PyTorch, and U is reserved …".
func torchTail(v *view, m *found, tail int) {
	s, p := v.size(tail + len("oftheallocatedmemory"))
	if !s.Known {
		return
	}
	m.Allocated, m.end = s, p
	if i := v.index("with", p, p+40); i >= 0 {
		if s, p := v.size(i + len("with")); s.Known && v.has(p, "allocatedinprivate") {
			m.PrivatePools, m.end = s, p
			m.Format = "PyTorch 2.4+"
		}
	}
	i := v.index("isreserved", m.end, m.end+160)
	if i < 0 {
		return
	}
	if m.Unallocated, _ = v.sizeBefore(i); m.Unallocated.Known {
		m.Reserved = m.Allocated.Plus(m.Unallocated)
		m.end = i + len("isreserved")
		if j := v.index("unallocated.", m.end, m.end+60); j >= 0 {
			m.end = j + len("unallocated.")
		}
	}
}

// torchHint reads the advice at the end of a message, and takes it as part of the message.
func torchHint(v *view, m *found) {
	limit := m.end + 260
	if i := v.index("outofmemory", m.end, limit); i >= 0 {
		limit = i
	}
	for _, h := range [...]struct {
		word string
		hint Hint
	}{{"max_split_size_mb", HintMaxSplit}, {"expandable_segments", HintExpandable}, {"empty_cache", HintEmptyCache}} {
		if i := v.index(h.word, m.end, limit); i >= 0 {
			m.Hint, m.end = h.hint, i+len(h.word)
			if m.Format == "PyTorch 1.4-1.9" {
				m.Format = "PyTorch 1.10-2.0"
			}
			return
		}
	}
}
