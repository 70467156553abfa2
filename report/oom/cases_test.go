package oom

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// TestCases reads the messages under testdata/cases and compares what is found with what was worked out by
// hand. A case is two sections of a file: NAME.log, and NAME.want with a line for each thing expected of
// the first message. A size that is not wanted must not be found; "messages N" is 1 if not said.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	count := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(archive.Files); i += 2 {
			log, want := archive.Files[i], archive.Files[i+1]
			name := strings.TrimSuffix(log.Name, ".log")
			if name+".want" != want.Name {
				t.Fatalf("%s: %s is followed by %s", file, log.Name, want.Name)
			}
			count++
			t.Run(filepath.Base(file)+"/"+name, func(t *testing.T) {
				checkCase(t, unescape(log.Data), string(want.Data))
			})
		}
	}
	if count < 40 {
		t.Errorf("only %d cases", count)
	}
}

// unescape writes escape sequences for what an archive cannot hold.
func unescape(text []byte) []byte {
	for _, r := range [][2]string{{"⟨ESC⟩", "\x1b"}, {"⟨CR⟩", "\r"}, {"⟨TAB⟩", "\t"}, {"⟨NBSP⟩", "\u00a0"}} {
		text = bytes.ReplaceAll(text, []byte(r[0]), []byte(r[1]))
	}
	return text
}

func checkCase(t *testing.T, text []byte, want string) {
	log, err := oomlog.Scan(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	wanted := map[string]string{"messages": "1"}
	for line := range strings.Lines(want) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			wanted[key] = value
		}
	}
	if got := strconv.Itoa(len(log.Messages)); got != wanted["messages"] {
		for _, m := range log.Messages {
			t.Logf("found: line %d %s %s %q", m.Line, m.Format, Judge(&m).Verdict, m.Text)
		}
		t.Fatalf("%s messages, want %s", got, wanted["messages"])
	}
	if len(log.Messages) == 0 {
		return
	}
	m := log.Messages[0]
	j := Judge(&m)
	got := map[string]string{
		"messages": wanted["messages"], "verdict": string(j.Verdict), "framework": m.Framework, "format": m.Format,
		"device": strconv.Itoa(m.Device), "line": strconv.Itoa(m.Line), "repeated": strconv.Itoa(m.Repeated), "ranks": strings.Trim(fmt.Sprint(m.Ranks), "[]"),
		"self": strconv.Itoa(j.SelfPID), "others": strconv.Itoa(len(m.Others)), "backend": m.Backend,
	}
	sizes := map[string]oomlog.Size{
		"requested": m.Requested, "capacity": m.Capacity, "allocated": m.Allocated, "reserved": m.Reserved, "unallocated": m.Unallocated,
		"free": m.Free, "process": m.Process, "limit": m.Limit, "private": m.PrivatePools, "elsewhere": m.Elsewhere, "plan": m.Plan, "largest": m.LargestFree,
	}
	for key, value := range wanted {
		if _, ok := sizes[key]; !ok && got[key] != value {
			t.Errorf("%s %s, want %s", key, got[key], value)
		}
	}
	if _, ok := wanted["device"]; !ok && m.Device >= 0 {
		t.Errorf("device %d, none wanted", m.Device)
	}
	for key, s := range sizes {
		checkSize(t, key, s, wanted[key])
	}
	f := Explain(m)
	if f.Headline == "" || f.Why == "" || len(f.Do) == 0 {
		t.Errorf("nothing to say: %+v", f)
	}
}

// checkSize compares a size with one that was written as text, such as "1.79 GiB" or "135383040".
func checkSize(t *testing.T, key string, got oomlog.Size, want string) {
	t.Helper()
	if want == "" || want == "none" {
		if got.Known {
			t.Errorf("%s %d, none wanted", key, got.Bytes)
		}
		return
	}
	number, unit, _ := strings.Cut(want, " ")
	v, err := strconv.ParseFloat(number, 64)
	mult, ok := map[string]float64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
	if err != nil || !ok {
		t.Fatalf("%s: cannot read %q", key, want)
	}
	tolerance := 0.51
	if _, fraction, ok := strings.Cut(number, "."); ok && mult > 1 {
		tolerance += 0.01 * mult // sums of rounded numbers
		_ = fraction
	}
	have := float64(got.Bytes)
	if got.Wide > 0 {
		have = float64(got.Wide)
	}
	if d := have - v*mult; !got.Known || d > tolerance || d < -tolerance {
		t.Errorf("%s %d (known %v), want %s = %.0f", key, got.Bytes, got.Known, want, v*mult)
	}
	if got.Known && (got.Low > got.Bytes || got.High < got.Bytes) {
		t.Errorf("%s: %d is outside its own interval %d to %d", key, got.Bytes, got.Low, got.High)
	}
}
