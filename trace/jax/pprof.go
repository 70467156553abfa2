// Package jax reads what JAX and XProf write about memory: device memory profiles, which are live sets in the format of
// pprof, and the JSON of XProf's memory profile, which TensorFlow's profiler has as well.
package jax

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/trace"
)

// maxProfile is how large a device memory profile may be. Those of the largest programs have some megabytes.
const maxProfile = 256 << 20

// Read reads a device memory profile or a memory profile of XProf. It returns trace.ErrUnrecognized itself, with
// nothing taken from r, if the input begins like neither.
func Read(r *bufio.Reader) (*trace.Trace, error) {
	head, _ := r.Peek(r.Size())
	switch {
	case isProfile(head):
		return readProfile(r)
	case isXProf(head):
		return readXProf(r)
	}
	return nil, trace.ErrUnrecognized
}

// isProfile reports whether bytes begin like a pprof profile: with the type of its samples.
func isProfile(head []byte) bool {
	return len(head) >= 6 && head[0] == 0x0a && head[1] == 4 && head[2] == 8 && head[4] == 0x10
}

func readProfile(r io.Reader) (*trace.Trace, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxProfile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxProfile {
		return nil, trace.Corrupt(-1, "the profile has more than %d MiB: it is no device memory profile", maxProfile>>20)
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid() // values and locations that samples lack, among others
	}
	if err != nil {
		return nil, trace.Corrupt(-1, "the profile is damaged (%s); save it again with jax.profiler.save_device_memory_profile(path)", oneLine(err))
	}
	count, space := -1, -1
	for i, t := range p.SampleType {
		switch {
		case t.Type == "peak_space" || t.Type == "end_space":
			return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
				Msg: "is what vramscope convert wrote for pprof, and less than the recording that it was made of; give that one"}
		case t.Type == "allocations" && t.Unit == "count":
			count = i
		case t.Type == "space" && t.Unit == "bytes":
			space = i
		}
	}
	if count < 0 || space < 0 {
		return nil, &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
			Msg: "is a pprof profile, but not of a device's memory; make one with jax.profiler.save_device_memory_profile(path)"}
	}
	b := builder{stacks: trace.NewStacks(), frames: map[*profile.Location][]trace.FrameID{}, devices: map[string]*trace.Device{}}
	for _, s := range p.Sample {
		b.sample(s, s.Value[count], s.Value[space])
	}
	return b.trace(len(p.Sample), int64(len(data))), nil
}

func oneLine(err error) string {
	s := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r < ' ' }), " ")
	return s[:min(len(s), 150)]
}

// builder makes a trace of the samples of a profile.
type builder struct {
	stacks  *trace.Stacks
	frames  map[*profile.Location][]trace.FrameID
	devices map[string]*trace.Device
	names   []string
	rest    []trace.Group // of no device: executables
	bad     int
}

const maxDevices = 4096

// sample takes a sample over: a number of buffers, or an executable, that one stack made.
func (b *builder) sample(s *profile.Sample, count, space int64) {
	if count < 0 || space < 0 || count > math.MaxInt32 || space > 1<<50 {
		b.bad++
		return
	}
	g := trace.Group{Bytes: space, Blocks: count, Kind: label(s, "kind"), Stack: b.stack(s.Location)}
	name := label(s, "device")
	if name == "" {
		b.rest = append(b.rest, g)
		return
	}
	d := b.devices[name]
	if d == nil {
		if len(b.devices) >= maxDevices {
			b.bad++
			return
		}
		d = &trace.Device{Content: trace.Instant, Index: ordinal(name), Name: name, HasFinal: true, Pools: []trace.Pool{{}}}
		b.devices[name] = d
		b.names = append(b.names, name)
	}
	d.Final.Groups = append(d.Final.Groups, g)
}

func label(s *profile.Sample, key string) string {
	if v := s.Label[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// stack interns a stack; profiles have the innermost frame first, too.
func (b *builder) stack(locations []*profile.Location) trace.StackID {
	var ids []trace.FrameID
	for _, l := range locations {
		frames, ok := b.frames[l]
		if !ok {
			for _, line := range l.Line {
				f := trace.Frame{Line: int(max(0, min(line.Line, math.MaxInt32)))}
				if line.Function != nil {
					f.File, f.Func = line.Function.Filename, line.Function.Name
				}
				frames = append(frames, b.stacks.AddFrame(f))
			}
			b.frames[l] = frames
		}
		ids = append(ids, frames...)
	}
	return b.stacks.AddStack(ids)
}

// ordinal is the number in a device's name: "cuda:0", "TFRT_CPU_0", "TPU_3(process=0,(1,0,0,0))". -1 if there is none.
func ordinal(name string) int {
	name, _, _ = strings.Cut(name, "(")
	end := len(name)
	at := end
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' && end-at < 6 {
		at--
	}
	if at == end || at == 0 {
		return -1
	}
	n := 0
	for _, c := range name[at:end] {
		n = n*10 + int(c-'0')
	}
	return n
}

func (b *builder) trace(samples int, size int64) *trace.Trace {
	t := &trace.Trace{Stacks: b.stacks}
	t.Settings.MaxSplitSize = -1
	t.Source = trace.Source{Format: "JAX device memory profile", Producer: "jax.profiler.save_device_memory_profile", Bytes: size, Clock: trace.ClockNone,
		Counts: []trace.Count{{What: "samples", N: samples}},
		Lacks: []trace.Lack{{What: "when memory was allocated, the addresses, what is free and what was there before: it is one instant",
			Instead: "jax.profiler.start_trace(logdir) before the run and stop_trace() after it, then XProf's memory profile as JSON; what differs between two profiles: go tool pprof -top -sample_index=space -diff_base A B"}}}
	for _, n := range b.names {
		t.Devices = append(t.Devices, *b.devices[n])
	}
	slices.SortStableFunc(t.Devices, func(x, y trace.Device) int { return cmp.Compare(x.Index, y.Index) })
	if len(b.rest) > 0 {
		// Executables do not say on which device they are. With one device there is no question.
		switch len(t.Devices) {
		case 0:
			t.Devices = append(t.Devices, trace.Device{Content: trace.Instant, HasFinal: true, Pools: []trace.Pool{{}}, Final: trace.State{Groups: b.rest}})
		case 1:
			t.Devices[0].Final.Groups = append(t.Devices[0].Final.Groups, b.rest...)
		default:
			t.Beside = append(t.Beside, trace.Device{Content: trace.Instant, Index: -1, Name: "executables", HasFinal: true,
				Pools: []trace.Pool{{}}, Final: trace.State{Groups: b.rest}})
		}
	}
	if b.bad > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "bad-sample", Message: "samples have sizes or counts that make no sense and were left out", Count: b.bad, First: -1})
	}
	return t
}

// isXProf reports whether a text begins like the JSON of XProf's memory profile.
func isXProf(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return bytes.HasPrefix(head, []byte("{")) && (bytes.Contains(head, []byte(`"memoryProfilePerAllocator"`)) ||
		bytes.Contains(head, []byte(`"memoryIds"`)) && bytes.Contains(head, []byte(`"numHosts"`)))
}
