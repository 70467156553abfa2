package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vramscope/vramscope/internal/cli"
	"github.com/vramscope/vramscope/internal/fleettest"
	"github.com/vramscope/vramscope/internal/recordtest"
)

// TestFleetKilled ends a run in the middle, as hard as can be, and starts it again: it goes on where it was, and comes
// to the same bytes.
func TestFleetKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	program, err := exec.LookPath("vramscope") // that of the scripts
	if err != nil {
		t.Skip("the program is not on PATH")
	}
	dir := t.TempDir()
	if _, err := fleettest.Make(filepath.Join(dir, "job"), filepath.Join(recordtest.Testdata(), "torch", "dynamic_batch.c0.pickle.zst"),
		fleettest.Job{Ranks: 120, Seed: 3, Far: 5, Leak: 6, OOM: 7, Broken: 30}); err != nil {
		t.Fatal(err)
	}
	start := func(name string) *exec.Cmd {
		cmd := exec.Command(program, "fleet", "--workers", "1", "--json", "--journal", filepath.Join(dir, name+".journal"), "-o", filepath.Join(dir, name+".json"), filepath.Join(dir, "job"))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	if err := start("whole").Wait(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, "whole.json"))
	if err != nil {
		t.Fatal(err)
	}
	records := func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "killed.journal"))
		return bytes.Count(data, []byte("\n"))
	}
	// Once while recordings are read for the first time, once while settings are verified.
	for _, at := range []int{60, 180} {
		cmd := start("killed")
		for begin := time.Now(); records() < at; time.Sleep(time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("after a minute there are %d records", records())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		if _, err := os.Stat(filepath.Join(dir, "killed.json")); err == nil {
			t.Skip("the machine is so fast that it was done before")
		}
	}
	before := records()
	if err := start("killed").Wait(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "killed.json"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("it comes to other bytes, %v", err)
	}
	// What was known was not found out again: the records of both runs are as many as those of one.
	data, _ := os.ReadFile(filepath.Join(dir, "whole.journal"))
	if n := bytes.Count(data, []byte("\n")); records() > n+2 || before < 180 {
		t.Errorf("%d records of a run that was ended twice, %d of one that was not", records(), n)
	}
}

// TestFleetDDP holds the two ranks of a real job against what PyTorch counted.
func TestFleetDDP(t *testing.T) {
	var files []string
	var most [2][2]int64
	for rank := range 2 {
		file := filepath.Join(recordtest.Testdata(), "fleet", fmt.Sprintf("ddp_rank%d.pickle.zst", rank))
		data, err := os.ReadFile(strings.TrimSuffix(file, ".pickle.zst") + ".truth.json")
		if err != nil {
			t.Fatal(err)
		}
		var counted struct {
			Allocated int64 `json:"allocated_bytes.all.peak"`
			Reserved  int64 `json:"reserved_bytes.all.peak"`
		}
		if err := json.Unmarshal(data, &counted); err != nil || counted.Allocated == 0 || counted.Reserved == 0 {
			t.Fatalf("%+v, %v", counted, err)
		}
		files = append(files, file)
		most[rank] = [2]int64{counted.Allocated, counted.Reserved}
	}
	var stdout, stderr bytes.Buffer
	if code := cli.Main(append([]string{"fleet", "--no-tune", "--json", "--journal", "off"}, files...), strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatal(stderr.String())
	}
	for i, name := range []string{"peak_allocated", "peak_reserved"} {
		worst := 0
		if most[1][i] > most[0][i] {
			worst = 1
		}
		want := fmt.Sprintf(`"%s": {
      "file": "%s",
      "rank": %d,
      "device": 0,
      "bytes": %d,
      "median_bytes": %d,
      "over_next_bytes": %d
    }`, name, files[worst], worst, most[worst][i], (most[0][i]+most[1][i])/2, most[worst][i]-most[1-worst][i])
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%s is not said:\n%s", want, stdout.String()[:min(4000, stdout.Len())])
		}
	}
}
