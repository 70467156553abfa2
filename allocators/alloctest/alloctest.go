// Package alloctest is the one suite that every model of an allocator has to pass. It makes random
// scripts of requests (script.go), runs them over a device that notices misuse (driver.go) under a judge
// that knows only intervals and sums (judge.go), and compares runs that must agree (relations.go).
//
// A script that fails is shrunk by rapid and kept in the testdata folder of the package under test; from
// then on Run tries it first, every time. Scripts that any model once failed are in this package's own
// testdata folder and run through every model.
package alloctest

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
)

// New makes a fresh allocator over a driver.
type New func(allocators.Driver) allocators.Allocator

// Options tell the suite what a model promises. The zero value is the strictest.
type Options struct {
	Capacity   int64 // bytes of the device that runs out, 0 for 256 MiB
	MaxRequest int64 // bytes of the largest request, 0 for 48 MiB

	// KeepsMemory: EmptyCache may leave memory reserved even when no block is live.
	KeepsMemory bool
	// CompletesEarly: the model may end a wait on its own, by waiting for the device.
	CompletesEarly bool
	// OwnCallCounts: DeviceAllocs and DeviceFrees count something else than calls of the driver.
	OwnCallCounts bool
	// Streams: the stream of a request makes a difference.
	Streams bool
	// KnowsCapacity: decisions depend on how much memory the device has, even while there is enough.
	KnowsCapacity bool
}

func (o Options) capacity() int64 {
	if o.Capacity > 0 {
		return o.Capacity
	}
	return 256 << 20
}

func (o Options) maxRequest() int64 {
	if o.MaxRequest > 0 {
		return o.MaxRequest
	}
	return 48 << 20
}

// Run puts a model through the suite.
func Run(t *testing.T, model New, opts Options) {
	t.Helper()
	t.Run("kept scripts", func(t *testing.T) { keptScripts(t, model, opts) })
	t.Run("nonsense", func(t *testing.T) { nonsense(t, model, opts) })
	t.Run("conformance", func(t *testing.T) {
		check(t, opts, func(s Script) error { return Conform(s, model, 0, opts) })
	})
	t.Run("conformance, out of memory", func(t *testing.T) {
		check(t, opts, func(s Script) error { return Conform(s, model, opts.capacity(), opts) })
	})
	for _, r := range relations {
		if r.holds(opts) {
			t.Run(r.name, func(t *testing.T) {
				check(t, opts, func(s Script) error { return r.check(s, model, opts) })
			})
		}
	}
}

// check tries a property on random scripts and keeps one that fails.
func check(t *testing.T, opts Options, property func(Script) error) {
	t.Helper()
	kept := filepath.Join("testdata", strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, t.Name())+".script")
	scripts := Scripts(120, opts.maxRequest())
	rapid.Check(t, func(rt *rapid.T) {
		s := scripts.Draw(rt, "script")
		if err := property(s); err != nil {
			// Rapid ends with the smallest script that fails: the last one written is the one to keep.
			if werr := os.MkdirAll("testdata", 0o777); werr == nil {
				text := fmt.Sprintf("# %s: %s\n%s", t.Name(), strings.ReplaceAll(err.Error(), "\n", " "), s)
				werr = os.WriteFile(kept, []byte(text), 0o666)
				if werr != nil {
					rt.Logf("the script is not kept: %v", werr)
				}
			}
			rt.Fatalf("%v\nkept as %s:\n%s", err, kept, s)
		}
	})
}

