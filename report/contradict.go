package report

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// contradictions are the codes of warnings about events that must have been and are missing, or that cannot
// have been: a device with one of them is not recorded completely.
var contradictions = []string{
	"alloc-at-live-address", "free-without-alloc", "free-twice", "completed-without-request", "no-allocs", "no-free-completed", "no-free-requested",
	"not-in-final", "segment-alloc-at-live-address", "segment-free-twice", "segment-without-alloc", "segment-not-in-final",
	"segments-overlap", "alloc-outside-segments", "impossible-size", "time-runs-back", "ring-overflow",
}

func contradicts(d *trace.Device) bool {
	return slices.ContainsFunc(d.Warnings, func(w trace.Warning) bool { return slices.Contains(contradictions, w.Code) })
}

// loose says how far allocated bytes may be off where the recording begins in the middle of a run.
func (d *Device) loose() []string {
	if d.Follow.Loose == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the file does not tell to the byte what %s older than the recording took: each may be up to 1 MiB larger than is counted here",
		plural(d.Follow.Loose, "block"))}
}
