package bfc

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/trace"
)

// pool writes dumps in the form of TensorFlow's: one region, chunks one after the other.
type pool struct {
	prefix string // in front of each line
	old    bool   // as before 2018
	name   string
	base   uint64
	limit  int64
	chunks []chunk
	asked  int64
	b      strings.Builder
}

type chunk struct {
	size int64
	free bool
	op   string
}

func (p *pool) line(format string, args ...any) {
	fmt.Fprintf(&p.b, p.prefix+format+"\n", args...)
}

func (p *pool) dump() string {
	var used, held, largest int64
	for _, c := range p.chunks {
		held += c.size
		if !c.free {
			used += c.size
		}
		largest = max(largest, c.size)
	}
	if p.old {
		p.line("Allocator (%s) ran out of memory trying to allocate %.2fMiB.  Current allocation summary follows.", p.name, float64(p.asked)/(1<<20))
	} else {
		p.line("Allocator (%s) ran out of memory trying to allocate %.2fMiB (rounded to %d)requested by op gradient_tape/mul", p.name, float64(p.asked)/(1<<20), p.asked)
	}
	p.line("BFCAllocator dump for %s", p.name)
	p.line("Bin (256): \tTotal Chunks: 2, Chunks in use: 2. 512B allocated for chunks. 512B in use in bin. 0.4KiB client-requested in use in bin.")
	p.line("Bin (512): \tTotal Chunks: 0, Chunks in use: 0. 0B allocated for chunks. 0B in use in bin. 0B client-requested in use in bin.")
	p.line("Bin for %.2fMiB was 256.00MiB, Chunk State: ", float64(p.asked)/(1<<20))
	p.line("  Size: 361.64MiB | Requested Size: 300.00MiB | in_use: 0 | bin_num: 20, prev: x, next: y")
	p.line("Next region of size %d", held)
	at := p.base
	for i, c := range p.chunks {
		state, by := "InUse", ""
		if c.free {
			state = "Free "
		}
		if c.op != "" {
			by = fmt.Sprintf(" by op %s action_count 5 step 0", c.op)
		}
		if p.old {
			if !c.free {
				state = "Chunk"
			}
			p.line("%s at 0x%x of size %d", strings.TrimSpace(state), at, c.size)
		} else {
			p.line("%s at %x of size %d%s next %d", state, at, c.size, by, uint64(i)-1)
		}
		at += uint64(c.size)
	}
	p.line("     Summary of in-use Chunks by size: ")
	p.line("85 Chunks of size 256 totalling 21.2KiB")
	p.line("Sum Total of in-use chunks: 37.11GiB")
	if !p.old {
		p.line("Total bytes in pool: %d memory_limit_: %d available bytes: %d curr_region_allocation_bytes_: %d", held, p.limit, p.limit-held, 2*held)
	}
	p.line("Stats: \nLimit:            %20d\nInUse:            %20d\nMaxInUse:         %20d\nNumAllocs:        %20d\nMaxAllocSize:     %20d\nReserved:                        0\nPeakReserved:                    0\nLargestFreeBlock:                0\n",
		p.limit, used, used+1, 12345, largest)
	p.line("****____**%s", strings.Repeat("*", 90))
	return p.b.String()
}

func scan(text string) *Scanner {
	s := NewScanner()
	for line := range strings.SplitAfterSeq(text, "\n") {
		s.Line([]byte(line))
	}
	return s
}

// spread makes chunks of which the free ones have the given sizes, with sizes in use that add up to used.
func spread(free []int64, used int64) []chunk {
	var out []chunk
	n := int64(len(free) + 1)
	for _, f := range free {
		part := used / n / 256 * 256
		out = append(out, chunk{size: part}, chunk{size: f, free: true})
		used -= part
		n--
	}
	return append(out, chunk{size: used})
}

const tf2 = "2023-10-02 16:36:14.402881: W external/local_tsl/tsl/framework/bfc_allocator.cc:497] "

