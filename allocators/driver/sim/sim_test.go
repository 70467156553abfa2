package sim_test

import (
	"errors"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/driver/sim"
)

const mib = 1 << 20

func TestCapacity(t *testing.T) {
	d := sim.New(sim.Config{Capacity: 100 * mib})
	a, err := d.Alloc(60 * mib)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(40*mib + 1); !errors.Is(err, allocators.ErrNoMemory) {
		t.Fatalf("one byte too many: %v", err)
	}
	if err := d.Map(0x302000000, 40*mib+1); !errors.Is(err, allocators.ErrNoMemory) {
		t.Fatalf("one byte too many mapped: %v", err)
	}
	if err := d.Map(0x302000000, 40*mib); err != nil {
		t.Fatal(err)
	}
	if free, total := d.Memory(); free != 0 || total != 100*mib {
		t.Fatalf("memory %d of %d free", free, total)
	}
	d.Free(a, 60*mib)
	d.Unmap(0x302000000, 40*mib)
	if free, _ := d.Memory(); free != 100*mib || d.Faults() != 0 {
		t.Fatalf("free %d, faults %d", free, d.Faults())
	}
}
