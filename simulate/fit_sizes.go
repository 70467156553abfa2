package simulate

// What is known of each size, and how the search goes on from there. Sizes are counted in steps; the first
// entry of the board is the step of the lower bound, the last is enough.

type verdict uint8

const (
	unsettled verdict = iota
	finishes
	fails
)

// mostSizes bounds the board: 4 TiB in steps of 2 MiB. Beyond that steps are made larger.
const mostSizes = 2 << 20

type sizes struct {
	unit    int64 // bytes of a step
	first   int64 // the step of the first entry
	verdict []verdict
}

func (b *sizes) bytes(i int) int64 { return (b.first + int64(i)) * b.unit }

// index is the entry of the smallest step that has so many bytes, kept on the board.
func (b *sizes) index(bytes int64) int {
	i := (bytes+b.unit-1)/b.unit - b.first
	return int(min(max(i, 0), int64(len(b.verdict)-1)))
}

// settle notes a verdict for the entries from..to.
func (b *sizes) settle(from, to int, completed bool) {
	v := fails
	if completed {
		v = finishes
	}
	for i := from; i <= to; i++ {
		b.verdict[i] = v
	}
}

// smallest is the first entry at which the run finishes; the last entry always does.
func (b *sizes) smallest() int {
	for i, v := range b.verdict {
		if v == finishes {
			return i
		}
	}
	return len(b.verdict) - 1
}

// safe is the first entry from which on nothing is known to fail.
func (b *sizes) safe() int {
	for i := len(b.verdict) - 1; i >= 0; i-- {
		if b.verdict[i] == fails {
			return i + 1
		}
	}
	return 0
}

// stretch is a range of entries, from..to-1.
type stretch struct{ from, to int }

// unsettledIn lists the ranges that nothing is known of, in [from, to).
func (b *sizes) unsettledIn(from, to int) []stretch {
	var out []stretch
	for i := from; i < to; i++ {
		if b.verdict[i] != unsettled {
			continue
		}
		if n := len(out); n > 0 && out[n-1].to == i {
			out[n-1].to = i + 1
		} else {
			out = append(out, stretch{i, i + 1})
		}
	}
	return out
}

// widest is the widest of the ranges, the one of the greatest sizes among equals.
func widest(list []stretch) (stretch, bool) {
	var best stretch
	for _, s := range list {
		if s.to-s.from >= best.to-best.from {
			best = s
		}
	}
	return best, len(list) > 0
}

// least looks for the smallest size.
func (j *fitting) least() Least {
	b, ok := j.board()
	if !ok {
		return Least{Tried: j.tried}
	}
	j.bisect(b, -1, len(b.verdict)-1)
	j.look(b)
	j.sharpen(b)
	run, at := j.confirm(b)
	l := Least{Bytes: b.bytes(at), Tried: j.tried, Run: run, Every: j.proven && len(b.unsettledIn(0, len(b.verdict))) == 0}
	l.Safe = max(l.Bytes, b.bytes(b.safe()))
	for i := at; i < len(b.verdict); i++ {
		if b.verdict[i] != fails {
			continue
		}
		if n := len(l.Fails); n > 0 && l.Fails[n-1].To == b.bytes(i-1) {
			l.Fails[n-1].To = b.bytes(i)
		} else {
			l.Fails = append(l.Fails, Sizes{b.bytes(i), b.bytes(i)})
		}
	}
	return l
}

// board finds a size that is enough, and lays out those below it. Where what the run reserves without a
// limit does not suffice, because a limit counts more than that, it goes up.
func (j *fitting) board() (*sizes, bool) {
	const tries = 64
	upper := max(j.upper, j.lower)
	for n := 0; ; n++ {
		if j.replay(upper, 0).Completed {
			break
		}
		if j.tried++; n == tries || upper > 1<<60 {
			return nil, false
		}
		upper += max(upper/16, FitStep)
	}
	unit := int64(FitStep)
	for (upper-j.lower)/unit >= mostSizes {
		unit *= 2
	}
	first, last := (j.lower+unit-1)/unit, (upper+unit-1)/unit
	b := &sizes{unit: unit, first: first, verdict: make([]verdict, last-first+1)}
	b.settle(len(b.verdict)-1, len(b.verdict)-1, true)
	return b, true
}

// try replays with the size of an entry, and settles the others that this settles.
func (j *fitting) try(b *sizes, i int) bool {
	j.tried++
	run := j.replay(b.bytes(i), 0)
	from := i
	if j.skips {
		from = min(i, b.index(run.Stats.Reserved.Peak))
	}
	b.settle(from, i, run.Completed)
	return run.Completed
}

// bisect narrows a range of which the lower end fails, or is below all, and the upper one finishes.
func (j *fitting) bisect(b *sizes, lo, hi int) {
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if b.verdict[mid] == unsettled {
			j.try(b, mid)
		}
		if b.verdict[mid] == finishes {
			hi = mid
		} else {
			lo = mid
		}
	}
}

// look spends the budget on what the bisection has not seen. Going down from the top settles all sizes soon
// if the outcomes are few; if they are not, the rest is spread over the widest gaps. Two thirds of it go to
// the sizes above the smallest.
func (j *fitting) look(b *sizes) {
	spend := func(from, to, replays int) {
		for n := range replays {
			gaps := b.unsettledIn(from, to)
			gap, ok := widest(gaps)
			switch {
			case !ok:
				return
			case j.skips && n < replays/2:
				j.try(b, gaps[len(gaps)-1].to-1)
			default:
				j.try(b, gap.from+(gap.to-gap.from)/2)
			}
		}
	}
	before := j.tried
	at := b.smallest()
	spend(at, len(b.verdict), j.replays*2/3)
	spend(0, at, max(0, j.replays-(j.tried-before)))
}

// sharpen finds the exact ends of what was found: the smallest size, and the one from which on nothing
// fails.
func (j *fitting) sharpen(b *sizes) {
	for {
		at, safe := b.smallest(), b.safe()
		below := at - 1
		for below >= 0 && b.verdict[below] != fails {
			below--
		}
		above := safe
		for b.verdict[above] != finishes {
			above++
		}
		if at-below == 1 && above == safe {
			return
		}
		j.bisect(b, below, at)
		j.bisect(b, safe-1, above)
	}
}

// confirm replays with the smallest size, which so far may only have been concluded from others.
func (j *fitting) confirm(b *sizes) (Run, int) {
	for {
		at := b.smallest()
		j.tried++
		run := j.replay(b.bytes(at), 0)
		if run.Completed || at == len(b.verdict)-1 {
			return run, at
		}
		b.settle(at, at, false)
		j.sharpen(b)
	}
}

// near is the smallest size under another guess at what no recording tells, looked for around the smallest
// under the best one.
func (j *fitting) near(guess int) int64 {
	const furthest = 1 << 16 // steps
	ok := func(bytes int64) bool { return j.replay(bytes, guess).Completed }
	lo, hi := j.out.Bytes, j.out.Bytes
	if ok(hi) {
		for d := int64(1); ; d *= 2 {
			lo = j.out.Bytes - d*FitStep
			if lo < j.lower || !ok(lo) {
				break
			}
			hi = lo
		}
		lo = max(lo, (j.lower-1)/FitStep*FitStep) // less than the lower bound, and never 0 tried, which is no limit
	} else {
		for d := int64(1); ; d *= 2 {
			hi = j.out.Bytes + d*FitStep
			if ok(hi) || d >= furthest {
				break
			}
			lo = hi
		}
	}
	for hi-lo > FitStep {
		if mid := lo + (hi-lo)/2/FitStep*FitStep; ok(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
