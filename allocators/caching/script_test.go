package caching_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/caching"
	"github.com/vramscope/vramscope/allocators/caching/config"
)

// TestScripts runs the scripts of testdata/scripts, a file a rule. What they expect was worked out by hand
// from the rules, as their comments say. Commands:
//
//	new [limit=SIZE] [capacity=SIZE] [total=SIZE] [version=V]   a fresh allocator; the text of its setting follows
//	run       operations, one a line (see runner.run); prints what was exchanged with the driver, and where
//	          each block went
//	layout    all memory, in the order in which it was taken, with its blocks
//	stats NAME...   statistics by their names in torch.cuda.memory_stats()
//	fragmentation, peak   how reserved memory is used now, and was used at its peak
//
// Memory has letters in the order in which the driver gave it, segments and reservations alike. Segments
// come from above, each below all earlier ones: A lies above B. Reservations come from below.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		r := &runner{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				return r.start(t, d)
			case "run":
				return r.run(t, d)
			case "layout":
				return r.layout()
			case "stats":
				return r.stats(t, d)
			case "fragmentation":
				return showFragmentation(r.a.Fragmentation())
			case "peak":
				return showFragmentation(r.a.Stats().AtPeak)
			}
			d.Fatalf(t, "no command %q", d.Cmd)
			return ""
		})
	})
}

type runner struct {
	a     *caching.Allocator
	l     *ledger
	named []memory // what the driver gave, in order; size 0 once it is gone
	out   strings.Builder
}

