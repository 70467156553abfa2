package cupti

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/trace"
)

// A thread pushes and pops ranges; what is open at any time is what was pushed and not popped by then.
func TestRangesAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New()
		type open struct {
			name  string
			start int64
		}
		var stack []open
		type seen struct {
			at   int64
			want []string
		}
		var moments []seen
		var ranges []func()
		now := int64(0)
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			now += rapid.Int64Range(1, 3).Draw(t, "wait")
			switch {
			case len(stack) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0:
				o, end := stack[len(stack)-1], now
				stack = stack[:len(stack)-1]
				ranges = append(ranges, func() { r.AddRange(PushPop, 7, o.start, end, true, r.RangeName([]byte(o.name))) })
			case len(stack) < deepest:
				stack = append(stack, open{fmt.Sprint("r", i), now})
			}
			var names []string
			for _, o := range stack {
				names = append(names, o.name)
			}
			slices.Reverse(names)
			moments = append(moments, seen{now, names})
		}
		for _, o := range stack {
			ranges = append(ranges, func() { r.AddRange(PushPop, 7, o.start, 0, false, r.RangeName([]byte(o.name))) })
		}
		for _, add := range rapid.Permutation(ranges).Draw(t, "order") {
			add()
		}
		r.ranges.nest()
		for _, m := range moments {
			var got []string
			for _, f := range r.Stacks.Stack(r.ranges.stack(r.Stacks, r.ranges.thread(7), m.at, trace.NoStack)) {
				got = append(got, f.Func)
			}
			if diff := cmp.Diff(m.want, got); diff != "" {
				t.Fatalf("at %d (-want +got):\n%s", m.at, diff)
			}
		}
		if s := r.ranges.stack(r.Stacks, r.ranges.thread(8), now, trace.NoStack); s != trace.NoStack {
			t.Fatalf("another thread is in %v", r.Stacks.Stack(s))
		}
	})
}

// Ranges that are nested deeper than anybody can read do not make stacks longer, nor looking for them slow.
func TestDeepRanges(t *testing.T) {
	r := New()
	const n = 10_000
	for i := range int64(n) {
		r.AddRange(PushPop, 7, i, 3*n-i, true, r.RangeName([]byte(fmt.Sprint(i))))
	}
	r.ranges.nest()
	if got := len(r.Stacks.Stack(r.ranges.stack(r.Stacks, r.ranges.thread(7), n+5, trace.NoStack))); got != deepest {
		t.Errorf("%d frames", got)
	}
}

func TestFunctionName(t *testing.T) {
	for name, want := range map[string]string{
		"cudaMalloc_v3020": "cudaMalloc", "cudaMallocAsync_ptsz_v11020": "cudaMallocAsync_ptsz", "cudaMallocAsync_v11020_ptsz": "cudaMallocAsync", "cuMemAlloc_v2": "cuMemAlloc",
		"cudaFree": "cudaFree", "cuda_vfoo": "cuda_vfoo", "/home/x/cudaMalloc": "", "TOKEN=1": "", "cu": "", "cudaMalloc cudaFree": "", "": "",
	} {
		if got := FunctionName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]class{"cudaMallocHost_v3020": pinnedClass, "cudaMallocManaged_v6000": managedClass, "cudaMalloc3DArray": deviceClass, "cuMemCreate": deviceClass, "cudaHostRegister": pinnedClass} {
		if got, ok := allocates(name); !ok || got != want {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
	for _, name := range []string{"cudaFree", "cudaLaunchKernel", "cudaMemcpy", ""} {
		if _, ok := allocates(name); ok {
			t.Errorf("%s allocates", name)
		}
	}
}

// The two numberings of kinds differ by one.
func TestKinds(t *testing.T) {
	for n, want := range []Kind{Pageable, Pinned, OnDevice, Array, Managed, DeviceStatic, ManagedStatic, UnknownKind, UnknownKind} {
		if got := FromNsight(int64(n)); got != want {
			t.Errorf("Nsight Systems' %d is %d, want %d", n, got, want)
		}
	}
	for n, want := range []Kind{UnknownKind, Pageable, Pinned, OnDevice, Array, Managed, DeviceStatic, ManagedStatic, UnknownKind} {
		if got := FromCUPTI(int64(n)); got != want {
			t.Errorf("CUPTI's %d is %d, want %d", n, got, want)
		}
	}
	if FromCUPTI(-1) != UnknownKind || FromNsight(-1) != UnknownKind {
		t.Error("negative kinds")
	}
}
