package cupti

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Call is a call of the CUDA API.
type Call struct {
	Start   int64
	Process uint64
	Thread  uint64 // any number that the thread has alone, 0 if not known
	Number  uint32 // that memory events refer to, 0 for none
	NameID  uint64
	Name    string // "" if not known
	Chain   uint64 // number of the chain of callers, 0 for none
	Result  int64
}

// OutOfMemory is what calls return then, of the runtime and of the driver.
const OutOfMemory = 2

// Failure is a call that was refused memory. How much it asked for is recorded nowhere.
type Failure struct {
	Call
	class class
	known bool // whether class is
}

// Joiner finds the allocation that each call made, for sources that have calls and memory in tables apart.
type Joiner struct {
	r       *Recording
	wanted  []wanted // by process and number
	next    int      // where the next call is looked for first
	learned map[uint64]class
	chains  map[uint64]uint32
}

type wanted struct {
	process uint64
	call    uint32
	lane    uint16
	origin  uint32
}

func compareWanted(a, b wanted) int {
	return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.call, b.call))
}

// Join begins to look for the calls of all allocations so far; without useful it only looks for failures.
func (r *Recording) Join(useful bool) *Joiner {
	j := &Joiner{r: r, learned: map[uint64]class{}, chains: map[uint64]uint32{}}
	if !useful {
		return j
	}
	n := 0
	for _, l := range r.order {
		n += len(l.origins)
	}
	j.wanted = make([]wanted, 0, n)
	for i, l := range r.order {
		for k := range l.origins {
			if o := &l.origins[k]; o.call != 0 {
				j.wanted = append(j.wanted, wanted{l.process, o.call, uint16(i), uint32(k)})
			}
		}
	}
	slices.SortFunc(j.wanted, compareWanted)
	return j
}

// Add takes a call, in any order.
func (j *Joiner) Add(c *Call) {
	if c.Result == OutOfMemory {
		j.r.Fail(c)
	}
	if c.Number == 0 || len(j.wanted) == 0 {
		return
	}
	key := wanted{process: c.Process, call: c.Number}
	// Calls come nearly in the order of their numbers: look next to the last one first.
	i := j.next
	if i >= len(j.wanted) || compareWanted(j.wanted[i], key) < 0 || i > 0 && compareWanted(j.wanted[i-1], key) >= 0 {
		i, _ = slices.BinarySearchFunc(j.wanted, key, compareWanted)
	}
	for ; i < len(j.wanted) && compareWanted(j.wanted[i], key) == 0; i++ {
		w := &j.wanted[i]
		l := j.r.order[w.lane]
		o := &l.origins[w.origin]
		if c.Thread != 0 {
			o.thread = j.r.ranges.thread(c.Thread)
			l.threads[o.thread] = true
		}
		if c.Chain != 0 {
			o.chain = j.chain(c.Chain)
		}
		if c.NameID != 0 {
			j.learned[c.NameID] = l.class
		}
	}
	j.next = i
}

// chain numbers the chains of callers that are needed, from 1.
func (j *Joiner) chain(id uint64) uint32 {
	n, ok := j.chains[id]
	if !ok {
		n = uint32(len(j.chains)) + 1
		j.chains[id] = n
	}
	return n
}

// NeedsChain says whether an allocation has this chain of callers.
func (j *Joiner) NeedsChain(id uint64) bool {
	_, ok := j.chains[id]
	return ok
}

// NeedsChains says whether any allocation has a chain.
func (j *Joiner) NeedsChains() bool { return len(j.chains) > 0 }

// End puts the chains of callers in: their stacks, by number. Names of calls are looked up in names; those
// that are not there are known by what their successful calls did.
func (j *Joiner) End(stacks map[uint64]trace.StackID, names map[uint64]string) {
	byNumber := make([]trace.StackID, len(j.chains)+1)
	for id, n := range j.chains {
		byNumber[n] = stacks[id]
	}
	for _, l := range j.r.order {
		for i := range l.origins {
			if o := &l.origins[i]; o.call != 0 {
				o.call, o.chain = 0, uint32(byNumber[o.chain])
			}
		}
	}
	for i := range j.r.failed {
		f := &j.r.failed[i]
		if f.Name == "" {
			f.Name = names[f.NameID]
		}
		if f.Name == "" {
			f.class, f.known = j.learned[f.NameID]
		}
	}
	j.wanted = nil
}

// Fail takes a call that was refused memory; one that is seen twice, of the runtime and the driver, counts once.
func (r *Recording) Fail(c *Call) {
	if c.Number != 0 {
		key := [2]uint64{c.Process, uint64(c.Number)}
		if r.seen[key] {
			return
		}
		r.seen[key] = true
	}
	r.failed = append(r.failed, Failure{Call: *c})
}

