package simulate

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/trace"
)

// Steps without annotations.
//
// In a loop some allocations happen once in each iteration: the batch, the loss, what is done outside of the
// layers. Their kinds all occur equally often, and take turns: between two of one there is exactly one of each
// other. Such a choir of kinds marks a loop, and the one that sings first begins an iteration. A loop within
// the steps, over layers say, has its choir too, but its turns are of very different lengths: the last one of
// a step goes on until the next step. Programs without a loop, or whose iterations differ much, have no steady
// choir, and no steps.
//
// A kind is a call stack, which is the same whatever the size of a batch. Where too few of them occur once in
// an iteration, or there are none, stack and size together are tried.

const (
	leastTurns  = 3       // iterations that must be seen
	leastVoices = 3       // kinds that must take turns
	leastInTurn = 4       // requests that an iteration must have on average
	kindTable   = 1 << 16 // kinds are counted by a hash of so many values: collisions only hide some
	mostChoirs  = 24      // how many numbers of occurrences are tried
	mostLeaders = 3       // how many kinds of each are tried as the first
)

// kindOf tells allocations of different places in a program apart: by stack, or by size where there is none.
func kindOf(e *trace.Event) uint64 {
	if e.Stack == trace.NoStack {
		return mix(uint64(e.Size)<<1 | 1)
	}
	return mix(uint64(e.Stack) << 1)
}

func mix(k uint64) uint64 {
	k *= 0x9e3779b97f4a7c15
	return k ^ k>>32
}

// loops looks for the loop that a program spends its time in.
type loops struct {
	d     *trace.Device
	sizes bool     // kinds are of stack and size, otherwise of stacks alone
	kinds []uint16 // of the requests that tell anything, in order
	count []int32  // of requests, by kind
	total int      // requests
}

// choir is the kinds of allocation that occur equally often and take turns.
type choir struct {
	times  int32 // how often each occurs
	kinds  int   // how many occur so often
	leader int   // the one that begins, -1 if there is none
	turns  int32 // of the leader, so far
	voices int   // kinds that take turns with it
}

// patternSteps finds the iterations of a loop in the events.
func patternSteps(d *trace.Device) []Iteration {
	if steps := newLoops(d, false).find(); steps != nil {
		return steps
	}
	return newLoops(d, true).find()
}

func newLoops(d *trace.Device, sizes bool) *loops {
	l := &loops{d: d, sizes: sizes, count: make([]int32, kindTable)}
	for _, e := range d.Events.All() {
		if e.Op == trace.OpAlloc {
			l.total++
		}
		if k := l.kind(e); k >= 0 {
			l.count[k]++
			l.kinds = append(l.kinds, uint16(k))
		}
	}
	return l
}

// kind is that of a request, -1 for another event or one that tells nothing.
func (l *loops) kind(e *trace.Event) int {
	switch {
	case e.Op != trace.OpAlloc, !l.sizes && e.Stack == trace.NoStack:
		return -1
	case l.sizes:
		return int(mix(uint64(e.Stack)<<40^uint64(e.Size)) % kindTable)
	}
	return int(kindOf(e) % kindTable)
}

// find goes through the choirs and takes the one with the most voices that is steady.
func (l *loops) find() []Iteration {
	choirs := l.choirs()
	passed := map[int]bool{}
	var best []Iteration
	voices := leastVoices - 1
	for range mostLeaders {
		if len(choirs) == 0 {
			break
		}
		l.listen(choirs, passed)
		for _, c := range choirs {
			if c.voices > voices && 2*c.voices >= c.kinds {
				if steps := l.iterations(c); steps != nil {
					best, voices = steps, c.voices
				}
			}
			if c.leader >= 0 {
				passed[c.leader] = true
			}
		}
		choirs = slices.DeleteFunc(choirs, func(c choir) bool { return 2*c.voices >= c.kinds })
	}
	return best
}

// choirs lists how often kinds occur, what most have in common first.
func (l *loops) choirs() []choir {
	kinds := map[int32]int{}
	for _, n := range l.count {
		if n >= leastTurns {
			kinds[n]++
		}
	}
	var out []choir
	for n, k := range kinds {
		if k >= leastVoices {
			out = append(out, choir{times: n, kinds: k})
		}
	}
	slices.SortFunc(out, func(a, b choir) int { return cmp.Or(cmp.Compare(b.kinds, a.kinds), cmp.Compare(a.times, b.times)) })
	return out[:min(len(out), mostChoirs)]
}

// listen finds for each choir who begins, those that were tried passed over, and how many take turns with it.
func (l *loops) listen(choirs []choir, passed map[int]bool) {
	of := make([]int8, kindTable) // by kind: its choir and one, 0 for none
	index := map[int32]int8{}
	for i := range choirs {
		choirs[i].leader, choirs[i].turns, choirs[i].voices = -1, 0, 0
		index[choirs[i].times] = int8(i) + 1
	}
	for k, n := range l.count {
		of[k] = index[n]
	}
	turn := make([]int32, kindTable) // in which a kind was heard last, -1 if it ever was out of turn
	for _, k := range l.kinds {
		if of[k] == 0 {
			continue
		}
		c := &choirs[of[k]-1]
		if c.leader < 0 && !passed[int(k)] {
			c.leader = int(k)
		}
		if int(k) == c.leader {
			c.turns++
		}
		if turn[k] == c.turns-1 {
			turn[k]++
		} else {
			turn[k] = -1
		}
	}
	for k, n := range turn {
		if of[k] > 0 && n == l.count[k] {
			choirs[of[k]-1].voices++
		}
	}
}

// iterations are those that a choir marks, or nil if they are not the program's steps: long, most of the
// recording, and most of what is in them in ones of about the usual length. The last has no end that the
// recording shows.
func (l *loops) iterations(c choir) []Iteration {
	var out []Iteration
	var requests []int
	heard := 0
	for i, e := range l.d.Events.All() {
		if e.Op != trace.OpAlloc {
			continue
		}
		k := l.kind(e)
		if k == c.leader {
			from := unsplit(l.d, i)
			if n := len(out); n > 0 {
				out[n-1].To, out[n-1].Ended = from, true
			}
			out = append(out, Iteration{From: from, Begun: true})
			requests = append(requests, 0)
		}
		if k >= 0 && l.count[k] == c.times {
			heard = i + 1
		}
		if n := len(requests); n > 0 {
			requests[n-1]++
		}
	}
	out[len(out)-1].To = heard
	whole := requests[:len(requests)-1]
	usual := slices.Sorted(slices.Values(whole))[len(whole)/2]
	all, near := 0, 0
	for _, n := range whole {
		all += n
		if n >= usual/2 && n <= 2*usual {
			near += n
		}
	}
	if all < leastInTurn*len(whole) || 2*(all+usual) < l.total || 5*near < 4*all {
		return nil
	}
	return out
}
