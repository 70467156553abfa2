package pprof_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/pprof"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// analysis is what the JSON of an analysis has, as others read it.
type analysis struct {
	Devices []struct {
		Device int
		Peak   holders `json:"peak_allocated"`
		End    holders
		OOMs   []struct {
			Allocated int64 `json:"allocated_bytes"`
		} `json:"ooms"`
	}
}

type holders struct {
	Bytes        *int64 // of a peak
	Allocated    *int64 `json:"allocated_bytes"` // of an end
	Before       int64  `json:"before_recording_bytes"`
	Unattributed int64  `json:"unattributed_bytes"`
	ByStack      []struct {
		Stack  []string
		Bytes  int64
		Blocks int64
	} `json:"by_stack"`
}

func analyzed(t *testing.T, a *report.Analysis) analysis {
	t.Helper()
	var b bytes.Buffer
	if err := a.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var out analysis
	if err := json.Unmarshal(b.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func profiled(t *testing.T, a *report.Analysis) (*profile.Profile, *pprof.Profile) {
	t.Helper()
	p, err := pprof.Of(a)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	read, err := profile.ParseData(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := read.CheckValid(); err != nil {
		t.Fatal(err)
	}
	return read, p
}

// column is the index of a sample type, -1 for none.
func column(p *profile.Profile, name string) int {
	return slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == name })
}

// held adds up a sample type by the stack, of one device. A stack reads like those of the analysis.
func held(p *profile.Profile, device int, name string) (sum int64, byStack map[string]int64) {
	byStack = map[string]int64{}
	c := column(p, name)
	if c < 0 {
		return 0, byStack
	}
	for _, s := range p.Sample {
		if s.Label["device"][0] != strconv.Itoa(device) {
			continue
		}
		var frames []string
		for _, l := range s.Location {
			f := l.Line[0]
			switch {
			case f.Function.Filename == "":
				frames = append(frames, f.Function.Name)
			default:
				frames = append(frames, fmt.Sprintf("%s:%d %s", f.Function.Filename, f.Line, f.Function.Name))
			}
		}
		sum += s.Value[c]
		if s.Value[c] != 0 {
			byStack[strings.Join(frames, "\n")] += s.Value[c]
		}
	}
	return sum, byStack
}

// like makes the stacks of an analysis read like those of a profile.
func (h *holders) like() map[string]int64 {
	out := map[string]int64{}
	for _, s := range h.ByStack {
		frames := slices.Clone(s.Stack)
		for i, f := range frames {
			f = strings.TrimPrefix(f, "??:0 ")
			if strings.HasSuffix(f, " ") { // a frame without a function
				file, _, _ := strings.Cut(strings.TrimSpace(f), ":")
				f += file
			}
			frames[i] = f
		}
		if s.Bytes != 0 {
			out[strings.Join(frames, "\n")] += s.Bytes
		}
	}
	return out
}

// On every recording that is here the profile has what the analysis has: the sums, and what each stack held.
func TestRecordings(t *testing.T) {
	var names []string
	for _, r := range recordtest.Snapshots() {
		if r.Own || !testing.Short() {
			names = append(names, r.File)
		}
	}
	for _, dir := range []string{filepath.Join(recordtest.Testdata(), "inputs"), filepath.Join(recordtest.Testdata(), "nsys"), filepath.Join(recordtest.Corpus(), "nsys"),
		filepath.Join(recordtest.Corpus(), "kineto"), filepath.Join(recordtest.Corpus(), "text"), filepath.Join("..", "testdata", "unusual")} {
		list, _ := filepath.Glob(filepath.Join(dir, "*"))
		names = append(names, list...)
	}
	for _, name := range names {
		tr, err := source.Open(name, source.Options{})
		if err != nil {
			continue // the readers' tests say why
		}
		t.Run(filepath.Base(name), func(t *testing.T) { same(t, report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})) })
	}
}

