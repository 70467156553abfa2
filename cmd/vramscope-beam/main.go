// Vramscope-beam is vramscope fleet on Apache Beam: the same functions, for jobs whose recordings are on more storage than
// one machine should read. It runs in this process unless told otherwise, and on any runner of Beam that takes
// portable pipelines. See docs/beam.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	// Where recordings may lie and results may go.
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/s3"

	// What runs it. Flink and Spark take the pipeline through the universal runner.
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/universal"

	"github.com/vramscope/vramscope/simulate"
)

// Exit codes, as those of vramscope.
const (
	exitUsage   = 2
	exitCorrupt = 3
)

// runners are those that the program has; the first runs in this process and needs nothing.
var runners = []string{"prism", "universal", "dataflow"}

func main() {
	job := Job{Run: "run"}
	var limit, memory, runner string
	flag.StringVar(&runner, "runner", runners[0], strings.Join(runners, ", ")+"; universal is any job server of Beam, at --endpoint")
	flag.StringVar(&job.Output, "output", "", "write the result as JSON to this file, local or gs://… or s3://…")
	flag.StringVar(&job.Parquet, "parquet", "", "write tables to the data set in this folder")
	flag.StringVar(&job.Run, "run", job.Run, "what the run is called in the data set")
	flag.StringVar(&limit, "limit", "", "what each process could reserve at most, such as 12GiB")
	flag.StringVar(&memory, "memory", "", "what each device can give at most")
	flag.BoolVar(&job.Redact, "redact", false, "leave out of results what tells whose a recording is")
	flag.BoolVar(&job.NoTune, "no_tune", false, "do not look for one setting for all")
	flag.Usage = usage
	flag.Parse()
	registerTypes()
	beam.Init() // a worker does its work in here, and never comes back

	job.Inputs = flag.Args()
	var err error
	if job.Limit, err = size(limit, -1); err == nil {
		job.Memory, err = size(memory, 0)
	}
	if err == nil {
		err = job.check()
	}
	if err == nil && !slices.Contains(runners, runner) {
		err = fmt.Errorf("--runner %s: there are %s", runner, strings.Join(runners, ", "))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "vramscope-beam: %v\n", err)
		os.Exit(exitUsage)
	}
	if err := job.run(context.Background(), runner); err != nil {
		fmt.Fprintf(os.Stderr, "vramscope-beam: %s\n", strings.Join(strings.Fields(err.Error()), " "))
		os.Exit(exitCorrupt)
	}
}

// size reads a size, which need not be given.
func size(text string, without int64) (int64, error) {
	if text == "" {
		return without, nil
	}
	return simulate.ParseSize(text)
}

func usage() {
	out := flag.CommandLine.Output()
	fmt.Fprint(out, `usage: vramscope-beam --output FILE [--parquet FOLDER] [flags] GLOBS...

Looks at the recordings that GLOBS match, local or gs://… or s3://…, on Apache Beam, and writes what
vramscope fleet --json would. It runs in this process (Prism) unless --runner and --endpoint say
otherwise:

    vramscope-beam --output fleet.json 'snapshots/*.pickle'
    vramscope-beam --runner universal --endpoint HOST:PORT --output gs://bucket/fleet.json 'gs://bucket/run7/*.pickle.zst'

`)
	flag.PrintDefaults()
}
