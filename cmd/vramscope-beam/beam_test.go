package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"

	"github.com/vramscope/vramscope/internal/cli"
	"github.com/vramscope/vramscope/internal/fleettest"
)

// The test binary is also the program, as a process of its own.
const asProgram = "VRAMSCOPE_BEAM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	flag.Parse()
	registerTypes()
	beam.Init()
	os.Exit(m.Run())
}

// recordings makes a job of ranks, some of them broken.
func recordings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	recording := filepath.Join("..", "..", "testdata", "torch", "dynamic_batch.c0.pickle.zst")
	if _, err := fleettest.Make(dir, recording, fleettest.Job{Ranks: 24, Seed: 5, Stages: 2, Far: 9, Leak: 3, OOM: 14, Broken: 8}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// byFleet is what vramscope fleet says, and the tables that it writes.
func byFleet(t *testing.T, args ...string) (result, tables string) {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	var stdout, stderr bytes.Buffer
	args = append([]string{"fleet", "--json", "--journal", "off", "--parquet", set, "--run", "a run"}, args...)
	if code := cli.Main(args, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	return stdout.String(), set
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// sameTables compares two data sets, file by file.
func sameTables(t *testing.T, a, b string) {
	t.Helper()
	list := func(dir string) map[string]string {
		out := map[string]string{}
		files, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*"))
		for _, f := range files {
			rel, _ := filepath.Rel(dir, f)
			out[rel] = read(t, f)
		}
		return out
	}
	x, y := list(a), list(b)
	if len(x) != len(y) || len(x) < 24 {
		t.Errorf("%d tables and %d", len(x), len(y))
	}
	for name := range x {
		if x[name] != y[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// TestPrism runs in this process, and comes to the same bytes as vramscope fleet.
func TestPrism(t *testing.T) {
	dir := recordings(t)
	glob := filepath.Join(dir, "*", "*.zst")
	want, tables := byFleet(t, glob)
	if !strings.Contains(want, `"recommended": {`) || !strings.Contains(want, "metrics.py:17 remember") {
		t.Fatal("the job does not show what it is to show")
	}
	out := t.TempDir()
	// A file that two globs match is looked at twice and counts once.
	job := Job{Inputs: []string{glob, filepath.Join(dir, "node000", "*3_pp0.pickle.zst")}, Output: filepath.Join(out, "fleet.json"), Parquet: filepath.Join(out, "set"), Run: "a run", Limit: -1}
	if err := job.run(context.Background(), runners[0]); err != nil {
		t.Fatal(err)
	}
	if read(t, job.Output) != want {
		t.Error("the result is not what vramscope fleet says")
	}
	sameTables(t, tables, job.Parquet)

	want, _ = byFleet(t, "--redact", "--no-tune", "--memory", "8GiB", glob)
	job = Job{Inputs: []string{glob}, Output: filepath.Join(out, "redacted.json"), Run: "x", Limit: -1, Memory: 8 << 30, Redact: true, NoTune: true}
	if err := job.run(context.Background(), runners[0]); err != nil {
		t.Fatal(err)
	}
	if read(t, job.Output) != want {
		t.Error("the redacted result is not what vramscope fleet --redact says")
	}
}

// TestFileSystem reads from and writes to one that is not the machine's, as an object store is.
func TestFileSystem(t *testing.T) {
	dir := recordings(t)
	want, _ := byFleet(t, filepath.Join(dir, "node001", "*.zst"))
	files, err := filepath.Glob(filepath.Join(dir, "node001", "*.zst"))
	if err != nil {
		t.Fatal(err)
	}
	const bucket = "memfs://bucket"
	for _, f := range files {
		memfs.Write(bucket+f, []byte(read(t, f)))
	}
	job := Job{Inputs: []string{bucket + dir + "/node001/*.zst"}, Output: bucket + "/out/fleet.json", Parquet: bucket + "/out/set/", Run: "r", Limit: -1}
	if err := job.run(context.Background(), runners[0]); err != nil {
		t.Fatal(err)
	}
	fs, err := filesystem.New(context.Background(), job.Output)
	if err != nil {
		t.Fatal(err)
	}
	got, err := filesystem.Read(context.Background(), fs, job.Output)
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.ReplaceAll(string(got), bucket+dir, dir); text != want {
		t.Error("the result is not what vramscope fleet says of local files")
	}
	if list, err := fs.List(context.Background(), bucket+"/out/set/run=r/rank=8/record=device/*"); err != nil || len(list) != 1 {
		t.Errorf("tables: %v, %v", list, err)
	}
}

// program runs the program as a process of its own.
func program(args ...string) ([]byte, error) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd.CombinedOutput()
}

// TestTwoProcesses sends the pipeline to a Prism that stands alone, which has the work done by this program over loopback.
func TestTwoProcesses(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to build Prism with")
	}
	prism := filepath.Join(t.TempDir(), "prism")
	build := exec.Command(goTool, "build", "-o", prism, "github.com/apache/beam/sdks/v2/go/cmd/prism")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	endpoint := fmt.Sprintf("localhost:%d", freePort(t))
	server := exec.Command(prism, "--job_port="+endpoint[strings.IndexByte(endpoint, ':')+1:], "--serve_http=false", "--log_level=error")
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill() // it never ends by itself
		_ = server.Wait()
	}()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", endpoint); err == nil {
			c.Close()
			break
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("Prism does not listen: %s", log.String())
		}
	}
	dir := recordings(t)
	glob := filepath.Join(dir, "*", "*.zst")
	want, tables := byFleet(t, glob)
	out := filepath.Join(t.TempDir(), "fleet.json")
	set := filepath.Join(t.TempDir(), "set")
	text, err := program("--runner=universal", "--endpoint="+endpoint, "--environment_type=LOOPBACK", "--output", out, "--parquet", set, "--run", "a run", glob)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, log.String())
	}
	if read(t, out) != want {
		t.Error("the result is not what vramscope fleet says")
	}
	sameTables(t, tables, set)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestUsage runs command lines that make no sense, and one that finds nothing.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", 2, "which files?"},
		{"x.pickle", 2, "where to?"},
		{"--output o --limit much x.pickle", 2, "is not a size"},
		{"--output hdfs://a/b x.pickle", 2, "hdfs://a/b: no file system of this kind is known"},
		{"--output o --run= x.pickle", 2, "a run needs a name"},
		{"--output o --runner sparkle x.pickle", 2, "--runner sparkle: there are prism, universal, dataflow"},
		{"--output " + filepath.Join(t.TempDir(), "o") + " no/such/*.pickle", 3, "no/such/*.pickle: nothing matches"},
	} {
		out, err := program(strings.Fields(c.args)...)
		exit, ok := err.(*exec.ExitError)
		if !ok || exit.ExitCode() != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}
