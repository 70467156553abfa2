package oom

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/trace/oomlog"
)

const mib = 1 << 20

// torchMessage makes a message of a caching allocator from amounts in MiB.
func torchMessage(requested, capacity, allocated, unallocated, free int64) oomlog.Message {
	m := oomlog.Message{Framework: "pytorch", Backend: "cuda", Format: "PyTorch 2.2+", Device: 0, Repeated: 1, Line: 1}
	m.Requested, m.Capacity, m.Free = oomlog.Exact(requested*mib), oomlog.Exact(capacity*mib), oomlog.Exact(free*mib)
	m.Allocated, m.Unallocated = oomlog.Exact(allocated*mib), oomlog.Exact(unallocated*mib)
	m.Reserved = m.Allocated.Plus(m.Unallocated)
	return m
}

// TestRules takes each rule to its edge: what is just beyond it, and what is just not.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name                                              string
		requested, capacity, allocated, unallocated, free int64
		change                                            func(*oomlog.Message)
		want                                              Verdict
	}{
		{"1 more than there is", 10001, 10000, 100, 0, 9000, nil, ImpossibleRequest},
		{"1 exactly what there is", 10000, 10000, 100, 0, 9000, nil, Genuine},
		{"2 over the limit", 200, 10000, 3000, 900, 5000, limitOf(4000), Limit},
		{"2 below the limit", 100, 10000, 3000, 899, 5000, limitOf(4000), FreeButRefused},
		{"2 a limit that is the capacity", 200, 10000, 9500, 0, 100, limitOf(10000), Genuine},
		{"3 free", 100, 10000, 3000, 0, 132, nil, FreeButRefused},
		{"3 free, but within the granularity, and all in use", 100, 10000, 9800, 0, 131, nil, Genuine},
		{"4 does not fit", 501, 10000, 9500, 400, 50, nil, Genuine},
		{"4 would fit", 500, 10000, 9500, 460, 40, nil, Fragmentation},
		{"5 three in a hundred", 100, 10000, 9000, 300, 0, nil, Fragmentation},
		{"5 less than three", 100, 10000, 9000, 299, 0, nil, FragmentationLow},
		{"5 one in a hundred", 100, 10000, 9000, 100, 0, nil, FragmentationLow},
		{"5 less than one", 50, 10000, 9000, 99, 0, nil, Genuine},
		{"5a outside dominates", 100, 10000, 5000, 900, 50, nil, OutsideAllocator},
		{"5a outside does not dominate", 100, 10000, 5000, 1900, 50, nil, Fragmentation},
		{"6 outside", 1000, 10000, 8000, 400, 0, nil, OutsideAllocator},
		{"6 at the margin", 1000, 10000, 8500, 400, 0, nil, Genuine},
		{"6 others", 1000, 10000, 7900, 400, 0, beside(9, 1000), OtherProcess},
		{"6 others hold the smaller part", 1000, 10000, 7900, 400, 0, beside(9, 800), OutsideAllocator},
		{"lists nobody, so nobody is accused", 100, 10000, 500, 10, 5, nil, OutsideAllocator},
		{"sums too large on a small device", 100, 10000, 9000, 1500, 0, nil, Inconsistent},
		{"sums too large on a device of a server", 100, 80000, 85000, 1500, 0, nil, InconsistentVMM},
		{"sums too large on Windows", 100, 48000, 50000, 1500, 0, func(m *oomlog.Message) { m.Windows = true }, Inconsistent},
		{"less than it counts, says the driver", 100, 10000, 6000, 1500, 0, func(m *oomlog.Message) { m.Process = oomlog.Exact(4000 * mib) }, InconsistentVMM},
		{"more free than there is", 100, 10000, 6000, 1500, 12000, nil, Inconsistent},
		{"sums too large by rounding", 100, 10000, 6000, 400, 3640, nil, FreeButRefused},
		{"without what is free", 100, 10000, 6000, 400, 0, func(m *oomlog.Message) { m.Free = oomlog.Size{} }, UnknownPartial},
		{"without capacity", 100, 10000, 6000, 400, 0, func(m *oomlog.Message) { m.Capacity = oomlog.Size{} }, UnknownPartial},
		{"more than any has", 400000, 1, 6000, 400, 0, func(m *oomlog.Message) { m.Capacity = oomlog.Size{} }, ImpossibleRequest},
	} {
		m := torchMessage(c.requested, c.capacity, c.allocated, c.unallocated, c.free)
		if c.change != nil {
			c.change(&m)
		}
		if j := Judge(&m); j.Verdict != c.want {
			t.Errorf("%s: %s, want %s", c.name, j.Verdict, c.want)
		}
	}
}

func limitOf(n int64) func(*oomlog.Message) {
	return func(m *oomlog.Message) { m.Limit = oomlog.Exact(n * mib) }
}

func beside(pid int, n int64) func(*oomlog.Message) {
	return func(m *oomlog.Message) {
		m.Process = oomlog.Exact(m.Reserved.Bytes + 300*mib)
		m.Others = []oomlog.Process{{PID: pid, Size: oomlog.Exact(n * mib)}}
	}
}

// TestJudgeAnything expects a verdict and words for any amounts, and that what a verdict says is so.
func TestJudgeAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<20)
		m := torchMessage(n.Draw(t, "requested"), n.Draw(t, "capacity"), n.Draw(t, "allocated"), n.Draw(t, "unallocated"), n.Draw(t, "free"))
		m.Cause = oomlog.Cause(rapid.IntRange(0, int(oomlog.CauseGrowth)).Draw(t, "cause"))
		m.Framework = rapid.SampledFrom([]string{"pytorch", "tensorflow", "paddle", "cupy", "rmm", "vllm", "ggml", "nccl"}).Draw(t, "framework")
		m.Backend = rapid.SampledFrom([]string{"cuda", "hip", "xpu", "mps", ""}).Draw(t, "backend")
		for _, s := range []*oomlog.Size{&m.Requested, &m.Capacity, &m.Allocated, &m.Reserved, &m.Unallocated, &m.Free} {
			if rapid.IntRange(0, 5).Draw(t, "missing") == 0 {
				*s = oomlog.Size{}
			}
		}
		f := Explain(m)
		if f.Judgement.Verdict == "" || f.Headline == "" || f.Why == "" || len(f.Do) == 0 {
			t.Fatalf("%+v", f)
		}
		switch f.Judgement.Verdict {
		case Fragmentation:
			if m.Cause == oomlog.CauseAllocator && m.Free.Bytes+m.Unallocated.Bytes < m.Requested.Bytes {
				t.Fatalf("fragmentation, but what is free and unused is not enough: %+v", m)
			}
		case OtherProcess:
			if m.Cause != oomlog.CauseContext && m.Cause != oomlog.CauseOrphan && len(m.Others) == 0 {
				t.Fatalf("another process, but none is listed: %+v", m)
			}
		}
	})
}
