package oomlog

import (
	"bytes"
	"hash/maphash"
)

// Programs print how much memory they use, at every step or epoch. If every single reading of one such
// line is larger than the one before, by about as much each time, memory is leaking: warming up ends after
// a step or two, and lengths that vary go up and down. growth follows these readings. It is the only thing
// here that is concluded from many lines, so it asks for much: a line that names a step, five readings at
// least, no exception.
type growth struct {
	seed   maphash.Seed
	series map[uint64]*readings
}

// Bounds of what growth follows and believes.
const (
	maxSeries    = 64
	leastGrowth  = 5   // readings
	mostUneven   = 4.0 // the largest step over the smallest
	leastInAll   = 0.02
	readingReach = 48 // bytes between the word and its number
)

// readings is one kind of line.
type readings struct {
	line        int // of the first
	count       int
	first, last Size
	least, most float64 // steps, in bytes
	broken      bool    // a reading was not larger than the one before
}

// stepWords must stand in a line for its readings to follow each other in time.
var stepWords = [...]string{"iter", "step", "epoch", "batch", "round", "frame", "update"}

// read looks at a line with a word about memory that ends at after.
func (g *growth) read(line []byte, after, number int) {
	size, ok := readingAfter(line, after)
	if !ok || !hasStepWord(line) {
		return
	}
	if g.series == nil {
		g.series, g.seed = make(map[uint64]*readings), maphash.MakeSeed()
	}
	key := g.shape(line)
	r := g.series[key]
	if r == nil {
		if len(g.series) < maxSeries {
			g.series[key] = &readings{line: number, count: 1, first: size, last: size}
		}
		return
	}
	step := float64(size.Bytes - r.last.Bytes)
	r.broken = r.broken || step <= 0
	if r.count == 1 {
		r.least, r.most = step, step
	}
	r.least, r.most = min(r.least, step), max(r.most, step)
	r.last = size
	r.count++
}

// shape is the same for lines that differ in their numbers only.
func (g *growth) shape(line []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	inNumber := false
	for _, c := range line[:min(len(line), 240)] {
		number := isDigit(c) || c == '.' || c == ' ' || c == ','
		if !number {
			h.WriteByte(c)
		} else if !inNumber {
			h.WriteByte('#')
		}
		inNumber = number
	}
	return h.Sum64()
}

func hasStepWord(line []byte) bool {
	for i := range line {
		for _, w := range stepWords {
			if lower(line[i]) == w[0] && hasPrefixFold(line[i:], w) {
				return true
			}
		}
	}
	return false
}

// readingAfter reads the first amount after a word: a number with a unit, or a number of bytes that is
// large enough to be one.
func readingAfter(line []byte, after int) (Size, bool) {
	rest := line[min(after, len(line)):min(len(line), after+readingReach)]
	i := bytes.IndexAny(rest, "0123456789")
	if i < 0 {
		return Size{}, false
	}
	text := make([]byte, 0, 40)
	for _, c := range line[after+i : min(len(line), after+i+32)] {
		if c == ' ' && len(text) > 0 && !isDigit(text[len(text)-1]) {
			break
		}
		if c != ' ' {
			text = append(text, lower(c))
		}
	}
	if s, n := parseSize(text); n > 0 && (n == len(text) || !isLetter(text[n])) {
		return s, s.Bytes > 0
	}
	if n := digitsLen(text); n >= 7 && n < 16 {
		s, ok := makeSize(text[:n], 0, 1)
		return s, ok
	}
	return Size{}, false
}

// leak is the kind of line whose readings grow most in all, if there is one.
func (g *growth) leak() (m Message, ok bool) {
	for _, r := range g.series {
		inAll := r.last.Bytes - r.first.Bytes
		if r.broken || r.count < leastGrowth || r.most > mostUneven*r.least || float64(inAll) < leastInAll*float64(r.last.Bytes) {
			continue
		}
		if ok && inAll <= m.Allocated.Bytes-m.AtFirst.Bytes {
			continue
		}
		ok = true
		m = Message{Line: r.line, Framework: "log", Device: -1, Cause: CauseGrowth, Format: "readings of memory in use", Allocated: r.last, AtFirst: r.first, Readings: r.count, Repeated: 1}
	}
	return m, ok
}
