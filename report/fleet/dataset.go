package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/vramscope/vramscope/report"
	own "github.com/vramscope/vramscope/trace/parquet"
)

// The tables of a job, as a data set that is partitioned as Hive does it: those keys are columns to every engine.
//
//	run=baseline/rank=0/record=device/part-0.parquet
//
// The kinds of records are device, stack, oom, trial and failed. A rank that is not known is Hive's null. What is in
// the path is not in the files.

const nullRank = "__HIVE_DEFAULT_PARTITION__"

// records are the kinds of rows, and so the tables.
var records = []string{"device", "stack", "oom", "trial", "failed"}

type deviceRow struct {
	File          string  `parquet:"file,dict"`
	Device        int32   `parquet:"device"`
	Host          *string `parquet:"host,optional,dict"`
	LocalRank     *int32  `parquet:"local_rank,optional"`
	PP            *int32  `parquet:"pp,optional"`
	TP            *int32  `parquet:"tp,optional"`
	EP            *int32  `parquet:"ep,optional"`
	CP            *int32  `parquet:"cp,optional"`
	SP            *int32  `parquet:"sp,optional"`
	DP            *int32  `parquet:"dp,optional"`
	Name          *string `parquet:"name,optional,dict"`
	Format        string  `parquet:"format,dict"`
	Conf          *string `parquet:"conf,optional,dict"`
	Events        int64   `parquet:"events"`
	SpanUS        int64   `parquet:"span_us"`
	Complete      bool    `parquet:"complete"`
	Steps         *int64  `parquet:"steps,optional"`
	PerStep       *int64  `parquet:"growth_per_step_bytes,optional"`
	PeakAllocated *int64  `parquet:"peak_allocated_bytes,optional"`
	PeakReserved  *int64  `parquet:"peak_reserved_bytes,optional"`
	Unused        *int64  `parquet:"unused_at_peak_bytes,optional"`
	Stranded      *int64  `parquet:"stranded_at_peak_bytes,optional"`
	Cached        *int64  `parquet:"cached_at_peak_bytes,optional"`
	Rounding      *int64  `parquet:"rounding_at_peak_bytes,optional"`
	Pending       *int64  `parquet:"pending_at_peak_bytes,optional"`
	EndAllocated  *int64  `parquet:"end_allocated_bytes,optional"`
	EndReserved   *int64  `parquet:"end_reserved_bytes,optional"`
	Retries       int64   `parquet:"retries"`
	OOMs          int64   `parquet:"ooms"`
}

type stackRow struct {
	File       string   `parquet:"file,dict"`
	Device     int32    `parquet:"device"`
	What       string   `parquet:"what,dict"` // peak: held at the allocated peak; growth: piles up from step to step
	Stack      string   `parquet:"stack,dict"`
	Place      string   `parquet:"place,dict"`
	Frames     []string `parquet:"frames,list"`
	Bytes      int64    `parquet:"bytes"` // at the peak, or at the end
	Blocks     *int64   `parquet:"blocks,optional"`
	PerStep    *int64   `parquet:"per_step_bytes,optional"`
	Confidence *float64 `parquet:"confidence,optional"`
}

type oomRow struct {
	File      string  `parquet:"file,dict"`
	Device    int32   `parquet:"device"`
	Event     int64   `parquet:"event"`
	Requested int64   `parquet:"requested_bytes"`
	Allocated int64   `parquet:"allocated_bytes"`
	Reserved  int64   `parquet:"reserved_bytes"`
	Free      *int64  `parquet:"device_free_bytes,optional"`
	Verdict   *string `parquet:"verdict,optional,dict"`
	Why       *string `parquet:"why,optional"`
}

type trialRow struct {
	File      string `parquet:"file,dict"`
	Device    int32  `parquet:"device"`
	Conf      string `parquet:"conf,dict"`
	Present   bool   `parquet:"present"` // it is what the device ran under
	Completed bool   `parquet:"completed"`
	Peak      int64  `parquet:"peak_reserved_bytes"`
	Low       int64  `parquet:"low_bytes"`
	High      int64  `parquet:"high_bytes"`
	Calls     int64  `parquet:"device_calls"`
	Retries   int64  `parquet:"retries"`
}

type failedRow struct {
	File  string `parquet:"file"`
	Error string `parquet:"error"`
}

