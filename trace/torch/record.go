package torch

import (
	"math"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// Records as the file has them, before devices are known.
type (
	rawBlock struct {
		addr      uint64
		size      int64
		requested int64
		stack     trace.StackID
		state     trace.BlockState
		hasAddr   bool
		missing   keys // that it should have
	}
	rawHistory struct {
		size  int64
		stack trace.StackID
	}
	rawSegment struct {
		device     int
		addr       uint64
		size       int64
		stream     uint32 // number in folder.streams
		pool       trace.PoolID
		stack      trace.StackID
		blocks     value
		small      bool
		kindKnown  bool
		expandable bool
		missing    keys // that it should have
	}
	note struct { // an external annotation
		name   string
		device int
		time   trace.Time
		edge   trace.Edge
	}
	marker struct { // a user_defined event
		name string
		time trace.Time
		edge trace.Edge
	}
	rawSettings struct {
		trace.Settings
		overflowed value
		maxEntries value
	}
	top struct {
		segments, traces, notes, settings value
		overflowed, maxEntries            value
		keys                              keys
	}
)

// event folds an entry of a trace.
func (f *folder) event(pairs []value, k keys) value {
	action := pairs[f.at[keyAction]]
	id := action.Index()
	if action.Kind() != pickle.KindString || id < wordOp0 || id >= uint32(len(names)) {
		if action.Kind() == pickle.KindString && id == wordUserDefined {
			return f.userDefined(pairs, k)
		}
		f.unknownAction(action)
		return pickle.User(kindJunk, 0)
	}
	n := f.events.Len()
	e := trace.Event{Op: trace.Op(id-wordOp0) + trace.OpAlloc, Block: trace.NoBlock, Pool: trace.PoolUnknown}
	addr := keyAddr
	if e.Op == trace.OpOOM {
		addr = keyDeviceFree
	}
	if x, ok := integer(f.get(pairs, k, addr)); ok {
		e.Addr = uint64(x)
	} else {
		f.missing[addr].add(n)
	}
	if x, ok := size(f.get(pairs, k, keySize)); ok {
		e.Size = x
	} else {
		f.missing[keySize].add(n)
	}
	if x, ok := integer(f.get(pairs, k, keyStream)); ok {
		e.Stream = trace.StreamID(f.streams.id(uint64(x)))
	} else {
		f.missing[keyStream].add(n)
		e.Stream = trace.StreamID(f.streams.id(0))
	}
	if k.has(keyTimeUs) {
		e.Time = f.time(pairs, k, n)
	}
	if v := f.get(pairs, k, keyFrames); v.Kind() == kindStack {
		e.Stack = trace.StackID(v.Index())
	}
	pool := f.get(pairs, k, keyPoolID)
	if pool.Kind() != kindPool {
		pool = f.get(pairs, k, keySegmentPoolID)
	}
	if pool.Kind() == kindPool {
		e.Pool = trace.PoolID(pool.Index())
	}
	if k.has(keyUserMetadata) || len(f.tags) > 0 {
		f.tag(n, f.get(pairs, k, keyUserMetadata))
	}
	f.seen |= k
	f.events.Append(e)
	return pickle.User(kindEvent, uint32(n))
}

func (f *folder) unknownAction(action value) {
	name := "that is not a string"
	if action.Kind() == pickle.KindString {
		name = string(f.strings.Bytes(action.Index()))
	}
	t := f.actions[name]
	if t == nil {
		if len(f.actions) >= 8 {
			name = "(others)"
			if t = f.actions[name]; t != nil {
				t.add(f.events.Len())
				return
			}
		}
		t = new(tally)
		f.actions[name] = t
	}
	t.add(f.events.Len())
}

// time gives the time of a record in nanoseconds; at is the event that a bad one is told of.
func (f *folder) time(pairs []value, k keys, at int) trace.Time {
	x, ok := integer(f.get(pairs, k, keyTimeUs))
	if !ok || x < 0 || x > math.MaxInt64/1000 {
		f.badTime.add(at)
		return 0
	}
	return trace.Time(x * 1000)
}

// userDefined folds an annotation that torch 2.4 put among the events: its name is the file name of the
// first frame, whose function is START or END.
func (f *folder) userDefined(pairs []value, k keys) value {
	m := marker{}
	if k.has(keyTimeUs) {
		m.time = f.time(pairs, k, f.events.Len())
	}
	if v := f.get(pairs, k, keyFrames); v.Kind() == kindStack {
		if ids := f.stacks.Frames(trace.StackID(v.Index())); len(ids) > 0 {
			fr := f.stacks.Frame(ids[0])
			m.name = fr.File
			switch fr.Func {
			case "START":
				m.edge = trace.EdgeStart
			case "END":
				m.edge = trace.EdgeEnd
			}
		}
	}
	return pickle.User(kindMarker, f.markers.add(m))
}

func (f *folder) block(pairs []value, k keys) value {
	var b rawBlock
	if x, ok := integer(f.get(pairs, k, keyAddress)); ok {
		b.addr, b.hasAddr = uint64(x), true
	}
	var ok bool
	if b.size, ok = size(f.get(pairs, k, keySize)); !ok {
		b.missing |= 1 << keySize
	}
	if v := f.get(pairs, k, keyState); v.Kind() == pickle.KindString {
		switch v.Index() {
		case wordActive:
			b.state = trace.BlockLive
		case wordPending, wordAwaiting:
			b.state = trace.BlockPending
		}
	}
	var told bool
	b.requested, told = size(f.get(pairs, k, keyRequestedSize))
	if v := f.get(pairs, k, keyFrames); v.Kind() == kindStack {
		b.stack = trace.StackID(v.Index())
	}
	if h := f.list(f.get(pairs, k, keyHistory)); len(h) > 0 && h[0].Kind() == kindHistory {
		newest := f.history.at(int(h[0].Index()))
		if b.stack == trace.NoStack {
			b.stack = newest.stack
		}
		if !told {
			b.requested, told = newest.size, true
		}
	}
	if b.state == trace.BlockFree {
		b.requested, b.stack = 0, trace.NoStack
	} else if !told {
		b.missing |= 1 << keyRequestedSize
		b.requested = b.size
	}
	f.seen |= k
	return pickle.User(kindBlock, f.blocks.add(b))
}

func (f *folder) historyEntry(pairs []value, k keys) value {
	var h rawHistory
	h.size, _ = size(f.get(pairs, k, keyRealSize))
	if v := f.get(pairs, k, keyFrames); v.Kind() == kindStack {
		h.stack = trace.StackID(v.Index())
	}
	return pickle.User(kindHistory, f.history.add(h))
}

func (f *folder) segment(pairs []value, k keys) value {
	s := rawSegment{pool: trace.PoolUnknown, blocks: f.get(pairs, k, keyBlocks)}
	if x, ok := integer(f.get(pairs, k, keyDevice)); ok && x >= 0 && x < maxDevices {
		s.device = int(x)
	}
	if x, ok := integer(f.get(pairs, k, keyAddress)); ok {
		s.addr = uint64(x)
	} else {
		s.missing |= 1 << keyAddress
	}
	var ok bool
	if s.size, ok = size(f.get(pairs, k, keyTotalSize)); !ok {
		s.missing |= 1 << keyTotalSize
	}
	x, ok := integer(f.get(pairs, k, keyStream))
	if !ok {
		s.missing |= 1 << keyStream
	}
	s.stream = f.streams.id(uint64(x))
	if v := f.get(pairs, k, keySegmentType); v.Kind() == pickle.KindString {
		s.small = v.Index() == wordSmall
		s.kindKnown = s.small || v.Index() == wordLarge
	}
	if v := f.get(pairs, k, keySegmentPoolID); v.Kind() == kindPool {
		s.pool = trace.PoolID(v.Index())
	}
	if x, ok := integer(f.get(pairs, k, keyIsExpandable)); ok {
		s.expandable = x != 0
	}
	if v := f.get(pairs, k, keyFrames); v.Kind() == kindStack {
		s.stack = trace.StackID(v.Index())
	}
	f.seen |= k &^ (1 << keyFrames)
	return pickle.User(kindSegment, f.segments.add(s))
}

// maxDevices bounds the ordinals that are believed.
const maxDevices = 1 << 10

func (f *folder) note(pairs []value, k keys) value {
	n := note{name: f.stringOf(f.get(pairs, k, keyName)), device: -1}
	if x, ok := integer(f.get(pairs, k, keyDevice)); ok && x >= 0 && x < maxDevices {
		n.device = int(x)
	}
	if k.has(keyTimeUs) {
		n.time = f.time(pairs, k, -1)
	}
	if v := f.get(pairs, k, keyStage); v.Kind() == pickle.KindString {
		switch v.Index() {
		case wordStart:
			n.edge = trace.EdgeStart
		case wordEnd:
			n.edge = trace.EdgeEnd
		}
	}
	return pickle.User(kindNote, f.notes.add(n))
}

func (f *folder) setting(pairs []value, k keys) value {
	var s rawSettings
	s.Known = true
	s.Conf = f.stringOf(f.get(pairs, k, keyCudaConf))
	if s.Conf == "" {
		s.Conf = f.stringOf(f.get(pairs, k, keyConf))
	}
	s.MaxSplitSize = -1
	if x, ok := integer(f.get(pairs, k, keyMaxSplitSize)); ok && x >= 0 {
		s.MaxSplitSize = x
	}
	switch v := f.get(pairs, k, keyGCThreshold); v.Kind() {
	case pickle.KindFloat:
		s.GCThreshold = v.Float()
	case pickle.KindInt:
		s.GCThreshold = float64(v.Int())
	}
	if x, ok := integer(f.get(pairs, k, keyExpandable)); ok {
		s.Expandable, s.HasExpandable = x != 0, true
	}
	if l := f.list(f.get(pairs, k, keyRoundup)); l != nil {
		for i := 0; i+1 < len(l); i += 2 {
			b, ok := f.bucket(l[i])
			if x, isInt := integer(l[i+1]); ok && isInt && x >= 0 && x <= math.MaxInt32 {
				s.Roundup[b], s.HasRoundup = int(x), true
			}
		}
	}
	s.overflowed = f.get(pairs, k, keyOverflowed)
	s.maxEntries = f.get(pairs, k, keyMaxEntries)
	f.seen |= k & keySet(keyStreamReuse, keyOverflowed)
	return pickle.User(kindSettings, f.settings.add(s))
}

// bucket gives the index of the size class that a key of roundup_power2_divisions names in MiB.
func (f *folder) bucket(key value) (int, bool) {
	if key.Kind() == pickle.KindString {
		i := int(key.Index()) - wordBucket0
		return i, i >= 0 && i < numBuckets
	}
	for i := range numBuckets {
		if key.Kind() == pickle.KindInt && key.Int() == 1<<i {
			return i, true
		}
	}
	return 0, false
}

func (f *folder) top(pairs []value, k keys) value {
	t := top{
		segments:   f.get(pairs, k, keySegments),
		traces:     f.get(pairs, k, keyDeviceTraces),
		notes:      f.get(pairs, k, keyExternalAnnotations),
		settings:   f.get(pairs, k, keyAllocatorSettings),
		overflowed: f.get(pairs, k, keyOverflowed),
		maxEntries: f.get(pairs, k, keyMaxEntries),
		keys:       k,
	}
	if !k.has(keyDeviceTraces) {
		t.traces = f.get(pairs, k, keyTraces)
	}
	return pickle.User(kindTop, f.tops.add(t))
}

// maxStreams is more than any program has. The models keep free memory by stream, so that each costs.
const maxStreams = 1 << 10

// handles numbers stream handles in the order in which they come. Beyond maxStreams all are one.
type handles struct {
	beyond tally
	ids    map[uint64]uint32
	list   []uint64
	last   uint64
	lastID uint32
}

func newHandles() handles { return handles{ids: map[uint64]uint32{}} }

func (h *handles) id(handle uint64) uint32 {
	if handle == h.last && len(h.list) > 0 {
		return h.lastID
	}
	id, ok := h.ids[handle]
	switch {
	case !ok && len(h.list) < maxStreams:
		id = uint32(len(h.list))
		h.ids[handle] = id
		h.list = append(h.list, handle)
	case !ok:
		id = maxStreams - 1
		h.beyond.add(-1)
	}
	h.last, h.lastID = handle, id
	return id
}

// pools numbers pool names in the order in which they come; 0 is the default. There are at most as many
// as a trace.PoolID can tell apart.
type pools struct {
	ids  map[trace.Pool]uint32
	list []trace.Pool
}

func newPools() pools {
	return pools{ids: map[trace.Pool]uint32{{}: 0}, list: []trace.Pool{{}}}
}

func (p *pools) id(pool trace.Pool) (id uint32, ok bool) {
	if id, ok = p.ids[pool]; ok {
		return id, true
	}
	if len(p.list) >= int(trace.PoolUnknown) {
		return 0, false
	}
	id = uint32(len(p.list))
	p.ids[pool] = id
	p.list = append(p.list, pool)
	return id, true
}
