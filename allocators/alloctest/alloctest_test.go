package alloctest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/arena"
	"github.com/vramscope/vramscope/allocators/bfc"
	"github.com/vramscope/vramscope/allocators/buddy"
	"github.com/vramscope/vramscope/allocators/driver/sim"
	"github.com/vramscope/vramscope/allocators/packing"
	"github.com/vramscope/vramscope/allocators/rmm"
	"github.com/vramscope/vramscope/allocators/slab"
)

func TestScriptText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Scripts(50, 1<<40).Draw(t, "script")
		got, err := ParseScript(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, got); diff != "" {
			t.Fatal(diff)
		}
	})
	for text, want := range map[string]string{
		"malloc 1":                  "too few",
		"\n\nmalloc 1 2 stream=x":   "line 3",
		"malloc 1 2Q":               "not a size",
		"malloc 1 9999999999G":      "not a size",
		"free -1":                   "free -1",
		"empty-cache 3":             "too many",
		"realloc 3 # is not a word": "realloc",
	} {
		if _, err := ParseScript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// sound is a model that keeps all promises: a driver allocation for each block.
type sound struct {
	driver  allocators.Driver
	blocks  map[uint32]*blockState
	stats   allocators.Stats
	pending int64
}

func newSound(d allocators.Driver) *sound { return &sound{driver: d, blocks: map[uint32]*blockState{}} }

func (m *sound) Malloc(r allocators.Request) error {
	addr, err := m.driver.Alloc(r.Size)
	if err != nil {
		m.stats.OOMs++
		return &allocators.OOM{Requested: r.Size, Tried: r.Size, Allocated: m.stats.Allocated.Current, Reserved: m.stats.Reserved.Current}
	}
	m.blocks[r.Block] = &blockState{addr: addr, size: r.Size, requested: r.Size}
	m.stats.DeviceAllocs++
	before := m.stats.Reserved.Peak
	for _, g := range []*allocators.Gauge{&m.stats.Requested, &m.stats.Allocated, &m.stats.Active, &m.stats.Reserved} {
		g.Add(r.Size)
	}
	if m.stats.Reserved.Peak > before {
		m.stats.AtPeak = allocators.Fragmentation{Pending: m.pending}
	}
	return nil
}

func (m *sound) Free(b uint32, pending bool) {
	s := m.blocks[b]
	if s == nil || s.pending {
		return
	}
	m.stats.Allocated.Current -= s.size
	if pending {
		s.pending = true
		m.pending += s.size
		return
	}
	m.drop(b, s)
}

func (m *sound) Complete(b uint32) {
	if s := m.blocks[b]; s != nil && s.pending {
		m.pending -= s.size
		m.drop(b, s)
	}
}

func (m *sound) drop(b uint32, s *blockState) {
	m.driver.Free(s.addr, s.size)
	m.stats.DeviceFrees++
	m.stats.Requested.Current -= s.size
	m.stats.Active.Current -= s.size
	m.stats.Reserved.Current -= s.size
	delete(m.blocks, b)
}

func (m *sound) EmptyCache() {}

func (m *sound) Block(b uint32) (uint64, int64, bool) {
	if s := m.blocks[b]; s != nil {
		return s.addr, s.size, true
	}
	return 0, 0, false
}

func (m *sound) Stats() *allocators.Stats { return &m.stats }

// Each of these breaks one promise.

type overlapping struct{ *sound }

func (m overlapping) Block(b uint32) (uint64, int64, bool) {
	addr, size, ok := m.sound.Block(b)
	if other := m.blocks[0]; b == 1 && ok && other != nil && size <= other.size {
		addr = other.addr
	}
	return addr, size, ok
}

type outside struct{ *sound }

func (m outside) Block(b uint32) (uint64, int64, bool) {
	addr, size, ok := m.sound.Block(b)
	return addr + 1, size, ok
}

type small struct{ *sound }

func (m small) Block(b uint32) (uint64, int64, bool) {
	addr, size, ok := m.sound.Block(b)
	return addr, size - 1, ok
}

type moving struct{ *sound }

func (m moving) EmptyCache() {
	for _, b := range m.blocks {
		if b.size > 1 {
			b.addr++
			b.size--
		}
	}
}

type forgetful struct{ *sound }

func (m forgetful) EmptyCache() {
	for b := range m.blocks {
		delete(m.blocks, b)
		break
	}
}

type leaking struct{ *sound }

func (m leaking) Complete(b uint32) {}

type hoarding struct{ *sound }

func (m hoarding) Free(b uint32, pending bool) {
	if s := m.blocks[b]; s != nil && !s.pending && !pending {
		m.stats.Requested.Current -= s.size
		m.stats.Active.Current -= s.size
		m.stats.Allocated.Current -= s.size
		delete(m.blocks, b)
		return
	}
	m.sound.Free(b, pending)
}

type miscounting struct{ *sound }

func (m miscounting) Malloc(r allocators.Request) error {
	err := m.sound.Malloc(r)
	m.stats.Allocated.Peak++
	return err
}

type silent struct{ *sound }

func (m silent) Malloc(r allocators.Request) error {
	err := m.sound.Malloc(r)
	m.stats.OOMs = 0
	return err
}

type destructive struct{ *sound }

func (m destructive) Malloc(r allocators.Request) error {
	err := m.sound.Malloc(r)
	if err != nil {
		for b := range m.blocks {
			m.Free(b, false)
			break
		}
	}
	return err
}

type peakless struct{ *sound }

func (m peakless) Malloc(r allocators.Request) error {
	err := m.sound.Malloc(r)
	m.stats.AtPeak.Stranded++
	return err
}

type early struct{ *sound }

func (m early) Free(b uint32, _ bool) { m.sound.Free(b, false) }

type careless struct{ *sound }

func (m careless) EmptyCache() {
	for _, b := range m.blocks {
		m.driver.Free(b.addr, b.size)
		break
	}
}

var calls int // what arbitrary depends on

type arbitrary struct{ *sound }

func (m arbitrary) Malloc(r allocators.Request) error {
	if calls++; calls%97 == 0 {
		addr, _ := m.driver.Alloc(1)
		m.driver.Free(addr, 1)
		m.stats.DeviceAllocs++
		m.stats.DeviceFrees++
	}
	return m.sound.Malloc(r)
}

type named struct{ *sound }

func (m named) Malloc(r allocators.Request) error {
	r.Block++ // the next block's number
	return m.sound.Malloc(r)
}

// TestJudge makes sure that the suite notices.
func TestJudge(t *testing.T) {
	scripts := Examples(60, 48<<20)
	noticed := func(model New) error {
		for _, s := range scripts {
			for _, capacity := range []int64{0, 256 << 20} {
				if err := Conform(s, model, capacity, Options{}); err != nil {
					return err
				}
			}
			for _, r := range relations {
				if err := r.check(s, model, Options{}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := noticed(func(d allocators.Driver) allocators.Allocator { return newSound(d) }); err != nil {
		t.Errorf("a sound model: %v", err)
	}
	for name, wrap := range map[string]func(*sound) allocators.Allocator{
		"overlapping": func(m *sound) allocators.Allocator { return overlapping{m} },
		"outside":     func(m *sound) allocators.Allocator { return outside{m} },
		"small":       func(m *sound) allocators.Allocator { return small{m} },
		"moving":      func(m *sound) allocators.Allocator { return moving{m} },
		"forgetful":   func(m *sound) allocators.Allocator { return forgetful{m} },
		"leaking":     func(m *sound) allocators.Allocator { return leaking{m} },
		"hoarding":    func(m *sound) allocators.Allocator { return hoarding{m} },
		"miscounting": func(m *sound) allocators.Allocator { return miscounting{m} },
		"silent":      func(m *sound) allocators.Allocator { return silent{m} },
		"destructive": func(m *sound) allocators.Allocator { return destructive{m} },
		"peakless":    func(m *sound) allocators.Allocator { return peakless{m} },
		"early":       func(m *sound) allocators.Allocator { return early{m} },
		"careless":    func(m *sound) allocators.Allocator { return careless{m} },
		"arbitrary":   func(m *sound) allocators.Allocator { return arbitrary{m} },
		"named":       func(m *sound) allocators.Allocator { return named{m} },
	} {
		err := noticed(func(d allocators.Driver) allocators.Allocator { return wrap(newSound(d)) })
		if err == nil {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

var models = []Model{
	{"a driver allocation a block", func(d allocators.Driver) allocators.Allocator { return newSound(d) }, Options{}},
	{"buddy", func(d allocators.Driver) allocators.Allocator { return buddy.New(d, buddy.Config{}) }, Options{}},
	{"slab", func(d allocators.Driver) allocators.Allocator { return slab.New(d, slab.Config{}) }, Options{}},
	{"first fit", func(d allocators.Driver) allocators.Allocator { return arena.New(d, arena.Config{}) }, Options{}},
	{"next fit", func(d allocators.Driver) allocators.Allocator {
		return arena.New(d, arena.Config{Policy: arena.NextFit})
	}, Options{}},
	{"best fit", func(d allocators.Driver) allocators.Allocator {
		return arena.New(d, arena.Config{Policy: arena.BestFit})
	}, Options{}},
	{"packing", func(d allocators.Driver) allocators.Allocator { return packing.New(d, packing.Config{}) }, Options{}},
	{"bfc", func(d allocators.Driver) allocators.Allocator { return bfc.New(d, bfc.Config{}) }, keeps},
	{"rmm pool", func(d allocators.Driver) allocators.Allocator { return rmm.NewPool(d, rmm.PoolConfig{}) }, keeps},
	{"rmm arena", func(d allocators.Driver) allocators.Allocator { return rmm.NewArena(d, rmm.ArenaConfig{}) }, keeps},
	{"rmm binning", func(d allocators.Driver) allocators.Allocator {
		return rmm.NewBinning(d, rmm.BinningConfig{})
	}, keeps},
}

var keeps = Options{KeepsMemory: true, Streams: true}

// TestCompare sends the same scripts through all models at once.
func TestCompare(t *testing.T) { Compare(t, models) }

// TestSimulatedDevice runs a training script over the driver that real replays use, where there is room
// for every model and where there is not.
func TestSimulatedDevice(t *testing.T) {
	script := Trace(30_000)
	for _, m := range models {
		for _, capacity := range []int64{64 << 30, 2 << 30} {
			d := sim.New(sim.Config{Capacity: capacity})
			a := m.New(d)
			for _, op := range script {
				if op.Kind == Free {
					a.Free(op.Block, false)
				} else if err := op.apply(a); err != nil && !isOOM(err) {
					t.Fatalf("%s: %v", m.Name, err)
				}
			}
			s := a.Stats()
			free, total := d.Memory()
			// The device counts whole granules: each allocation takes less than one more than was asked for.
			over := total - free - s.Reserved.Current
			if total != capacity || over < 0 || over > 0 && over >= (s.DeviceAllocs-s.DeviceFrees)*sim.Granule {
				t.Errorf("%s: %d of %d are free, %d reserved", m.Name, free, total, s.Reserved.Current)
			}
			if capacity == 64<<30 && s.OOMs > 0 {
				t.Errorf("%s: %d requests failed on a device of 64 GiB", m.Name, s.OOMs)
			}
			t.Logf("%s on %d GiB: peak %d MiB reserved for %d MiB, %d failed, at the peak %+v",
				m.Name, capacity>>30, s.Reserved.Peak>>20, s.Requested.Peak>>20, s.OOMs, s.AtPeak)
		}
	}
}
