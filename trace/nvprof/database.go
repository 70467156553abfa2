// Package nvprof reads what nvprof, and the visual profiler beside it, wrote up to CUDA 12: databases (SQLite,
// versions 11, 12 and 18), and traces and summaries as CSV or text. Allocations are in a database only, and
// only if nvprof was told to track them; everything else is answered with how to get them.
package nvprof

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/cupti"
	"github.com/vramscope/vramscope/trace/tables"
)

// The commands that make what can be read here.
const (
	recordCommand = "nvprof --track-memory-allocations on -o run.nvprof COMMAND"
	recordNewer   = "nsys profile --trace=cuda,nvtx --cuda-memory-usage=true -o run COMMAND, then nsys export --type sqlite -o run.sqlite run.nsys-rep"
)

// howTo says how to record allocations.
const howTo = recordCommand + " (on a GPU of compute capability 8.0 or newer, where nvprof does not run: " + recordNewer + ")"

const (
	tableVersion = "Version"
	tableStrings = "StringTable"
	tableMemory  = "CUPTI_ACTIVITY_KIND_MEMORY"
	tableRuntime = "CUPTI_ACTIVITY_KIND_RUNTIME"
	tableDriver  = "CUPTI_ACTIVITY_KIND_DRIVER"
	tableDevices = "CUPTI_ACTIVITY_KIND_DEVICE"
	tableMarkers = "CUPTI_ACTIVITY_KIND_MARKER"
)

