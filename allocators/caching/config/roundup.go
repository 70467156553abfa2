package config

import (
	"fmt"
	"math/bits"
	"strings"
)

// roundup_power2_divisions is either one number for all sizes, or a list from size to number:
//
//	[256:1,512:2,1024:4,>:8]
//
// A size is a power of two in MiB and stands for the sizes from there to the next power of two: bucket
// log2(size) of the table of 16. Three rules make what the table becomes. The first entry fills the
// buckets below it too. An entry fills its own bucket only, so buckets between two entries that are not
// neighbours keep 0. And > fills to the end, from the bucket behind the last entry, before 2.10 from the
// last entry's own.

// roundup reads either form.
func (p *parser) roundup() *SyntaxError {
	open := p.peek()
	if open.text == "[" {
		return p.roundupList()
	}
	n, err := p.number(keyRoundup)
	if err != nil {
		return err
	}
	if bits.OnesCount64(n) != 1 {
		e := &SyntaxError{Code: "not-power-of-two", Offset: open.off,
			Msg: fmt.Sprintf("%s:%d is not a power of two", keyRoundup, n), Do: "write 2, 4, 8 or 16"}
		if n == 0 {
			e.Do = "leave it out, 0 divisions are the default"
		}
		return e
	}
	fill(p.cfg.Roundup[:], n)
	return nil
}

func (p *parser) roundupList() *SyntaxError {
	open := p.next()
	if p.v.before(Version{2, 0}) {
		return &SyntaxError{Code: "list-of-other-version", Offset: open.off,
			Msg: "lists came with PyTorch 2.0", Do: "write one number for all sizes"}
	}
	table := &p.cfg.Roundup
	named := [16]bool{}
	last, first, all := 0, true, false
	for p.pos < len(p.toks) && p.peek().text != "]" {
		t := p.next()
		if t.separator() {
			return &SyntaxError{Code: "missing-key", Offset: t.off,
				Msg: fmt.Sprintf("a size is expected before %q", t.text), Do: "write the list as [256:1,512:2,>:4]"}
		}
		if err := p.separator(":", keyRoundup); err != nil {
			return err
		}
		n, err := p.division()
		if err != nil {
			return err
		}
		if t.text == ">" {
			p.roundupRest(t, last, n)
			all = true
		} else {
			size, rest, why := wholeNumber(t.text, Latest) // always read as 64 bits
			if why == "" && bits.OnesCount64(size) != 1 {
				why = "is not a power of two"
			}
			if why != "" {
				return &SyntaxError{Code: "not-power-of-two", Offset: t.off,
					Msg: fmt.Sprintf("the size %s %s", quoted(t.text), why), Do: "write sizes as powers of two in MiB: 64, 128, 256"}
			}
			if rest != "" {
				p.add(Finding{Code: "trailing", Key: keyRoundup, Severity: Ignored, Offset: t.off, Suggest: fmt.Sprint(size),
					Message: fmt.Sprintf("PyTorch reads %d MiB and drops the rest of %s", size, quoted(t.text))})
			}
			last = min(bits.Len64(size)-1, 15)
			if first {
				fill(table[:last], n)
				for i := range last {
					named[i] = true
				}
			}
			fill(table[last:last+1], n)
			named[last], first = true, false
		}
		if p.peek().text != "]" && p.pos < len(p.toks) {
			if err := p.separator(",", keyRoundup); err != nil {
				return err
			}
		}
	}
	if err := p.closing(open); err != nil {
		return err
	}
	for i := range named { // what is 0 on purpose is not spare
		named[i] = named[i] || all && i > last || table[i] != 0
	}
	if spare := sizesWithout(named); spare != "" {
		p.add(Finding{Code: "roundup-gap", Key: keyRoundup, Severity: NoEffect, Offset: open.off,
			Message: "no entry of the list covers " + spare + ", which keep the plain rounding to 512 bytes"})
	}
	return nil
}

// sizesWithout names the sizes of the buckets that are not set.
func sizesWithout(set [16]bool) string {
	var ranges []string
	for i := 0; i < len(set); i++ {
		if set[i] {
			continue
		}
		from := i
		for i+1 < len(set) && !set[i+1] {
			i++
		}
		switch {
		case from == 0:
			ranges = append(ranges, "sizes below "+bucketName(i+1))
		case i == len(set)-1:
			ranges = append(ranges, "sizes from "+bucketName(from)+" on")
		default:
			ranges = append(ranges, "sizes from "+bucketName(from)+" to "+bucketName(i+1))
		}
	}
	return strings.Join(ranges, " and ")
}

// bucketName is the smallest size of a bucket.
func bucketName(i int) string {
	if i >= 10 {
		return fmt.Sprintf("%d GiB", 1<<(i-10))
	}
	return fmt.Sprintf("%d MiB", 1<<i)
}

// division reads the number of one entry.
func (p *parser) division() (uint64, *SyntaxError) {
	if t := p.peek(); t.text == "" || t.separator() {
		return 0, &SyntaxError{Code: "missing-value", Offset: t.off,
			Msg: "an entry of the list has no divisions", Do: "write the list as [256:1,512:2,>:4]"}
	}
	t := p.peek()
	n, err := p.number(keyRoundup)
	if err != nil {
		return 0, err
	}
	zero := n == 0 && !p.v.before(Version{2, 4})
	if bits.OnesCount64(n) != 1 && !zero {
		return 0, &SyntaxError{Code: "not-power-of-two", Offset: t.off,
			Msg: fmt.Sprintf("%d divisions are not a power of two", n), Do: "write 2, 4, 8 or 16 (or 0 from PyTorch 2.4 on)"}
	}
	return n, nil
}

// roundupRest fills the table from the last entry on, as the version does.
func (p *parser) roundupRest(t token, last int, n uint64) {
	table := p.cfg.Roundup[:]
	if !p.v.before(Version{2, 10}) {
		fill(table[last+1:], n)
		return
	}
	if was := table[last]; was != 0 && uint64(was) != n {
		p.add(Finding{Code: "roundup-overwritten", Key: keyRoundup, Severity: Risk, Offset: t.off,
			Message: fmt.Sprintf("before PyTorch 2.10 \">\" also overwrites the last entry before it: %d:%d becomes %d:%d", 1<<last, was, 1<<last, n)})
	}
	fill(table[last:], n)
}

func fill(table []int, n uint64) {
	for i := range table {
		table[i] = int(min(n, 1<<62))
	}
}
