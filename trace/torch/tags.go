package torch

import (
	"sort"

	"github.com/vramscope/vramscope/internal/pickle"
	"github.com/vramscope/vramscope/trace"
)

// What a program set with torch.cuda.memory._set_memory_metadata stands in each event until it sets something else. A range
// of events with the same text says what an annotation around them says, and is made one.

// tag is a text from an event on.
type tag struct {
	event uint32 // of the file
	text  uint32 // string, 0 for none
}

// mostTags is how many times the text may change: more often than any program says what it is doing. What comes after that
// has none.
const mostTags = 1 << 18

// tag notes the text of an event.
func (f *folder) tag(event int, v value) {
	text := uint32(0)
	if v.Kind() == pickle.KindString && len(f.strings.Bytes(v.Index())) > 0 {
		text = v.Index() + 1
	}
	switch last := len(f.tags) - 1; {
	case last < 0 && text == 0, last >= 0 && f.tags[last].text == text:
	case last+1 == mostTags:
		f.manyTags.add(event)
	case last+1 == mostTags-1:
		f.tags = append(f.tags, tag{uint32(event), 0})
		f.manyTags.add(event)
	default:
		f.tags = append(f.tags, tag{uint32(event), text})
	}
}

// tagged makes annotations of the texts of a device's events.
func (b *builder) tagged(device, from, to int) {
	if len(b.tags) == 0 || from == to {
		return
	}
	i := sort.Search(len(b.tags), func(i int) bool { return b.tags[i].event > uint32(from) }) - 1
	for i = max(i, 0); i < len(b.tags) && b.tags[i].event < uint32(to); i++ {
		text := b.tags[i].text
		if text == 0 {
			continue
		}
		mark := func(event int, edge trace.Edge) {
			b.trace.Markers = append(b.trace.Markers, trace.Marker{Time: b.folder.events.At(event).Time, Device: device, Name: b.string(text - 1), Edge: edge})
		}
		mark(max(int(b.tags[i].event), from), trace.EdgeStart)
		if i+1 < len(b.tags) && b.tags[i+1].event < uint32(to) {
			mark(int(b.tags[i+1].event), trace.EdgeEnd)
		}
	}
}
