package torch

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// settings takes the allocator's settings, and what the file says about the ring buffer.
func (b *builder) settings() {
	over, most := b.top.overflowed, b.top.maxEntries
	if v := b.top.settings; v.Kind() == kindSettings {
		s := b.folder.settings.at(int(v.Index()))
		b.trace.Settings = s.Settings
		if over.Kind() == pickle.KindNone {
			over = s.overflowed
		}
		if most.Kind() == pickle.KindNone {
			most = s.maxEntries
		}
	} else {
		b.trace.Settings.MaxSplitSize = -1
	}
	for i := range b.trace.Devices {
		d := &b.trace.Devices[i]
		if x, ok := b.perDevice(over, d.Index); ok && x != 0 {
			d.Overflow = true
		}
		if x, ok := b.perDevice(most, d.Index); ok && d.Overflow {
			d.Warnings = append(d.Warnings, trace.Warning{Code: "ring-overflow", Count: 1, First: 0,
				Message: fmt.Sprintf("the recording's ring buffer (%d entries) overflowed: the oldest events are lost", x)})
		} else if d.Overflow {
			d.Warnings = append(d.Warnings, trace.Warning{Code: "ring-overflow", Count: 1, First: 0,
				Message: "the recording's ring buffer overflowed: the oldest events are lost"})
		}
	}
}

// perDevice gives the value for a device of a setting that is one for all, a list or a dictionary.
func (b *builder) perDevice(v value, device int) (int64, bool) {
	switch v.Kind() {
	case kindPool: // a list of two integers
		return int64(b.pools.list[v.Index()][device&1]), device < 2
	case kindList:
		l := b.lists.at(int(v.Index()))
		for i := 0; i+1 < len(l); i += 2 {
			if l[i].Kind() == pickle.KindString && b.stringOf(l[i]) == fmt.Sprint(device) {
				return integer(l[i+1])
			}
		}
		if device < len(l) {
			return integer(l[device])
		}
		return 0, false
	}
	return integer(v)
}

// producer tells the oldest version of torch whose files have these keys.
func (b *builder) producer() string {
	k := b.top.keys
	since := func(v string) string { return "torch " + v + " or later" }
	switch {
	case k.has(keyHostSegments) || k.has(keyHostTraces):
		return since("2.13")
	case b.seen.has(keyPoolID) || b.seen.has(keyOverflowed):
		return since("2.12")
	case b.seen.has(keyUserMetadata):
		return since("2.10")
	case b.seen.has(keyStreamReuse):
		return since("2.9")
	case b.seen.has(keyCompileContext):
		return since("2.8")
	case k.has(keyExternalAnnotations):
		return since("2.5")
	case b.markers.len() > 0:
		return "torch 2.4"
	case k.has(keyAllocatorSettings):
		return since("2.3")
	case b.seen.has(keyTimeUs):
		return since("2.2")
	case b.seen.has(keySegmentPoolID) || b.seen.has(keyIsExpandable):
		return since("2.1")
	case b.top.keys == 0:
		return "torch 1.12 or 1.13"
	}
	return since("2.0")
}

// warnings tells what the file lacks or has that was not understood.
func (b *builder) warnings() {
	add := func(t tally, code, format string, args ...any) {
		if t.count > 0 {
			b.trace.Warnings = append(b.trace.Warnings, trace.Warning{
				Code: code, Message: fmt.Sprintf(format, args...), Count: t.count, First: t.first})
		}
	}
	for key, t := range b.missing {
		add(t, "missing-key", "records have no usable %q", names[key])
	}
	b.absent()
	var unknown []string
	for name := range b.actions {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		add(*b.actions[name], "unknown-action", "events with action %q are not known and were left out", name)
	}
	add(b.badTime, "bad-time", "times are not microseconds since 1970 and were left out")
	add(b.streams.beyond, "many-streams", "streams beyond the %dth are not told apart", maxStreams)
	add(b.manyTags, "many-metadata", "the user's metadata changes more than %d times: it is left out from there on", mostTags)
	add(b.manyPools, "many-pools", "pools beyond the %dth are not told apart", trace.PoolUnknown)
	add(b.again, "repeated-records", "lists of records appear more than once; the repetitions were left out")
	add(b.gaps, "untiled-segment", "blocks do not tile their segment")
}

// absent tells which parts of a snapshot are not there at all.
func (b *builder) absent() {
	events, timed := 0, false
	for i := range b.trace.Devices {
		d := &b.trace.Devices[i]
		events += d.Events.Len()
		timed = timed || d.Events.Len() > 0 && d.Events.At(0).Time != 0
	}
	for _, w := range []struct {
		absent        bool
		code, message string
	}{
		{events == 0, "no-events", "the file has no events, only the state when it was written: the history was not recorded"},
		{events > 0 && !timed, "no-times", "events have no times (torch before 2.2)"},
		{b.top.segments.Kind() == pickle.KindNone, "no-segments", "the file has no segments: what was there at the end, and before the first event, is not known"},
		{!b.trace.Settings.Known, "no-settings", "the file has no allocator settings (torch before 2.3): the defaults are assumed"},
	} {
		if w.absent {
			b.trace.Warnings = append(b.trace.Warnings, trace.Warning{Code: w.code, Message: w.message, Count: 1, First: -1})
		}
	}
}
