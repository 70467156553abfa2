package report

import (
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
)

// runJSON is a replay as every verb that replays gives it to programs.
type runJSON struct {
	Allocator     string        `json:"allocator"`
	Conf          string        `json:"conf"`
	Memory        *int64        `json:"memory_bytes"`
	Limit         *int64        `json:"limit_bytes"`
	Completed     bool          `json:"completed"`
	PeakAllocated int64         `json:"peak_allocated_bytes"`
	PeakReserved  int64         `json:"peak_reserved_bytes"`
	Range         [2]int64      `json:"peak_reserved_range_bytes"`
	Final         int64         `json:"final_reserved_bytes"`
	DeviceAllocs  int64         `json:"device_allocs"`
	DeviceFrees   int64         `json:"device_frees"`
	Retries       int64         `json:"retries"`
	OOMs          int64         `json:"ooms"`
	FirstOOM      *firstOOMJSON `json:"first_oom"`
	AtPeak        fragmentsJSON `json:"fragmentation_at_peak"`
	DeviceMS      float64       `json:"device_ms"` // what calls of the device take where it has nothing else to do, about
	PerSecond     float64       `json:"operations_per_second"`
	Findings      []string      `json:"findings"`
	Unedited      *int64        `json:"unedited_peak_reserved_bytes"` // null if nothing was edited
}

type firstOOMJSON struct {
	Event     int   `json:"event"`
	Requested int64 `json:"requested_bytes"`
	Allocated int64 `json:"allocated_bytes"`
	Reserved  int64 `json:"reserved_bytes"`
	Largest   int64 `json:"largest_free_bytes"`
}

type fragmentsJSON struct {
	Stranded int64 `json:"stranded_bytes"`
	Cached   int64 `json:"cached_bytes"`
	Rounding int64 `json:"rounding_bytes"`
	Pending  int64 `json:"pending_bytes"`
}

// newRunJSON describes a replay of an allocator under a setting; an event's number is that of what was replayed.
func newRunJSON(allocator, conf string, findings []config.Finding, room simulate.Room, p simulate.Prediction) runJSON {
	s := p.Stats
	j := runJSON{
		Allocator: allocator, Conf: conf, Memory: atLeast(room.Memory, 1), Limit: atLeast(room.Limit, 0),
		Completed: p.Completed, PeakAllocated: s.Allocated.Peak, PeakReserved: s.Reserved.Peak, Range: [2]int64{p.Low, p.High},
		Final: s.Reserved.Current, DeviceAllocs: s.DeviceAllocs, DeviceFrees: s.DeviceFrees, Retries: s.Retries, OOMs: s.OOMs,
		AtPeak:   fragmentsJSON{s.AtPeak.Stranded, s.AtPeak.Cached, s.AtPeak.Rounding, s.AtPeak.Pending},
		DeviceMS: milliseconds(p.DeviceTime), Findings: []string{},
	}
	if p.Elapsed > 0 {
		j.PerSecond = float64(p.Operations) / p.Elapsed.Seconds()
	}
	if o := p.FirstOOM; o != nil {
		j.FirstOOM = &firstOOMJSON{o.Event, o.Requested, o.Allocated, o.Reserved, o.LargestFree}
	}
	for _, f := range findings {
		j.Findings = append(j.Findings, f.Message)
	}
	return j
}

// milliseconds is a duration in thousandths of a second, to a microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
