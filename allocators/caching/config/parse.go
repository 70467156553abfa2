package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limits of what is reported about one text, so that a senseless one gives a readable answer.
const (
	maxErrors   = 20
	maxFindings = 100
)

// maxText is the longest text that is looked at. Linux lets no environment variable be longer.
const maxText = 128 << 10

// maxBytes bounds the sizes that are added to others, so that no sum overflows. No device has so much.
const maxBytes = 1 << 50

// Parse reads a setting as the given version of PyTorch does: the value of the environment variable, or a
// line that sets it (export NAME=..., os.environ["NAME"] = "..."), of which the value is taken.
//
// The error is a *SyntaxError for the first place where PyTorch would raise. The findings have every such
// place, and what PyTorch accepts but ignores, or what has no effect or is known to hurt, in the order of
// the text. With an error the Config holds what could be read all the same.
//
// Versions before 2.0 are read with the grammar of 2.0, which is stricter about white space.
func Parse(text string, v Version) (Config, []Finding, error) {
	p := parse(text, v)
	p.findings = append(p.findings, lint(&p.cfg, p.v, p.seen, false)...)
	sortFindings(p.findings)
	if p.err != nil {
		return p.cfg, p.findings, p.err
	}
	return p.cfg, p.findings, nil
}

func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int { return cmp.Compare(a.Offset, b.Offset) })
}

type parser struct {
	v        Version
	cfg      Config
	toks     []token
	pos      int // the next token
	end      int // offset of the end of the value
	seen     map[string]int
	findings []Finding
	err      *SyntaxError
	errs     int
}

// parse reads the text without judging how the settings go together.
func parse(text string, v Version) *parser {
	p := &parser{v: v.known(), cfg: Default(), seen: map[string]int{}}
	if len(text) > maxText {
		p.fail(&SyntaxError{Code: "too-long", Offset: maxText,
			Msg: fmt.Sprintf("a setting of %d bytes cannot come from an environment variable", len(text)), Do: "give the value of PYTORCH_CUDA_ALLOC_CONF alone"})
		return p
	}
	value, base := p.unwrap(text)
	p.toks = tokenize(value, base, p.v)
	p.end = base + len(value)
	p.cfg.LegacyDiv1 = p.v.before(Version{2, 4})
	if !p.v.before(Version{2, 11}) {
		p.largeSegmentFirst()
	}
	for p.pos < len(p.toks) && p.errs < maxErrors {
		start := p.pos
		if err := p.pair(); err != nil {
			p.fail(err)
			p.resume(start)
		}
	}
	return p
}

func (p *parser) add(f Finding) {
	if len(p.findings) < maxFindings {
		p.findings = append(p.findings, f)
	}
}

func (p *parser) fail(err *SyntaxError) {
	if p.err == nil {
		p.err = err
	}
	p.errs++
	p.findings = append(p.findings, err.finding())
}

// resume goes to the comma after the setting that began at start, so that one mistake hides no other.
func (p *parser) resume(start int) {
	depth := 0
	for p.pos = start; p.pos < len(p.toks); p.pos++ {
		switch p.toks[p.pos].text {
		case "[":
			depth++
		case "]":
			depth--
		case ",":
			if depth <= 0 {
				p.pos++
				return
			}
		}
	}
}

// largeSegmentFirst reads large_segment_size_mb before everything else, since the limits of two others
// depend on it. Like PyTorch it takes any word that is spelt so, and the last one wins.
func (p *parser) largeSegmentFirst() {
	for i, t := range p.toks {
		if t.text != keyLargeSegment || i+2 >= len(p.toks) {
			continue
		}
		if n, _, why := wholeNumber(p.toks[i+2].text, p.v); why == "" && n > MinLarge/MiB {
			p.cfg.LargeSegmentSize = bytesOf(n, maxBytes)
			p.cfg.MaxNonSplitRounding = p.cfg.LargeSegmentSize
		}
	}
}

// bytesOf is n MiB, at most limit.
func bytesOf(n uint64, limit int64) int64 {
	if n >= uint64(limit)/MiB {
		return limit
	}
	return int64(n) * MiB
}

func (p *parser) peek() token {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return token{"", p.end}
}

// pair reads one key with its value, and the comma behind it.
func (p *parser) pair() *SyntaxError {
	k, err := p.key()
	if err != nil {
		return err
	}
	if err := p.separator(":", k.name); err != nil {
		return err
	}
	value := p.peek()
	if value.text == "" || value.text == "," || value.text == "]" {
		return &SyntaxError{Code: "missing-value", Offset: value.off, Key: k.name,
			Msg: k.name + " has no value", Do: "write one after the colon, or leave the setting out"}
	}
	if word, _, ok := strings.Cut(value.text, ";"); ok && p.pos+1 < len(p.toks) && p.toks[p.pos+1].text == ":" {
		return &SyntaxError{Code: "semicolon", Offset: value.off + len(word), Key: k.name,
			Msg: "a semicolon does not separate settings, it is part of the value of " + k.name, Do: "write a comma"}
	}
	if err := p.value(k.name); err != nil {
		err.Key = k.name
		return err
	}
	if p.pos < len(p.toks) {
		return p.separator(",", k.name)
	}
	return nil
}

