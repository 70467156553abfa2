package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/driver/sim"
)

// TestShared makes calls that a GPU was made to serve, most of them for less than 2 MiB: each must come to
// lie where it did, and the device must have as much in use after it.
func TestShared(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "recorded", "shared.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var d *sim.Driver
	calls := 0
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			d = nil
			continue
		}
		var sign string
		var want uint64
		var size, used int64
		if _, err := fmt.Sscanf(line, "%s %v %d %d", &sign, &want, &size, &used); err != nil {
			t.Fatalf("line %d: %q: %v", n+1, line, err)
		}
		if d == nil {
			first, _ := sim.New(sim.Config{}).Alloc(size)
			d = sim.New(sim.Config{Base: want - first + sim.DefaultBase})
		}
		if sign == "+" {
			if got, err := d.Alloc(size); err != nil || got != want {
				t.Fatalf("line %d: %d bytes at %#x, %v; really at %#x", n+1, size, got, err, want)
			}
		} else {
			d.Free(want, size)
		}
		if d.Used() != used {
			t.Fatalf("line %d: %d bytes in use, really %d", n+1, d.Used(), used)
		}
		calls++
	}
	t.Logf("%d calls", calls)
}
