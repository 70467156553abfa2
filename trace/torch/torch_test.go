package torch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramscope/vramscope/trace"
)

var update = flag.Bool("update", false, "write what was got into the .txtar files; read it afterwards")

func read(data []byte) (*trace.Trace, error) {
	return Read(bufio.NewReaderSize(bytes.NewReader(data), 64<<10))
}

// The .txtar files hold small snapshots of every version as JSON, and what is to be read from them.
func TestVersions(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no test data")
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := read(a.Files[0].Data)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(tr)
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) < 2 {
				t.Fatal("nothing is wanted")
			}
			if diff := cmp.Diff(string(a.Files[1].Data), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type twin struct {
	name, dialect string
	data          []byte
}

// twins are the same snapshots as pickles; see testdata/gen.py.
func twins(t testing.TB) []twin {
	f, err := os.Open("testdata/twins.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []twin
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		w := strings.Fields(sc.Text())
		data, err := hex.DecodeString(w[2])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, twin{w[0], w[1], data})
	}
	if sc.Err() != nil || len(out) == 0 {
		t.Fatal(len(out), sc.Err())
	}
	return out
}

// A snapshot says the same in every protocol, in both dialects, and in a page.
func TestTwins(t *testing.T) {
	for _, w := range twins(t) {
		t.Run(w.name+"/"+w.dialect, func(t *testing.T) {
			a, err := txtar.ParseFile("testdata/" + w.name + ".txtar")
			if err != nil || len(a.Files) < 2 {
				t.Fatal(err, len(a.Files))
			}
			for how, data := range map[string][]byte{"pickle": w.data, "page": page(w.data)} {
				tr, err := read(data)
				if err != nil {
					t.Fatalf("%s: %v", how, err)
				}
				if diff := cmp.Diff(string(a.Files[1].Data), describe(tr)); diff != "" {
					t.Errorf("%s:\n%s", how, diff)
				}
				if how == "pickle" && tr.Source.Bytes != int64(len(data)) {
					t.Errorf("%d bytes of %d", tr.Source.Bytes, len(data))
				}
			}
		})
	}
}

// page makes a page as torch.cuda._memory_viz does.
func page(data []byte) []byte {
	for len(data)%3 != 0 {
		data = append(data[:len(data):len(data)], 0)
	}
	return []byte(`
<!DOCTYPE html>
<html>
<head>
</head>
<body>
<script type="module">
import {add_local_files} from "https://example.org/MemoryViz.js"
const local_files = [{"name": "local_snapshot.pickle", "base64": "` + base64.StdEncoding.EncodeToString(data) + `"}]
add_local_files(local_files, "Active Memory Timeline")
</script>
</body>
`)
}

// Whatever is missing at the end, the error is one line that says where the file ends.
func TestCut(t *testing.T) {
	for _, w := range twins(t) {
		for name, whole := range map[string][]byte{"pickle": w.data, "page": page(w.data)} {
			for i := 1; i < 100; i++ {
				n := len(whole) * i / 100
				if name == "page" && (n < 450 || n > len(whole)-120) {
					continue // before or behind the data
				}
				_, err := read(whole[:n])
				if !errors.Is(err, trace.ErrCorrupt) || !strings.Contains(err.Error(), "in the middle") || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s/%s, %s cut at %d of %d: %v", w.name, w.dialect, name, n, len(whole), err)
				}
				var e *trace.SyntaxError
				if errors.As(err, &e); name == "pickle" && e.Offset != int64(n) {
					t.Fatalf("%s/%s cut at %d: offset %d", w.name, w.dialect, n, e.Offset)
				}
			}
		}
	}
}

