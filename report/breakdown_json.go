package report

import (
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// The JSON of what was allocated at an instant, and of how memory lay then.

type shareJSON struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

// sharesJSON are the sides of a breakdown, to be embedded. Each that is not null adds up to what was allocated.
type sharesJSON struct {
	ByCategory []shareJSON `json:"by_category"`
	ByFile     []shareJSON `json:"by_file"`
	ByModule   []shareJSON `json:"by_module"`
	ByPhase    []shareJSON `json:"by_phase"`
	ByStep     []shareJSON `json:"by_step"`
	ByStream   []shareJSON `json:"by_stream"`
	ByPool     []shareJSON `json:"by_pool"`
}

type treeJSON struct {
	Frame  string `json:"frame"`
	Parent *int   `json:"parent"` // index of another node, null for the root
	Bytes  int64  `json:"bytes"`
	Blocks int    `json:"blocks"`
}

// atJSON is one instant that was asked for.
type atJSON struct {
	Event         *int               `json:"event"`
	TimeUS        *int64             `json:"time_us"`
	Allocated     int64              `json:"allocated_bytes"`
	Reserved      *int64             `json:"reserved_bytes"`
	Requested     *int64             `json:"requested_bytes"`
	Before        int64              `json:"before_recording_bytes"`
	Unattributed  int64              `json:"unattributed_bytes"`
	ByStack       []stackJSON        `json:"by_stack"`
	Tree          []treeJSON         `json:"tree"`
	Fragmentation *fragmentationJSON `json:"fragmentation"`
	sharesJSON
}

type freeSizeJSON struct {
	From   int64 `json:"from_bytes"` // up to twice as much
	Bytes  int64 `json:"bytes"`
	Blocks int   `json:"blocks"`
}

type poolUseJSON struct {
	Pool      string `json:"pool"`
	Stream    string `json:"stream"`
	Reserved  int64  `json:"reserved_bytes"`
	Allocated int64  `json:"allocated_bytes"`
	Pending   int64  `json:"pending_bytes"`
	Free      int64  `json:"free_bytes"`
	Largest   int64  `json:"largest_free_bytes"`
	Blocks    int    `json:"blocks"`
}

type freeingJSON struct {
	Bytes    int64       `json:"bytes"`
	Blocks   int         `json:"blocks"`
	Room     int64       `json:"room_bytes"`
	Segments *int        `json:"segments"` // given back to the driver; null: the room is within one
	ByStack  []stackJSON `json:"by_stack"`
}

// usesJSON is what was in use over time, a value for each point in each list. The lists of what only a model knows have
// nulls where it does not agree with the recording.
type usesJSON struct {
	Event     []int     `json:"event"`
	TimeUS    []*int64  `json:"time_us"`
	Allocated []int64   `json:"allocated_bytes"`
	Reserved  []*int64  `json:"reserved_bytes"`
	Stranded  []*int64  `json:"stranded_bytes"`
	Cached    []*int64  `json:"cached_bytes"`
	Rounding  []*int64  `json:"rounding_bytes"`
	Pending   []*int64  `json:"pending_bytes"`
	Private   []*int64  `json:"private_pools_bytes"`
	Mark      []*string `json:"mark"`
}

// freeSizesOf counts the free blocks of an instant by size.
func freeSizesOf(s *trace.State) []freeSizeJSON {
	_, free := SizesOf(s)
	return freeSizeList(free)
}

func freeSizeList(list []SizeRange) []freeSizeJSON {
	out := make([]freeSizeJSON, len(list))
	for i, s := range list {
		out[i] = freeSizeJSON(s)
	}
	return out
}

func shareList(list []Share) []shareJSON {
	if list == nil {
		return nil
	}
	out := make([]shareJSON, len(list))
	for i, s := range list {
		out[i] = shareJSON(s)
	}
	return out
}

// sides renders a breakdown; all is null where there is none.
func (b *Breakdown) sides() sharesJSON {
	if b == nil {
		return sharesJSON{}
	}
	return sharesJSON{shareList(b.ByCategory), shareList(b.ByFile), shareList(b.ByModule), shareList(b.ByPhase), shareList(b.ByStep),
		shareList(b.ByStream), shareList(b.ByPool)}
}

// branches renders the tree of calls.
func (b *Breakdown) branches() []treeJSON {
	if b == nil {
		return nil
	}
	out := make([]treeJSON, len(b.Tree))
	for i, n := range b.Tree {
		out[i] = treeJSON{Frame: n.Name, Bytes: n.Bytes, Blocks: n.Blocks}
		if n.Frame != (trace.Frame{}) {
			out[i].Frame = simulate.FrameText(n.Frame)
		}
		if n.Parent >= 0 {
			out[i].Parent = &n.Parent
		}
	}
	return out
}

func (a *Analysis) atJSON(d *Device) *atJSON {
	p := d.At
	if p == nil {
		return nil
	}
	return &atJSON{Event: eventOf(*p), TimeUS: timeOf(p.Time), Allocated: p.Allocated, Reserved: d.reserved(p), Requested: d.requested(p),
		Before: p.Holders.Before, Unattributed: p.Holders.Unattributed, ByStack: stackList(a.Trace.Stacks, p.Holders), Tree: p.Breakdown.branches(),
		Fragmentation: a.layoutJSON(d, p.Layout), sharesJSON: p.Breakdown.sides()}
}

// layoutJSON renders how memory lay, null where that is not known.
func (a *Analysis) layoutJSON(d *Device, l *Layout) *fragmentationJSON {
	if l == nil {
		return nil
	}
	j := &fragmentationJSON{
		Stranded: l.Stranded, Cached: l.Cached, Rounding: l.Rounding, Pending: l.Pending, Largest: l.Largest, Private: &l.Private,
		PinnedBy: []pinJSON{}, FreeSizes: freeSizeList(l.FreeSizes), Pools: []poolUseJSON{},
	}
	for _, p := range l.PinnedBy {
		x := pinJSON{Segment: p.Segment, Live: p.Live, Blocks: p.Blocks, Stack: fullStack(a.Trace.Stacks, p.Stack), Bytes: p.StackSize,
			Category: d.Roles.Name(d.Roles.Category(p.Block)), Pool: PoolName(d.Trace, p.Pool)}
		if !p.Old {
			x.Born = &p.Born
			if now, then := d.timeAt(l.Event), d.timeAt(p.Born); now > 0 && then > 0 {
				us := int64(now-then) / 1000
				x.AgeUS = &us
			}
		}
		j.PinnedBy = append(j.PinnedBy, x)
	}
	for _, p := range l.Pools {
		j.Pools = append(j.Pools, poolUseJSON{PoolName(d.Trace, p.Pool), StreamName(d.Trace, p.Stream), p.Reserved, p.Allocated, p.Pending, p.Free, p.Largest, p.Blocks})
	}
	return j
}

// freeingJSON renders what would have made room for a request that failed.
func (a *Analysis) freeingJSON(f *Freeing) *freeingJSON {
	if f == nil {
		return nil
	}
	j := &freeingJSON{Bytes: f.Bytes, Blocks: len(f.Blocks), Room: f.Room, ByStack: stackList(a.Trace.Stacks, f.holders())}
	if f.Segments > 0 {
		j.Segments = &f.Segments
	}
	return j
}

// mostPointsJSON is how many points of what was in use over time a document has, beside those of peaks and failures.
const mostPointsJSON = 128

// usesOver renders what was in use over time, null where there are no events.
func usesOver(d *Device) *usesJSON {
	if len(d.Uses) == 0 {
		return nil
	}
	j := &usesJSON{}
	points := fewer(d.Uses, mostPointsJSON)
	for i := range points {
		p := &points[i]
		only := func(n *int64) *int64 {
			if !p.Known {
				return nil
			}
			return n
		}
		j.Event = append(j.Event, p.Event)
		j.TimeUS = append(j.TimeUS, timeOf(p.Time))
		j.Allocated = append(j.Allocated, p.Allocated)
		j.Reserved = append(j.Reserved, d.reserved(&Peak{Reserved: p.Reserved}))
		j.Stranded = append(j.Stranded, only(&p.Stranded))
		j.Cached = append(j.Cached, only(&p.Cached))
		j.Rounding = append(j.Rounding, only(&p.Rounding))
		j.Pending = append(j.Pending, only(&p.Pending))
		j.Private = append(j.Private, only(&p.Private))
		j.Mark = append(j.Mark, known(p.Mark.String()))
	}
	return j
}
