package report

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/vramscope/vramscope/allocators/driver/cuda"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/simulate/gpu"
)

// GPUReplay is a recording replayed on a GPU.
type GPUReplay struct {
	File   string
	Events int
	Conf   string // of PyTorch's allocator, where it decided
	Limit  int64  // bytes, negative for no limit
	Notes  []string
	*gpu.Result
}

type gpuReplayJSON struct {
	Schema      string        `json:"schema"`
	File        string        `json:"file"`
	Events      int           `json:"events"`
	Mode        string        `json:"mode"`
	Conf        *string       `json:"conf"`
	GPU         gpuJSON       `json:"gpu"`
	Memory      int64         `json:"memory_bytes"`
	Limit       *int64        `json:"limit_bytes"`
	Completed   bool          `json:"completed"`
	Interrupted bool          `json:"interrupted"`
	Ended       int           `json:"ended_at_event"`
	Seconds     float64       `json:"seconds"`
	PeakUsed    int64         `json:"peak_used_bytes"` // by the device's own account
	Before      int64         `json:"free_before_bytes"`
	After       int64         `json:"free_after_bytes"`
	Refused     int64         `json:"refused_by_device"`
	Beyond      int64         `json:"refused_by_memory_bound"`
	Measured    gpuStatsJSON  `json:"measured"`
	Simulated   gpuStatsJSON  `json:"simulated"`
	Parted      *partedJSON   `json:"parted"`
	Addresses   addressesJSON `json:"addresses"`
	Calls       []callJSON    `json:"calls"`
	Notes       []string      `json:"notes"`
}

type gpuStatsJSON struct {
	Completed     bool          `json:"completed"`
	PeakAllocated int64         `json:"peak_allocated_bytes"`
	PeakReserved  int64         `json:"peak_reserved_bytes"`
	Final         int64         `json:"final_reserved_bytes"`
	DeviceAllocs  int64         `json:"device_allocs"`
	DeviceFrees   int64         `json:"device_frees"`
	Retries       int64         `json:"retries"`
	OOMs          int64         `json:"ooms"`
	FirstOOM      *firstOOMJSON `json:"first_oom"`
}

func newGPUStatsJSON(r *simulate.Run) gpuStatsJSON {
	s := &r.Stats
	out := gpuStatsJSON{Completed: r.Completed, PeakAllocated: s.Allocated.Peak, PeakReserved: s.Reserved.Peak, Final: s.Reserved.Current,
		DeviceAllocs: s.DeviceAllocs, DeviceFrees: s.DeviceFrees, Retries: s.Retries, OOMs: s.OOMs}
	if o := r.FirstOOM; o != nil {
		out.FirstOOM = &firstOOMJSON{o.Event, o.Requested, o.Allocated, o.Reserved, o.LargestFree}
	}
	return out
}

type partedJSON struct {
	Event     int     `json:"event"`
	GPU       actJSON `json:"gpu"`
	Simulated actJSON `json:"simulated"`
}

type actJSON struct {
	What  string `json:"what"`
	Bytes *int64 `json:"bytes"`
	Used  *int64 `json:"used_bytes"`
}

func newActJSON(a gpu.Act) actJSON { return actJSON{a.Verb, atLeast(a.Bytes, 1), atLeast(a.Used, 0)} }

type addressesJSON struct {
	Checked  int            `json:"checked"`
	Matched  int            `json:"matched"`
	First    *displacedJSON `json:"first_mismatch"`
	OneAhead matchedJSON    `json:"one_step_ahead"`
}

type displacedJSON struct {
	Event     int   `json:"event"`
	Size      int64 `json:"size_bytes"`
	GPU       int64 `json:"gpu_offset_bytes"`
	Simulated int64 `json:"simulated_offset_bytes"`
}

type matchedJSON struct {
	Checked int `json:"checked"`
	Matched int `json:"matched"`
}

type callJSON struct {
	Call   string `json:"call"`
	Calls  int64  `json:"calls"`
	Failed int64  `json:"failed"`
	P50    int64  `json:"p50_ns"`
	P99    int64  `json:"p99_ns"`
	Max    int64  `json:"max_ns"`
	Total  int64  `json:"total_ns"`
}

func newCallJSON(k cuda.Kind, t *cuda.Timing) callJSON {
	return callJSON{k.String(), t.Calls, t.Failed, int64(t.Quantile(0.5)), int64(t.Quantile(0.99)), int64(t.Max), int64(t.Total)}
}

