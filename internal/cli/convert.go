package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/spf13/cobra"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/perfetto"
	"github.com/vramscope/vramscope/report/pprof"
	"github.com/vramscope/vramscope/report/rmmcsv"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/parquet"
)

// target is what a recording can be converted to. Its prepare says what cannot be converted, and returns what writes
// the rest; what that finds out goes into the result.
type target struct {
	name    string
	endings []string
	binary  bool // nothing for a terminal
	prepare func(*conversion) (func(io.Writer) error, error)
}

var targets = [...]target{
	{"parquet", []string{".parquet"}, true, (*conversion).parquet},
	{"pprof", []string{".pb.gz"}, true, (*conversion).pprof},
	{"perfetto", []string{".perfetto.json", ".perfetto.json.gz"}, false, (*conversion).perfetto},
	{"rmm", []string{".rmm.csv"}, false, (*conversion).rmm},
}

// conversion is one of a file.
type conversion struct {
	label  string
	trace  *trace.Trace
	device int // only this one, negative for all
	done   report.Converted
}

func newConvert(e *env) *cobra.Command {
	var (
		out    output
		as     string
		device int
		keys   []string
	)
	c := &cobra.Command{
		Use:   "convert FILE -o X",
		Short: "Write a recording as Parquet, a pprof profile, a Perfetto trace or an RMM log",
		Long: `Writes what a recording has in a form that other programs read. The ending of X says which:

  X.parquet         all of it, for DuckDB, Polars and Spark, and for vramscope again
  X/                the same in a folder of a data set, for many recordings as one table
  X.pb.gz           who held the memory, for go tool pprof
  X.perfetto.json   memory over time, for ui.perfetto.dev (also X.perfetto.json.gz)
  X.rmm.csv         the requests, for RMM's replay benchmark and others that read its logs`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			f, err := targetOf(out.file, as)
			if err != nil {
				return err
			}
			where, err := keysOf(keys)
			if err != nil {
				return err
			}
			set := isDataSet(out.file)
			switch {
			case len(where) > 0 && !set:
				return usageError{errors.New("--key is a part of the path in a data set; for one, give a folder: -o FOLDER/")}
			case set && f.name != "parquet":
				return usageError{fmt.Errorf("-o %s is a folder, and only a data set of Parquet files is one", out.file)}
			case device >= 0 && f.name == "parquet":
				return usageError{errors.New("--device: Parquet has all devices, and a column of their numbers")}
			case out.file == "-" && f.binary && isTerminal(e.stdout):
				return usageError{fmt.Errorf("%s is nothing for a terminal; redirect it, or give a file", f.name)}
			}
			t, err := e.open(args[0])
			if err != nil {
				return err
			}
			x := &conversion{label: e.label(args[0]), trace: t, device: device}
			x.done = report.Converted{File: x.label, Output: out.file, Form: f.name}
			if device >= 0 {
				if _, err := pickDevice(t, device); err != nil {
					return &inputError{args[0], err}
				}
			}
			if set {
				ctx, stop := untilSignal()
				err := parquet.WriteDataSet(ctx, out.file, t, where...)
				if end := stop(); end != nil {
					return end
				}
				if err != nil {
					return outputError{fmt.Errorf("%s: %w", out.file, reason(err))}
				}
				x.events()
				x.done.Open = fmt.Sprintf(`duckdb -c "SELECT record, count(*) FROM read_parquet('%s/**/*.parquet', hive_partitioning=true) GROUP BY record"`, strings.TrimSuffix(out.file, "/"))
			} else {
				write, err := f.prepare(x)
				if err != nil {
					return &inputError{args[0], err}
				}
				if strings.HasSuffix(out.file, ".json.gz") {
					write = packed(write)
				}
				if err := (&output{file: out.file}).write(e.stdout, write); err != nil {
					return err
				}
			}
			if out.file == "-" {
				return nil
			}
			out.file = ""
			return out.result(e.stdout, &x.done, 0)
		},
	}
	out.flags(c)
	f := c.Flags()
	f.Lookup("output").Usage = "write to this `file`, whole or not at all; - is standard output, FOLDER/ a data set"
	f.StringVar(&as, "as", "", "the form, whatever the ending is: parquet, pprof, perfetto or rmm")
	f.Var(newDevice(&device), "device", "only this device")
	f.StringArrayVar(&keys, "key", nil, "where in a data set, as `NAME=VALUE`, such as run=baseline (repeatable, from the outside inwards)")
	return c
}

// targetOf finds the form that a name ends in, or that is named.
func targetOf(file, as string) (*target, error) {
	var names, endings []string
	for i := range targets {
		f := &targets[i]
		names = append(names, f.name)
		endings = append(endings, f.endings...)
		if f.name == as {
			if file == "" {
				return nil, usageError{errors.New("where to? -o FILE, or -o - for standard output")}
			}
			return f, nil
		}
	}
	known := strings.Join(endings, ", ") + ", or a folder with / for a data set"
	switch {
	case as != "":
		return nil, usageError{fmt.Errorf("--as %s: there are %s", as, strings.Join(names, ", "))}
	case file == "":
		return nil, usageError{fmt.Errorf("where to? -o X, whose ending says what is written: %s", known)}
	case file == "-":
		return nil, usageError{fmt.Errorf("-o - has no ending: say --as %s", strings.Join(names, ", --as "))}
	case isDataSet(file):
		return &targets[0], nil
	}
	for i := range targets {
		if slices.ContainsFunc(targets[i].endings, func(ending string) bool { return strings.HasSuffix(strings.ToLower(file), ending) }) {
			return &targets[i], nil
		}
	}
	return nil, usageError{fmt.Errorf("-o %s: the ending says what is written: %s; or say --as %s", file, known, strings.Join(names, ", --as "))}
}

