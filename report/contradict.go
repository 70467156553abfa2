package report

import (
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
