// Package nsys reads what Nsight Systems exports: SQLite databases, folders of Parquet files, JSON lines, and
// the CSV of nsys stats. Only tables and columns that are about memory are looked at, by their names, of
// whatever version (2.9 to 3.25 are known). What an export holds of the machine and of whoever used it (the
// environment, command lines, host and user names, paths, captured output) is never read into a trace.
package nsys

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/cupti"
	"github.com/vramscope/vramscope/trace/tables"
)

// The commands that make what can be read here.
const (
	recordCommand = "nsys profile --trace=cuda,nvtx --cuda-memory-usage=true -o run COMMAND"
	exportCommand = "nsys export --type sqlite -o run.sqlite run.nsys-rep"
)

// Format is what traces of this package call their format, before the kind of export.
const Format = "Nsight Systems"

const (
	tableUsage    = "CUDA_GPU_MEMORY_USAGE_EVENTS"
	tablePools    = "CUDA_GPU_MEMORY_POOL_EVENTS"
	tableCalls    = "CUPTI_ACTIVITY_KIND_RUNTIME"
	tableRanges   = "NVTX_EVENTS"
	tableChains   = "CUDA_CALLCHAINS"
	tableStrings  = "StringIds"
	tableGPUs     = "TARGET_INFO_GPU"
	tableMappings = "TARGET_INFO_CUDA_DEVICE"
	tableStart    = "TARGET_INFO_SESSION_START_TIME"
	tableTrouble  = "DIAGNOSTIC_EVENT"
	tableCapture  = "META_DATA_CAPTURE"
)

// tablesExport are the names that the table about the export has had.
var tablesExport = []string{"META_DATA_EXPORT", "EXPORT_META_DATA"}

// isExport says whether tables are those of Nsight Systems.
func isExport(s tables.Set) bool {
	for _, t := range append([]string{tableUsage, tablePools, tableCapture, tableStart, tableGPUs, "CUPTI_ACTIVITY_KIND_KERNEL"}, tablesExport...) {
		if s.Has(t) {
			// nvprof's databases have tables with some of these names as well, and beside them:
			return !s.Has("StringTable")
		}
	}
	return false
}

// ReadDatabase reads an export to SQLite. It returns trace.ErrUnrecognized itself if the tables are not those
// of Nsight Systems.
func ReadDatabase(s tables.Set) (*trace.Trace, error) { return readTables(s, "SQLite") }

// ReadFolder reads an export to a folder of Parquet files, likewise.
func ReadFolder(s tables.Set) (*trace.Trace, error) { return readTables(s, "Parquet folder") }

// readTables reads an export in tables; kind is what to call it, "SQLite" or "Parquet folder".
func readTables(s tables.Set, kind string) (*trace.Trace, error) {
	if !isExport(s) {
		return nil, trace.ErrUnrecognized
	}
	s.Plan(tableUsage, tablePools, tableRanges, tableCalls, tableChains, tableStrings, tableTrouble)
	r := &reader{set: s, rec: cupti.New()}
	r.joins = s.Has(tableCalls) && (s.Has(tableChains) || s.Has(tableRanges) || !s.Has(tableStrings))
	for _, step := range []func() error{r.about, r.start, r.gpus, r.pools, r.usage, r.ranges, r.calls, r.trouble} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	t := r.rec.Finish()
	t.Source = trace.Source{Format: Format + " (" + kind + ")", Producer: r.producer(), Clock: r.clock}
	r.n.tell(t)
	return t, nil
}

// reader reads an export in tables.
type reader struct {
	set tables.Set
	rec *cupti.Recording

	version, schema string
	normalized      bool // times are UTC already
	joins           bool // the calls behind allocations are of use
	clock           trace.Clock

	n found
}

// about reads the few entries of the metadata that say how to read the rest. All others stay unread.
func (r *reader) about() error {
	each := func(row tables.Row) error {
		switch row.Text(0) {
		case "EXPORT_PRODUCT_VERSION":
			r.version = versionOf(row.Text(1))
		case "EXPORT_SCHEMA_VERSION":
			r.schema = versionOf(row.Text(1))
		case "EXPORT_PARAM_TIME_NORMALIZE":
			r.normalized = row.Text(1) == "true"
		}
		return nil
	}
	for _, t := range tablesExport {
		if err := r.set.Scan(t, []string{"name", "value"}, each); err != nil {
			return err
		}
	}
	return r.set.Scan(tableCapture, []string{"name", "value"}, func(row tables.Row) error {
		if strings.HasSuffix(row.Text(0), ":COLLECT_GPU_MEMORY_USAGE") && row.Text(1) == "true" {
			r.n.recorded = true
		}
		return nil
	})
}