// isDataSet says whether a name is a folder's.
func isDataSet(file string) bool {
	if file == "" || file == "-" {
		return false
	}
	st, err := os.Stat(file)
	return os.IsPathSeparator(file[len(file)-1]) || err == nil && st.IsDir()
}

func keysOf(texts []string) ([]parquet.Key, error) {
	var keys []parquet.Key
	for _, s := range texts {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || value == "" {
			return nil, usageError{fmt.Errorf("--key %s: write NAME=VALUE, such as run=baseline", s)}
		}
		keys = append(keys, parquet.Key{Name: name, Value: value})
	}
	if err := parquet.CheckKeys(keys); err != nil {
		return nil, usageError{fmt.Errorf("--key: %w", err)}
	}
	return keys, nil
}

// packed packs what is written with gzip.
func packed(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		z := gzip.NewWriter(w)
		if err := write(z); err != nil {
			return err
		}
		return z.Close()
	}
}

func (x *conversion) sum(name string, value int64, bytes bool) {
	x.done.Sums = append(x.done.Sums, report.Amount{Name: name, Value: value, Bytes: bytes})
}

func (x *conversion) note(format string, args ...any) {
	x.done.Notes = append(x.done.Notes, fmt.Sprintf(format, args...))
}

// lacks is the error of a file that has not what a form shows; it says which recording would have it.
func (x *conversion) lacks(what error) error {
	return fmt.Errorf("has %w%s", what, report.KindAndInstead(&x.trace.Source))
}

func (x *conversion) analysis() *report.Analysis {
	return report.Analyze(x.label, x.trace, report.Options{Limit: -1, Device: x.device})
}

func (x *conversion) parquet() (func(io.Writer) error, error) {
	x.events()
	x.done.Open = fmt.Sprintf(`duckdb -c "SELECT record, count(*) FROM '%s' GROUP BY record"`, x.done.Output)
	return func(w io.Writer) error { return parquet.Write(w, x.trace) }, nil
}

// events counts what a recording has.
func (x *conversion) events() {
	n := 0
	for i := range x.trace.Devices {
		n += x.trace.Devices[i].Recorded()
	}
	x.sum("devices", int64(len(x.trace.Devices)), false)
	x.sum("events", int64(n), false)
}

func (x *conversion) pprof() (func(io.Writer) error, error) {
	p, err := pprof.Of(x.analysis())
	if err != nil {
		return nil, x.lacks(err)
	}
	for _, t := range p.Types {
		x.sum(t.Name, t.Bytes, true)
	}
	x.sum("samples", int64(p.Samples), false)
	x.done.Open = fmt.Sprintf("go tool pprof -top -sample_index=%s %s", p.Types[0].Name, x.done.Output)
	if x.device < 0 && len(x.trace.Devices) > 1 {
		x.note("%d devices, each at its own peak; one of them alone: --device N, or go tool pprof -tagfocus=device=N", len(x.trace.Devices))
	}
	return p.Write, nil
}

func (x *conversion) perfetto() (func(io.Writer) error, error) {
	a := x.analysis()
	if !perfetto.Drawable(a) {
		return nil, x.lacks(perfetto.ErrNoTimes)
	}
	x.events()
	x.done.Open = "https://ui.perfetto.dev, or chrome://tracing"
	return func(w io.Writer) error {
		left, err := perfetto.Write(w, a)
		for _, l := range left {
			x.note("%s left out, those that took least: %s of %s", l.What, report.Count(l.Out), report.Count(l.Of))
		}
		return err
	}, nil
}

func (x *conversion) rmm() (func(io.Writer) error, error) {
	var fit []*trace.Device
	var numbers []string
	for i := range x.trace.Devices {
		d := &x.trace.Devices[i]
		if rmmcsv.Has(d) && (x.device < 0 || d.Index == x.device) {
			fit = append(fit, d)
			numbers = append(numbers, fmt.Sprint(d.Index))
		}
	}
	switch {
	case len(fit) == 0:
		return nil, x.lacks(rmmcsv.ErrNoRequests)
	case len(fit) > 1:
		return nil, fmt.Errorf("has the devices %s, and a log of RMM is of one: choose with --device (in the name, as in x.dev1.rmm.csv, the number stays known)", strings.Join(numbers, ", "))
	}
	return func(w io.Writer) error {
		rows, err := rmmcsv.Write(w, fit[0])
		x.sum("allocations", int64(rows.Allocs+rows.Old), false)
		x.sum("frees", int64(rows.Frees), false)
		x.sum("failures", int64(rows.Failures), false)
		if rows.Old > 0 {
			x.note("blocks older than the recording, which are allocated in front of it: %s (%s)", report.Count(rows.Old), report.Bytes(rows.OldBytes))
		}
		if rows.MadeUp {
			x.note("the recording has no addresses: pointers are numbers that tell blocks apart")
		}
		if rows.Untold > 0 {
			x.note("failures left out, since the recording does not tell how much was asked for: %s", report.Count(rows.Untold))
		}
		return err
	}, nil
}
