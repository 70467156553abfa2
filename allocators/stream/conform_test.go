package stream_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/alloctest"
	"github.com/vramscope/vramscope/allocators/stream"
)

var settings = map[string]stream.Options{
	"CUDA":             {},
	"PyTorch":          stream.PyTorch(),
	"no opportunistic": {NoOpportunistic: true},
	"no waiting":       {NoInternalDependencies: true, Retry: true},
}

// TestConformance runs random scripts under a judge that knows only intervals and sums, on a device
// without limit and on one that runs out. EmptyCache ends the wait of pending blocks.
func TestConformance(t *testing.T) {
	opts := alloctest.Options{CompletesEarly: true, Streams: true}
	for name, opt := range settings {
		model := func(d allocators.Driver) allocators.Allocator { return stream.New(d, opt) }
		for _, capacity := range []int64{0, 256 << 20} {
			t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
				s := alloctest.Scripts(100, 48<<20).Draw(t, "script")
				if err := alloctest.Conform(s, model, capacity, opts); err != nil {
					t.Fatalf("%v\n%v", err, s)
				}
			}))
		}
	}
}

func TestNonsense(t *testing.T) {
	a := stream.New(nil, stream.Options{})
	a.Free(3, false)
	a.Complete(3)
	a.Trim(5, -1)
	a.SynchronizeStream(9)
	a.EmptyCache()
	for _, req := range []allocators.Request{{Block: 1}, {Block: 1, Size: -5}} {
		var oom *allocators.OOM
		if err := a.Malloc(req); err == nil || errors.As(err, &oom) {
			t.Errorf("a request of %d bytes: %v", req.Size, err)
		}
	}
	for _, size := range []int64{1 << 45, 1<<63 - 1} {
		var oom *allocators.OOM
		if err := a.Malloc(allocators.Request{Block: 1, Size: size}); !errors.As(err, &oom) || oom.Requested != size {
			t.Errorf("a request of %d bytes: %v", size, err)
		}
	}
	if err := a.Malloc(allocators.Request{Block: 1, Size: 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.Malloc(allocators.Request{Block: 1, Size: 1}); err == nil {
		t.Error("a block was given out twice")
	}
	a.Complete(1)
	a.Free(1, true)
	a.Free(1, false)
	if addr, size, ok := a.Block(1); !ok || addr != 0 || size != 512 {
		t.Errorf("a pending block is at %d with %d bytes, %v", addr, size, ok)
	}
	a.Complete(1)
	a.Complete(1)
	if s := a.Stats(); s.Active.Current != 0 || s.Reserved.Current != page || s.OOMs != 2 {
		t.Errorf("%+v", *s)
	}
}

// TestLimit has the figures of a program that stopped at a memory fraction: the requests count, not what
// is reserved for them.
func TestLimit(t *testing.T) {
	opt := stream.PyTorch()
	opt.Limit = 100 << 20
	a := stream.New(nil, opt)
	for i, size := range []int64{40 << 20, 60<<20 - 1} {
		if err := a.Malloc(allocators.Request{Block: uint32(i), Size: size}); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.Stats().Reserved.Current; got != 128<<20 {
		t.Errorf("%d bytes reserved, more than the limit, want %d", got, 128<<20)
	}
	err := a.Malloc(allocators.Request{Block: 2, Size: 2})
	var oom *allocators.OOM
	if !errors.As(err, &oom) || oom.Tried != 0 || oom.Requested != 2 {
		t.Errorf("beyond the limit: %v", err)
	}
	if err := a.Malloc(allocators.Request{Block: 2, Size: 1}); err != nil {
		t.Errorf("up to the limit: %v", err)
	}
}

// TestRetry: pending blocks of another pool are waited for, and what they leave is given back, before a
// request fails.
func TestRetry(t *testing.T) {
	for _, retry := range []bool{false, true} {
		opt := stream.Options{ReleaseThreshold: stream.KeepAll, Retry: retry}
		a := stream.New(&device{left: 4}, opt)
		if err := a.Malloc(allocators.Request{Block: 0, Size: 3 * page, Pool: 1}); err != nil {
			t.Fatal(err)
		}
		a.Free(0, true)
		err := a.Malloc(allocators.Request{Block: 1, Size: 2 * page})
		if (err == nil) != retry {
			t.Errorf("with retry %v: %v", retry, err)
		}
		var oom *allocators.OOM
		if errors.As(err, &oom) && (oom.Tried != 2*page || oom.LargestFree != page) {
			t.Errorf("with retry %v: %v, want 2 pages tried, the one that it got free", retry, err)
		}
		if s := a.Stats(); (s.Retries == 1) != retry || (s.OOMs == 1) == retry {
			t.Errorf("with retry %v: %+v", retry, *s)
		}
	}
}

// TestMoved: memory goes from free pages to where it is needed, and nothing is reserved for it.
func TestMoved(t *testing.T) {
	a := stream.New(nil, stream.Options{})
	for i := range uint32(4) {
		if err := a.Malloc(allocators.Request{Block: i, Size: page}); err != nil {
			t.Fatal(err)
		}
	}
	a.Free(0, false)
	a.Free(2, false)
	if err := a.Malloc(allocators.Request{Block: 9, Size: 2 * page}); err != nil {
		t.Fatal(err)
	}
	if addr, _, _ := a.Block(9); addr != 4*page || a.Moved() != 2*page || a.Stats().Reserved.Peak != 4*page {
		t.Errorf("at %d, %d bytes moved, %d reserved", addr, a.Moved(), a.Stats().Reserved.Peak)
	}
}

// TestFragmentation splits what is reserved at its peak: a live and a pending block of half a page each,
// and one that spans the border of two pages.
func TestFragmentation(t *testing.T) {
	a := stream.New(nil, stream.Options{NoOpportunistic: true})
	malloc := func(block uint32, size int64, str uint32) {
		t.Helper()
		if err := a.Malloc(allocators.Request{Block: block, Size: size, Stream: str}); err != nil {
			t.Fatal(err)
		}
	}
	malloc(0, page/2-1, 0) // page 0
	malloc(1, page/2, 0)
	malloc(2, page, 0)      // page 1
	malloc(3, page+1000, 0) // pages 2 and 3, to 2+1024/page
	a.Free(1, true)
	a.Free(2, false)
	malloc(4, 2*page, 1) // behind it: another stream may not use page 1
	want := allocators.Fragmentation{
		Rounding: 1 + 24,
		Pending:  page / 2,
		Cached:   page,        // page 1
		Stranded: page - 1024, // behind block 4
		Largest:  page,
	}
	if got := a.Stats().AtPeak; got != want {
		t.Errorf("at the peak %+v, want %+v", got, want)
	}
}