// The shapes of two published dumps: what they have must come out to the byte.
func TestShapes(t *testing.T) {
	small := make([]int64, 40) // 40 free chunks of 2,913,752,064 bytes, the largest 558,759,936
	left := int64(2_913_752_064 - 558_759_936)
	for i := range small[1:] {
		small[i+1] = left / int64(39-i) / 256 * 256
		left -= small[i+1]
	}
	small[0] = 558_759_936 + left
	for _, c := range []struct {
		name                     string
		free                     []int64
		used, asked              int64
		held, freeBytes, largest int64
		external                 float64
	}{
		{"A100", []int64{379_204_608, 491_520}, 39_851_412_480, 512_000_000, 40_231_108_608, 379_696_128, 379_204_608, 0.13},
		{"RTX 3070 Ti", small, 589_212_672, 614_400_000, 3_502_964_736, 2_913_752_064, 558_759_936, 80.8},
	} {
		p := &pool{prefix: "80/4000 [00:26<18:58, 3.44it/s]" + tf2, name: "GPU_0_bfc", base: 0x7f5936000000, limit: c.held, chunks: spread(c.free, c.used), asked: c.asked}
		tr := scan("Epoch 1\n" + p.dump() + "Traceback\n").Trace()
		d := &tr.Devices[0]
		var used, free, largest int64
		for _, b := range d.Final.Blocks {
			if b.State == trace.BlockFree {
				free += b.Size
				largest = max(largest, b.Size)
			} else {
				used += b.Size
			}
		}
		if len(d.Final.Segments) != 1 || d.Final.Segments[0].Size != c.held || used != c.used || free != c.freeBytes || largest != c.largest {
			t.Errorf("%s: %+v, %d, %d, %d", c.name, d.Final.Segments, used, free, largest)
		}
		if got := 100 * (1 - float64(largest)/float64(free)); got < c.external-0.05 || got > c.external+0.05 {
			t.Errorf("%s: external fragmentation %.1f %%", c.name, got)
		}
		if e := d.Events.At(0); e.Op != trace.OpOOM || e.Size != c.asked || d.Capacity != c.held || !d.HasFinal || d.Index != 0 {
			t.Errorf("%s: %+v %+v", c.name, e, d)
		}
		if len(tr.Warnings)+len(d.Warnings) != 0 {
			t.Errorf("%s: %v %v", c.name, tr.Warnings, d.Warnings)
		}
		if a := trace.FindSeries(d.Series, trace.Allocated); a == nil || a.Max != c.used || d.Final.Blocks[0].Addr != 0x7f5936000000 {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// Old dumps have other words, and no date; some builds name the operator.
func TestOldForms(t *testing.T) {
	p := &pool{prefix: "W tensorflow/core/common_runtime/bfc_allocator.cc:275] ", old: true, name: "GPU_1_bfc", base: 0x1309b00000, limit: 4096,
		chunks: []chunk{{size: 1024}, {size: 2048, free: true}, {size: 512}}, asked: 3 << 20}
	tr := scan(p.dump()).Trace()
	d := &tr.Devices[0]
	if d.Index != 1 || len(d.Final.Blocks) != 3 || d.Final.Blocks[1].State != trace.BlockFree || d.Final.Segments[0].Size != 3584 || tr.Source.Clock != trace.ClockNone {
		t.Errorf("%+v", d)
	}
	if e := d.Events.At(0); e.Size != 3<<20 {
		t.Errorf("asked %d", e.Size)
	}
	p = &pool{prefix: tf2, name: "GPU_0_bfc", base: 0x1000, limit: 4096, chunks: []chunk{{size: 1024, op: "conv2d/Relu"}}, asked: 4096}
	tr = scan(p.dump()).Trace()
	if got := tr.Stacks.Stack(tr.Devices[0].Final.Blocks[0].Stack); len(got) != 1 || got[0].Func != "conv2d/Relu" {
		t.Errorf("%v", got)
	}
}

// Of several dumps the last complete one is kept; those of the host stand apart.
func TestSeveral(t *testing.T) {
	one := &pool{prefix: tf2, name: "GPU_0_bfc", base: 0x1000, limit: 1 << 20, chunks: []chunk{{size: 1024}, {size: 512, free: true}}, asked: 4096}
	two := &pool{prefix: strings.Replace(tf2, ":14.", ":15.", 1), name: "GPU_0_bfc", base: 0x1000, limit: 1 << 20, chunks: []chunk{{size: 1024}, {size: 768, free: true}}, asked: 8192}
	host := &pool{prefix: tf2, name: "gpu_host_bfc", base: 0x1000, limit: 1 << 20, chunks: []chunk{{size: 256}}, asked: 512}
	cut := two.dump()
	text := one.dump() + host.dump() + cut
	tr := scan(text + text[:len(one.dump())/8]).Trace()
	d := &tr.Devices[0]
	if len(tr.Devices) != 1 || len(tr.Beside) != 1 || tr.Beside[0].Name != "gpu_host_bfc" || d.Final.Segments[0].Size != 1792 {
		t.Errorf("%+v, %+v", tr.Devices, tr.Beside)
	}
	if s := trace.FindSeries(d.Series, trace.AllocatorReserved); s.Samples != 2 || s.Min != 1536 || s.Max != 1792 || s.MaxAt-s.Points[0].Time != 1_000_000_000 {
		t.Errorf("%+v", s)
	}
}

// A dump that is cut anywhere is partial, or whole.
func TestCut(t *testing.T) {
	p := &pool{prefix: tf2, name: "GPU_0_bfc", base: 0x1000, limit: 1 << 20, chunks: spread([]int64{512, 1024}, 8192), asked: 1 << 20}
	text := p.dump()
	whole := strings.Index(text, "MaxInUse:") + len("MaxInUse:")
	for n := range len(text) {
		s := scan(text[:n])
		if !s.Found() {
			continue
		}
		d := &s.Trace().Devices[0]
		var held int64
		for _, b := range d.Final.Blocks {
			held += b.Size
		}
		if held > 9728 || d.HasFinal != (n >= whole) && n > whole+1 || d.HasFinal && held != 9728 {
			t.Fatalf("cut to %d of %d: %d bytes, whole %v", n, len(text), held, d.HasFinal)
		}
	}
	lost := strings.Replace(text, "Free  at ", "Fr€e  at ", 1)
	if d := &scan(lost).Trace().Devices[0]; len(d.Warnings) == 0 {
		t.Errorf("a lost line: %+v", d)
	}
}

func TestNothing(t *testing.T) {
	for _, text := range []string{"", "hello\n", "Bin (256): \tTotal Chunks: 2\n", "InUse at 7f of size 256 next 1\n", "BFCAllocator dump for GPU_0_bfc\n",
		tf2 + "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB with freed_by_count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains if more memory were available.\n"} {
		if scan(text).Found() {
			t.Errorf("%q: found", text)
		}
	}
}

func FuzzScan(f *testing.F) {
	p := &pool{prefix: tf2, name: "GPU_0_bfc", base: 0x1000, limit: 1 << 20, chunks: spread([]int64{512, 1024}, 8192), asked: 1 << 20}
	f.Add([]byte(p.dump()))
	p = &pool{prefix: "W bfc_allocator.cc:275] ", old: true, name: "GPU_1_bfc", base: 0x1000, chunks: []chunk{{size: 512}, {size: 256, free: true}}, asked: 1 << 20}
	f.Add([]byte(p.dump()))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner()
		for _, line := range bytes.SplitAfter(data, []byte("\n")) {
			s.Line(line)
		}
		if !s.Found() {
			return
		}
		tr := s.Trace()
		for _, d := range append(tr.Devices, tr.Beside...) {
			for i, b := range d.Final.Blocks {
				if b.Size <= 0 || i > 0 && b.Addr < d.Final.Blocks[i-1].Addr || b.State != trace.BlockFree && int(b.ID) >= d.NumBlocks {
					t.Errorf("%+v", b)
				}
			}
		}
	})
}