// ReadDatabase reads a database. It returns trace.ErrUnrecognized itself if the tables are not nvprof's.
func ReadDatabase(s tables.Set) (*trace.Trace, error) {
	if !s.Has(tableVersion) || !s.Has(tableStrings) {
		return nil, trace.ErrUnrecognized
	}
	s.Plan(tableMemory, tableMemory, tableMarkers, tableMarkers, tableStrings, tableRuntime, tableDriver)
	r := &database{set: s, rec: cupti.New(), words: map[uint64]string{}, calls: map[string]int{}}
	for _, step := range []func() error{r.about, r.wanted, r.strings, r.devices, r.memory, r.markers, r.api} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// database reads a database.
type database struct {
	set     tables.Set
	rec     *cupti.Recording
	words   map[uint64]string // strings that are asked for, by number; all others stay unread
	version int64
	events  int
	calls   map[string]int // of functions that allocate or free, by name
}

func (r *database) about() error {
	return r.set.Scan(tableVersion, []string{"version"}, func(row tables.Row) error {
		r.version = row.Int(0)
		return nil
	})
}

// wanted finds out which strings are names of devices, variables and ranges.
func (r *database) wanted() error {
	want := func(row tables.Row) error {
		if !row.Null(0) && row.Int(0) != 0 {
			r.words[uint64(row.Int(0))] = ""
		}
		return nil
	}
	for _, t := range []string{tableDevices, tableMemory, tableMarkers} {
		if err := r.set.Scan(t, []string{"name"}, want); err != nil {
			return err
		}
	}
	return nil
}

func (r *database) strings() error {
	if len(r.words) == 0 {
		return nil
	}
	return r.set.Scan(tableStrings, []string{"_id_", "value"}, func(row tables.Row) error {
		if id := uint64(row.Int(0)); id != 0 {
			if _, ok := r.words[id]; ok {
				r.words[id] = cupti.Clean(row.Text(1))
			}
		}
		return nil
	})
}

func (r *database) devices() error {
	return r.set.Scan(tableDevices, []string{"id", "name", "globalMemorySize", "uuid"}, func(row tables.Row) error {
		g := cupti.GPU{ID: row.Int(0), CUDevice: row.Int(0), Name: r.words[uint64(row.Int(1))], Memory: row.Int(2)}
		if u := row.Bytes(3); len(u) == 16 {
			g.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
		}
		if len(r.rec.GPUs) < 1024 {
			r.rec.GPUs = append(r.rec.GPUs, g)
		}
		return nil
	})
}

// processOf makes of a process id what the recording takes.
func processOf(pid int64) uint64 { return uint64(pid&0xffffff) << 24 }

// memory reads the allocations. A row is a whole lifetime; an end of 0 is one that never came.
func (r *database) memory() error {
	columns := []string{"memoryKind", "address", "bytes", "start", "end", "processId", "deviceId", "name", "allocPC"}
	return r.set.Scan(tableMemory, columns, func(row tables.Row) error {
		r.events++
		u := cupti.Usage{Kind: cupti.FromCUPTI(row.Int(0)), Addr: uint64(row.Int(1)), Size: row.Int(2), Time: row.Int(3),
			Process: processOf(row.Int(5)), Device: row.Int(6), PC: uint64(row.Int(8)), PoolSize: -1}
		if u.Kind == cupti.DeviceStatic || u.Kind == cupti.ManagedStatic {
			u.Symbol = []byte(r.words[uint64(row.Int(7))])
		}
		if err := r.rec.Add(&u); err != nil {
			return err
		}
		if u.Time = row.Int(4); u.Time <= 0 {
			return nil
		}
		u.Free = true
		return r.rec.Add(&u)
	})
}

// What CUPTI's flags of a marker say.
const (
	markerInstant = 1
	markerStart   = 2
	markerEnd     = 4
)

// markers reads the ranges that the program named. Which thread they are of is in a union that differs from
// version to version.
func (r *database) markers() error {
	type begun struct {
		at   int64
		name cupti.Name
	}
	open := map[int64]begun{}
	err := r.set.Scan(tableMarkers, []string{"flags", "timestamp", "id", "name"}, func(row tables.Row) error {
		flags, at, id := row.Int(0), row.Int(1), row.Int(2)
		name := r.rec.RangeName([]byte(r.words[uint64(row.Int(3))]))
		switch {
		case flags&markerEnd != 0:
			if b, ok := open[id]; ok {
				r.rec.AddRange(cupti.StartEnd, 0, b.at, at, true, b.name)
				delete(open, id)
			}
		case flags&markerStart != 0:
			open[id] = begun{at, name}
		case flags&markerInstant != 0:
			r.rec.AddRange(cupti.Mark, 0, at, 0, false, name)
		}
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(open)) {
		r.rec.AddRange(cupti.StartEnd, 0, open[id].at, 0, false, open[id].name)
	}
	return err
}

// function is one of the API that allocates or frees.
type function struct {
	name string
	free bool
}

// The numbers of functions in CUPTI's callbacks. Those of cuMemAllocManaged are not sure and left out.
var (
	runtimeFunctions = map[int64]function{
		20: {"cudaMalloc", false}, 21: {"cudaMallocPitch", false}, 22: {"cudaFree", true}, 23: {"cudaMallocArray", false}, 24: {"cudaFreeArray", true},
		25: {"cudaMallocHost", false}, 26: {"cudaFreeHost", true}, 27: {"cudaHostAlloc", false}, 206: {"cudaMallocManaged", false},
	}
	driverFunctions = map[int64]function{
		39: {"cuMemHostAlloc", false}, 243: {"cuMemAlloc", false}, 244: {"cuMemAllocPitch", false}, 245: {"cuMemFree", true}, 294: {"cuMemAllocHost", false},
	}
)

// span is a call that was refused memory.
type span struct {
	process, thread uint64
	start, end      int64
}

// api counts calls and takes those that were refused. One of the runtime that the driver refused is in both
// tables.
func (r *database) api() error {
	columns := []string{"cbid", "returnValue", "processId", "threadId", "start", "end"}
	read := func(table string, functions map[int64]function, each func(span) bool) error {
		return r.set.Scan(table, columns, func(row tables.Row) error {
			f, ok := functions[row.Int(0)]
			if !ok {
				return nil
			}
			r.calls[f.name]++
			if row.Int(1) != cupti.OutOfMemory || f.free {
				return nil
			}
			s := span{processOf(row.Int(2)), uint64(row.Int(3)), row.Int(4), row.Int(5)}
			if each(s) {
				r.rec.Fail(&cupti.Call{Start: s.start, Process: s.process, Name: f.name, Result: cupti.OutOfMemory})
			}
			return nil
		})
	}
	byThread := map[[2]uint64][]span{}
	err := read(tableRuntime, runtimeFunctions, func(s span) bool {
		k := [2]uint64{s.process, s.thread}
		byThread[k] = append(byThread[k], s)
		return true
	})
	if err != nil {
		return err
	}
	for _, l := range byThread {
		slices.SortFunc(l, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	}
	return read(tableDriver, driverFunctions, func(s span) bool {
		l := byThread[[2]uint64{s.process, s.thread}]
		i, _ := slices.BinarySearchFunc(l, s.start+1, func(a span, at int64) int { return cmp.Compare(a.start, at) })
		return i == 0 || s.end > l[i-1].end
	})
}

func (r *database) finish() *trace.Trace {
	t := r.rec.Finish()
	t.Source = trace.Source{Format: "nvprof (SQLite)", Producer: r.producer(), Clock: trace.ClockEpoch, Lacks: lacks()}
	t.Source.Counts = append([]trace.Count{{What: "allocations", N: r.events}}, countsOf(r.calls)...)
	if r.events == 0 {
		t.Source.Lacks = append([]trace.Lack{{What: "allocations, frees and what is in use", Instead: howTo}}, t.Source.Lacks...)
		t.Warnings = append(t.Warnings, trace.Warning{Code: "no-memory-events", Count: 1, First: -1,
			Message: "the profile has no allocations, which nvprof records only if it is told to: " + howTo})
	}
	return t
}

func (r *database) producer() string {
	if r.version <= 0 || r.version > math.MaxInt16 {
		return "nvprof"
	}
	cuda := map[int64]string{11: ", CUDA 9 or 10", 12: ", CUDA 11", 18: ", CUDA 12"}[r.version]
	return fmt.Sprintf("nvprof (version %d%s)", r.version, cuda)
}

func lacks() []trace.Lack {
	return []trace.Lack{{What: "the line of code behind an allocation", Instead: "torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(\"run.pickle\"); other programs: nsys profile --trace=cuda,nvtx --cuda-memory-usage=true --cudabacktrace=all -o run COMMAND, then nsys export --type sqlite -o run.sqlite run.nsys-rep"}}
}

// countsOf lists how often functions were called, by name.
func countsOf(calls map[string]int) []trace.Count {
	var out []trace.Count
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		out = append(out, trace.Count{What: "calls of " + name, N: calls[name]})
	}
	return out
}
