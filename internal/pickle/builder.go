package pickle

import (
	"errors"
	"fmt"
)

// Folder turns complete containers into values of its own. What it is given belongs to the machine and
// is good until it returns. A dictionary comes as key, value, key, value; a list may hold values that
// stand for several (Value.Count).
type Folder interface {
	Dict(pairs []Value) (Value, error)
	List(items []Value) (Value, error)  // lists and sets
	Tuple(items []Value) (Value, error) // of any length
	// Spill shortens the items of a list, or the pairs of a dictionary, that has become very long and is
	// not complete yet, by what the Folder would not use anyway. It may return them as they are.
	Spill(items []Value, dict bool) []Value
}

const (
	batch     = 1000    // items after which Python's pickler starts another APPENDS or SETITEMS
	maxStack  = 1 << 18 // values; a snapshot needs a few thousand
	maxNest   = 1 << 16 // marks; a snapshot needs ten
	flushAt   = 8 << 10 // values on the stack from which long lists are moved off it
	spillStep = 1 << 14 // items
)

// Builder is the stack of values and the containers that are being made on it.
type Builder struct {
	Strings *Strings
	fold    Folder
	st      []Value
	marks   []uint32 // heights of the stack; markFlushed if items of the list below have left it
	memo    memo
	open    []openContainer
	free    []uint32 // unused entries of open
	tagged  bool     // the top of the stack is the first argument of the tag below it
}

const markFlushed = 1 << 31

// openContainer holds what has been added to a container that may still grow.
type openContainer struct {
	items []Value
	spill int // length at which to ask the Folder to shorten it
}

// NewBuilder makes a builder that hands complete containers to fold.
func NewBuilder(strings *Strings, fold Folder) *Builder {
	return &Builder{Strings: strings, fold: fold, st: make([]Value, 0, 4096)}
}

var (
	errUnderflow = errors.New("takes more from the stack than there is")
	errNoMark    = errors.New("needs a mark, and there is none")
	errNotDict   = errors.New("adds pairs to something that is not a dictionary in the making")
	errNotList   = errors.New("adds items to something that is not a list in the making")
	errCyclic    = errors.New("adds to a container that was used already (does it contain itself?)")
	errOdd       = errors.New("has a key without a value")
	errFlushed   = errors.New("makes something else of the items of a list")
)

// popMark gives the height of the stack at the last mark, and forgets the mark.
func (b *Builder) popMark() (int, bool, error) {
	if len(b.marks) == 0 {
		return 0, false, errNoMark
	}
	m := b.marks[len(b.marks)-1]
	b.marks = b.marks[:len(b.marks)-1]
	h := int(m &^ markFlushed)
	if h > len(b.st) {
		return 0, false, errUnderflow
	}
	return h, m&markFlushed != 0, nil
}

// base is the height below which values are not to be touched without taking the last mark.
func (b *Builder) base() int {
	if n := len(b.marks); n > 0 {
		return int(b.marks[n-1] &^ markFlushed)
	}
	return 0
}

