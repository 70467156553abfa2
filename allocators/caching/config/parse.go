package config

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// SyntaxError is a part of a setting that PyTorch raises on.
type SyntaxError struct {
	Offset int    // byte of the text where the trouble is
	Key    string // the key concerned, if any
	Msg    string // what is wrong
	Do     string // what to write instead
}

func (e *SyntaxError) Error() string {
	if e.Do == "" {
		return fmt.Sprintf("offset %d: %s", e.Offset, e.Msg)
	}
	return fmt.Sprintf("offset %d: %s; %s", e.Offset, e.Msg, e.Do)
}

// Severity says how much a finding matters.
type Severity string

const (
	Error      Severity = "error"      // PyTorch raises, nothing of the setting holds
	Ignored    Severity = "ignored"    // PyTorch does not look at this part
	NoEffect   Severity = "no-effect"  // it is set and changes nothing
	Risk       Severity = "risk"       // it works and is known to hurt or to break something
	Deprecated Severity = "deprecated" // it works in this version, under another name in newer ones
)

// Finding is something to know about one part of a setting.
type Finding struct {
	Code     string // stable name of the rule
	Key      string // the key concerned, if any
	Severity Severity
	Message  string
	Offset   int    // byte of the text
	Suggest  string // what to write or do instead, if there is something
}

// Parse reads a setting as the given version of PyTorch does. The error is a *SyntaxError where PyTorch
// would raise; the Config then holds what could be read, and the findings name every such place.
func Parse(text string, v Version) (Config, []Finding, error) {
	p := &parser{v: v.known(), cfg: Default(), toks: tokenize(text), end: len(text)}
	p.cfg.LegacyDiv1 = p.v.before(Version{2, 4})
	for p.pos < len(p.toks) {
		if err := p.pair(); err != nil {
			return p.cfg, p.findings, err
		}
	}
	return p.cfg, p.findings, nil
}

type token struct {
	text string
	off  int
}

type parser struct {
	v        Version
	cfg      Config
	toks     []token
	pos, end int
	findings []Finding
}

// tokenize cuts the text at , : [ ] and drops white space, also inside of words.
func tokenize(text string) []token {
	var toks []token
	var word []byte
	start := 0
	flush := func() {
		if len(word) > 0 {
			toks = append(toks, token{string(word), start})
			word = word[:0]
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ',', ':', '[', ']':
			flush()
			toks = append(toks, token{text[i : i+1], i})
		case ' ', '\t', '\n', '\v', '\f', '\r':
		default:
			if len(word) == 0 {
				start = i
			}
			word = append(word, c)
		}
	}
	flush()
	return toks
}

func (p *parser) peek() token {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return token{"", p.end}
}

func (p *parser) next() token {
	t := p.peek()
	p.pos++
	return t
}

func (p *parser) expect(s string) error {
	if t := p.next(); t.text != s {
		return &SyntaxError{Offset: t.off, Msg: fmt.Sprintf("%q is expected here", s)}
	}
	return nil
}

func (p *parser) pair() error {
	key := p.next()
	if err := p.expect(":"); err != nil {
		return err
	}
	var err error
	switch c := &p.cfg; key.text {
	case "max_split_size_mb":
		err = p.mib(&c.MaxSplitSize)
	case "max_non_split_rounding_mb":
		err = p.mib(&c.MaxNonSplitRounding)
	case "large_segment_size_mb":
		err = p.mib(&c.LargeSegmentSize)
	case "garbage_collection_threshold":
		err = p.fraction(&c.GCThreshold)
	case "per_process_memory_fraction":
		err = p.fraction(&c.MemoryFraction)
	case "roundup_power2_divisions":
		err = p.divisions()
	case "backend":
		c.Backend = p.next().text
	case "expandable_segments":
		err = p.boolean(&c.Expandable)
	case "release_lock_on_cudamalloc", "release_lock_on_hipmalloc":
		err = p.boolean(&c.ReleaseLock)
	case "graph_capture_record_stream_reuse":
		err = p.boolean(&c.GraphCaptureReuse)
	case "throw_on_cudamalloc_oom":
		err = p.boolean(&c.ThrowOnOOM)
	default:
		return &SyntaxError{Offset: key.off, Key: key.text, Msg: fmt.Sprintf("PyTorch knows no setting %q", key.text)}
	}
	if err == nil && p.pos < len(p.toks) {
		err = p.expect(",")
	}
	return err
}

func (p *parser) boolean(to *bool) error {
	t := p.next()
	if t.text != "True" && t.text != "False" {
		return &SyntaxError{Offset: t.off, Msg: fmt.Sprintf("%q is neither True nor False", t.text)}
	}
	*to = t.text == "True"
	return nil
}

func (p *parser) integer() (int64, error) {
	t := p.next()
	n, err := strconv.ParseInt(t.text, 10, 64)
	if err != nil || n < 0 {
		return 0, &SyntaxError{Offset: t.off, Msg: fmt.Sprintf("%q is not a whole number", t.text)}
	}
	return n, nil
}

func (p *parser) mib(to *int64) error {
	n, err := p.integer()
	if err == nil {
		*to = min(n, math.MaxInt64/MiB) * MiB
	}
	return err
}

func (p *parser) fraction(to *float64) error {
	t := p.next()
	f, err := strconv.ParseFloat(t.text, 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return &SyntaxError{Offset: t.off, Msg: fmt.Sprintf("%q is not a number between 0 and 1", t.text)}
	}
	*to = f
	return nil
}

func (p *parser) divisions() error {
	table := &p.cfg.Roundup
	if p.peek().text != "[" {
		n, err := p.integer()
		for i := range table {
			table[i] = int(n)
		}
		return err
	}
	p.next()
	last, first := 0, true
	for p.pos < len(p.toks) && p.peek().text != "]" {
		key := p.next()
		if err := p.expect(":"); err != nil {
			return err
		}
		n, err := p.integer()
		if err != nil {
			return err
		}
		if key.text == ">" {
			if !p.v.before(Version{2, 10}) {
				last++
			}
			for i := last; i < len(table); i++ {
				table[i] = int(n)
			}
		} else {
			m, err := strconv.ParseUint(key.text, 10, 64)
			if err != nil || bits.OnesCount64(m) != 1 {
				return &SyntaxError{Offset: key.off, Msg: fmt.Sprintf("%q is not a power of two", key.text)}
			}
			last = min(bits.Len64(m)-1, 15)
			if first {
				for i := range last {
					table[i] = int(n)
				}
				first = false
			}
			table[last] = int(n)
		}
		if p.peek().text != "]" {
			if err := p.expect(","); err != nil {
				return err
			}
		}
	}
	return p.expect("]")
}