// WriteDataSet adds the job to the data set in a folder, which is made if it is not there. A job of that name that
// this tool wrote before is replaced as a whole.
func (f *Fleet) WriteDataSet(dir, run string) error {
	home := filepath.Join(dir, RunFolder(run))
	if err := onlyOurs(home); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	temp, err := own.MakeBeside(home)
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	err = f.Tables(func(path string, data []byte) error {
		at := filepath.Join(temp, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		return os.WriteFile(at, data, 0o666)
	})
	if err != nil {
		return err
	}
	old := temp + ".old"
	if err := os.Rename(home, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(temp, home); err != nil {
		_ = os.Rename(old, home) // as it was, if that can be
		return err
	}
	return os.RemoveAll(old)
}

// RunFolder is what the folder of a run is called in a data set.
func RunFolder(run string) string { return "run=" + own.EscapeKey(run) }

// onlyOurs is an error if a folder has something that this tool would not have put there.
func onlyOurs(home string) error {
	ranks, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range ranks {
		tables, err := os.ReadDir(filepath.Join(home, r.Name()))
		if err != nil || !strings.HasPrefix(r.Name(), "rank=") {
			return fmt.Errorf("%s: %w and has %s, which is not of a fleet: take another folder, or another --run", home, fs.ErrExist, r.Name())
		}
		for _, t := range tables {
			if kind, ok := strings.CutPrefix(t.Name(), "record="); !ok || !slices.Contains(records, kind) {
				return fmt.Errorf("%s: %w and has %s, which is not of a fleet: take another folder, or another --run", home, fs.ErrExist, filepath.Join(r.Name(), t.Name()))
			}
		}
	}
	return nil
}

// rankRows are the rows of one rank.
type rankRows struct {
	devices []deviceRow
	stacks  []stackRow
	ooms    []oomRow
	trials  []trialRow
	failed  []failedRow
}

// Tables makes the files of the data set, one after the other, and gives each with its path below the folder of the
// run, in slashes.
func (f *Fleet) Tables(write func(path string, data []byte) error) error {
	ranks := map[string]*rankRows{}
	var order []string
	of := func(rank int) *rankRows {
		key := nullRank
		if rank >= 0 {
			key = strconv.Itoa(rank)
		}
		if ranks[key] == nil {
			ranks[key] = &rankRows{}
			order = append(order, key)
		}
		return ranks[key]
	}
	for _, m := range f.Members {
		f.addRows(of(m.Rank), m)
	}
	for _, x := range f.Failed {
		r := of(-1)
		r.failed = append(r.failed, failedRow{x.File, x.Error})
	}
	for _, key := range order {
		r := ranks[key]
		for _, t := range []struct {
			record string
			rows   int
			data   func() ([]byte, error)
		}{
			{"device", len(r.devices), func() ([]byte, error) { return packed(r.devices) }},
			{"stack", len(r.stacks), func() ([]byte, error) { return packed(r.stacks) }},
			{"oom", len(r.ooms), func() ([]byte, error) { return packed(r.ooms) }},
			{"trial", len(r.trials), func() ([]byte, error) { return packed(r.trials) }},
			{"failed", len(r.failed), func() ([]byte, error) { return packed(r.failed) }},
		} {
			if t.rows == 0 {
				continue
			}
			data, err := t.data()
			if err == nil {
				err = write("rank="+key+"/record="+t.record+"/part-0.parquet", data)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Fleet) addRows(r *rankRows, m *Member) {
	x, device := m.Facts, int32(m.Index)
	axis := func(name string) *int32 {
		n, ok := m.On(name)
		if !ok {
			return nil
		}
		v := int32(n)
		return &v
	}
	row := deviceRow{File: m.File, Device: device, Host: known(m.Host), PP: axis("pp"), TP: axis("tp"), EP: axis("ep"), CP: axis("cp"), SP: axis("sp"), DP: axis("dp"),
		Name: known(x.Name), Format: x.Format, Events: int64(x.Events), SpanUS: x.Span, Complete: x.Complete,
		PeakAllocated: orNil(x.PeakAllocated, 0), PeakReserved: orNil(x.PeakReserved, 0), Unused: orNil(x.Unused, 0),
		EndAllocated: orNil(x.EndAllocated, 0), EndReserved: orNil(x.EndReserved, 0), Retries: x.Retries, OOMs: int64(len(x.OOMs))}
	if m.Local >= 0 {
		n := int32(m.Local)
		row.LocalRank = &n
	}
	if x.Format == snapshotFormat {
		row.Conf = &x.Conf
	}
	if x.Steps > 0 {
		n := int64(x.Steps)
		row.Steps = &n
	}
	if x.Growing {
		row.PerStep = &x.PerStep
	}
	if p := x.Parts; p != nil {
		row.Stranded, row.Cached, row.Rounding, row.Pending = &p.Stranded, &p.Cached, &p.Rounding, &p.Pending
	}
	r.devices = append(r.devices, row)
	for _, h := range x.Held {
		blocks := int64(h.Blocks)
		r.stacks = append(r.stacks, stackRow{File: m.File, Device: device, What: "peak", Stack: string(h.Stack), Place: f.place(h.Stack),
			Frames: report.StackLines(f.Stacks[h.Stack]), Bytes: h.Bytes, Blocks: &blocks})
	}
	for _, l := range x.Leaks {
		r.stacks = append(r.stacks, stackRow{File: m.File, Device: device, What: "growth", Stack: string(l.Stack), Place: f.place(l.Stack),
			Frames: report.StackLines(f.Stacks[l.Stack]), Bytes: l.AtEnd, PerStep: &l.PerStep, Confidence: &l.Confidence})
	}
	for _, o := range x.OOMs {
		r.ooms = append(r.ooms, oomRow{m.File, device, int64(o.Event), o.Requested, o.Allocated, o.Reserved, orNil(o.DeviceFree, 1), known(o.Verdict), known(o.Why)})
	}
	for _, t := range m.Trials {
		r.trials = append(r.trials, trialRow{m.File, device, t.Conf, t.Conf == x.Conf, t.Completed, t.Peak, t.Low, t.High, t.Calls, t.Retries})
	}
}

// packed is rows as a file.
func packed[T any](rows []T) ([]byte, error) {
	var b bytes.Buffer
	p := parquet.NewGenericWriter[T](&b, parquet.Compression(&zstd.Codec{}), parquet.CreatedBy("vramscope", "1.0.0", "fleet"), parquet.DataPageVersion(1))
	_, err := p.Write(rows)
	if e := p.Close(); err == nil {
		err = e
	}
	return b.Bytes(), err
}
