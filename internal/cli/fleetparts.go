package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
)

func newFleetMap(e *env) *cobra.Command {
	var (
		out   output
		job   fleetJob
		shard string
		after []string
	)
	c := &cobra.Command{
		Use:   "map FILES...",
		Short: "One machine's share of a fleet: sums up some of the recordings",
		Long: `Sums up the recordings of one shard of many, into a small file that vramscope fleet merge takes.
Every shard is given all FILES and takes each N-th of them, so that N jobs need nothing but
their number: a Kubernetes job's JOB_COMPLETION_INDEX, a Slurm array's SLURM_ARRAY_TASK_ID.

    vramscope fleet map --shard I/N FILES... -o part-I.json       on each machine
    vramscope fleet merge part-*.json                             on one

With --after, a shard does its part of what a merged summary leaves to be found out, which
is what settings that did well on some ranks come to on the others:

    vramscope fleet merge part-*.json --search --summary all.json on one
    vramscope fleet map --shard I/N --after all.json FILES... -o try-I.json
    vramscope fleet merge all.json try-*.json`,
		Args: someFiles,
		RunE: func(c *cobra.Command, args []string) error {
			i, n, err := parseShard(shard)
			if err != nil {
				return err
			}
			inputs, err := job.inputs(e, &out, args)
			if err != nil {
				return err
			}
			tasks := fleet.Tasks(inputs)
			if len(after) > 0 {
				before, err := readSummaries(after)
				if err != nil {
					return err
				}
				tasks = fleet.Next(before)
			}
			tasks = fleet.Share(tasks, i, n)
			pool, keep, err := job.pool(e, &out, inputs)
			if err != nil {
				return err
			}
			defer keep.close()
			s := &summaries.Summary{}
			if len(tasks) > 0 {
				bars := newBars(e.stderr, out.quiet)
				pool.Progress = bars.next(fleet.Doing(tasks))
				s, err = pool.Run(tasks, inputs, job.options(e))
				bars.clear()
				if err != nil {
					return outputError{err}
				}
			}
			if err := out.write(e.stdout, job.named(e, s).Write); err != nil {
				return err
			}
			return keep.done()
		},
	}
	f := c.Flags()
	out.verb = c
	out.format = "json"
	f.StringVarP(&out.file, "output", "o", "", "write to this `file`, whole or not at all")
	f.BoolVarP(&out.quiet, "quiet", "q", false, "no progress")
	f.StringVar(&shard, "shard", "0/1", "which of how many: `I/N`, the first is 0/N")
	f.StringArrayVar(&after, "after", nil, "do what is left to do after this merged `summary` (repeatable)")
	job.flags(c)
	return c
}

// parseShard reads I/N.
func parseShard(s string) (i, n int, err error) {
	of, total, ok := strings.Cut(s, "/")
	if ok {
		i, err = strconv.Atoi(of)
		if err == nil {
			n, err = strconv.Atoi(total)
		}
	}
	switch {
	case !ok || err != nil:
		return 0, 0, usageError{fmt.Errorf("--shard %s: write it as I/N, 0/8 for the first of eight", s)}
	case n < 1 || i < 0 || i >= n:
		return 0, 0, usageError{fmt.Errorf("--shard %s: shards are numbered from 0, the last of %d is %d/%d", s, n, n-1, n)}
	}
	return i, n, nil
}

func newFleetMerge(e *env) *cobra.Command {
	var (
		out          output
		job          fleetJob
		also         fleetFiles
		tune, search bool
	)
	c := &cobra.Command{
		Use:   "merge SUMMARIES...",
		Short: "What many machines found, as one result",
		Long: `Merges what vramscope fleet map wrote and says what vramscope fleet would. The order does not
matter, nor does it if a part comes twice. With --tune settings are searched on the ranks that
matter, and verified on all: their recordings must be readable from here under the names that
they were summed up under. --search looks at the ranks that matter only, and leaves it to
vramscope fleet map --after to verify what was found on all.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("which summaries? give the files that vramscope fleet map wrote")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args...); err != nil {
				return err
			}
			if err := also.check(nil); err != nil {
				return err
			}
			s, err := readSummaries(args)
			if err != nil {
				return err
			}
			for _, d := range s.Devices {
				job.add(d.File)
			}
			for _, x := range s.Failed {
				job.add(x.File)
			}
			keep := &keeper{}
			if tune || search {
				var pool fleet.Pool
				pool, keep, err = job.pool(e, &out, job.all)
				if err != nil {
					return err
				}
				defer keep.close()
				bars := newBars(e.stderr, out.quiet)
				s, err = pool.Tune(s, job.all, job.options(e), tune, bars.next)
				bars.clear()
				if err != nil {
					return outputError{err}
				}
			}
			return job.finish(e, &out, &also, s, keep)
		},
	}
	out.flags(c)
	job.flags(c)
	also.flags(c)
	c.Flags().BoolVar(&tune, "tune", false, "search one setting for all ranks and verify it on each, which reads all recordings again")
	c.Flags().BoolVar(&search, "search", false, "search one setting on the ranks that matter, which reads those again")
	return c
}

// add takes a file that was summed up elsewhere.
func (j *fleetJob) add(file string) {
	if n := len(j.all); n > 0 && j.all[n-1].File == file {
		return
	}
	in := fleet.Input{File: file}
	if st, err := os.Stat(fleet.OnDisk(file)); err == nil {
		in.Size, in.Stamp = st.Size(), st.ModTime().UnixNano()
	}
	j.all = append(j.all, in)
}

// readSummaries reads and merges what shards wrote.
func readSummaries(files []string) (*summaries.Summary, error) {
	list := make([]*summaries.Summary, len(files))
	for i, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, &inputError{file, fmt.Errorf("cannot be opened: %w", reason(err))}
		}
		list[i], err = summaries.Read(f)
		f.Close()
		if err != nil {
			return nil, &inputError{file, err}
		}
	}
	return summaries.Merge(list...), nil
}