// versionOf is a text if it is a version, and nothing if it is anything else.
func versionOf(s string) string {
	if len(s) > 24 || strings.Trim(s, "0123456789.") != "" {
		return ""
	}
	return strings.TrimSuffix(s, ".0")
}

func (r *reader) producer() string {
	var parts []string
	if r.version != "" {
		parts = append(parts, "Nsight Systems "+r.version)
	}
	if r.schema != "" {
		parts = append(parts, "schema "+r.schema)
	}
	return strings.Join(parts, ", ")
}

// start finds what times count from.
func (r *reader) start() error {
	if r.normalized {
		return nil
	}
	r.clock = trace.ClockRecording
	return r.set.Scan(tableStart, []string{"utcEpochNs"}, func(row tables.Row) error {
		if ns := row.Int(0); ns > 0 && ns < math.MaxInt64/2 {
			r.rec.Epoch, r.clock = ns, trace.ClockEpoch
		}
		return nil
	})
}

func (r *reader) gpus() error {
	err := r.set.Scan(tableGPUs, []string{"id", "name", "totalMemory", "uuid", "cuDevice"}, func(row tables.Row) error {
		g := cupti.GPU{ID: row.Int(0), Name: row.Text(1), Memory: row.Int(2), UUID: row.Text(3), CUDevice: -1}
		if g.UUID != "" && !strings.HasPrefix(g.UUID, "GPU-") {
			g.UUID = "GPU-" + g.UUID
		}
		if !row.Null(4) {
			g.CUDevice = row.Int(4)
		}
		if len(r.rec.GPUs) < 1024 {
			r.rec.GPUs = append(r.rec.GPUs, g)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.set.Scan(tableMappings, []string{"gpuId", "cudaId", "pid"}, func(row tables.Row) error {
		if len(r.rec.Mappings) < 4096 {
			r.rec.Mappings = append(r.rec.Mappings, cupti.Mapping{GPU: row.Int(0), Ordinal: row.Int(1), PID: row.Int(2)})
		}
		return nil
	})
}

// trouble counts what the profiler reports of events that it lost. What it says in words stays unread.
func (r *reader) trouble() error {
	return r.set.Scan(tableTrouble, []string{"text"}, func(row tables.Row) error {
		if isTrouble(row.Bytes(0)) {
			r.n.troubles++
		}
		return nil
	})
}

func isTrouble(text []byte) bool {
	s := strings.ToLower(string(text))
	return strings.Contains(s, "dropped") || strings.Contains(s, "lost") || strings.Contains(s, "buffer full")
}

// found is what was found in an export, of whatever kind.
type found struct {
	events, calls, failed, troubles int
	recorded                        bool // the profiler was told to record memory
}

// tell says what the file has, what it lacks, and how to get that.
func (f *found) tell(t *trace.Trace) {
	t.Source.Counts = []trace.Count{{What: "memory events", N: f.events}, {What: "CUDA calls", N: f.calls}, {What: "markers", N: len(t.Markers)}}
	warn := func(code, message string, n int) {
		t.Warnings = append(t.Warnings, trace.Warning{Code: code, Message: message, Count: n, First: -1})
	}
	if f.troubles > 0 {
		warn("events-lost", "the profiler reports trouble with its events (dropped, or its buffers were full): some may be missing", f.troubles)
	}
	if f.events == 0 {
		message := "the profile has no memory events"
		if f.recorded {
			message += ", though it was told to record them: nothing was allocated while it ran"
		} else {
			message += fmt.Sprintf(": record them with %s, then %s", recordCommand, exportCommand)
		}
		if f.failed > 0 {
			message += fmt.Sprintf("; calls that were refused memory: %d", f.failed)
		}
		warn("no-memory-events", message, 1)
	}
	if f.events == 0 && !f.recorded {
		t.Source.Lacks = []trace.Lack{{What: "allocations, frees and what is in use", Instead: recordCommand + ", then " + exportCommand}}
	}
	t.Source.Lacks = append(t.Source.Lacks, []trace.Lack{
		{What: "the line of code behind an allocation", Instead: snapshotLines + "; other programs: nsys profile --trace=cuda,nvtx --cuda-memory-usage=true --cudabacktrace=all -o run COMMAND, then " + exportCommand},
		{What: "what an allocator did inside the memory that it took from the driver", Instead: snapshotLines},
	}...)
}

// snapshotLines are what makes a recording of PyTorch's allocator.
const snapshotLines = `torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot("run.pickle")`

// sortedCounts lists counts by what they count.
func sortedCounts(counts map[string]int) []trace.Count {
	var out []trace.Count
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, trace.Count{What: what, N: counts[what]})
	}
	return out
}