// Conform runs a script under a Judge on a device of the given capacity (0: no limit), frees what is
// left at its end, and checks that everything comes back.
func Conform(s Script, model New, capacity int64, opts Options) error {
	d := NewDriver(capacity)
	a := model(d)
	j := NewJudge(a, d, opts)
	j.want.Reserved = d.Held
	if err := j.check(); err != nil {
		return fmt.Errorf("when new: %w", err)
	}
	if err := j.Run(s); err != nil {
		return err
	}
	for round := range 2 { // the second time on memory that was used before
		for id, b := range j.copyOfBlocks() {
			var err error
			if b.pending {
				err = j.Complete(id)
			} else {
				err = j.Free(id, false)
			}
			if err != nil {
				return fmt.Errorf("freeing block %d at the end: %w", id, err)
			}
		}
		if st := a.Stats(); st.Active.Current != 0 || st.Requested.Current != 0 || st.Allocated.Current != 0 {
			return fmt.Errorf("with nothing left: %+v", *st)
		}
		if round == 1 {
			break
		}
		if err := j.Run(s); err != nil {
			return fmt.Errorf("the second time: %w", err)
		}
	}
	if err := j.EmptyCache(); err != nil {
		return err
	}
	if held := d.Held.Current; held != 0 && !opts.KeepsMemory {
		return fmt.Errorf("with nothing left and the cache emptied, %d bytes are still held", held)
	}
	return nil
}

// Run makes the calls of a script, leaving out those on blocks that were refused. Running out of memory
// is no fault.
func (j *Judge) Run(s Script) error {
	refused := map[uint32]bool{}
	for i, op := range s {
		var err error
		switch {
		case op.Kind == EmptyCache:
			err = j.EmptyCache()
		case op.Kind == Malloc:
			err = j.Malloc(allocators.Request{Block: op.Block, Size: op.Size, Stream: op.Stream})
			refused[op.Block] = err != nil
		case refused[op.Block]:
		case op.Kind == Complete:
			err = j.Complete(op.Block)
		default:
			err = j.Free(op.Block, op.Kind == FreePending)
		}
		if err != nil && !isOOM(err) {
			return fmt.Errorf("operation %d (%s): %w", i, strings.TrimSpace(Script{op}.String()), err)
		}
	}
	return nil
}

func (j *Judge) copyOfBlocks() map[uint32]blockState {
	c := map[uint32]blockState{}
	for id, b := range j.blocks {
		c[id] = *b
	}
	return c
}

//go:embed testdata/*.script
var own embed.FS

// keptScripts runs the scripts of this package and of the package under test.
func keptScripts(t *testing.T, model New, opts Options) {
	for _, dir := range []fs.FS{own, os.DirFS(".")} {
		names, err := fs.Glob(dir, "testdata/*.script")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseScript(string(text))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, capacity := range []int64{0, opts.capacity()} {
				if err := Conform(s, model, capacity, opts); err != nil {
					t.Errorf("%s, capacity %d: %v", name, capacity, err)
				}
			}
			for _, r := range relations {
				if !r.holds(opts) {
					continue
				}
				if err := r.check(s, model, opts); err != nil {
					t.Errorf("%s, %s: %v", name, r.name, err)
				}
			}
		}
	}
}

// nonsense makes calls that a careless caller might make. None may crash or change anything.
func nonsense(t *testing.T, model New, opts Options) {
	d := NewDriver(opts.capacity())
	a := model(d)
	j := NewJudge(a, d, opts)
	step := func(what string, err error) {
		t.Helper()
		if err != nil && !isOOM(err) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	step("free of a block that never was", j.Free(7, false))
	step("complete of a block that never was", j.Complete(9))
	step("malloc", j.Malloc(allocators.Request{Block: 1, Size: 1000}))
	step("complete of a live block", j.Complete(1))
	step("free", j.Free(1, false))
	step("free again", j.Free(1, false))
	step("pending free of a free block", j.Free(1, true))
	step("complete of a free block", j.Complete(1))
	for _, size := range []int64{opts.capacity() + 1, 1 << 40, 1 << 60, 1<<63 - 1} {
		if err := j.Malloc(allocators.Request{Block: 2, Size: size}); !isOOM(err) {
			t.Fatalf("a request of %d bytes is not out of memory: %v", size, err)
		}
	}
	if d.Held.Current > opts.capacity() {
		t.Fatalf("%d bytes held of %d", d.Held.Current, opts.capacity())
	}
	step("malloc after that", j.Malloc(allocators.Request{Block: 2, Size: 1000}))
}
