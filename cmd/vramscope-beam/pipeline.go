package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// The pipeline:
//
//	globs ─ Match ─ Reshuffle ─ Map ─ Combine ─┬─ Next ─ Reshuffle ─ Map ─ Combine ─ … ─ Write
//	                                           └──────────────────────────────┘
//
// What travels between its parts is paths, tasks that name a path, and summaries of a few kilobytes; a recording is read
// where it is mapped. Map and Next are those of vramscope fleet, Combine is its Merge, which takes summaries in any
// order and grouping, and any number of times, so that a bundle that a runner does twice changes nothing. Next is
// asked as many times as there can be something left to do: to search settings on the ranks that matter, to
// compare them there, and to verify the best on all.

const rounds = 3

// Job is what to look at and where to write. Beam hands it to the workers as JSON.
type Job struct {
	Inputs  []string // globs
	Output  string
	Parquet string // empty for none
	Run     string
	Limit   int64
	Memory  int64
	Redact  bool
	NoTune  bool
}

func (j *Job) check() error {
	switch {
	case len(j.Inputs) == 0:
		return errors.New("which files? give globs, in quotes; see --help")
	case j.Output == "" && j.Parquet == "":
		return errors.New("where to? give --output FILE, or --parquet FOLDER, or both")
	case j.Run == "":
		return errors.New("--run: a run needs a name")
	}
	for _, path := range append([]string{j.Output, j.Parquet}, j.Inputs...) {
		if path == "" {
			continue
		}
		fs, err := filesystem.New(context.Background(), path)
		if err != nil {
			return fmt.Errorf("%s: no file system of this kind is known; there are local ones, gs:// and s3://", path)
		}
		fs.Close()
	}
	return nil
}

func (j *Job) options(ctx context.Context) fleet.Options {
	return fleet.Options{Limit: j.Limit, Memory: j.Memory, Redact: j.Redact, Open: func(file string) (*trace.Trace, error) { return open(ctx, file) }}
}

// open reads a recording from whatever file system its path is of. A local one may be read at any place, which is
// better for databases, and be a folder.
func open(ctx context.Context, file string) (*trace.Trace, error) {
	if !strings.Contains(file, "://") {
		return source.Open(file, source.Options{})
	}
	fs, err := filesystem.New(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", err)
	}
	defer fs.Close()
	r, err := fs.OpenRead(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("cannot be opened: %w", err)
	}
	defer r.Close()
	return source.Read(r, 0, source.Options{})
}

// registerTypes tells Beam of the functions that workers are to run. It is called before beam.Init.
func registerTypes() {
	register.DoFn3x1[context.Context, string, func(string), error](&matchFn{})
	register.DoFn2x1[context.Context, string, []byte](&mapFn{})
	register.DoFn2x1[[]byte, func([]byte), error](&nextFn{})
	register.DoFn3x1[context.Context, []byte, func(string, []byte), error](&resultFn{})
	register.DoFn3x1[context.Context, string, []byte, error](&writeFn{})
	register.DoFn2x1[context.Context, []byte, []byte](&taskFn{})
	register.Combiner3[Parts, []byte, []byte](&mergeFn{})
	register.Emitter1[string]()
	register.Emitter1[[]byte]()
	register.Emitter2[string, []byte]()
}

// run builds the pipeline and runs it.
func (j *Job) run(ctx context.Context, runner string) error {
	p, s := beam.NewPipelineWithRoot()
	j.build(s)
	_, err := beam.Run(ctx, runner, p)
	return err
}

func (j *Job) build(s beam.Scope) {
	globs := beam.CreateList(s.Scope("Globs"), j.Inputs)
	files := beam.Reshuffle(s, beam.ParDo(s.Scope("Match"), &matchFn{}, globs))
	// The summary of nothing is there for when nothing matches.
	nothing := beam.Create(s.Scope("Nothing"), encode(summaries.Merge()))
	first := beam.ParDo(s.Scope("Map"), &mapFn{*j}, files)
	all := combine(s, first, nothing)
	for i := range rounds {
		if j.NoTune {
			break
		}
		s := s.Scope(fmt.Sprintf("Round%d", i+1))
		tasks := beam.Reshuffle(s, beam.ParDo(s.Scope("Next"), &nextFn{}, all))
		more := beam.ParDo(s.Scope("Map"), &taskFn{*j}, tasks)
		all = combine(s, more, all)
	}
	results := beam.Reshuffle(s, beam.ParDo(s.Scope("Result"), &resultFn{*j}, all))
	beam.ParDo0(s.Scope("Write"), &writeFn{}, results)
}

func combine(s beam.Scope, parts, before beam.PCollection) beam.PCollection {
	return beam.Combine(s.Scope("Merge"), &mergeFn{}, beam.Flatten(s, parts, before))
}

// encode writes a summary for the way.
func encode(s *summaries.Summary) []byte {
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		return nil // unreachable: a buffer takes anything, and a summary has nothing that cannot be written
	}
	return b.Bytes()
}