func (r *runner) start(t *testing.T, d *datadriven.TestData) string {
	version := config.DefaultVersion
	size := func(key string, otherwise int64) int64 {
		if !d.HasArg(key) {
			return otherwise
		}
		var text string
		d.ScanArgs(t, key, &text)
		return parseSize(t, d, text)
	}
	if d.HasArg("version") {
		var text string
		d.ScanArgs(t, "version", &text)
		var err error
		if version, err = config.ParseVersion(text); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	cfg, _, err := config.Parse(strings.TrimSpace(d.Input), version)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	*r = runner{l: newLedger(newBump(size("capacity", 0)))}
	r.a = caching.New(namer{r}, caching.Config{Config: cfg, Limit: size("limit", -1), DeviceTotal: size("total", 0)})
	r.a.SetHooks(caching.Hooks{Acted: r.acted})
	return ""
}

// A namer gives letters to what the ledger's driver gives.
type namer struct{ *runner }

func (n namer) Alloc(size int64) (uint64, error) {
	addr, err := n.l.Alloc(size)
	if err != nil {
		fmt.Fprintf(&n.out, "driver refuses %s\n", formatSize(size))
		return 0, err
	}
	n.named = append(n.named, memory{addr: addr, size: size})
	return addr, nil
}

func (n namer) Reserve(size int64) (uint64, error) {
	addr, err := n.l.Reserve(size)
	if err == nil {
		n.named = append(n.named, memory{addr: addr, size: size, space: addr})
		fmt.Fprintf(&n.out, "reserve %s %s\n", n.place(addr), formatSize(size))
	}
	return addr, err
}

func (n namer) Map(addr uint64, size int64) error {
	err := n.l.Map(addr, size)
	if err != nil {
		fmt.Fprintf(&n.out, "driver refuses %s at %s\n", formatSize(size), n.place(addr))
	}
	return err
}

func (n namer) Unmap(addr uint64, size int64) { n.l.Unmap(addr, size) }
func (n namer) Free(addr uint64, size int64)  { n.l.Free(addr, size) }
func (n namer) Memory() (free, total int64)   { return n.l.Memory() }

func (n namer) Release(addr uint64, size int64) {
	fmt.Fprintf(&n.out, "release %s\n", n.place(addr))
	n.l.Release(addr, size)
}

// place is a letter and an offset.
func (r *runner) place(addr uint64) string {
	for i := len(r.named) - 1; i >= 0; i-- {
		if m := r.named[i]; m.addr <= addr && addr < m.addr+uint64(m.size) {
			name := string(rune('A' + i%26))
			if i >= 26 {
				name += strconv.Itoa(i / 26)
			}
			return name + "+" + formatSize(int64(addr-m.addr))
		}
	}
	return "nowhere"
}

func (r *runner) acted(x caching.Action) {
	verb := [...]string{caching.SegmentAlloc: "alloc", caching.SegmentFree: "free", caching.SegmentMap: "map", caching.SegmentUnmap: "unmap"}[x.Kind]
	fmt.Fprintf(&r.out, "%s %s %s\n", verb, r.place(x.Addr), formatSize(x.Size))
}

// run makes operations:
//
//	malloc BLOCK SIZE [stream=N] [pool=N]     restore-small BLOCK SIZE (a saved graph pool is laid out again)
//	free BLOCK...   free-pending BLOCK...   complete BLOCK...
//	empty-cache   retire POOL   release-pool POOL   lend POOL   keep-whole POOL   expandable on|off
func (r *runner) run(t *testing.T, d *datadriven.TestData) string {
	r.out.Reset()
	for _, line := range strings.Split(d.Input, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		numbers := func() []uint32 {
			var out []uint32
			for _, w := range words[1:] {
				n, err := strconv.ParseUint(w, 10, 32)
				if err != nil {
					d.Fatalf(t, "%s: %v", line, err)
				}
				out = append(out, uint32(n))
			}
			return out
		}
		switch words[0] {
		case "malloc":
			r.malloc(t, d, words, r.a.Malloc)
		case "restore-small":
			r.malloc(t, d, words, func(q allocators.Request) error { return r.a.Restore(q, true) })
		case "free", "free-pending":
			for _, n := range numbers() {
				r.a.Free(n, words[0] == "free-pending")
			}
		case "complete":
			for _, n := range numbers() {
				r.a.Complete(n)
			}
		case "empty-cache":
			r.a.EmptyCache()
		case "retire":
			r.a.Retire(numbers()[0])
		case "release-pool":
			r.a.ReleasePool(numbers()[0])
		case "lend":
			r.a.Lend(numbers()[0])
		case "keep-whole":
			r.a.KeepWhole(numbers()[0])
		case "expandable":
			r.a.SetExpandable(words[1] == "on")
		default:
			d.Fatalf(t, "no operation %q", line)
		}
		if err := judge(r.a, r.l); err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
	}
	return r.out.String()
}

func (r *runner) malloc(t *testing.T, d *datadriven.TestData, words []string, serve func(allocators.Request) error) {
	n, err := strconv.ParseUint(words[1], 10, 32)
	if err != nil {
		d.Fatalf(t, "%v: %v", words, err)
	}
	q := allocators.Request{Block: uint32(n), Size: parseSize(t, d, words[2])}
	for _, w := range words[3:] {
		if _, err := fmt.Sscanf(w, "stream=%d", &q.Stream); err == nil {
			continue
		}
		if _, err := fmt.Sscanf(w, "pool=%d", &q.Pool); err != nil {
			d.Fatalf(t, "%v: %v", words, err)
		}
	}
	var oom *allocators.OOM
	if err := serve(q); errors.As(err, &oom) {
		fmt.Fprintf(&r.out, "%d: out of memory, tried %s\n", n, formatSize(oom.Tried))
		return
	}
	addr, size, _ := r.a.Block(q.Block)
	fmt.Fprintf(&r.out, "%d: %s %s\n", n, r.place(addr), formatSize(size))
}

// layout prints a line for each segment and each reservation that has memory.
func (r *runner) layout() string {
	var out strings.Builder
	list := layout(r.a)
	for _, m := range r.named {
		at := m.addr
		var parts []string
		owner := ""
		for _, p := range list {
			if p.Addr < m.addr || p.Addr >= m.addr+uint64(m.size) || m.space == 0 && r.l.segments[m.addr] == 0 {
				continue
			}
			if p.Addr > at {
				parts = append(parts, "hole "+formatSize(int64(p.Addr-at)))
			}
			at = p.Addr + uint64(p.Size)
			text := fmt.Sprint(p.Number)
			if p.Free {
				text = "free"
			}
			if p.Pending {
				text += " pending"
			}
			parts = append(parts, text+" "+formatSize(p.Size))
			if p.Pool != 0 {
				owner = fmt.Sprintf(" of pool %d", p.Pool)
			}
		}
		if len(parts) > 0 {
			name, _, _ := strings.Cut(r.place(m.addr), "+")
			fmt.Fprintf(&out, "%s%s: %s\n", name, owner, strings.Join(parts, ", "))
		}
	}
	return out.String()
}

func (r *runner) stats(t *testing.T, d *datadriven.TestData) string {
	s := r.a.Detail()
	metrics := map[string]caching.Metric{
		"allocation": s.Allocation, "segment": s.Segment, "active": s.Active, "inactive_split": s.InactiveSplit,
		"allocated_bytes": s.AllocatedBytes, "reserved_bytes": s.ReservedBytes, "active_bytes": s.ActiveBytes,
		"inactive_split_bytes": s.InactiveSplitBytes, "requested_bytes": s.RequestedBytes,
		"oversize_allocations": {s.OversizeAllocations}, "oversize_segments": {s.OversizeSegments},
	}
	numbers := map[string]int64{
		"num_alloc_retries": s.NumAllocRetries, "num_ooms": s.NumOOMs, "num_sync_all_streams": s.NumSyncAllStreams,
		"num_device_alloc": s.NumDeviceAlloc, "num_device_free": s.NumDeviceFree,
	}
	var out strings.Builder
	for _, arg := range d.CmdArgs {
		name := arg.Key
		show := func(n int64) string { return strconv.FormatInt(n, 10) }
		if strings.HasSuffix(name, "_bytes") {
			show = formatSize
		}
		if n, ok := numbers[name]; ok {
			fmt.Fprintf(&out, "%s %d\n", name, n)
			continue
		}
		m, ok := metrics[name]
		if !ok {
			d.Fatalf(t, "no statistic %s", name)
		}
		for i, pool := range []string{"all", "small_pool", "large_pool"} {
			if c := m[i]; c != (caching.Counter{}) {
				fmt.Fprintf(&out, "%s.%s %s, peak %s, allocated %s, freed %s\n", name, pool, show(c.Current), show(c.Peak), show(c.Allocated), show(c.Freed))
			}
		}
	}
	return out.String()
}

func showFragmentation(f allocators.Fragmentation) string {
	return fmt.Sprintf("stranded %s, cached %s, rounding %s, pending %s, largest %s\n", formatSize(f.Stranded), formatSize(f.Cached),
		formatSize(f.Rounding), formatSize(f.Pending), formatSize(f.Largest))
}

var units = []struct {
	name  string
	bytes int64
}{{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

// parseSize reads 512, 20M, 9.5M, 1M+512, 64M-1.
func parseSize(t *testing.T, d *datadriven.TestData, text string) int64 {
	t.Helper()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	whole, more := text, int64(0)
	if i := strings.LastIndexAny(text, "+-"); i > 0 {
		n, err := strconv.ParseInt(text[i:], 10, 64)
		if err != nil {
			d.Fatalf(t, "%s: %v", text, err)
		}
		whole, more = text[:i], n
	}
	unit := int64(1)
	for _, u := range units {
		if w, ok := strings.CutSuffix(whole, u.name); ok {
			whole, unit = w, u.bytes
		}
	}
	n, err := strconv.ParseFloat(whole, 64)
	if err != nil || n*float64(unit) != math.Trunc(n*float64(unit)) {
		d.Fatalf(t, "%s is no number of bytes", text)
	}
	return int64(n*float64(unit)) + more
}

// formatSize writes sizes in MiB if they are multiples of 64 KiB, else in KiB if they can be, else in bytes.
func formatSize(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n%(64<<10) == 0 && n >= 1<<20:
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', -1, 64) + "M"
	case n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + "K"
	}
	return strconv.FormatInt(n, 10)
}