func TestCutJSON(t *testing.T) {
	a, err := txtar.ParseFile("testdata/v2_6.txtar")
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.TrimSpace(a.Files[0].Data)
	for n := 40; n < len(whole); n += 13 {
		_, err := read(whole[:n])
		if !errors.Is(err, trace.ErrCorrupt) || !strings.Contains(err.Error(), "in the middle") {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// A flipped bit may go unnoticed, but never does worse than a one-line error.
func TestFlippedBits(t *testing.T) {
	for _, w := range twins(t) {
		for i := len(w.dialect); i < len(w.data); i += 13 {
			data := bytes.Clone(w.data)
			data[i] ^= 1 << (i % 8)
			tr, err := read(data)
			if err == nil {
				err = valid(tr)
			} else if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Fatalf("%s/%s byte %d: %q", w.name, w.dialect, i, err)
			} else {
				err = nil
			}
			if err != nil {
				t.Fatalf("%s/%s byte %d: %v", w.name, w.dialect, i, err)
			}
		}
	}
}

// valid checks what every reader of a trace relies on.
func valid(t *trace.Trace) error {
	for i := range t.Devices {
		d := &t.Devices[i]
		if len(d.Pools) == 0 || d.Pools[0] != (trace.Pool{}) {
			return fmt.Errorf("pools %v", d.Pools)
		}
		for i := 1; i < len(d.Streams); i++ {
			if d.Streams[i-1] >= d.Streams[i] {
				return fmt.Errorf("streams %v", d.Streams)
			}
		}
		pool := func(p trace.PoolID) bool { return p == trace.PoolUnknown || int(p) < len(d.Pools) }
		seen := make([]bool, d.NumBlocks)
		for _, b := range d.Initial.Blocks {
			if int(b.ID) >= d.NumBlocks || seen[b.ID] || b.State == trace.BlockFree || int(b.Stream) >= len(d.Streams) || b.Size < 0 || b.Requested < 0 {
				return fmt.Errorf("initial block %+v", b)
			}
			seen[b.ID] = true
		}
		for i, e := range d.Events.All() {
			ok := int(e.Stream) < len(d.Streams) && pool(e.Pool) && int(e.Stack) < t.Stacks.Len() && e.Size >= 0
			switch e.Op {
			case trace.OpAlloc:
				ok = ok && int(e.Block) < d.NumBlocks && !seen[e.Block]
				if ok {
					seen[e.Block] = true
				}
			case trace.OpFree, trace.OpFreeRequested, trace.OpFreeCompleted:
				ok = ok && (e.Block == trace.NoBlock || int(e.Block) < d.NumBlocks && seen[e.Block])
			default:
				ok = ok && e.Block == trace.NoBlock
			}
			if !ok {
				return fmt.Errorf("event %d: %+v", i, *e)
			}
		}
		for _, st := range []trace.State{d.Initial, d.Final} {
			for i, s := range st.Segments {
				if int(s.Stream) >= len(d.Streams) || !pool(s.Pool) || int(s.Stack) >= t.Stacks.Len() || s.Size < 0 || i > 0 && st.Segments[i-1].Addr > s.Addr {
					return fmt.Errorf("segment %+v", s)
				}
			}
			for i, b := range st.Blocks {
				if b.ID != trace.NoBlock && int(b.ID) >= d.NumBlocks || int(b.Stack) >= t.Stacks.Len() || i > 0 && st.Blocks[i-1].Addr > b.Addr {
					return fmt.Errorf("block %+v", b)
				}
			}
		}
	}
	for _, w := range t.Warnings {
		if w.Count <= 0 || w.Code == "" || strings.Contains(w.Message, "\n") {
			return fmt.Errorf("warning %+v", w)
		}
	}
	return nil
}

func TestOtherFiles(t *testing.T) {
	for _, c := range []struct {
		name, data string
		is         error // the error itself, or what it wraps
		want       string
	}{
		{"text", "hello world\n", trace.ErrUnrecognized, ""},
		{"JSON of something else", `{"traceEvents": [{"name": "x"}]}`, trace.ErrUnrecognized, ""},
		{"JSON with a count of that name", `{"schema": "vramscope/fleet/v1", "traces": 2, "segments": null}`, trace.ErrUnrecognized, ""},
		{"JSON list of something else", `[{"name": "x"}]`, trace.ErrUnrecognized, ""},
		{"page of something else", "<html>nothing</html>", trace.ErrUnrecognized, ""},
		{"binary", "\x7fELF\x02\x01\x01", trace.ErrUnrecognized, ""},
		{"pickle of numbers", "\x80\x04](K\x01K\x02K\x03e.", trace.ErrUnrecognized, "neither segments nor traces"},
		{"pickle of a dictionary", "\x80\x04}X\x01\x00\x00\x00aK\x01s.", trace.ErrUnrecognized, "neither segments nor traces"},
		{"pickle of an event", "\x80\x04}X\x06\x00\x00\x00actionX\x05\x00\x00\x00allocs.", trace.ErrUnrecognized, "neither segments nor traces"},
		{"os.system", "\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R.", trace.ErrCorrupt, "STACK_GLOBAL"},
		{"checkpoint", "\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00.", trace.ErrCorrupt, `GLOBAL would import "torch._utils._rebuild_tensor_v2"`},
		{"page with a text", string(page([]byte("hello world!"))), trace.ErrUnrecognized, "neither segments nor traces"},
		{"page with broken base64", strings.Replace(string(page([]byte("\x80\x04](K\x01K\x02K\x03e."))), `"base64": "g`, `"base64": "!`, 1), trace.ErrCorrupt, "base64 data is damaged"},
		{"broken JSON", `{"segments": [{"address": 1, ]}`, trace.ErrCorrupt, "JSON is damaged"},
	} {
		_, err := read([]byte(c.data))
		if !errors.Is(err, c.is) || c.want == "" && err != c.is || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

func FuzzSnapshot(f *testing.F) {
	for _, w := range twins(f) {
		f.Add(w.data)
	}
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range files {
		if a, err := txtar.ParseFile(path); err == nil {
			f.Add(a.Files[0].Data)
			f.Add(page(a.Files[0].Data))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := read(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		if err := valid(tr); err != nil {
			t.Fatal(err)
		}
	})
}
