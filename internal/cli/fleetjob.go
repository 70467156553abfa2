package cli

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/internal/journal"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// fleetJob is how the recordings of a job are looked at.
type fleetJob struct {
	limit, memory, inFlight sizeFlag
	workers                 int
	journal                 string
	all                     []fleet.Input // of all shards
}

func (j *fleetJob) flags(c *cobra.Command) {
	f := c.Flags()
	f.Var(&j.limit, "limit", "what each process could reserve at most (its memory fraction, in bytes)")
	f.Var(&j.memory, "memory", "what each device can give at most")
	f.IntVar(&j.workers, "workers", 0, "how many recordings are looked at at once (default: one a core)")
	f.Var(&j.inFlight, "in-flight", "about how much memory they may take together (default: a quarter of the machine's)")
	f.StringVar(&j.journal, "journal", "", "keep what is found in this `file`, for later runs too; off keeps nothing")
}

// inputs makes sense of the arguments. Also are the files and folders that are written beside the output.
func (j *fleetJob) inputs(e *env, out *output, args []string, also ...string) ([]fleet.Input, error) {
	if err := out.check(args...); err != nil {
		return nil, err
	}
	if j.workers < 0 {
		return nil, usageError{fmt.Errorf("--workers %d: give at least 1", j.workers)}
	}
	if j.journal != "off" {
		also = append(also, j.journal)
	}
	inputs, err := fleet.Expand(args, e.stdin, earlier(append(also, out.file))...)
	var arg *fleet.ArgError
	if errors.As(err, &arg) {
		return nil, &inputError{arg.Arg, arg.Err}
	}
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		name := args[0]
		if name == "-" {
			name = "standard input"
		}
		return nil, &inputError{name, errors.New("there is no file in it to look at")}
	}
	for _, in := range inputs {
		if sameFile(out.file, fleet.OnDisk(in.File)) {
			return nil, usageError{fmt.Errorf("-o %s: this is one of the files that are read; it would be lost", out.file)}
		}
	}
	j.all = inputs
	return inputs, nil
}

// earlier are those of the files and folders to be written that an earlier run may have left: what is a recording stays
// among the inputs, so that it is not lost.
func earlier(written []string) []string {
	return slices.DeleteFunc(written, func(file string) bool {
		st, err := os.Stat(file)
		if err != nil {
			return true
		}
		if !st.Mode().IsRegular() {
			return !st.IsDir()
		}
		_, err = source.Open(file, source.Options{})
		return !errors.Is(err, trace.ErrUnrecognized)
	})
}

func (j *fleetJob) options(e *env) fleet.Options {
	return fleet.Options{Limit: j.limit.or(-1), Memory: j.memory.or(0), Redact: e.redact, Build: version, Open: func(file string) (*trace.Trace, error) {
		return source.Open(fleet.OnDisk(file), source.Options{})
	}}
}

// named is the summary as it is shown: without folders and machines, if they would tell whose it is.
func (j *fleetJob) named(e *env, s *summaries.Summary) *summaries.Summary {
	if !e.redact {
		return s
	}
	files := make([]string, len(j.all))
	for i := range j.all {
		files[i] = j.all[i].File
	}
	return s.Renamed(summaries.Nameless(files))
}

// finish writes what was found where it is wanted. What is kept of the work is let go after that, and not before.
func (j *fleetJob) finish(e *env, out *output, also *fleetFiles, s *summaries.Summary, keep *keeper) error {
	if err := j.readAny(s); err != nil {
		return err
	}
	if err := also.write(e, out, j.named(e, s)); err != nil {
		return err
	}
	return keep.done()
}