// Allocates says what memory a function of the CUDA API allocates; ok is false if it is none that does.
func allocates(name string) (c class, ok bool) {
	name = FunctionName(name)
	for _, f := range []struct {
		prefix string
		class  class
	}{
		{"cudaMallocHost", pinnedClass}, {"cudaHostAlloc", pinnedClass}, {"cudaHostRegister", pinnedClass},
		{"cuMemAllocHost", pinnedClass}, {"cuMemHostAlloc", pinnedClass}, {"cuMemHostRegister", pinnedClass},
		{"cudaMallocManaged", managedClass}, {"cuMemAllocManaged", managedClass},
		{"cudaMalloc", deviceClass}, {"cuMemAlloc", deviceClass}, {"cuMemCreate", deviceClass},
		{"cuArrayCreate", deviceClass}, {"cuArray3DCreate", deviceClass}, {"cuMipmappedArrayCreate", deviceClass},
	} {
		if strings.HasPrefix(name, f.prefix) {
			return f.class, true
		}
	}
	return 0, false
}

// FunctionName is the name of a function of the CUDA API without the version that profilers write behind it,
// "cudaMalloc" for "cudaMalloc_v3020"; "" if it is no such name.
func FunctionName(s string) string {
	if len(s) < 3 || len(s) > 80 || s[0] != 'c' || s[1] != 'u' {
		return ""
	}
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return ""
		}
	}
	s = strings.TrimSuffix(strings.TrimSuffix(s, "_ptsz"), "_ptds")
	if i := strings.LastIndex(s, "_v"); i > 0 && strings.Trim(s[i+2:], "0123456789") == "" {
		s = s[:i]
	}
	return s
}

// fail makes events of the calls that were refused memory.
func (r *Recording) fail() {
	slices.SortStableFunc(r.failed, func(a, b Failure) int { return cmp.Compare(a.Start, b.Start) })
	byLane := map[*lane][]trace.Event{}
	for i := range r.failed {
		f := &r.failed[i]
		if !f.known && f.Name != "" {
			f.class, f.known = allocates(f.Name)
		}
		if !f.known {
			r.other[FunctionName(f.Name)]++
			continue
		}
		l := r.laneOf(f)
		if l == nil {
			r.unplaced++
			continue
		}
		byLane[l] = append(byLane[l], trace.Event{Time: r.time(f.Start), Block: trace.NoBlock, Stack: r.stackOf(f), Stream: l.streams.ID(0), Op: trace.OpOOM})
	}
	for l, events := range byLane {
		l.insert(events)
	}
}

func (r *Recording) stackOf(f *Failure) trace.StackID {
	if f.Thread == 0 {
		return trace.NoStack
	}
	return r.ranges.stack(r.Stacks, r.ranges.thread(f.Thread), f.Start, trace.NoStack)
}

// laneOf finds where a failure belongs: no call says which device it was for. If a process uses several, it
// is the one that the thread allocates on, or else the one that it allocated on last.
func (r *Recording) laneOf(f *Failure) *lane {
	var found []*lane
	for _, l := range r.order {
		if l.process == f.Process && l.class == f.class {
			found = append(found, l)
		}
	}
	if len(found) == 0 {
		return nil // a device of which nothing but a failure is known would look like an empty one
	}
	if f.Thread != 0 {
		thread := r.ranges.thread(f.Thread)
		if of := slices.DeleteFunc(slices.Clone(found), func(l *lane) bool { return !l.threads[thread] }); len(of) == 1 {
			return of[0]
		}
	}
	best, at := found[0], trace.Time(-1)
	for _, l := range found {
		if t := l.before(r.time(f.Start)); t > at {
			best, at = l, t
		}
	}
	if len(found) > 1 {
		best.warn("oom-device-guessed", "calls that were refused memory do not say for which device: they are put where the process last allocated")
	}
	return best
}

// before is the time of the last event before another time, -1 if there is none.
func (l *lane) before(t trace.Time) trace.Time {
	lo, hi := 0, l.Events.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		if l.Events.At(mid).Time <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return -1
	}
	return l.Events.At(lo - 1).Time
}

// insert puts events among those of the lane, both in the order of time.
func (l *lane) insert(more []trace.Event) {
	var all trace.Events
	for _, e := range l.Events.All() {
		for len(more) > 0 && more[0].Time < e.Time {
			all.Append(more[0])
			more = more[1:]
		}
		all.Append(*e)
	}
	for _, e := range more {
		all.Append(e)
	}
	l.Events = all
}

// warn counts a warning of the lane's.
func (l *lane) warn(code, message string) {
	for i := range l.Warnings {
		if l.Warnings[i].Code == code {
			l.Warnings[i].Count++
			return
		}
	}
	l.Warnings = append(l.Warnings, trace.Warning{Code: code, Message: message, Count: 1, First: -1})
}
