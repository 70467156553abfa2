package ledger

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramscope/vramscope/allocators"
)

func TestAccount(t *testing.T) {
	var l Ledger
	open := func(block uint32, requested, size int64) {
		t.Helper()
		req := allocators.Request{Block: block, Size: requested}
		if err := l.Admit(req); err != nil {
			t.Fatal(err)
		}
		l.Open(req, uint64(block)<<20, size, block+1)
	}
	l.Took(10000)
	open(0, 100, 512)
	open(70000, 600, 1024) // far enough for several pages of rows
	open(2, 3000, 3072)
	if !l.Raised() {
		t.Error("10000 bytes reserved for the first time, not seen as a peak")
	}
	if e := l.Release(2, true); e != nil {
		t.Errorf("a pending free gave the row %+v", *e)
	}
	if l.Release(2, false) != nil || l.Release(2, true) != nil || l.Release(1, false) != nil || l.Release(1<<31, false) != nil {
		t.Error("freed what is not live")
	}
	if l.Complete(0) != nil || l.Complete(1<<31) != nil {
		t.Error("completed what is not pending")
	}
	l.AtPeak(4000, 3000)
	if l.Raised() {
		t.Error("the peak is described and still said to be new")
	}
	want := allocators.Stats{
		Requested:    allocators.Gauge{Current: 3700, Peak: 3700},
		Allocated:    allocators.Gauge{Current: 1536, Peak: 4608},
		Active:       allocators.Gauge{Current: 4608, Peak: 4608},
		Reserved:     allocators.Gauge{Current: 10000, Peak: 10000},
		DeviceAllocs: 1,
		AtPeak: allocators.Fragmentation{
			Stranded: 10000 - 4608 - 4000, Cached: 4000, Rounding: 1536 - 700, Pending: 3072, Largest: 3000,
		},
	}
	if diff := cmp.Diff(want, *l.Stats()); diff != "" {
		t.Error(diff)
	}
	if e := l.Complete(2); e == nil || e.Slot != 3 {
		t.Errorf("completing block 2 gave %+v", e)
	}
	var blocks []uint32
	for b := range l.Blocks() {
		blocks = append(blocks, b)
	}
	if diff := cmp.Diff([]uint32{0, 70000}, blocks); diff != "" {
		t.Error(diff)
	}
}

func TestAdmit(t *testing.T) {
	var l Ledger
	req := allocators.Request{Size: 8}
	if err := l.Admit(req); err != nil {
		t.Fatal(err)
	}
	l.Open(req, 0, 8, 0)
	var oom *allocators.OOM
	for _, bad := range []allocators.Request{{Size: 8}, {Block: 1, Size: 0}, {Block: 1, Size: -1}, {Block: 1, Size: math.MinInt64}} {
		if err := l.Admit(bad); err == nil || errors.As(err, &oom) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
	if err := l.Admit(allocators.Request{Block: 1, Size: math.MaxInt64}); !errors.As(err, &oom) {
		t.Errorf("the largest request: error %v", err)
	}
	if n := l.Stats().OOMs; n != 1 {
		t.Errorf("%d failures counted, want 1", n)
	}
}
