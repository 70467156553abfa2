package torch

import (
	"math"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// What dictionaries and lists are folded into. A record is recognised by its keys, never by where in the
// file it stands, so wrappers and orders of keys do not matter.
const (
	kindJunk     = pickle.KindUser + iota // nothing that is wanted
	kindEmpty                             // a list or tuple of nothing
	kindEvent                             // index into folder.events
	kindMarker                            // a user_defined event: index into folder.markers
	kindFrame                             // a trace.FrameID
	kindStack                             // a trace.StackID
	kindPool                              // a pair of integers: index into folder.pools
	kindBlock                             // index into folder.blocks
	kindHistory                           // index into folder.history
	kindSegment                           // index into folder.segments
	kindNote                              // an external annotation: index into folder.notes
	kindList                              // of the records above, of lists, of scalars: index into folder.lists
	kindRoundup                           // index into folder.roundups
	kindTop                               // index into folder.tops
	kindSettings                          // index into folder.settings
)

type value = pickle.Value

// folder turns the dictionaries and lists of a snapshot into records as the pickle machine, or the JSON
// reader, completes them.
type folder struct {
	strings *pickle.Strings
	text    map[uint32]string // strings that have been made Go strings
	at      [numKeys]int32    // where the value of a key is among the pairs, for the keys that are there

	stacks   *trace.Stacks
	frameIDs map[frameKey]trace.FrameID
	frames   []trace.FrameID // scratch

	events  trace.Events // of all devices, in the order of the file; streams and pools numbered by file
	streams handles
	pools   pools

	markers  paged[marker]
	tags     []tag
	blocks   paged[rawBlock]
	history  paged[rawHistory]
	segments paged[rawSegment]
	notes    paged[note]
	settings paged[rawSettings]
	tops     paged[top]
	lists    lists
	short    []value // scratch

	seen      keys // keys of events, segments and blocks: they tell the version
	actions   map[string]*tally
	missing   [numKeys]tally // keys that events or blocks lack
	badTime   tally
	manyPools tally
	manyTags  tally
}

type frameKey struct {
	file, name uint32
	line       int64
}

func newFolder() *folder {
	return &folder{
		strings:  pickle.NewStrings(names...),
		text:     map[uint32]string{},
		stacks:   trace.NewStacks(),
		frameIDs: map[frameKey]trace.FrameID{},
		streams:  newHandles(),
		pools:    newPools(),
		actions:  map[string]*tally{},
	}
}

// tally counts a kind of fault.
type tally struct{ count, first int }

func (t *tally) add(at int) {
	if t.count == 0 {
		t.first = at
	}
	t.count++
}

var (
	anyTop = keySet(keySegments, keyDeviceTraces, keyTraces, keyHostSegments, keyHostTraces,
		keyAllocatorSettings, keyExternalAnnotations)
	anySettings = keySet(keyCudaConf, keyConf, keyMaxSplitSize, keyGCThreshold, keyExpandable, keyRoundup,
		keyStreamReuse)
	anySegment = keySet(keyTotalSize, keyBlocks, keySegmentType)
	anyBlock   = keySet(keyState, keyRequestedSize, keyHistory)
)

// Dict folds a dictionary.
func (f *folder) Dict(pairs []value) (value, error) {
	var k keys
	for i := 0; i+1 < len(pairs); i += 2 {
		if id := pairs[i].Index(); pairs[i].Kind() == pickle.KindString && id < numKeys {
			k |= 1 << id
			f.at[id] = int32(i + 1)
		}
	}
	switch {
	case k.has(keyAction):
		return f.event(pairs, k), nil
	case k.has(keyFilename):
		return f.frame(pairs, k), nil
	case k&anyTop != 0:
		return f.top(pairs, k), nil
	case k&anySegment != 0:
		return f.segment(pairs, k), nil
	case k.has(keyRealSize):
		return f.historyEntry(pairs, k), nil
	case k&anyBlock != 0:
		return f.block(pairs, k), nil
	case k.has(keyStage):
		return f.note(pairs, k), nil
	case k&anySettings != 0:
		return f.setting(pairs, k), nil
	case k.has(keyName) && k.has(keyLine):
		return f.frame(pairs, k), nil
	}
	return f.unknown(pairs), nil
}

// get gives the value of a key, None if it is not there.
func (f *folder) get(pairs []value, k keys, key int) value {
	if !k.has(key) {
		return pickle.NoneValue()
	}
	return pairs[f.at[key]]
}

// List folds a list.
func (f *folder) List(items []value) (value, error) {
	if len(items) == 0 {
		return pickle.User(kindEmpty, 0), nil
	}
	switch items[0].Kind() {
	case kindFrame:
		return f.stack(items), nil
	case pickle.KindInt, pickle.KindUint:
		if len(items) == 2 {
			return f.pair(items), nil
		}
		fallthrough
	case pickle.KindBool:
		if len(items) > maxScalars {
			return pickle.User(kindJunk, 0), nil
		}
		return f.keep(items), nil
	case pickle.KindString, pickle.KindFloat, pickle.KindNone, pickle.KindBytes, pickle.KindBig:
		return pickle.User(kindJunk, 0), nil
	case kindJunk:
		if !anyRecord(items) {
			return pickle.User(kindJunk, 0), nil
		}
	}
	return f.keep(items), nil
}

// maxScalars is how many plain values of a list or dictionary are kept: settings by device are the only use.
const maxScalars = 256

func anyRecord(items []value) bool {
	for _, it := range items {
		if it.Kind() > kindJunk {
			return true
		}
	}
	return false
}

// keep stores a list of records, with one entry for neighbours that have consecutive numbers.
func (f *folder) keep(items []value) value {
	f.short = pickle.Compress(f.short[:0], items)
	return pickle.User(kindList, f.lists.add(f.short))
}

// list gives the items of a list that was kept, nil for anything else.
func (f *folder) list(v value) []value {
	if v.Kind() == kindList {
		return f.lists.at(int(v.Index()))
	}
	return nil
}

// Tuple folds a tuple like a list: writers do not agree which is which.
func (f *folder) Tuple(items []value) (value, error) { return f.List(items) }

// Spill drops what would not be used from a list or dictionary that is still being read.
func (f *folder) Spill(items []value, dict bool) []value {
	out := items[:0]
	if dict {
		for i := 0; i+1 < len(items); i += 2 {
			if items[i].Kind() == pickle.KindString && items[i].Index() < uint32(len(names)) {
				out = append(out, items[i], items[i+1])
			}
		}
		return out
	}
	stack := items[0].Kind() == kindFrame
	n := 0
	for _, it := range items {
		switch {
		case stack && it.Kind() != kindFrame, it.Kind() < kindEvent && n > maxScalars:
			continue
		case stack:
			if n += it.Count(); n > maxFrames {
				return out
			}
		default:
			n++
		}
		out = append(out, it)
	}
	return out
}

// maxFrames is how deep a stack may be; what lies further out is dropped.
const maxFrames = 1 << 16

// unknown keeps a small dictionary of plain values (settings by device, rounding divisions) and drops
// any other.
func (f *folder) unknown(pairs []value) value {
	if len(pairs) == 0 || len(pairs) > 2*maxScalars {
		return pickle.User(kindJunk, 0)
	}
	for i := 0; i < len(pairs); i += 2 {
		switch pairs[i+1].Kind() {
		case pickle.KindInt, pickle.KindBool:
		default:
			return pickle.User(kindJunk, 0)
		}
	}
	return pickle.User(kindList, f.lists.add(pairs))
}

func (f *folder) pair(items []value) value {
	a, _ := integer(items[0])
	b, _ := integer(items[1])
	id, ok := f.pools.id(trace.Pool{uint64(a), uint64(b)})
	if !ok {
		f.manyPools.add(f.events.Len())
		return pickle.User(kindJunk, 0)
	}
	return pickle.User(kindPool, id)
}

func (f *folder) stack(items []value) value {
	ids := f.frames[:0]
	for _, it := range items {
		if it.Kind() != kindFrame {
			continue
		}
		for j := range it.Count() {
			ids = append(ids, trace.FrameID(it.Index())+trace.FrameID(j))
		}
		if len(ids) > maxFrames {
			ids = ids[:maxFrames]
			break
		}
	}
	f.frames = ids
	return pickle.User(kindStack, uint32(f.stacks.AddStack(ids)))
}

func (f *folder) frame(pairs []value, k keys) value {
	file, name := f.get(pairs, k, keyFilename), f.get(pairs, k, keyName)
	line, _ := integer(f.get(pairs, k, keyLine))
	key := frameKey{noString, noString, line}
	if file.Kind() == pickle.KindString {
		key.file = file.Index()
	}
	if name.Kind() == pickle.KindString {
		key.name = name.Index()
	}
	id, ok := f.frameIDs[key]
	if !ok {
		id = f.stacks.AddFrame(trace.Frame{File: f.string(key.file), Func: f.string(key.name), Line: int(line)})
		f.frameIDs[key] = id
	}
	return pickle.User(kindFrame, uint32(id))
}

const noString = math.MaxUint32

// string gives an interned string as a Go string, made only once.
func (f *folder) string(id uint32) string {
	if id == noString {
		return ""
	}
	s, ok := f.text[id]
	if !ok {
		s = string(f.strings.Bytes(id))
		f.text[id] = s
	}
	return s
}

func (f *folder) stringOf(v value) string {
	if v.Kind() != pickle.KindString {
		return ""
	}
	return f.string(v.Index())
}

// integer gives a whole number; one of 2^63 and above comes out negative, as an address would.
func integer(v value) (int64, bool) {
	switch v.Kind() {
	case pickle.KindInt, pickle.KindUint, pickle.KindBool:
		return v.Int(), true
	case pickle.KindFloat: // JSON that went through a program without integers
		if x := v.Float(); x == math.Trunc(x) && math.Abs(x) < 1<<62 {
			return int64(x), true
		}
	}
	return 0, false
}

// size gives a number of bytes that is not negative.
func size(v value) (int64, bool) {
	n, ok := integer(v)
	if !ok || n < 0 {
		return 0, false
	}
	return n, true
}