// eachCall goes through the calls that a replay made; asking how much is free is none of its own.
func (r *GPUReplay) eachCall(do func(k cuda.Kind, t *cuda.Timing)) {
	for k := range r.Timings {
		if t := &r.Timings[k]; t.Calls > 0 && cuda.Kind(k) != cuda.Memory {
			do(cuda.Kind(k), t)
		}
	}
}

// caching says whether PyTorch's allocator decided.
func (r *GPUReplay) caching() bool { return r.Mode == gpu.Caching || r.Mode == gpu.Expandable }

// WriteJSON renders a replay for programs, schema vramscope/gpu-replay/v1.
func (r *GPUReplay) WriteJSON(w io.Writer) error {
	out := gpuReplayJSON{Schema: "vramscope/gpu-replay/v1", File: r.File, Events: r.Events, Mode: string(r.Mode), GPU: newGPUJSON(r.Device, -1),
		Memory: r.Memory, Limit: atLeast(r.Limit, 0), Completed: r.Run.Completed, Interrupted: r.Interrupted, Ended: r.Run.Ended, Seconds: r.Elapsed.Seconds(),
		PeakUsed: r.PeakUsed, Before: r.Before, After: r.After, Refused: r.Refused, Beyond: r.Beyond,
		Measured: newGPUStatsJSON(&r.Run), Simulated: newGPUStatsJSON(&r.Predicted), Calls: []callJSON{}, Notes: append([]string{}, r.Notes...),
		Addresses: addressesJSON{Checked: r.Placed, Matched: r.PlacedAsSaid, OneAhead: matchedJSON{r.OneAhead.Checked, r.OneAhead.Matched}}}
	if r.caching() {
		out.Conf = &r.Conf
	}
	if x := r.Parted; x != nil {
		out.Parted = &partedJSON{x.Event, newActJSON(x.GPU), newActJSON(x.Simulated)}
	}
	if x := r.Displaced; x != nil {
		out.Addresses.First = &displacedJSON{x.Event, x.Size, x.GPU, x.Simulated}
	}
	r.eachCall(func(k cuda.Kind, t *cuda.Timing) { out.Calls = append(out.Calls, newCallJSON(k, t)) })
	return WriteJSON(w, out)
}

// WriteText renders a replay for people.
func (r *GPUReplay) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(fmt.Sprintf("%s · %s on %s (device %d), %s", filepath.Base(r.File), plural(r.Events, "event"), r.Device.Name, r.Device.Index, r.served())))
	p.line("%s", r.outcome())
	s, said := &r.Run.Stats, &r.Predicted.Stats
	p.line("")
	tab := Grid("", "on the GPU", "simulated")
	tab.SetColumnConfigs(rightAligned(2, 3))
	row := func(what string, a, b string) { tab.AppendRow([]any{what, a, b}) }
	row("peak reserved", Bytes(s.Reserved.Peak), Bytes(said.Reserved.Peak))
	row("peak allocated", Bytes(s.Allocated.Peak), Bytes(said.Allocated.Peak))
	if r.Mode != gpu.Pool {
		row("calls that took memory", Count(int(s.DeviceAllocs)), Count(int(said.DeviceAllocs)))
		row("calls that gave it back", Count(int(s.DeviceFrees)), Count(int(said.DeviceFrees)))
	}
	row("retries", Count(int(s.Retries)), Count(int(said.Retries)))
	row("failed requests", Count(int(s.OOMs)), Count(int(said.OOMs)))
	p.grid(tab)
	p.line("")
	p.line("%s", r.parting())
	if text := r.placing(); text != "" {
		p.line("%s", text)
	}
	p.line("By the device's own account: %s", r.account())
	p.line("")
	calls := Grid("call", "calls", "failed", "p50", "p99", "max", "total")
	calls.SetColumnConfigs(rightAligned(2, 7))
	r.eachCall(func(k cuda.Kind, t *cuda.Timing) {
		calls.AppendRow([]any{k.String(), Count(int(t.Calls)), Count(int(t.Failed)), Micros(t.Quantile(0.5)), Micros(t.Quantile(0.99)), Micros(t.Max), Micros(t.Total)})
	})
	p.grid(calls)
	p.notes(r.Notes)
	return p.err
}

