package config

import (
	"fmt"
	"math/bits"
	"strings"
)

// Reading the values, one function a kind. All begin at the value's first token and leave p.pos behind
// its last one. An error need not name the key, pair does it.

func (p *parser) next() token {
	t := p.peek()
	p.pos++
	return t
}

func (p *parser) boolean(name string, to *bool) *SyntaxError {
	t := p.next()
	if t.text == "True" || t.text == "False" {
		*to = t.text == "True"
		return nil
	}
	e := &SyntaxError{Code: "not-boolean", Offset: t.off,
		Msg: fmt.Sprintf("%s of %s is neither True nor False", quoted(t.text), name), Do: "write True or False, with the capital letter and nothing else"}
	switch strings.ToLower(strings.Trim(t.text, `"';`)) {
	case "true", "1", "yes", "on":
		e.Write = name + ":True"
	case "false", "0", "no", "off":
		e.Write = name + ":False"
	}
	for _, k := range keys {
		if strings.HasPrefix(t.text, "True"+k.name) || strings.HasPrefix(t.text, "False"+k.name) {
			e.Do = "a comma belongs before " + k.name
		}
	}
	return e
}

// number reads a whole number and says what PyTorch made of it, if that is not what is written.
func (p *parser) number(name string) (uint64, *SyntaxError) {
	t := p.next()
	n, rest, why := wholeNumber(t.text, p.v)
	if why != "" {
		return 0, &SyntaxError{Code: "not-a-number", Offset: t.off,
			Msg: fmt.Sprintf("%s of %s %s", quoted(t.text), name, why), Do: "write it in digits alone"}
	}
	if strings.HasPrefix(t.text, "-") && n != 0 {
		p.add(Finding{Code: "negative", Key: name, Severity: Risk, Offset: t.off,
			Message: fmt.Sprintf("PyTorch takes %s for a huge positive number", quoted(t.text))})
	}
	if rest != "" {
		f := Finding{Code: "trailing", Key: name, Severity: Ignored, Offset: t.off, Suggest: fmt.Sprint(n),
			Message: fmt.Sprintf("PyTorch reads %d and drops the rest of %s", n, quoted(t.text))}
		if mib, ok := unit(n, rest); ok && strings.HasSuffix(name, "_mb") {
			f.Code, f.Suggest = "unit", fmt.Sprintf("%s:%d", name, mib)
			if mib != n {
				f.Severity = Risk
			}
			f.Message += "; the unit is always MiB"
		}
		p.add(f)
	}
	return n, nil
}

// unit is what a number with a unit behind it would be in MiB.
func unit(n uint64, rest string) (mib uint64, ok bool) {
	switch strings.ToLower(rest) {
	case "m", "mb", "mib":
		return n, true
	case "g", "gb", "gib":
		return n << 10, n < 1<<50
	case "t", "tb", "tib":
		return n << 20, n < 1<<40
	case "k", "kb", "kib":
		return n >> 10, true
	case "b", "bytes":
		return n >> 20, true
	}
	return 0, false
}

// size reads MiB, no less than least, into bytes, no more than limit.
func (p *parser) size(name string, least uint64, limit int64, to *int64) *SyntaxError {
	t := p.peek()
	n, err := p.number(name)
	if err != nil {
		return err
	}
	if n < least {
		e := &SyntaxError{Code: "too-small", Offset: t.off,
			Msg: fmt.Sprintf("%s:%d is too small for PyTorch %s", name, n, p.v),
			Do:  fmt.Sprintf("it must be %d MiB or more", least), Write: fmt.Sprintf("%s:%d", name, least)}
		_, rest, _ := wholeNumber(t.text, p.v)
		if mib, ok := unit(n, rest); ok && mib > least {
			e.Write = fmt.Sprintf("%s:%d", name, mib)
		}
		return e
	}
	*to = bytesOf(n, limit)
	return nil
}

// fraction reads a number between 0 and 1, with or without the ends.
func (p *parser) fraction(name string, ends bool, to *float64) *SyntaxError {
	t := p.next()
	f, rest, ok := realNumber(t.text)
	if !ok || !(f > 0 && f < 1 || ends && f >= 0 && f <= 1) {
		e := &SyntaxError{Code: "not-a-fraction", Offset: t.off,
			Msg: fmt.Sprintf("%s of %s is not a number between 0 and 1", quoted(t.text), name), Do: "write a share, such as 0.8"}
		if ok && f >= 2 && f < 100 && (rest == "" || rest == "%") {
			e.Write = fmt.Sprintf("%s:%v", name, f/100)
		}
		if !ends {
			e.Do += "; 0 and 1 are not allowed, leave it out instead"
		}
		return e
	}
	if rest != "" {
		p.add(Finding{Code: "trailing", Key: name, Severity: Ignored, Offset: t.off, Suggest: fmt.Sprint(f),
			Message: fmt.Sprintf("PyTorch reads %v and drops the rest of %s", f, quoted(t.text))})
	}
	*to = f
	return nil
}

