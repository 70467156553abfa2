// Package pprof writes who held the memory of a recording as a profile in pprof's format, for go tool pprof and
// whatever else reads that.
//
// A profile has no time, so what it shows are moments: the peak of what was allocated, the end, and where memory ran out
// first; and beside these, all that was ever allocated. Each is a pair of sample types, in bytes and in blocks, and their
// sums are the figures of an analysis, to the byte. A sample is what one call stack held on one device, stream and pool.
// Blocks that no stack shows are samples too, under the names that an analysis has for them.
package pprof

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// ErrNoBlocks is of a recording that does not tell who held anything: it has totals over time alone.
var ErrNoBlocks = errors.New("no blocks that a profile could show")

// moment is what a pair of sample types counts.
type moment int

const (
	atPeak moment = iota
	atEnd
	atFailure
	ever
	numMoments
)

// names of the sample types: NAME_space in bytes and NAME_blocks.
var names = [numMoments]string{"peak", "end", "oom", "alloc"}

// Profile is what an analysis comes to as a profile.
type Profile struct {
	Samples int
	Types   []Type
	profile *profile.Profile
}

// Type is a sample type in bytes, with the sum of its samples.
type Type struct {
	Name  string
	Bytes int64
}

// Of makes the profile of all devices of an analysis, or returns ErrNoBlocks.
func Of(a *report.Analysis) (*Profile, error) {
	b := newBuilder(a)
	for i := range a.Devices {
		b.device(&a.Devices[i])
	}
	p := b.finish()
	if len(p.Types) == 0 {
		return nil, ErrNoBlocks
	}
	return p, nil
}

// Write writes the profile, packed as pprof has it.
func (p *Profile) Write(w io.Writer) error { return p.profile.Write(w) }

// amount is what a sample counts.
type amount struct{ bytes, blocks int64 }

func (m *amount) add(bytes, blocks int64) {
	m.bytes += bytes
	m.blocks += blocks
}

// holder is what a sample is of.
type holder struct {
	device *trace.Device
	stack  trace.StackID
	name   string // in place of a stack, of blocks that have none
	kind   string // what the file calls such blocks, "" for nothing
	placed bool   // the stream and the pool are known
	stream trace.StreamID
	pool   uint32
}

type builder struct {
	a       *report.Analysis
	profile *profile.Profile
	frames  map[trace.FrameID]*profile.Location
	named   map[string]*profile.Location
	funcs   map[funcKey]*profile.Function
	amounts map[holder]*[numMoments]amount
	order   []holder // in which they were met
	has     [numMoments]bool
	bare    string // what blocks without a stack are called
}

type funcKey struct{ name, file string }

func newBuilder(a *report.Analysis) *builder {
	b := &builder{a: a, frames: map[trace.FrameID]*profile.Location{}, named: map[string]*profile.Location{},
		funcs: map[funcKey]*profile.Function{}, amounts: map[holder]*[numMoments]amount{}, bare: report.WithoutStack}
	if a.Trace.Stacks.Len() <= 1 {
		b.bare = report.WithoutStacks
	}
	b.profile = &profile.Profile{
		// What is known of the program. That its functions are named keeps pprof from looking for the binary.
		Mapping: []*profile.Mapping{{ID: 1, File: filepath.Base(a.File), HasFunctions: true, HasFilenames: true, HasLineNumbers: true}},
	}
	return b
}

// of is what a holder holds.
func (b *builder) of(h holder) *[numMoments]amount {
	x := b.amounts[h]
	if x == nil {
		x = new([numMoments]amount)
		b.amounts[h] = x
		b.order = append(b.order, h)
	}
	return x
}

// bareName is the name of a stack without frames; "" for another.
func (b *builder) bareName(s trace.StackID, old bool) string {
	switch {
	case s != trace.NoStack:
		return ""
	case old:
		return report.BeforeRecording
	}
	return b.bare
}

func (b *builder) comment(format string, args ...any) {
	b.profile.Comments = append(b.profile.Comments, fmt.Sprintf(format, args...))
}

// finish makes samples of the amounts. A pair of sample types that nothing tells is left out.
func (b *builder) finish() *Profile {
	p := &Profile{profile: b.profile}
	var kept []moment
	for m, has := range b.has {
		if !has {
			continue
		}
		kept = append(kept, moment(m))
		space := &profile.ValueType{Type: names[m] + "_space", Unit: "bytes"}
		b.profile.SampleType = append(b.profile.SampleType, space, &profile.ValueType{Type: names[m] + "_blocks", Unit: "count"})
		p.Types = append(p.Types, Type{Name: space.Type})
	}
	if len(kept) > 0 {
		b.profile.DefaultSampleType = p.Types[0].Name
	}
	for _, h := range b.order {
		x := b.amounts[h]
		values := make([]int64, 0, 2*len(kept))
		held := false
		for i, m := range kept {
			values = append(values, x[m].bytes, x[m].blocks)
			p.Types[i].Bytes += x[m].bytes
			held = held || x[m] != amount{}
		}
		if held {
			b.profile.Sample = append(b.profile.Sample, &profile.Sample{Value: values, Location: b.locations(h), Label: h.labels()})
		}
	}
	p.Samples = len(b.profile.Sample)
	return p
}

func (h *holder) labels() map[string][]string {
	l := map[string][]string{"device": {fmt.Sprint(h.device.Index)}}
	if h.placed {
		l["stream"], l["pool"] = []string{report.StreamName(h.device, h.stream)}, []string{report.PoolName(h.device, h.pool)}
	}
	if h.kind != "" {
		l["kind"] = []string{h.kind}
	}
	return l
}

// locations are the frames of a stack, the innermost first, as pprof has them too.
func (b *builder) locations(h holder) []*profile.Location {
	if h.name != "" {
		l := b.named[h.name]
		if l == nil {
			l = b.location(trace.Frame{Func: h.name})
			b.named[h.name] = l
		}
		return []*profile.Location{l}
	}
	ids := b.a.Trace.Stacks.Frames(h.stack)
	out := make([]*profile.Location, len(ids))
	for i, id := range ids {
		l := b.frames[id]
		if l == nil {
			l = b.location(b.a.Trace.Stacks.Frame(id))
			b.frames[id] = l
		}
		out[i] = l
	}
	return out
}

func (b *builder) location(f trace.Frame) *profile.Location {
	if f.File == "??" {
		f.File = ""
	}
	f.File, f.Func = strings.ToValidUTF8(f.File, "�"), strings.ToValidUTF8(f.Func, "�")
	if f.Func == "" {
		f.Func = f.File
	}
	if f.Func == "" {
		f.Func = "?"
	}
	key := funcKey{f.Func, f.File}
	fn := b.funcs[key]
	if fn == nil {
		// Without a system name pprof leaves the name as it is. It would take <module> for a template's arguments.
		fn = &profile.Function{ID: uint64(len(b.profile.Function) + 1), Name: f.Func, Filename: f.File}
		b.funcs[key] = fn
		b.profile.Function = append(b.profile.Function, fn)
	}
	l := &profile.Location{ID: uint64(len(b.profile.Location) + 1), Mapping: b.profile.Mapping[0], Line: []profile.Line{{Function: fn, Line: int64(max(f.Line, 0))}}}
	b.profile.Location = append(b.profile.Location, l)
	return l
}
