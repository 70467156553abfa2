package oom

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/trace/oomlog"
)

// corpusFolder is where the large corpus lies, "" if it is not here.
func corpusFolder(t *testing.T, name string) string {
	t.Helper()
	folders := []string{os.Getenv("VRAMSCOPE_CORPUS"), filepath.FromSlash("../../../shared/data")}
	for _, f := range folders {
		if f == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(f, name)); err == nil {
			return filepath.Join(f, name)
		}
	}
	t.Skip("no corpus: set VRAMSCOPE_CORPUS to its folder")
	return ""
}

// expectation is a line of expected.jsonl. Amounts that a message does not give are missing.
type expectation struct {
	ID          string
	Verdict     string
	Format      string
	Note        string
	Device      *int
	Tried       *int64
	Capacity    *int64
	Allocated   *int64
	Reserved    *int64
	Unallocated *int64
	Free        *int64
	Process     *int64 `json:"process_in_use"`
	Limit       *int64
}

// TestCorpus reads messages as programs print them and scores verdicts and amounts.
func TestCorpus(t *testing.T) {
	folder := corpusFolder(t, "oom")
	file, err := os.Open(filepath.Join(folder, "expected.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases, verdicts, amounts, right := 0, 0, 0, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e expectation
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		cases++
		log := scanFile(t, filepath.Join(folder, e.ID+".txt"))
		got, m := "not-oom", oomlog.Message{Device: -1}
		if len(log.Messages) > 0 {
			m = log.Messages[0]
			got = string(Judge(&m).Verdict)
		}
		if got == e.Verdict {
			verdicts++
		} else {
			t.Logf("%s (%s): verdict %s, want %s: %s", e.ID, e.Format, got, e.Verdict, e.Note)
		}
		if len(log.Messages) > 1 {
			t.Errorf("%s: %d messages for one", e.ID, len(log.Messages))
		}
		if e.Verdict == "not-oom" {
			continue
		}
		for _, a := range []struct {
			name string
			got  oomlog.Size
			want *int64
		}{
			{"requested", m.Requested, e.Tried}, {"capacity", m.Capacity, e.Capacity}, {"allocated", m.Allocated, e.Allocated}, {"reserved", m.Reserved, e.Reserved},
			{"unallocated", m.Unallocated, e.Unallocated}, {"free", m.Free, e.Free}, {"process", m.Process, e.Process}, {"limit", m.Limit, e.Limit},
		} {
			amounts++
			switch {
			case a.want == nil && a.got.Known:
				t.Errorf("%s: %s %d, not in the text", e.ID, a.name, a.got.Bytes)
			case a.want != nil && (!a.got.Known || *a.want < a.got.Low || *a.want > a.got.High):
				t.Logf("%s (%s): %s %+v, want %d: %s", e.ID, e.Format, a.name, a.got, *a.want, e.Note)
			default:
				right++
			}
		}
	}
	t.Logf("verdicts %d of %d, amounts %d of %d", verdicts, cases, right, amounts)
	if cases == 0 || verdicts*20 < cases*19 {
		t.Errorf("verdicts: %d of %d, fewer than nineteen of twenty", verdicts, cases)
	}
	if right*100 < amounts*99 {
		t.Errorf("amounts: %d of %d", right, amounts)
	}
}

// TestCorpusRecorded reads the messages of recorded runs: each ran under a limit that it prints.
func TestCorpusRecorded(t *testing.T) {
	folder := corpusFolder(t, "torch")
	files, err := filepath.Glob(filepath.Join(folder, "*.oom.txt"))
	if err != nil || len(files) == 0 {
		t.Skip("no recorded messages", err)
	}
	for _, f := range files {
		log := scanFile(t, f)
		if len(log.Messages) != 1 {
			t.Errorf("%s: %d messages, want the one before its summary", filepath.Base(f), len(log.Messages))
			continue
		}
		m := log.Messages[0]
		if j := Judge(&m); j.Verdict != Limit || !m.Limit.Known || !m.Process.Known {
			t.Errorf("%s: %s, %+v", filepath.Base(f), j.Verdict, m)
		}
	}
}

func scanFile(t *testing.T, path string) oomlog.Log {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log, err := oomlog.Scan(f)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
