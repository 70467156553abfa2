package report

import (
	"cmp"
	"encoding/binary"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Which stack of one run is which of another.
//
// Between two runs code is edited: lines move, files are in another folder, a newer library has a wrapper
// more. A frame therefore matches by function and file before line. Files are paired by as much of the ends
// of their paths as agree. In each function the lines that stacks go through are aligned in order, as a
// comparison of texts would, by what they call and how often: so the third call of conv in forward stays the
// third, whatever was put before it (diffalign.go). All frames of the second run are so put in the terms of
// the first, and stacks are the same if their frames are. What is left over is compared by the frames of the
// person's own code alone, and what is left over then by the innermost of these.

// stackPair is a stack of both runs, or of one: the indexes of its uses. Several of a run can come to the same.
type stackPair struct {
	a, b []int
}

// matchStacks pairs the uses of two profiles.
func matchStacks(a, b *Profile) []stackPair {
	linesA, linesB := linesOf(a), linesOf(b)
	same := translate(a, b, linesA, linesB)
	whole := func(p *Profile, i int, second bool) string {
		return frameKey(p.Stacks.Frames(p.Uses[i].Stack), same, second)
	}
	own := func(p *Profile, i int, second bool) string { return ownKey(p, i, same, second, math.MaxInt) }
	innermost := func(p *Profile, i int, second bool) string { return ownKey(p, i, same, second, 1) }

	leftA, leftB := everyIndex(len(a.Uses)), everyIndex(len(b.Uses))
	var out, pairs []stackPair
	for _, key := range []func(*Profile, int, bool) string{whole, own, innermost} {
		pairs = pairUp(leftA, leftB, func(i int) string { return key(a, i, false) }, func(i int) string { return key(b, i, true) })
		leftA, leftB = nil, nil
		for _, p := range pairs {
			if len(p.a) > 0 && len(p.b) > 0 {
				out = append(out, p)
				continue
			}
			leftA, leftB = append(leftA, p.a...), append(leftB, p.b...)
		}
	}
	for _, i := range leftA {
		out = append(out, stackPair{a: []int{i}})
	}
	for _, i := range leftB {
		out = append(out, stackPair{b: []int{i}})
	}
	return out
}

func everyIndex(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// pairUp puts together what has the same key, in the order of the first run and then of the second.
func pairUp(a, b []int, keyA, keyB func(int) string) []stackPair {
	index := map[string]int{}
	var pairs []stackPair
	at := func(key string) *stackPair {
		i, ok := index[key]
		if !ok {
			i = len(pairs)
			index[key] = i
			pairs = append(pairs, stackPair{})
		}
		return &pairs[i]
	}
	for _, i := range a {
		p := at(keyA(i))
		p.a = append(p.a, i)
	}
	for _, i := range b {
		p := at(keyB(i))
		p.b = append(p.b, i)
	}
	return pairs
}

// frameKey is equal for equal frames; those of the second run are translated.
func frameKey(frames []trace.FrameID, same []trace.FrameID, second bool) string {
	key := make([]byte, 0, 4*len(frames))
	for _, f := range frames {
		if second {
			f = same[f]
		}
		key = binary.LittleEndian.AppendUint32(key, uint32(f))
	}
	return string(key)
}

// ownKey is the key by own frames, the innermost of them and no more than most, and by the function that they
// call; or one that no other stack has if there are none.
func ownKey(p *Profile, i int, same []trace.FrameID, second bool, most int) string {
	var own []trace.FrameID
	for _, f := range p.Stacks.Frames(p.Uses[i].Stack) {
		if len(own) < most && isOwn(p.Stacks.Frame(f)) {
			own = append(own, f)
		}
	}
	if len(own) == 0 {
		run := byte('a')
		if second {
			run = 'b'
		}
		return string(binary.LittleEndian.AppendUint32([]byte{run}, uint32(i)))
	}
	_, via, _ := strings.Cut(place(p.Stacks.Stack(p.Uses[i].Stack)).Via, " ")
	return frameKey(own, same, second) + via
}

// translate gives each frame of the second run its counterpart in the first. One without gets a number that
// the first does not use.
func translate(a, b *Profile, linesA, linesB []*line) []trace.FrameID {
	files := pairFiles(filesOf(linesA), filesOf(linesB))
	type function struct{ file, name string }
	first, second := map[function][]*line{}, map[function][]*line{}
	for _, l := range linesA {
		if l != nil {
			key := function{l.frame.File, l.frame.Func}
			first[key] = append(first[key], l)
		}
	}
	for _, l := range linesB {
		if l != nil {
			if file, ok := files[l.frame.File]; ok {
				key := function{file, l.frame.Func}
				second[key] = append(second[key], l)
			}
		}
	}
	same := make([]trace.FrameID, b.Stacks.NumFrames())
	for i := range same {
		same[i] = trace.FrameID(a.Stacks.NumFrames() + i)
	}
	for key, bs := range second {
		for _, m := range alignLines(first[key], bs) {
			same[m[1].id] = m[0].id
		}
	}
	return same
}

// filesOf lists the files of lines, each once.
func filesOf(lines []*line) []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range lines {
		if l != nil && !seen[l.frame.File] {
			seen[l.frame.File] = true
			out = append(out, l.frame.File)
		}
	}
	slices.Sort(out)
	return out
}

func slashed(file string) string { return strings.ReplaceAll(file, `\`, "/") }

// pairFiles says which file of the second run is which of the first: the one of the same path, or else that
// whose path ends alike for the most folders.
func pairFiles(a, b []string) map[string]string {
	pairs := map[string]string{}
	taken := map[string]bool{}
	byBase := map[string][]string{}
	here := map[string]bool{}
	for _, f := range a {
		base := path.Base(slashed(f))
		byBase[base] = append(byBase[base], f)
		here[f] = true
	}
	for _, f := range b {
		if here[f] {
			pairs[f], taken[f] = f, true
		}
	}
	type candidate struct {
		a, b  string
		alike int
	}
	var all []candidate
	for _, f := range b {
		if _, ok := pairs[f]; ok {
			continue
		}
		for _, g := range byBase[path.Base(slashed(f))] {
			if !taken[g] {
				all = append(all, candidate{g, f, commonEnd(g, f)})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y candidate) int { return cmp.Compare(y.alike, x.alike) })
	for _, c := range all {
		if _, ok := pairs[c.b]; !ok && !taken[c.a] {
			pairs[c.b], taken[c.a] = c.a, true
		}
	}
	return pairs
}

// commonEnd counts the last elements that two paths have in common.
func commonEnd(a, b string) int {
	x, y := strings.Split(slashed(a), "/"), strings.Split(slashed(b), "/")
	n := 0
	for n < len(x) && n < len(y) && x[len(x)-1-n] == y[len(y)-1-n] {
		n++
	}
	return n
}
