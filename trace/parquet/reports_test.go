package parquet_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/cli"
	"github.com/vramscope/vramscope/internal/recordtest"
)

// speed is the one figure of a report that is another each time.
var speed = regexp.MustCompile(`"operations_per_second": *[0-9.e+]+`)

// said is what a verb says of a file, without the file's name.
func said(t testing.TB, verb, path string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	code := cli.Main([]string{verb, "--json", path}, strings.NewReader(""), &out, &complaints)
	text := strings.ReplaceAll(out.String()+complaints.String(), path, "FILE")
	return speed.ReplaceAllString(text, "") + "\nexit " + string(rune('0'+code))
}

// What is said of a recording is said of its Parquet, to the byte.
func TestReports(t *testing.T) {
	testdata := recordtest.Testdata()
	for _, name := range []string{"gpt_oom.pickle.zst", "torch/gpt_leak_grads.c0.pickle.zst", "golden/midrun.pickle.zst", "golden/mempool.pickle.zst", "golden/oom_exp.pickle.zst",
		"golden/ring.pickle.zst", "nsys/kinds.sqlite.zst", "inputs/smi.csv", "inputs/jax.prof", "inputs/kineto.json", "inputs/tensorflow.log", "inputs/timeline.raw.json.gz"} {
		path := filepath.Join(testdata, name)
		dir := t.TempDir()
		file, set := filepath.Join(dir, "x.parquet"), filepath.Join(dir, "set")+string(filepath.Separator)
		for _, to := range []string{file, set} {
			var complaints bytes.Buffer
			if code := cli.Main([]string{"convert", path, "-o", to, "--quiet"}, strings.NewReader(""), &complaints, &complaints); code != 0 {
				t.Fatalf("%s: %s", name, &complaints)
			}
		}
		for _, verb := range []string{"info", "analyze", "verify", "replay"} {
			want := said(t, verb, path)
			for _, to := range []string{file, set} {
				if got := said(t, verb, to); got != want {
					t.Errorf("%s: %s of %s says\n%.2000s\nand of the recording\n%.2000s", name, verb, filepath.Base(to), got, want)
				}
			}
		}
		if name == "gpt_oom.pickle.zst" {
			checkPipe(t, file)
		}
	}
}

// checkPipe reads a file that comes out of a pipe.
func checkPipe(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	if code := cli.Main([]string{"info", "--json", "-"}, bytes.NewReader(data), &out, &complaints); code != 0 {
		t.Errorf("from a pipe: %s", &complaints)
	}
	var from bytes.Buffer
	cli.Main([]string{"info", "--json", file}, strings.NewReader(""), &from, &complaints)
	if got, want := strings.ReplaceAll(out.String(), `"file": "-"`, ""), strings.ReplaceAll(from.String(), `"file": "`+file+`"`, ""); got != want {
		t.Errorf("from a pipe:\n%s\nfrom a file:\n%s", got, want)
	}
}