// served says who served the requests.
func (r *GPUReplay) served() string {
	conf := r.Conf
	if conf == "" {
		conf = "the default settings"
	}
	switch r.Mode {
	case gpu.CudaMalloc:
		return "each request a cudaMalloc"
	case gpu.Pool:
		return "each request a cudaMallocAsync"
	}
	return "PyTorch's allocator with " + conf
}

// outcome is how it ended.
func (r *GPUReplay) outcome() string {
	o := r.Run.FirstOOM
	switch {
	case r.Interrupted:
		return fmt.Sprintf("Interrupted at event %s, after %s; what was taken is given back.", Count(r.Run.Ended), Span(r.Elapsed))
	case r.Run.Completed && o != nil:
		return fmt.Sprintf("Finished in %s, as recorded after %s.", Span(r.Elapsed), plural(int(r.Run.Stats.OOMs), "failure"))
	case r.Run.Completed:
		return fmt.Sprintf("Finished in %s.", Span(r.Elapsed))
	case o == nil:
		return fmt.Sprintf("Ended at event %s.", Count(r.Run.Ended))
	}
	who := "the device has no more"
	switch {
	case r.Refused == 0 && r.Beyond > 0:
		who = "--memory allows no more"
	case r.Refused == 0:
		who = "--limit allows no more"
	}
	return fmt.Sprintf("Out of memory at event %s: %s asked with %s reserved, and %s.", Count(o.Event), Bytes(o.Requested), Bytes(o.Reserved), who)
}

// parting says how far the GPU did what the simulation says.
func (r *GPUReplay) parting() string {
	x := r.Parted
	if x == nil {
		what := "Every call is the one that the simulation made: same event, same size, same outcome."
		switch r.Mode {
		case gpu.Pool:
			what = "After every call the pool held and used what the simulation says."
		case gpu.CudaMalloc:
			what = "After every call the device had in use what the simulation says."
		}
		return what
	}
	return fmt.Sprintf("They part at event %s: the GPU %s, the simulation %s.", Count(x.Event), showAct(x.GPU), showAct(x.Simulated))
}

func showAct(a gpu.Act) string {
	text := a.Verb
	if a.Bytes > 0 {
		text += " " + Bytes(a.Bytes)
	}
	if a.Used >= 0 {
		text += fmt.Sprintf(" (%s used)", Bytes(a.Used))
	}
	return text
}

// placing says how well addresses were foretold.
func (r *GPUReplay) placing() string {
	if r.Placed == 0 {
		return ""
	}
	text := fmt.Sprintf("Addresses: %s of %s where the simulation put them", Count(r.PlacedAsSaid), Count(r.Placed))
	if d := r.Displaced; d != nil {
		text += fmt.Sprintf("; the first elsewhere is that of %s at event %s, at %s and not at %s from where the first is",
			Bytes(d.Size), Count(d.Event), atOffset(d.GPU), atOffset(d.Simulated))
	}
	if o := r.OneAhead; r.Displaced != nil && o.Checked > 0 {
		text += fmt.Sprintf(". One step ahead, %s of %s", Count(o.Matched), Count(o.Checked))
	}
	return text + "."
}

func atOffset(n int64) string {
	if n < 0 {
		return Bytes(n)
	}
	return "+" + Bytes(n)
}

// account is what the device says of its memory.
func (r *GPUReplay) account() string {
	parts := []string{fmt.Sprintf("%s in use at the peak, %s free before and ", Bytes(r.PeakUsed), Bytes(r.Before))}
	switch d := r.After - r.Before; {
	case d == 0:
		parts[0] += "after"
	case d > 0:
		parts[0] += fmt.Sprintf("%s more after: something else gave that back", Bytes(d))
	default:
		parts[0] += fmt.Sprintf("%s less after: something else took that, or it was not given back", Bytes(-d))
	}
	parts = append(parts, fmt.Sprintf("%s may be taken", Bytes(r.Memory)))
	if n := r.Refused; n > 0 {
		parts = append(parts, fmt.Sprintf("the device refused %s", plural(int(n), "call")))
	}
	if n := r.Beyond; n > 0 {
		parts = append(parts, fmt.Sprintf("%s not made because of that bound", callsWere(n)))
	}
	return strings.Join(parts, "; ") + "."
}

func callsWere(n int64) string {
	if n == 1 {
		return "1 call was"
	}
	return Count(int(n)) + " calls were"
}

// Micros shows how long a call takes.
func Micros(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d >= 10*time.Microsecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}