func same(t *testing.T, a *report.Analysis) {
	t.Helper()
	want := analyzed(t, a)
	if p, err := pprof.Of(a); err != nil {
		if !errors.Is(err, pprof.ErrNoBlocks) || p != nil {
			t.Fatal(err)
		}
		for _, d := range want.Devices {
			if len(d.Peak.ByStack)+len(d.End.ByStack) > 0 {
				t.Errorf("device %d has stacks, and there is no profile", d.Device)
			}
		}
		return
	}
	p, _ := profiled(t, a)
	for _, d := range want.Devices {
		for _, at := range []struct {
			name string
			h    *holders
			sum  *int64
		}{{"peak", &d.Peak, d.Peak.Bytes}, {"end", &d.End, d.End.Allocated}} {
			if at.sum == nil || column(p, at.name+"_space") < 0 {
				continue
			}
			sum, byStack := held(p, d.Device, at.name+"_space")
			if sum != *at.sum {
				t.Errorf("device %d, %s: %d bytes, the analysis has %d", d.Device, at.name, sum, *at.sum)
			}
			expect := at.h.like()
			for name, bytes := range map[string]int64{report.BeforeRecording: at.h.Before} {
				if bytes > 0 {
					expect[name] += bytes
				}
			}
			if n := at.h.Unattributed; n > 0 {
				bare := byStack[report.WithoutStack] + byStack[report.WithoutStacks]
				if bare != n {
					t.Errorf("device %d, %s: %d bytes without a stack, want %d", d.Device, at.name, bare, n)
				}
			}
			delete(byStack, report.WithoutStack)
			delete(byStack, report.WithoutStacks)
			delete(byStack, "not told by the recording")
			for s, n := range expect {
				if byStack[s] != n {
					t.Errorf("device %d, %s: %d bytes, want %d, of\n%s", d.Device, at.name, byStack[s], n, s)
				}
				delete(byStack, s)
			}
			if len(byStack) > 0 {
				t.Errorf("device %d, %s: the analysis does not have %v", d.Device, at.name, byStack)
			}
		}
		if len(d.OOMs) > 0 && column(p, "oom_space") >= 0 && len(a.Devices) == 1 {
			if sum, _ := held(p, d.Device, "oom_space"); sum != d.OOMs[0].Allocated {
				t.Errorf("device %d ran out with %d bytes, the analysis has %d", d.Device, sum, d.OOMs[0].Allocated)
			}
		}
	}
}

// Whatever has happened to a recording, the profile has what the analysis has.
func TestDamaged(t *testing.T) {
	for _, name := range []string{"graph", "oom_exp", "ring", "record_stream"} {
		whole, err := source.Open(filepath.Join(recordtest.Testdata(), "golden", name+".pickle.zst"), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tracetest.Damages {
			tr := x.ApplyAll(whole)
			t.Run(name+" "+x.Name, func(t *testing.T) { same(t, report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})) })
		}
	}
}