func decode(data []byte) (*summaries.Summary, error) { return summaries.Read(bytes.NewReader(data)) }

// matchFn lists the files that a glob matches.
type matchFn struct{}

// ProcessElement lists the files of a glob.
func (*matchFn) ProcessElement(ctx context.Context, glob string, emit func(string)) error {
	fs, err := filesystem.New(ctx, glob)
	if err != nil {
		return err
	}
	defer fs.Close()
	files, err := fs.List(ctx, glob)
	if err != nil {
		return fmt.Errorf("%s: cannot be listed: %w", glob, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: nothing matches", glob)
	}
	for _, f := range files {
		emit(f)
	}
	return nil
}

// mapFn sums up a recording.
type mapFn struct{ Job Job }

// ProcessElement sums up the recording at a path.
func (f *mapFn) ProcessElement(ctx context.Context, file string) []byte {
	return encode(fleet.Map(fleet.Task{File: file, First: true}, f.Job.options(ctx)))
}

// nextFn lists what a summary leaves to be found out.
type nextFn struct{}

// ProcessElement lists tasks, as JSON.
func (*nextFn) ProcessElement(summary []byte, emit func([]byte)) error {
	s, err := decode(summary)
	if err != nil {
		return err
	}
	for _, t := range fleet.Next(s) {
		data, err := json.Marshal(t)
		if err != nil {
			return err
		}
		emit(data)
	}
	return nil
}

// taskFn does a task.
type taskFn struct{ Job Job }

// ProcessElement does a task that nextFn made.
func (f *taskFn) ProcessElement(ctx context.Context, task []byte) []byte {
	var t fleet.Task
	if err := json.Unmarshal(task, &t); err != nil {
		return encode(summaries.Merge()) // unreachable: nextFn wrote it
	}
	return encode(fleet.Map(t, f.Job.options(ctx)))
}

// mergeFn merges summaries. Those that come in are kept as they are until there are many, since each merge decodes and
// encodes all that it merges.
type mergeFn struct{}

// Parts is summaries that are not merged yet.
type Parts struct{ List [][]byte }

const mostParts = 256

// CreateAccumulator has nothing.
func (*mergeFn) CreateAccumulator() Parts { return Parts{} }

// AddInput adds a summary.
func (f *mergeFn) AddInput(p Parts, summary []byte) (Parts, error) {
	return f.MergeAccumulators(p, Parts{[][]byte{summary}})
}

// MergeAccumulators adds others.
func (*mergeFn) MergeAccumulators(a, b Parts) (Parts, error) {
	a.List = append(a.List, b.List...)
	if len(a.List) <= mostParts {
		return a, nil
	}
	one, err := a.merged()
	return Parts{[][]byte{one}}, err
}

// ExtractOutput is all of them merged.
func (*mergeFn) ExtractOutput(p Parts) ([]byte, error) { return p.merged() }

func (p Parts) merged() ([]byte, error) {
	list := make([]*summaries.Summary, len(p.List))
	for i, data := range p.List {
		var err error
		if list[i], err = decode(data); err != nil {
			return nil, err
		}
	}
	return encode(summaries.Merge(list...)), nil
}

// resultFn renders the result: files, and what is to be in them.
type resultFn struct{ Job Job }

// ProcessElement renders the result of a merged summary.
func (f *resultFn) ProcessElement(_ context.Context, summary []byte, emit func(string, []byte)) error {
	s, err := decode(summary)
	if err != nil {
		return err
	}
	if len(s.Devices) == 0 {
		if len(s.Failed) > 0 {
			return fmt.Errorf("%s: %s (and none of %d others could be read)", s.Failed[0].File, s.Failed[0].Error, len(s.Failed)-1)
		}
		return errors.New("no file matches")
	}
	if f.Job.Redact {
		s = s.Renamed(summaries.Nameless(s.Files()))
	}
	r := fleet.Of(s)
	if f.Job.Output != "" {
		var b bytes.Buffer
		if err := r.WriteJSON(&b); err != nil {
			return err
		}
		emit(f.Job.Output, b.Bytes())
	}
	if f.Job.Parquet == "" {
		return nil
	}
	home := strings.TrimRight(f.Job.Parquet, "/") + "/" + fleet.RunFolder(f.Job.Run) + "/"
	return r.Tables(func(path string, data []byte) error {
		emit(home+path, data)
		return nil
	})
}

// writeFn writes files.
type writeFn struct{}

// ProcessElement writes a file.
func (*writeFn) ProcessElement(ctx context.Context, path string, data []byte) error {
	fs, err := filesystem.New(ctx, path)
	if err != nil {
		return err
	}
	defer fs.Close()
	w, err := fs.OpenWrite(ctx, path)
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %w", path, err)
	}
	_, err = io.Copy(w, bytes.NewReader(data))
	if e := w.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %w", path, err)
	}
	return nil
}
