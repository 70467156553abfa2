package torch

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// asm writes pickles: strings are memoized by the order in which they first come.
type asm struct {
	strings.Builder
	memo map[string]int
}

func newAsm() *asm {
	a := &asm{memo: map[string]int{}}
	a.WriteString("\x80\x04")
	return a
}

func (a *asm) str(s string) *asm {
	if i, ok := a.memo[s]; ok {
		fmt.Fprintf(a, "h%c", byte(i))
		return a
	}
	a.memo[s] = len(a.memo)
	a.WriteString("\x8c" + string(rune(len(s))) + s + "\x94")
	return a
}

func (a *asm) op(s string) *asm { a.WriteString(s); return a }

func (a *asm) num(n uint64) *asm {
	a.WriteString("\x8a\x08")
	a.WriteString(string(binary.LittleEndian.AppendUint64(nil, n)))
	return a
}

func (a *asm) event(action string, addr, size uint64) *asm {
	return a.op("}(").str("action").str(action).str("addr").num(addr).str("size").num(size).str("stream").op("K\x00").op("u")
}

// A snapshot may be made to blow up when it is put together: by lists that appear again and again, by
// records that cost more than they take in the file, by addresses that fit nothing. Memory stays within
// a small multiple of the input, and time does too.
func TestHostileSnapshots(t *testing.T) {
	const n = 100_000
	snapshot := func(segments, traces func(a *asm)) string {
		a := newAsm()
		a.op("}(").str("segments").op("](")
		segments(a)
		a.op("e").str("device_traces").op("](")
		traces(a)
		return a.op("eu.").String()
	}
	none := func(*asm) {}
	segment := func(a *asm, addr, size uint64, expandable bool) {
		a.op("}(").str("address").num(addr).str("total_size").num(size).str("is_expandable")
		if a.op("\x89"); expandable {
			a.op("0\x88")
		}
		a.str("blocks").op("]u")
	}
	for _, c := range []struct{ name, data string }{
		{"one segment of many blocks, many times", snapshot(func(a *asm) {
			a.op("}(").str("address").num(0).str("blocks").op("](")
			for range n {
				a.op("}(").str("state").str("active_allocated").op("u")
			}
			a.op("eur\x00\x10\x00\x00").op(strings.Repeat("j\x00\x10\x00\x00", n))
		}, none)},
		{"one list of events for many devices", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.event("alloc", i*512, 1)
			}
			a.op("er\x00\x10\x00\x00").op(strings.Repeat("j\x00\x10\x00\x00", n))
		})},
		{"nested expandable segments", snapshot(func(a *asm) {
			for i := range uint64(n) {
				segment(a, i*512, (2*n-2*i)*512, true)
			}
		}, none)},
		{"overlapping maps and unmaps", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.event([]string{"segment_map", "segment_unmap"}[i%2], i*512, (2*n-2*i)*512)
			}
			a.op("e")
		})},
		{"frees of the same nothing, then allocs of it", snapshot(none, func(a *asm) {
			a.op("](")
			for range n {
				a.event("free_completed", 512, 1)
			}
			for range n {
				a.event("alloc", 512, 1)
			}
			a.op("e")
		})},
		{"segments freed out of nowhere", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.event("segment_free", (n-i)*512, 1024)
			}
			a.op("e")
		})},
		{"sizes that wrap around", snapshot(func(a *asm) { segment(a, 1<<63, 1<<63-1, true); segment(a, 1<<63+5, 1<<63-1, true) }, func(a *asm) {
			a.op("](")
			for i := range uint64(1000) {
				a.event([]string{"segment_map", "segment_unmap", "segment_alloc", "free_completed"}[i%4], ^uint64(0)-i, 1<<63-1)
			}
			a.op("e")
		})},
		{"times up and down", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.op("}(").str("action").str("alloc").str("addr").num(i * 512).str("size").num(1).str("time_us").num((i%2)*1e12 + i).op("u")
			}
			a.op("e")
		})},
		{"many streams and pools", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.op("}(").str("action").str("alloc").str("addr").num(i * 512).str("stream").num(i * 77).str("pool_id").num(i).num(i).op("\x86u")
			}
			a.op("e")
		})},
		{"many frames, each a stack", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range uint64(n) {
				a.op("}(").str("action").str("alloc").str("addr").num(i * 512).str("frames").op("](}(").str("filename").str("f").str("line").num(i).op("ueu")
			}
			a.op("e")
		})},
		{"many small lists", snapshot(func(a *asm) { a.op(strings.Repeat("](K\x01K\x02K\x03e", n)) }, none)},
		{"many small dictionaries", snapshot(func(a *asm) { a.op(strings.Repeat("}(K\x01K\x02u", n)) }, none)},
		{"many tops", snapshot(func(a *asm) {
			for range n {
				a.op("}(").str("segments").op("Nu")
			}
		}, none)},
		{"many settings", snapshot(func(a *asm) {
			for range n {
				a.op("}(").str("max_split_size").op("Nu")
			}
		}, none)},
		{"a stack of a million frames", snapshot(none, func(a *asm) {
			a.op("](}(").str("action").str("alloc").str("frames").op("](}(").str("filename").str("f").op("ur\x00\x10\x00\x00").op(strings.Repeat("j\x00\x10\x00\x00", 1_000_000)).op("eue")
		})},
		{"many actions", snapshot(none, func(a *asm) {
			a.op("](")
			for i := range n {
				a.op("}(").str("action").op(fmt.Sprintf("\x8c\x06%06du", i))
			}
			a.op("e")
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			tr, err := read([]byte(c.data))
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			if err == nil {
				if err := valid(tr); err != nil {
					t.Error(err)
				}
			}
			memory := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes of input, %d allocated, %v, %v", len(c.data), memory, took, err)
			if memory > uint64(16<<20+25*len(c.data)) {
				t.Errorf("%d bytes of input took %d bytes", len(c.data), memory)
			}
			if took > 5*time.Second {
				t.Errorf("%d bytes of input took %v", len(c.data), took)
			}
		})
	}
}
