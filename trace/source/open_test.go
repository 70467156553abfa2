package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/trace"
)

func gz(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zst(t testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(data, nil)
}

func plain(t testing.TB, name string) []byte {
	data, err := os.ReadFile(unzst(t, "testdata/"+name+".pickle.zst", filepath.Join(t.TempDir(), "raw")))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, data []byte) string {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPacked(t *testing.T) {
	raw := plain(t, "graph")
	for name, data := range map[string][]byte{
		"raw": raw, "gz": gz(t, raw), "zst": zst(t, raw), "gz in zst": zst(t, gz(t, raw)), "zst in gz": gz(t, zst(t, raw)),
		"two gzip members": append(gz(t, raw[:1000]), gz(t, raw[1000:])...), "two zstd frames": append(zst(t, raw[:1000]), zst(t, raw[1000:])...),
	} {
		var last, total int64
		tr, err := Open(write(t, data), Options{Progress: func(n, of int64) { last, total = n, of }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tr.Source.Bytes != int64(len(raw)) || len(tr.Devices) != 1 || tr.Devices[0].Events.Len() != 38 {
			t.Errorf("%s: %+v", name, tr.Source)
		}
		if last != int64(len(data)) || total != last {
			t.Errorf("%s: progress ended at %d of %d, the file has %d bytes", name, last, total, len(data))
		}
		in, err := Open("-", Options{Stdin: bytes.NewReader(data)})
		if err != nil || in.Devices[0].Events.Len() != 38 {
			t.Errorf("%s from standard input: %v", name, err)
		}
	}
}

// Every bad file ends in one clear line, says which kind of bad it is, and takes little memory.
func TestBadFiles(t *testing.T) {
	raw := plain(t, "skip")
	packed := zst(t, raw)
	damaged := bytes.Clone(packed)
	damaged[len(damaged)/2] ^= 0x10
	checksum := gz(t, raw)
	checksum[len(checksum)-6] ^= 1
	huge := binary.LittleEndian.AppendUint32([]byte("\x80\x04}X"), 0xffffffff)
	for _, c := range []struct {
		name string
		data []byte
		is   error
		want string
	}{
		{"empty", nil, trace.ErrCorrupt, "is empty"},
		{"empty zst", zst(t, nil), trace.ErrCorrupt, "is empty"},
		{"text", []byte("epoch 1 loss 0.5\nepoch 2 loss 0.4\n"), trace.ErrUnrecognized, "is a text"},
		{"UTF-16", []byte("\xff\xfeh\x00i\x00"), trace.ErrUnrecognized, "begins with the bytes ff fe 68 00"},
		{"JSON", []byte(`{"a": 1}`), trace.ErrUnrecognized, "is a text"},
		{"program", []byte("\x7fELF\x02\x01\x01\x00\x00\x00"), trace.ErrUnrecognized, "begins with the bytes 7f 45 4c 46"},
		{"checkpoint", []byte("PK\x03\x04\x00\x00"), trace.ErrUnrecognized, "zip archive"},
		{"packed text", gz(t, []byte("hello\n")), trace.ErrUnrecognized, "is a text"},
		{"cut pickle", raw[:len(raw)/3], trace.ErrCorrupt, "the pickle ends here, in the middle"},
		{"cut pickle, packed", zst(t, raw[:len(raw)/3]), trace.ErrCorrupt, "the pickle ends here, in the middle"},
		{"cut zst", packed[:len(packed)/2], trace.ErrCorrupt, "the zstd data ends here, in the middle"},
		{"cut zst header", packed[:5], trace.ErrCorrupt, "the zstd data ends here"},
		{"cut gz", gz(t, raw)[:1000], trace.ErrCorrupt, "the gzip data ends here, in the middle"},
		{"cut gz header", gz(t, raw)[:5], trace.ErrCorrupt, "the gzip data ends here"},
		{"cut gz trailer", gz(t, raw)[:len(gz(t, raw))-3], trace.ErrCorrupt, "the gzip data ends here"},
		{"damaged zst", damaged, trace.ErrCorrupt, ""},
		{"gz with a wrong checksum", checksum, trace.ErrCorrupt, "the gzip data is damaged"},
		{"os.system", []byte("\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94."), trace.ErrCorrupt, "STACK_GLOBAL"},
		{"os.system, protocol 0", []byte("(dp0\nS'segments'\np1\ncposix\nsystem\np2\n(S'true'\ntRs."), trace.ErrCorrupt, `GLOBAL would import "posix.system"`},
		{"string of 4 GiB", huge, trace.ErrCorrupt, "in the middle"},
		{"number file", []byte("\x80\x04]K\x01a."), trace.ErrUnrecognized, "neither segments nor traces"},
		{"bomb", zst(t, append([]byte("\x80\x04"), bytes.Repeat([]byte("N0"), 100<<20)...)), trace.ErrCorrupt, "unpacks to more than 1000 times"},
		{"deep", append([]byte("\x80\x04"), bytes.Repeat([]byte("]"), 1<<20)...), trace.ErrCorrupt, "values on the stack"},
		{"deep marks", append([]byte("\x80\x04"), bytes.Repeat([]byte("("), 1<<20)...), trace.ErrCorrupt, "deep"},
	} {
		path := write(t, c.data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(path, Options{})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
			continue
		}
		if msg := err.Error(); strings.ContainsAny(msg, "\n\r") || strings.Contains(msg, path) || len(msg) > 300 {
			t.Errorf("%s: not one short line without the name: %q", c.name, msg)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(32<<20+20*len(c.data)) {
			t.Errorf("%s: %d bytes of input took %d bytes of memory", c.name, len(c.data), took)
		}
		t.Logf("%-26s %v", c.name, err)
	}
}

func TestNotFiles(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "none"), Options{}); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "none") {
		t.Errorf("missing file: %v", err)
	}
	if _, err := Open(t.TempDir(), Options{}); !errors.Is(err, trace.ErrUnrecognized) || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("folder: %v", err)
	}
}

// Cut after every hundredth, packed or not.
func TestCutAfterEveryHundredth(t *testing.T) {
	for _, f := range []string{"graph", "skip", "ring", "midrun.start"} {
		raw := plain(t, f)
		for name, whole := range map[string][]byte{"raw": raw, "zst": zst(t, raw), "gz": gz(t, raw)} {
			for i := 1; i < 100; i++ {
				n := len(whole) * i / 100
				_, err := Read(bytes.NewReader(whole[:n]), int64(n), Options{})
				if !errors.Is(err, trace.ErrCorrupt) || !strings.Contains(err.Error(), "in the middle") || strings.Contains(err.Error(), "\n") {
					t.Fatalf("%s %s cut to %d of %d bytes: %v", f, name, n, len(whole), err)
				}
			}
		}
	}
}