// readAny is an error if nothing could be read at all.
func (j *fleetJob) readAny(s *summaries.Summary) error {
	if len(s.Devices) > 0 {
		return nil
	}
	if len(s.Failed) == 0 {
		return nil
	}
	for _, x := range s.Failed {
		if !x.Other {
			if n := len(s.Failed) - 1; n > 0 {
				return &inputError{x.File, fmt.Errorf("%s (and none of %d others could be read)", x.Error, n)}
			}
			return &inputError{x.File, errors.New(x.Error)}
		}
	}
	return &inputError{s.Failed[0].File, fmt.Errorf("is no recording, and there is no other among %d files", len(s.Failed))}
}

// pool sets up the work, and where its results are kept.
func (j *fleetJob) pool(e *env, out *output, inputs []fleet.Input) (fleet.Pool, *keeper, error) {
	p := fleet.Pool{Workers: j.workers, InFlight: j.inFlight.or(inMemory()), Kept: fleet.Nothing()}
	if p.Workers == 0 {
		p.Workers = workers()
	}
	k := &keeper{}
	path, quiet := j.journal, time.Duration(0)
	switch {
	case path == "off":
		return p, k, nil
	case path != "":
		for _, in := range inputs {
			if sameFile(path, fleet.OnDisk(in.File)) {
				return p, nil, usageError{fmt.Errorf("--journal %s: this is one of the files to look at", path)}
			}
		}
	default:
		quiet, k.temporary = time.Second, true
		path = j.cached(out, inputs)
		if path == "" {
			return p, k, nil
		}
	}
	kept, err := journal.Open(path, quiet)
	if err != nil {
		if k.temporary {
			return p, &keeper{}, nil // it would only have helped
		}
		return p, nil, &inputError{path, fmt.Errorf("the journal cannot be read: %w", reason(err))}
	}
	k.journal, k.path = kept, path
	p.Kept = fleet.Kept{Get: kept.Get, Put: k.put}
	return p, k, nil
}

// cached is where results are kept until a run is complete: beside its output, or else in the user's cache folder
// under a name made of the files. It is empty if there is no such folder.
func (j *fleetJob) cached(out *output, inputs []fleet.Input) string {
	if out.file != "" && out.file != "-" {
		if st, err := os.Stat(out.file); err == nil && !st.Mode().IsRegular() {
			return ""
		}
		return filepath.Join(filepath.Dir(out.file), "."+filepath.Base(out.file)+".journal")
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	h := sha256.New()
	for _, in := range inputs {
		abs, err := filepath.Abs(in.File)
		if err != nil {
			return ""
		}
		fmt.Fprintln(h, abs)
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	dir = filepath.Join(dir, "vramscope")
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("fleet-%x.journal", h.Sum(nil)[:8]))
}

// keeper keeps results until a run is complete, or for good.
type keeper struct {
	journal   *journal.Journal // nil to keep nothing
	path      string
	temporary bool
}

func (k *keeper) put(key string, value []byte) error {
	err := k.journal.Put(key, value)
	if err == nil || k.temporary {
		return nil // what only would have helped is no reason to end
	}
	return fmt.Errorf("%s: the journal cannot be written: %w", k.path, reason(err))
}

// close ends the writing, whatever came of the run.
func (k *keeper) close() {
	if k.journal != nil {
		_ = k.journal.Close() // done has looked at it, if anything depends on it
	}
}

// done is called when the result is where it belongs.
func (k *keeper) done() error {
	switch {
	case k.journal == nil:
		return nil
	case k.temporary:
		_ = k.journal.Remove() // it would only be in the way
		return nil
	}
	if err := k.journal.Close(); err != nil {
		return outputError{fmt.Errorf("%s: the journal cannot be written: %w", k.path, reason(err))}
	}
	return nil
}

// bars shows one bar after the other.
type bars struct {
	w     io.Writer
	quiet bool
	now   *bar
}

func newBars(w io.Writer, quiet bool) *bars { return &bars{w: w, quiet: quiet} }

func (b *bars) next(what string) func(done, total int) {
	b.clear()
	b.now = newBar(b.w, b.quiet, what)
	return b.now.show
}

func (b *bars) clear() {
	if b.now != nil {
		b.now.clear()
	}
}