func (p *parser) backend() *SyntaxError {
	// PyTorch reads this setting twice, when it is loaded with white space as the end of a setting, and
	// later as everything else. It raises if the two disagree.
	if at := p.pos; at >= 2 && p.peek().text != Native && p.toks[at].off-p.toks[at-2].off > len(keyBackend+":") {
		p.add(Finding{Code: "backend-space", Key: keyBackend, Severity: Risk, Offset: p.toks[at-2].off, Suggest: keyBackend + ":" + p.peek().text,
			Message: "while torch is loaded white space ends this setting and native is chosen, which the later check refuses: take the white space out"})
	}
	switch t := p.next(); t.text {
	case Native, Async:
		p.cfg.Backend = t.text
	case "hipMallocAsync":
		p.cfg.Backend = Async
		p.add(Finding{Code: "rocm-only", Key: keyBackend, Severity: Risk, Offset: t.off, Suggest: keyBackend + ":" + Async,
			Message: "only builds for ROCm accept hipMallocAsync, others raise; cudaMallocAsync works on both"})
	default:
		e := &SyntaxError{Code: "unknown-backend", Offset: t.off,
			Msg: fmt.Sprintf("%s is no allocator of PyTorch", quoted(t.text)), Do: "write native or cudaMallocAsync, in exactly these letters"}
		for _, name := range []string{Native, Async} {
			if distance(strings.ToLower(t.text[:min(len(t.text), 40)]), strings.ToLower(name)) <= 4 {
				e.Write = keyBackend + ":" + name
			}
		}
		return e
	}
	return nil
}

func (p *parser) threads() *SyntaxError {
	t := p.peek()
	n, err := p.number(keyRegisterThreads)
	if err != nil {
		return err
	}
	if bits.OnesCount64(n) != 1 || n > 128 {
		return &SyntaxError{Code: "not-power-of-two", Offset: t.off,
			Msg: fmt.Sprintf("%s:%d is not possible", keyRegisterThreads, n), Do: "write a power of two up to 128"}
	}
	p.cfg.PinnedRegisterThreads = int(n)
	return nil
}

// reserve reads how much address space an expandable segment takes. PyTorch only warns about a value that
// it cannot use.
func (p *parser) reserve(name string, fraction *float64, bytes *int64) {
	t := p.next()
	number, gib := strings.CutSuffix(t.text, "G")
	if !gib {
		number, gib = strings.CutSuffix(t.text, "g")
	}
	f, rest, ok := realNumber(number)
	switch {
	case !ok || rest != "" || f <= 0:
		p.add(Finding{Code: "bad-reserve", Key: name, Severity: Ignored, Offset: t.off,
			Message: fmt.Sprintf("PyTorch warns about %s and keeps the usual 9/8 of the device's memory: it must be a share such as 0.5 or GiB such as 40G", quoted(t.text))})
	case gib:
		*fraction, *bytes = 0, int64(min(f*(1<<30), maxBytes))
	default:
		*fraction, *bytes = min(f, 9./8), 0
	}
}

// reserveByClass reads a list of such values by class of stream. A recording does not tell the classes, so
// nothing is kept.
func (p *parser) reserveByClass() *SyntaxError {
	open := p.next()
	if open.text != "[" {
		return &SyntaxError{Code: "not-a-list", Offset: open.off,
			Msg: fmt.Sprintf("%s needs a list, not %s", keyReserveByClass, quoted(open.text)), Do: "write it as [class:0.5,other:40G]"}
	}
	for p.pos < len(p.toks) && p.peek().text != "]" {
		if t := p.next(); t.separator() {
			return &SyntaxError{Code: "missing-key", Offset: t.off,
				Msg: fmt.Sprintf("a class is expected before %q", t.text), Do: "write it as [class:0.5,other:40G]"}
		}
		if err := p.separator(":", keyReserveByClass); err != nil {
			return err
		}
		var f float64
		var b int64
		p.reserve(keyReserveByClass, &f, &b)
		if p.peek().text == "," {
			p.pos++
		}
	}
	return p.closing(open)
}

// closing takes the ] of a list that began with open.
func (p *parser) closing(open token) *SyntaxError {
	if p.pos >= len(p.toks) {
		return &SyntaxError{Code: "open-list", Offset: open.off,
			Msg: "the list that begins here does not end", Do: "write a ] behind its last entry"}
	}
	p.pos++
	return nil
}
