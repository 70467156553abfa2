package oomlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

const sample = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has a total capacity of 79.10 GiB of which 812.00 MiB is free. Including non-PyTorch memory, this process has 78.30 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 2.90 GiB is reserved by PyTorch but unallocated."

// TestScanPlaces puts a message at every kind of place relative to the blocks that a log is read in.
func TestScanPlaces(t *testing.T) {
	filler := strings.Repeat("step 12 loss 0.31 lr 1e-4 out of patience, no memory of it\n", 1+3*blockSize/59)
	for _, before := range []int{0, 1, blockSize - len(sample), blockSize - 30, blockSize - 1, blockSize, blockSize + 17, blockSize + lookahead, blockSize + beforeSize, 2*blockSize - 100} {
		head := filler[:before]
		text := head + "\n" + sample + "\n" + filler[:1000]
		log, err := Scan(iotest.HalfReader(strings.NewReader(text)))
		if err != nil || len(log.Messages) != 1 {
			t.Fatalf("after %d bytes: %d messages, error %v", before, len(log.Messages), err)
		}
		m := log.Messages[0]
		want := strings.Count(head, "\n") + 2
		if m.Line != want || m.Offset != int64(strings.Index(text, "CUDA out")) || m.Unallocated.Bytes != 3113851290 || len(m.Ranks) != 1 {
			t.Errorf("after %d bytes: line %d, want %d; %+v", before, m.Line, want, m)
		}
		if log.Lines != strings.Count(text, "\n")+1 || log.Bytes != int64(len(text)) {
			t.Errorf("after %d bytes: %d lines, %d bytes", before, log.Lines, log.Bytes)
		}
	}
}

// TestScanWrapped breaks a message anywhere, as terminals and chats do, and expects the same numbers.
func TestScanWrapped(t *testing.T) {
	want, err := Scan(strings.NewReader(sample))
	if err != nil || len(want.Messages) != 1 {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(40, 200).Draw(t, "width")
		joint := rapid.SampledFrom([]string{"\n", "\r\n", "\n> ", " \n  ", "\n# ", "<br>\n", "\\n", "\x1b[0m\n"}).Draw(t, "joint")
		var b strings.Builder
		for i := 0; i < len(sample); i += width {
			if i > 0 {
				b.WriteString(joint)
			}
			b.WriteString(sample[i:min(len(sample), i+width)])
		}
		log, err := Scan(strings.NewReader(b.String()))
		if err != nil || len(log.Messages) != 1 {
			t.Fatalf("%d messages in %q", len(log.Messages), b.String())
		}
		m, w := &log.Messages[0], &want.Messages[0]
		if fingerprint(m) != fingerprint(w) {
			t.Fatalf("%+v, want %+v from %q", m, w, b.String())
		}
	})
}

// TestScanUTF16 reads what PowerShell writes.
func TestScanUTF16(t *testing.T) {
	for _, big := range []bool{false, true} {
		var b bytes.Buffer
		for _, u := range utf16.Encode([]rune("\ufeffÄrger:\r\n" + sample + "\r\n")) {
			pair := []byte{byte(u), byte(u >> 8)}
			if big {
				pair[0], pair[1] = pair[1], pair[0]
			}
			b.Write(pair)
		}
		log, err := Scan(iotest.OneByteReader(&b))
		if err != nil || len(log.Messages) != 1 || log.Messages[0].Line != 2 || log.Messages[0].Device != 3 {
			t.Errorf("big-endian %v: %+v, error %v", big, log, err)
		}
	}
}

// TestScanPacked reads logs packed in one way and in two, and a cut one as far as it goes.
func TestScanPacked(t *testing.T) {
	text := []byte(strings.Repeat("nothing to see\n", 9000) + sample + "\n")
	var gz, zst bytes.Buffer
	z := gzip.NewWriter(&gz)
	if _, err := z.Write(text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Write(gz.Bytes()); err != nil || e.Close() != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string][]byte{"gzip": gz.Bytes(), "gzip in zstd": zst.Bytes()} {
		log, err := Scan(bytes.NewReader(packed))
		if err != nil || len(log.Messages) != 1 || log.Messages[0].Line != 9001 {
			t.Errorf("%s: %+v, error %v", name, log, err)
		}
	}
	if log, err := Scan(bytes.NewReader(gz.Bytes()[:gz.Len()-4])); err == nil || len(log.Messages) != 1 {
		t.Errorf("cut: %d messages, error %v", len(log.Messages), err)
	}
	if _, err := Scan(strings.NewReader("\x1f\x8bnot gzip")); err == nil {
		t.Error("damaged: no error")
	}
}

// TestScanErrors checks that what was read before a failure is kept, and that the error says where.
func TestScanErrors(t *testing.T) {
	broken := errors.New("the pipe broke")
	log, err := Scan(io.MultiReader(strings.NewReader(sample+"\n"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), fmt.Sprint(len(sample)+1)) {
		t.Errorf("error %v", err)
	}
	if len(log.Messages) != 1 {
		t.Errorf("%d messages", len(log.Messages))
	}
}

// TestScanMany checks that different messages beyond the most that are kept are counted.
func TestScanMany(t *testing.T) {
	var b strings.Builder
	const n = MaxMessages + 100
	for i := range n {
		fmt.Fprintf(&b, "CUDA out of memory. Tried to allocate %d.00 MiB (GPU 0; 7.79 GiB total capacity; 6.64 GiB already allocated; 21.00 MiB free; 150.86 MiB cached)\n", i+30)
	}
	log, err := Scan(strings.NewReader(b.String()))
	if err != nil || len(log.Messages) != MaxMessages || log.Omitted != 100 {
		t.Errorf("%d messages, %d omitted, error %v", len(log.Messages), log.Omitted, err)
	}
}

// FuzzScan feeds anything, and expects an end, and messages that keep their own promises.
func FuzzScan(f *testing.F) {
	f.Add([]byte(sample))
	cases, err := filepath.Glob("../../report/oom/testdata/cases/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		text, err := os.ReadFile(c)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range txtar.Parse(text).Files {
			if strings.HasSuffix(section.Name, ".log") {
				f.Add(section.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		log, err := Scan(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for i := range log.Messages {
			m := &log.Messages[i]
			if m.Line < 1 || m.Line > log.Lines || m.Repeated < 1 || m.Framework == "" || m.Format == "" || m.Device < -1 {
				t.Errorf("%+v of %d lines", m, log.Lines)
			}
			for _, s := range m.sizes() {
				if s.Known && (s.Low > s.Bytes || s.Bytes > s.High) {
					t.Errorf("%+v in %+v", s, m)
				}
			}
		}
	})
}
