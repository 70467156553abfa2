package oom

import "github.com/vramscope/vramscope/trace/oomlog"

// The rules for messages that give other numbers than PyTorch's caching allocator does.

// stream judges a refusal of cudaMallocAsync. What its pool holds without using it is not in the message,
// so where the caching allocator's message tells fragmentation from memory outside, this one cannot.
func (j *Judgement) stream(m *oomlog.Message) {
	tried, capacity := m.Requested, m.Capacity
	switch {
	case !tried.Known:
		j.set(UnknownPartial, RulePartial)
	case capacity.Known && tried.Low > capacity.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case overLimit(m):
		j.set(Limit, RuleLimit)
	case m.Free.Known && m.Free.Bytes-tried.Bytes >= granularity:
		j.set(FreeButRefused, RuleFree)
	case !capacity.Known || !m.Allocated.Known:
		j.set(UnknownPartial, RulePartial)
	case m.Allocated.Low > capacity.High:
		j.set(Inconsistent, RuleInconsistent)
	case m.Allocated.Bytes+tried.Bytes > capacity.Bytes:
		j.set(Genuine, RuleGenuine)
	case !m.Free.Known:
		j.set(UnknownPartial, RulePartial)
	default:
		gap := capacity.Bytes - m.Allocated.Bytes - m.Free.Bytes
		if float64(gap) >= poolShare*float64(capacity.Bytes) {
			j.set(PoolOrOutside, RulePool)
		} else {
			j.set(Genuine, RuleMargin)
		}
	}
}

// pool judges a framework's own pool: TensorFlow's BFC, XLA's. Its limit takes the place of the capacity.
func (j *Judgement) pool(m *oomlog.Message) {
	tried := m.Requested
	free := m.Limit.Minus(m.Allocated)
	switch {
	case m.Capacity.Known && tried.Known && tried.Low > m.Capacity.High,
		m.Limit.Known && tried.Known && tried.Low > m.Limit.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case m.StartFree.Known && 2*m.StartFree.Bytes < m.StartCapacity.Bytes:
		j.set(OtherProcess, RuleOutside) // taken before this process took anything
	case !tried.Known:
		j.set(UnknownPartial, RulePartial)
	case m.Free.Known && !m.Limit.Known && m.Free.Bytes >= tried.Bytes:
		j.set(Fragmentation, RuleFragmented) // a pool's own free memory, and none of it in one piece
	case m.Limit.Known && m.Allocated.Known && m.Allocated.Bytes+tried.Bytes > m.Limit.Bytes:
		j.set(Genuine, RuleGenuine)
	case m.Limit.Known && m.Reserved.Known && free.Known && m.Reserved.Bytes+tried.Bytes <= m.Limit.Bytes:
		j.set(OutsideAllocator, RuleOutside) // the pool could grow, the driver had nothing to give
	case m.Limit.Known && free.Known && free.Bytes >= tried.Bytes:
		j.set(Fragmentation, RuleFragmented)
	case m.Limit.Known && !m.Allocated.Known && (m.Limit.Bytes < gib || 4*tried.Bytes >= m.Limit.Bytes):
		j.set(Genuine, RuleFull)
	case m.SoftBefore:
		j.set(Genuine, RuleFull)
	default:
		j.set(UnknownPartial, RulePartial)
	}
}

// plan judges a compiled program that does not fit.
func (j *Judgement) plan(m *oomlog.Message) {
	switch {
	case m.Requested.Known && m.Capacity.Known && m.Requested.Low > m.Capacity.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case m.Capacity.Known && m.Plan.Known && m.Plan.High > m.Capacity.Low, m.Plan.Known && m.Plan.Bytes >= planBytes:
		j.set(Genuine, RuleGenuine)
	default:
		j.set(UnknownPartial, RulePartial)
	}
}

// budget judges a failure inside a budget that the user set: CuPy's limit, RMM's pool, ONNX Runtime's
// arena, vLLM's share of the card.
func (j *Judgement) budget(m *oomlog.Message) {
	switch {
	case m.Framework == "cupy" && !overLimit(m):
		j.set(UnknownPartial, RulePartial)
	case m.Framework == "rmm" && m.Limit.Known && m.Reserved.Known && m.Reserved.Bytes+m.Requested.Bytes <= m.Limit.Bytes:
		j.set(PoolOrOutside, RulePool) // below its maximum: the driver refused, or the pool is in pieces
	default:
		j.set(Limit, RuleLimit)
	}
}

// summary judges a table of counters with failures in it. Afterwards less may be in use than when it
// failed, so the peaks are compared: at the failure at most the peak was in use.
func (j *Judgement) summary(m *oomlog.Message) {
	unused := m.PeakReserved.Minus(m.PeakAllocated)
	if unused.Known && float64(unused.Low) >= 0.10*float64(m.PeakReserved.Bytes) && m.PeakReserved.Bytes > 0 {
		j.set(Fragmentation, RuleFragmented)
		return
	}
	j.set(UnknownPartial, RulePartial)
}

// mps judges Apple's backend: everything is measured against the high watermark.
func (j *Judgement) mps(m *oomlog.Message) {
	held := m.Allocated
	if m.Elsewhere.Known {
		held = held.Plus(m.Elsewhere)
	}
	switch {
	case !m.Limit.Known || !held.Known:
		j.set(UnknownPartial, RulePartial)
	case m.Requested.Low > m.Limit.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case held.High+m.Requested.High > m.Limit.Low:
		j.set(Limit, RuleLimit)
	default:
		j.set(UnknownPartial, RulePartial)
	}
}

// paddle judges Paddle's message. What it calls allocated is the device's total less what is available,
// whoever holds it; newer versions tell the process's own part.
func (j *Judgement) paddle(m *oomlog.Message) {
	total := m.Allocated.Plus(m.Free)
	if m.Process.Known {
		total = m.Process.Plus(m.Free)
	}
	switch {
	case m.Allocated.Low > 1024*gib || m.Process.Low > 1024*gib:
		j.set(Inconsistent, RuleInconsistent)
	case total.Known && m.Requested.Low > total.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case !m.Allocated.Known || !m.Free.Known:
		j.set(UnknownPartial, RulePartial)
	case m.Process.Known && 2*m.Allocated.Bytes < m.Process.Bytes:
		j.set(OutsideAllocator, RuleOutside)
	default:
		j.set(Genuine, RuleFull)
	}
}

// withoutFree judges messages that do not say what is free, as the first ones of Intel's extension.
func (j *Judgement) withoutFree(m *oomlog.Message) {
	if m.Backend == "xpu" && m.Reserved.Known && 4*(m.Reserved.Bytes+m.Requested.Bytes) <= 3*m.Capacity.Bytes {
		j.set(PlatformLimit, RuleFree)
		return
	}
	j.set(UnknownPartial, RulePartial)
}
