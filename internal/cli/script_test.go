package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vramscope/vramscope/internal/cli"
	"github.com/vramscope/vramscope/internal/recordtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"vramscope": func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScripts runs what people type. In each script's folder lie oom.pickle (68 events that end in an
// out-of-memory error under 1 GiB) and graph.pickle.zst (a CUDA graph); $UNUSUAL is the folder of the
// handmade snapshots, $GRADS a program in training that keeps gradients.
//
// fails CODE ARGS... runs the program, which must exit with that code, write nothing to standard output and
// exactly one line to standard error.
func TestScripts(t *testing.T) {
	oom := unpacked(t, "golden/oom.pickle.zst")
	packed, err := os.ReadFile(filepath.Join(recordtest.Testdata(), "golden", "graph.pickle.zst"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("UNUSUAL", filepath.Join(filepath.Dir(recordtest.Testdata()), "report", "testdata", "unusual"))
			e.Setenv("GRADS", filepath.Join(recordtest.Testdata(), "torch", "gpt_leak_grads.c0.pickle.zst"))
			if err := os.WriteFile(filepath.Join(e.WorkDir, "graph.pickle.zst"), packed, 0o644); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "oom.pickle"), oom, 0o644)
		},
		Condition: func(c string) (bool, error) { // there is only one that testscript does not know
			return c == "root" && os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"fails": fails,
			"pipe":  pipe,
		},
	})
}

func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordtest.Testdata(), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if data, err = z.DecodeAll(data, nil); err != nil {
		t.Fatal(err)
	}
	return data
}

// fails is a command of scripts: fails CODE ARGS...
func fails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fails CODE ARGS...")
	}
	code, err := 0, ts.Exec("vramscope", args[1:]...)
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("it wrote %q", out)
	}
	errors := ts.ReadFile("stderr")
	if strings.Count(errors, "\n") != 1 || !strings.HasPrefix(errors, "vramscope: ") || !strings.HasSuffix(errors, "\n") || len(errors) > 600 {
		ts.Fatalf("the error is not one line: %q", errors)
	}
}

// pipe is a command of scripts: pipe ARGS... runs the program with a reader of its output that goes
// away after the first line.
func pipe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: pipe ARGS...")
	}
	ts.Check(ts.Exec("sh", append([]string{"-c", `vramscope "$@" | { read -r line; echo "$line"; }`, "sh"}, args...)...))
}

// Whatever is in a file, a verb ends with a result or a one-line error: cut anywhere, with any bit flipped,
// with bytes from elsewhere.
func TestDamagedFiles(t *testing.T) {
	whole := unpacked(t, "golden/oom.pickle.zst")
	verbs := [][]string{{"info"}, {"analyze"}, {"report", "--format", "html"}, {"verify"}, {"replay"}, {"oom"}, {"diff", filepath.Join(recordtest.Testdata(), "golden", "oom.pickle.zst")}, {"check", "--max-peak-reserved", "1GiB"}}
	file := filepath.Join(t.TempDir(), "x.pickle")
	run := func(what string, data []byte, verb []string) {
		t.Helper()
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code := cli.Main(append(verb[:len(verb):len(verb)], file), strings.NewReader(""), &stdout, &stderr)
		switch {
		case code == 3 && strings.Count(stderr.String(), "\n") == 1 && strings.HasPrefix(stderr.String(), "vramscope: ") && strings.Contains(stderr.String(), file+": ") && stderr.Len() < 600 && stdout.Len() == 0:
		case (code == 0 || code == 1) && stderr.Len() == 0:
		case code == 2 && verb[0] == "oom" && strings.Contains(stderr.String(), "no log but a recording"):
		default:
			t.Fatalf("%s, %s: exit code %d, %d bytes of output, error %q", verb, what, code, stdout.Len(), stderr.String())
		}
	}
	for i, verb := range verbs {
		for n := 0; n < len(whole); n += 100 {
			run(fmt.Sprintf("cut at %d", n), whole[:n], verb)
		}
		for n := i; n < len(whole); n += 61 {
			data := bytes.Clone(whole)
			data[n] ^= 1 << (n % 8)
			run(fmt.Sprintf("byte %d flipped", n), data, verb)
		}
		for n := i; n < len(whole); n += 307 {
			data := bytes.Clone(whole)
			copy(data[n:], whole[len(whole)/2:])
			run(fmt.Sprintf("its middle at %d", n), data, verb)
		}
	}
}

// A pickle can ask for anything to be run. None of it is, whatever the verb.
func TestHostilePickles(t *testing.T) {
	proof := filepath.Join(t.TempDir(), "proof")
	for name, data := range map[string]string{
		"global":       "\x80\x02cos\nsystem\nX" + le4(len(proof)+6) + "touch " + proof + "\x85R.",
		"stack global": "\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x8c" + string(rune(len(proof)+6)) + "touch " + proof + "\x94\x85\x94R\x94.",
		"inst":         "(S'touch " + proof + "'\nios\nsystem\n.",
		"object":       "(cos\nsystem\nS'touch " + proof + "'\no.",
		"persistent":   "\x80\x02X\x01\x00\x00\x00xQ.",
		"extension":    "\x80\x02\x82\x01.",
		"long string":  "\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f",
		"long bytes":   "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
		"deep":         "\x80\x02" + strings.Repeat("]", 1_000_000) + strings.Repeat("a", 999_999) + ".",
		"in itself":    "\x80\x02]q\x00h\x00a.",
		"zip":          "PK\x03\x04 and so on",
		"no stop":      "\x80\x02]",
		"stop at once": "\x80\x02.",
		"long integer": "\x80\x02\x8b\xff\xff\xff\x7f",
	} {
		file := filepath.Join(t.TempDir(), "x.pickle")
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"info", "analyze", "verify", "replay", "fit", "tune"} {
			var stdout, stderr bytes.Buffer
			code := cli.Main([]string{verb, file}, strings.NewReader(""), &stdout, &stderr)
			if code != 3 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || stderr.Len() > 600 {
				t.Errorf("%s, %s: exit code %d, output %q, error %q", verb, name, code, stdout.String(), stderr.String())
			}
		}
	}
	if _, err := os.Stat(proof); err == nil {
		t.Fatal("a pickle ran something")
	}
}

func le4(n int) string { return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }
