package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
)

func newFleet(e *env) *cobra.Command {
	var (
		out    output
		job    fleetJob
		also   fleetFiles
		noTune bool
	)
	c := &cobra.Command{
		Use:   "fleet FILES...",
		Short: "Many ranks or runs as one: worst rank, imbalance, common growth, one setting for all",
		Long: `Looks at the recordings of all ranks of a job, or of many runs, on all cores. FILES are files,
globs (quote them; ** stands for any folders), folders, or - for a list of these on standard
input. Ranks, machines and positions are told by the names: rank3, r3, node7, tp0_pp1_dp2.
A file that cannot be read is listed with its error and does not end the run.

What is found is kept beside the output, or in the user's cache folder, until the run is
complete: started again after it was ended, it does not read finished files again.
--journal FILE keeps it for good, so that later runs read only what is new.

To spread the work over many machines, see vramscope fleet map --help.`,
		Args: someFiles,
		RunE: func(c *cobra.Command, args []string) error {
			inputs, err := job.inputs(e, &out, args, also.paths()...)
			if err != nil {
				return err
			}
			if err := also.check(inputs); err != nil {
				return err
			}
			pool, keep, err := job.pool(e, &out, inputs)
			if err != nil {
				return err
			}
			defer keep.close()
			bars := newBars(e.stderr, out.quiet)
			s, err := pool.All(inputs, job.options(e), !noTune, bars.next)
			bars.clear()
			if err != nil {
				return outputError{err}
			}
			return job.finish(e, &out, &also, s, keep)
		},
	}
	out.flags(c)
	job.flags(c)
	also.flags(c)
	c.Flags().BoolVar(&noTune, "no-tune", false, "do not look for one setting for all, which reads the files once more")
	c.AddCommand(newFleetMap(e), newFleetMerge(e))
	return c
}

// fleetFiles are the forms of a result beside the one that goes to the output.
type fleetFiles struct {
	html, parquet, run, summary string
	rows                        int
}

func (f *fleetFiles) flags(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.html, "html", "", "write a page with a heat map of the ranks to this `file`")
	s.StringVar(&f.parquet, "parquet", "", "add tables for DuckDB, Spark or Trino to the data set in this `folder`")
	s.StringVar(&f.run, "run", "run", "what the run is called in the data set and on the page: a `name`")
	s.StringVar(&f.summary, "summary", "", "write the merged summary, for vramscope fleet map and merge, to this `file`")
	s.IntVar(&f.rows, "rows", 10, "how long tables and lists may be")
}

// paths are what is written.
func (f *fleetFiles) paths() []string {
	list := []string{f.html, f.summary}
	if f.parquet != "" {
		list = append(list, filepath.Join(f.parquet, fleet.RunFolder(f.run)))
	}
	return list
}

// check makes sense of the flags. None of what is written may be one of the files to look at.
func (f *fleetFiles) check(inputs []fleet.Input) error {
	for _, x := range []struct{ flag, file string }{{"--html", f.html}, {"--summary", f.summary}} {
		for _, in := range inputs {
			if err := unread(x.flag, x.file, fleet.OnDisk(in.File)); err != nil {
				return err
			}
		}
	}
	if f.rows < 1 {
		return usageError{fmt.Errorf("--rows %d: give at least 1", f.rows)}
	}
	if f.run == "" {
		return usageError{errors.New("--run: a run needs a name")}
	}
	return nil
}

// write puts the result everywhere it is wanted.
func (f *fleetFiles) write(e *env, out *output, s *summaries.Summary) error {
	r := fleet.Of(s)
	if f.html != "" {
		o := output{file: f.html}
		if err := o.write(e.stdout, fleet.Page{Fleet: r, Title: f.run}.Write); err != nil {
			return err
		}
	}
	if f.summary != "" {
		o := output{file: f.summary}
		if err := o.write(e.stdout, s.Write); err != nil {
			return err
		}
	}
	if f.parquet != "" {
		if err := r.WriteDataSet(f.parquet, f.run); err != nil {
			return outputError{fmt.Errorf("%s: cannot be written: %w", f.parquet, reason(err))}
		}
	}
	return out.result(e.stdout, r, f.rows)
}

// workers is how many recordings are looked at at once if nobody says.
func workers() int { return runtime.GOMAXPROCS(0) }

// inMemory is how many bytes of recordings are looked at at once if nobody says: a quarter of what the machine has.
func inMemory() int64 {
	const without = 8 << 30
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return without
	}
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil || kib <= 0 {
		return without
	}
	return kib << 10 / 4
}
