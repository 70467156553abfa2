package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/vramscope/vramscope/simulate/fleet"
)

// Pool is how work is done on one machine.
type Pool struct {
	Workers int
	// InFlight is about how many bytes of recordings may be in memory at once, all workers together. A recording that is
	// larger by itself is looked at alone.
	InFlight int64
	Kept     Kept
	Progress func(done, total int) // may be nil
}

// Kept is where results are kept so that they need not be found again. Neither may be nil.
type Kept struct {
	Get func(key string) []byte
	Put func(key string, value []byte) error
}

// Nothing keeps nothing.
func Nothing() Kept {
	return Kept{Get: func(string) []byte { return nil }, Put: func(string, []byte) error { return nil }}
}

// Tasks are the first look at each input.
func Tasks(inputs []Input) []Task {
	var out []Task
	for _, in := range inputs {
		out = append(out, Task{File: in.File, First: true, Found: in.Found})
	}
	return out
}

// Share is the part of a list that is of shard i of n.
func Share(list []Task, i, n int) []Task {
	var out []Task
	for at := range list {
		if at%n == i {
			out = append(out, list[at])
		}
	}
	return out
}

// Run does tasks and merges what they find. Neither the number of workers nor the order in which they end changes it.
// An error is about keeping results; what a file has is in the summary.
func (p Pool) Run(tasks []Task, inputs []Input, o Options) (*fleet.Summary, error) {
	by := map[string]*Input{}
	for i := range inputs {
		by[inputs[i].File] = &inputs[i]
	}
	parts := make([]*fleet.Summary, len(tasks))
	var mu sync.Mutex
	var failed error
	done, next := 0, 0
	room := newRoom(p.InFlight)
	var wait sync.WaitGroup
	for range max(1, min(p.Workers, len(tasks))) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := failed != nil
				mu.Unlock()
				if i >= len(tasks) || stop {
					return
				}
				s, err := p.one(tasks[i], by[tasks[i].File], o, room)
				mu.Lock()
				parts[i] = s
				if err != nil && failed == nil {
					failed = err
				}
				if done++; p.Progress != nil {
					p.Progress(done, len(tasks))
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if failed != nil {
		return nil, failed
	}
	return fleet.Merge(parts...), nil
}

// one does a task, unless its result is kept from an earlier run.
func (p Pool) one(t Task, in *Input, o Options, room *room) (*fleet.Summary, error) {
	if in == nil {
		in = &Input{File: t.File}
	}
	key := t.key(in, o)
	if kept := p.Kept.Get(key); kept != nil {
		s := &fleet.Summary{}
		if json.Unmarshal(kept, s) == nil {
			return s, nil
		}
	}
	n := in.weight()
	room.enter(n)
	s := Map(t, o)
	room.leave(n)
	value, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%s: what was found cannot be kept: %w", t.File, err)
	}
	// What another run reads is what this one goes on with, to the last bit.
	s = &fleet.Summary{}
	if err := json.Unmarshal(value, s); err != nil {
		return nil, fmt.Errorf("%s: what was found cannot be kept: %w", t.File, err)
	}
	return s, p.Kept.Put(key, value)
}

// form is counted up whenever what a task finds changes, for builds that have no version.
const form = "1"

// key names the result of a task: it is that of the same task on the same file, unchanged, under the same options and by the
// same build.
func (t Task) key(in *Input, o Options) string {
	h := sha256.New()
	what, _ := json.Marshal(t) // unreachable: a task has nothing that cannot be written
	fmt.Fprintf(h, "%s %s\n%s\n%d %d\n%d %d %t\n", form, o.Build, what, in.Size, in.Stamp, o.Limit, o.Memory, o.Redact)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// weight is about how much memory looking at a file takes, in bytes.
func (in *Input) weight() int64 {
	const packed = 12 // times that a packed recording is larger unpacked
	if strings.HasSuffix(in.File, ".gz") || strings.HasSuffix(in.File, ".zst") {
		return in.Size * packed
	}
	return in.Size
}

// room lets in as much as there is room for, and anything if there is nothing in it.
type room struct {
	mu   sync.Mutex
	left *sync.Cond
	most int64
	in   int64
	n    int
}

func newRoom(most int64) *room {
	r := &room{most: most}
	r.left = sync.NewCond(&r.mu)
	return r
}

func (r *room) enter(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n > 0 && r.most > 0 && r.in+n > r.most {
		r.left.Wait()
	}
	r.in += n
	r.n++
}

func (r *room) leave(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.in -= n
	r.n--
	r.left.Broadcast()
}

// All looks at every input, and then at as many again as it takes to find one setting for all, if tune says so.
// Round is told of each look, for progress.
func (p Pool) All(inputs []Input, o Options, tune bool, round func(what string) func(done, total int)) (*fleet.Summary, error) {
	p.Progress = round("reading")
	s, err := p.Run(Tasks(inputs), inputs, o)
	if err != nil || !tune {
		return s, err
	}
	return p.Tune(s, inputs, o, true, round)
}

// Tune goes on from a summary until there is nothing left to find out, or only to verify on all ranks.
func (p Pool) Tune(s *fleet.Summary, inputs []Input, o Options, verify bool, round func(what string) func(done, total int)) (*fleet.Summary, error) {
	for {
		tasks := Next(s)
		if len(tasks) == 0 || Doing(tasks) == verifying && !verify {
			return s, nil
		}
		p.Progress = round(Doing(tasks))
		more, err := p.Run(tasks, inputs, o)
		if err != nil {
			return nil, err
		}
		s = fleet.Merge(s, more)
	}
}

// Doing says what a list of tasks is about.
func Doing(tasks []Task) string {
	switch t := tasks[0]; {
	case t.First:
		return "reading"
	case len(t.Search) > 0:
		return "searching settings"
	case len(t.Try) > 0 && t.Try[0].Close:
		return "comparing settings"
	}
	return verifying
}

const verifying = "verifying settings"