// key reads a key that the version knows.
func (p *parser) key() (key, *SyntaxError) {
	t := p.peek()
	p.pos++
	if t.separator() {
		return key{}, &SyntaxError{Code: "missing-key", Offset: t.off,
			Msg: fmt.Sprintf("a setting is expected before %q", t.text), Do: "write settings as key:value, with one comma between two"}
	}
	k, ok := lookup(t.text)
	if !ok || !k.knownIn(p.v) {
		return key{}, p.unknown(t, k, ok)
	}
	if at, twice := p.seen[k.name]; twice {
		p.add(Finding{Code: "duplicate", Key: k.name, Severity: Ignored, Offset: at,
			Message: k.name + " is set again later, and the last one counts"})
	}
	p.seen[k.name] = t.off
	return k, nil
}

// unknown explains a key that the version does not have.
func (p *parser) unknown(t token, k key, other bool) *SyntaxError {
	e := &SyntaxError{Code: "unknown-key", Offset: t.off, Key: clip(t.text),
		Msg: fmt.Sprintf("PyTorch %s knows no setting %s", p.v, quoted(t.text)),
		Do:  "take it out: every setting of the text is lost with it"}
	if other {
		e.Code = "key-of-other-version"
		if p.v.before(k.since) {
			e.Do = fmt.Sprintf("it came with %s: take it out for this version", k.since)
		} else {
			e.Do = fmt.Sprintf("it went with %s: take it out for this version", k.until)
		}
		return e
	}
	if variable, ok := foreignKeys[t.text]; ok {
		e.Do = "it belongs to " + variable
		return e
	}
	// A known key with something that is not a colon behind it: max_split_size_mb=128, and what is
	// left of "max_split_size_mb 128" without its space.
	for _, known := range keys {
		rest, ok := strings.CutPrefix(t.text, known.name)
		if ok && known.knownIn(p.v) && !strings.HasPrefix(rest, "_") {
			e.Code = "no-colon"
			e.Do = "key and value are separated by a colon"
			e.Write = known.name + ":" + strings.TrimLeft(rest, "=-> ")
			if len(e.Write) > 80 || strings.HasSuffix(e.Write, ":") {
				e.Write = known.name + ":..."
			}
			return e
		}
	}
	name, rest, cut := strings.Cut(t.text, "=")
	if near := nearest(name, p.v); near != "" {
		e.Do = fmt.Sprintf("%q is probably meant", near)
		e.Write = near
		if cut && len(rest) < 40 {
			e.Write += ":" + rest
		}
	}
	return e
}

// separator takes the : between key and value or the , between settings. From 2.10 on PyTorch passes over
// whatever stands there.
func (p *parser) separator(want, key string) *SyntaxError {
	t := p.peek()
	p.pos++
	switch {
	case t.text == want:
		return nil
	case t.text == "":
		return &SyntaxError{Code: "missing-value", Offset: t.off, Key: key,
			Msg: fmt.Sprintf("the text ends after %s, a %q is expected", key, want), Do: "write the setting as key:value"}
	case p.v.before(Version{2, 10}):
		return &SyntaxError{Code: "separator", Offset: t.off, Key: key,
			Msg: fmt.Sprintf("%q is expected, not %s", want, quoted(t.text)), Do: "write settings as key:value, with one comma between two"}
	}
	p.add(Finding{Code: "separator", Key: key, Severity: Risk, Offset: t.off, Suggest: want,
		Message: fmt.Sprintf("%s stands where %q belongs; PyTorch passes over it without a word, versions before 2.10 raise", quoted(t.text), want)})
	return nil
}

// value reads what stands behind a key.
func (p *parser) value(name string) *SyntaxError {
	c := &p.cfg
	switch name {
	case keyBackend:
		return p.backend()
	case keyExpandable:
		return p.boolean(name, &c.Expandable)
	case keyMaxSplit:
		return p.size(name, p.splitMinimum(), Unlimited, &c.MaxSplitSize)
	case keyMaxNonSplit:
		return p.size(name, p.splitMinimum(), maxBytes, &c.MaxNonSplitRounding)
	case keyLargeSegment:
		var again int64 // largeSegmentFirst has taken it
		return p.size(name, MinLarge/MiB+1, maxBytes, &again)
	case keyRoundup:
		return p.roundup()
	case keyGC:
		return p.fraction(name, false, &c.GCThreshold)
	case keyFraction:
		return p.fraction(name, true, &c.MemoryFraction)
	case keyThrow:
		return p.boolean(name, &c.ThrowOnOOM)
	case keyReleaseLock:
		return p.boolean(name, &c.ReleaseLock)
	case keyGraphReuse:
		return p.boolean(name, &c.GraphCaptureReuse)
	case keyReserve:
		p.reserve(name, &c.ReserveFraction, &c.ReserveBytes)
		return nil
	case keyReserveByClass:
		return p.reserveByClass()
	case keyHostRegister:
		return p.boolean(name, &c.PinnedUseHostRegister)
	case keyRegisterThreads:
		return p.threads()
	case keyBackground:
		return p.boolean(name, &c.PinnedBackgroundThreads)
	case keyPinnedReserve:
		return p.size(name, 1, maxBytes, &c.PinnedReserveSegmentSize)
	case keyPinnedCatchAll:
		return p.boolean(name, &c.PinnedFreeCatchAll)
	default: // keyRoundupBypass: requests beyond it are not rounded; no version with lists has it
		var unused int64
		return p.size(name, 0, math.MaxInt64, &unused)
	}
}

// splitMinimum is the least value in MiB of the two settings about splitting.
func (p *parser) splitMinimum() uint64 {
	if p.v.before(Version{2, 10}) {
		return DefaultLargeSegment/MiB + 1
	}
	return uint64(p.cfg.LargeSegmentSize / MiB)
}
