package fleettest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace/source"
)

var (
	out   = flag.String("fleet", "", "make recordings of a whole job in this folder, to try things on")
	ranks = flag.Int("ranks", 64, "how many")
)

// TestMake makes recordings if it is asked to: go test ./internal/fleettest -run TestMake -fleet DIR -ranks 2000.
func TestMake(t *testing.T) {
	if *out == "" {
		t.Skip("-fleet says where to")
	}
	truth, err := Make(*out, filepath.Join(recordtest.Testdata(), "torch", "dynamic_batch.c0.pickle.zst"), Job{Ranks: *ranks, Seed: 1, Stages: 4, Far: *ranks * 2 / 5, Leak: *ranks / 3, OOM: *ranks / 7, Broken: 97})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d made, %d of them broken", len(truth.Files), len(truth.Broken))
}

// TestRead checks that what is made is read as it was meant.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	truth, err := Make(dir, filepath.Join(recordtest.Testdata(), "torch", "dynamic_batch.c0.pickle.zst"), Job{Ranks: 6, Far: 2, Leak: 3, OOM: 4, Broken: 6})
	if err != nil {
		t.Fatal(err)
	}
	if len(truth.Broken) != 1 {
		t.Errorf("%d are broken", len(truth.Broken))
	}
	for rank, file := range truth.Files {
		if file == "" {
			continue
		}
		tr, err := source.Open(file, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := report.Analyze(file, tr, report.Options{Limit: -1, Device: -1})
		d := &a.Devices[0]
		if d.PeakAllocated.Allocated != truth.PeakAllocated[rank] || d.PeakReserved.Reserved != truth.PeakReserved[rank] || !d.Follow.Score.Exact() {
			t.Errorf("rank %d: %d allocated, %d reserved, meant are %d and %d; %+v", rank, d.PeakAllocated.Allocated, d.PeakReserved.Reserved,
				truth.PeakAllocated[rank], truth.PeakReserved[rank], d.Follow.Score.First)
		}
		if (len(d.OOMs) > 0) != (rank == 4) || (len(d.Growth.Leaks) > 0) != (rank == 3) {
			t.Errorf("rank %d: %d out-of-memory events, %d leaks", rank, len(d.OOMs), len(d.Growth.Leaks))
		}
	}
	if _, err := os.Stat(truth.Broken[0]); err != nil {
		t.Error(err)
	}
}