// seal completes containers among vals that may still grow.
func (b *Builder) seal(vals []Value) error {
	for i := range vals {
		if vals[i].kind <= kindOpenDict {
			if err := b.sealOne(&vals[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Builder) sealOne(v *Value) error {
	if v.slot != 0 {
		// The memo knows best: a reference to the container may have completed it.
		if e := b.memo.unpack(b.memo.entry(v.slot - 1)); e.kind != v.kind || e.n != v.n {
			if e.kind <= kindOpenDict {
				return errCyclic
			}
			*v = e
			return nil
		}
	}
	var items []Value
	isOpen := v.kind == kindOpenList || v.kind == kindOpenDict
	if isOpen {
		items = b.open[v.n].items
	}
	var folded Value
	var err error
	if v.kind == kindFreshDict || v.kind == kindOpenDict {
		folded, err = b.fold.Dict(items)
	} else {
		folded, err = b.fold.List(items)
	}
	if err != nil {
		return err
	}
	if isOpen {
		b.release(uint32(v.n))
	}
	return b.become(v, folded)
}

// become puts a complete value where a container in the making was.
func (b *Builder) become(v *Value, folded Value) error {
	if v.slot != 0 {
		if err := b.memo.put(v.slot-1, folded); err != nil {
			return err
		}
	}
	*v = folded
	return nil
}

func (b *Builder) release(i uint32) {
	o := &b.open[i]
	if cap(o.items) > spillStep {
		o.items = nil
	}
	o.items = o.items[:0]
	b.free = append(b.free, i)
}

// reopen makes a container in the making into one that holds items in the table of open ones.
func (b *Builder) reopen(v *Value) (*openContainer, error) {
	if v.slot != 0 {
		if e := b.memo.unpack(b.memo.entry(v.slot - 1)); e.kind != v.kind || e.n != v.n {
			return nil, errCyclic
		}
	}
	if v.kind == kindOpenList || v.kind == kindOpenDict {
		return &b.open[v.n], nil
	}
	var i uint32
	if n := len(b.free); n > 0 {
		i = b.free[n-1]
		b.free = b.free[:n-1]
	} else {
		i = uint32(len(b.open))
		b.open = append(b.open, openContainer{})
	}
	b.open[i].spill = spillStep
	v.kind += kindOpenList - kindFreshList
	v.n = uint64(i)
	if v.slot != 0 {
		if err := b.memo.put(v.slot-1, Value{n: v.n, kind: v.kind}); err != nil {
			return nil, err
		}
	}
	return &b.open[i], nil
}

// addItems adds complete items to the list v.
func (b *Builder) addItems(v *Value, items []Value, whole bool) error {
	if err := b.seal(items); err != nil {
		return err
	}
	switch v.kind {
	case kindFreshList:
		if whole && len(items) < batch {
			return b.foldNow(v, items, b.fold.List)
		}
	case kindOpenList:
	default:
		return errNotList
	}
	o, err := b.reopen(v)
	if err != nil {
		return err
	}
	o.items = compress(o.items, 0, items)
	b.spill(o, false)
	return nil
}

// follows reports whether next is the Folder's value after last, so that one entry can stand for both.
func follows(last, next Value) bool {
	return last.kind == next.kind && next.kind >= KindUser &&
		uint64(last.Index())+last.n>>32+1 == uint64(next.Index()) &&
		last.n>>32+next.n>>32+1 < 1<<32-1
}

func (b *Builder) foldNow(v *Value, items []Value, fold func([]Value) (Value, error)) error {
	if v.slot != 0 {
		if e := b.memo.entry(v.slot - 1); Kind(e>>entryBits) != v.kind {
			return errCyclic
		}
	}
	folded, err := fold(items)
	if err != nil {
		return err
	}
	return b.become(v, folded)
}

// addPairs adds complete pairs to the dictionary v.
func (b *Builder) addPairs(v *Value, pairs []Value, whole bool) error {
	if len(pairs)%2 != 0 {
		return errOdd
	}
	if err := b.seal(pairs); err != nil {
		return err
	}
	switch v.kind {
	case kindFreshDict:
		if whole && len(pairs) < 2*batch {
			return b.foldNow(v, pairs, b.fold.Dict)
		}
	case kindOpenDict:
	default:
		return errNotDict
	}
	o, err := b.reopen(v)
	if err != nil {
		return err
	}
	o.items = append(o.items, pairs...)
	b.spill(o, true)
	return nil
}

func (b *Builder) spill(o *openContainer, dict bool) {
	if len(o.items) < o.spill {
		return
	}
	o.items = b.fold.Spill(o.items, dict)
	o.spill = len(o.items) + len(o.items)/2 + spillStep
}

// tuple replaces the values from height h on by one tuple.
func (b *Builder) tuple(h int) error {
	if h < b.base() || h > len(b.st) {
		return errUnderflow
	}
	if err := b.seal(b.st[h:]); err != nil {
		return err
	}
	b.tagged = len(b.st)-h == 2 && h > b.base() && b.st[h-1].kind == kindTag
	if b.tagged {
		b.st = b.st[:h+1] // the arguments of a tag: the list itself is what counts
		return nil
	}
	v, err := b.fold.Tuple(b.st[h:])
	if err != nil {
		return err
	}
	b.st = append(b.st[:h], v)
	return nil
}

// memoize lets slot refer to the top of the stack.
func (b *Builder) memoize(slot uint32) error {
	if len(b.st) <= b.base() {
		return errUnderflow
	}
	top := &b.st[len(b.st)-1]
	switch top.kind {
	case kindOpenList, kindOpenDict:
		if err := b.sealOne(top); err != nil {
			return err
		}
	case kindFreshList, kindFreshDict:
		if top.slot != 0 {
			if err := b.sealOne(top); err != nil {
				return err
			}
			break
		}
		top.slot = slot + 1
	}
	return b.memo.put(slot, Value{n: top.n, kind: top.kind})
}

// recall gives what slot refers to. A container that was still being made is complete from now on.
func (b *Builder) recall(slot uint32) (Value, error) {
	e := b.memo.entry(slot)
	if e == 0 {
		return Value{}, fmt.Errorf("refers to memo entry %d, which has not been made", slot)
	}
	v := b.memo.unpack(e)
	if v.kind > kindOpenDict {
		return v, nil
	}
	v.slot = slot + 1
	err := b.sealOne(&v)
	return v, err
}

// tidy is called now and then: it moves the items of long lists off the stack, which some writers push
// whole, and bounds the depth.
func (b *Builder) tidy() error {
	if len(b.marks) > maxNest {
		return fmt.Errorf("nests more than %d deep", maxNest)
	}
	if len(b.st) < flushAt {
		return nil
	}
	for i := 0; i < len(b.marks) && len(b.st) > flushAt; i++ {
		from := int(b.marks[i] &^ markFlushed)
		to := len(b.st)
		if i+1 < len(b.marks) {
			to = int(b.marks[i+1] &^ markFlushed)
		}
		if from == 0 || to-from < batch {
			continue
		}
		if k := b.st[from-1].kind; k != kindFreshList && k != kindOpenList {
			continue
		}
		// Values in front of the first container in the making are items for certain, but for the last
		// few, which a short tuple may still take.
		for j := from; j < to; j++ {
			if b.st[j].kind <= kindOpenDict {
				to = j
			}
		}
		if to -= 3; to <= from {
			continue
		}
		if err := b.addItems(&b.st[from-1], b.st[from:to], false); err != nil {
			return err
		}
		b.st = append(b.st[:from], b.st[to:]...)
		b.marks[i] |= markFlushed
		for j := i + 1; j < len(b.marks); j++ {
			b.marks[j] -= uint32(to - from)
		}
	}
	if len(b.st) > maxStack {
		return fmt.Errorf("has more than %d values on the stack", maxStack)
	}
	return nil
}

// Compress appends a list to dst, with one entry for a run of a Folder's values that have consecutive
// indexes.
func Compress(dst, items []Value) []Value { return compress(dst, len(dst), items) }

// compress may continue the last entry of dst if that is not before from.
func compress(dst []Value, from int, items []Value) []Value {
	for _, it := range items {
		if n := len(dst); n > from && follows(dst[n-1], it) {
			dst[n-1].n += (it.n>>32 + 1) << 32
			continue
		}
		dst = append(dst, it)
	}
	return dst
}

// Push puts a value on the stack. Push, Begin and End are for those who drive a Builder without a pickle.
func (b *Builder) Push(v Value) { b.st = append(b.st, v) }

// Begin starts a list or a dictionary; what is pushed until End goes into it.
func (b *Builder) Begin(dict bool) error {
	v := Value{kind: kindFreshList}
	if dict {
		v.kind = kindFreshDict
	}
	b.st = append(b.st, v)
	b.marks = append(b.marks, uint32(len(b.st)))
	return b.tidy()
}

// End completes the list or dictionary that was begun last.
func (b *Builder) End() error {
	h, _, err := b.popMark()
	if err != nil {
		return err
	}
	if h <= b.base() {
		return errUnderflow
	}
	v := &b.st[h-1]
	if v.kind == kindFreshDict || v.kind == kindOpenDict {
		err = b.addPairs(v, b.st[h:], true)
	} else if len(b.st) > h || v.kind == kindFreshList {
		err = b.addItems(v, b.st[h:], true)
	}
	b.st = b.st[:h]
	return err
}

// Result is the single value that is left on the stack.
func (b *Builder) Result() (Value, error) {
	if len(b.st) != 1 || len(b.marks) != 0 {
		return Value{}, fmt.Errorf("comes with %d values on the stack instead of one", len(b.st))
	}
	if err := b.seal(b.st); err != nil {
		return Value{}, err
	}
	return b.st[0], nil
}