// The samples are told apart by what holds them, and named.
func TestContents(t *testing.T) {
	stacks := trace.NewStacks()
	odd := stacks.AddStack([]trace.FrameID{stacks.AddFrame(trace.Frame{File: "??", Func: "at::native<int>::run(T<x>)"}), stacks.AddFrame(trace.Frame{File: "a.py", Func: "<module>", Line: 7}), stacks.AddFrame(trace.Frame{File: "b.py", Line: 3})})
	const mib = 1 << 20
	at := trace.Time(1_700_000_000e9)
	d := trace.Device{Index: 3, Content: trace.Requests, Streams: []uint64{0, 7, 0x55550000}, Pools: []trace.Pool{{}, {0, 4}, {5, 0}, {8, 9}}, NumBlocks: 5,
		Initial: trace.State{Blocks: []trace.Block{{ID: 0, State: trace.BlockLive, Size: mib, Requested: mib, Addr: 1 << 30}}},
		Events: trace.EventsOf(
			trace.Event{Time: at, Op: trace.OpAlloc, Block: 1, Size: 2 * mib, Addr: 2 << 30, Stack: odd, Stream: 1, Pool: 1},
			trace.Event{Time: at + 1e9, Op: trace.OpAlloc, Block: 2, Size: 4 * mib, Addr: 3 << 30, Stack: odd, Stream: 2, Pool: 2},
			trace.Event{Time: at + 2e9, Op: trace.OpFree, Block: 1, Addr: 2 << 30},
			trace.Event{Time: at + 3e9, Op: trace.OpAlloc, Block: 3, Size: mib, Addr: 4 << 30, Pool: 3},
			trace.Event{Time: at + 4e9, Op: trace.OpAlloc, Block: 4, Size: mib, Addr: 5 << 30, Stack: odd, Stream: 1, Pool: 1},
		)}
	tr := &trace.Trace{Stacks: stacks, Devices: []trace.Device{d}, Settings: trace.Settings{MaxSplitSize: -1}}
	p, sums := profiled(t, report.Analyze("/home/somebody/x.pickle", tr, report.Options{Limit: -1, Device: -1}))
	var got []string
	for _, s := range p.Sample {
		got = append(got, fmt.Sprint(s.Label["stream"], s.Label["pool"], s.Location[0].Line[0].Function.Name, s.Value))
	}
	want := []string{
		"[0] [default] before recording began [1048576 1 1048576 1 0 0]",
		"[7] [MemPool 4] at::native<int>::run(T<x>) [2097152 1 1048576 1 3145728 2]",
		"[0x55550000] [graph pool 5] at::native<int>::run(T<x>) [4194304 1 4194304 1 4194304 1]",
		"[0] [pool 8,9] no call stack was recorded (the backward pass has none) [0 0 1048576 1 1048576 1]",
	}
	for i := range want {
		want[i] = strings.Replace(want[i], "] [", "][", 1)
		want[i] = strings.Replace(want[i], "] ", "]", 1)
	}
	for i := range got {
		got[i] = strings.Replace(got[i], "] [", "][", 1)
	}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if strings.ReplaceAll(got[i], " ", "") != strings.ReplaceAll(want[i], " ", "") {
			t.Errorf("sample %d: %s, want %s", i, got[i], want[i])
		}
	}
	if p.TimeNanos != int64(at) || p.DurationNanos != 4e9 || p.DefaultSampleType != "peak_space" || p.Mapping[0].File != "x.pickle" || sums.Samples != 4 || sums.Types[0] != (pprof.Type{Name: "peak_space", Bytes: 7 * mib}) {
		t.Errorf("%d %d %s %+v", p.TimeNanos, p.DurationNanos, p.DefaultSampleType, sums)
	}
	if names := p.Sample[1].Location[2].Line[0].Function.Name; names != "b.py" {
		t.Errorf("a frame without a function is %q", names)
	}
}

// go tool pprof opens it, with the sums of the analysis, and leaves names as they are.
func TestTool(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
	if out, err := exec.Command("go", "tool", "-n", "pprof").CombinedOutput(); err != nil {
		t.Skipf("no go tool pprof: %s", out)
	}
	name := filepath.Join(recordtest.Testdata(), "gpt_oom.pickle.zst")
	tr, err := source.Open(name, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := report.Analyze(name, tr, report.Options{Limit: -1, Device: -1})
	p, err := pprof.Of(a)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "x.pb.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	want := analyzed(t, a).Devices[0]
	for index, sum := range map[string]int64{"peak_space": *want.Peak.Bytes, "end_space": *want.End.Allocated, "oom_space": want.OOMs[0].Allocated, "": *want.Peak.Bytes} {
		args := []string{"tool", "pprof", "-top", "-unit=B", "-nodefraction=0", "-nodecount=100000"}
		if index != "" {
			args = append(args, "-sample_index="+index)
		}
		out, err := exec.Command("go", append(args, file)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		m := regexp.MustCompile(`of (\d+)B total`).FindSubmatch(out)
		if m == nil || string(m[1]) != fmt.Sprint(sum) {
			t.Errorf("%s: want %d:\n%s", index, sum, out)
		}
		if index == "peak_space" && (!bytes.Contains(out, []byte("<module>")) || !bytes.Contains(out, []byte("cross_entropy")) || !bytes.Contains(out, []byte(report.WithoutStack))) {
			t.Errorf("names are missing:\n%s", out)
		}
	}
	out, err := exec.Command("go", "tool", "pprof", "-tags", file).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("pool:")) || !bytes.Contains(out, []byte("device:")) {
		t.Errorf("%v: %s", err, out)
	}
}
