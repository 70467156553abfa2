package simulate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Remedies.
//
// People whose program runs out of memory are told to empty the cache now and then, to let the largest batch
// go first, to take a large block at the start and give it back, to find the leak. Each of these is a change to
// what the program asks of its allocator, so it can be tried on a recording: an Edit changes the requests, and
// the replay shows what that would have done.

// Edit is one such change.
type Edit struct {
	Text    string
	Kind    EditKind
	Every   int            // EditEmptyCache: after each so many steps; 0 if it is before one event
	Before  int            // EditEmptyCache: the event, -1 if it is given by After
	After   time.Duration  // EditEmptyCache: since the first event
	Size    int64          // EditPrealloc: bytes
	Factor  float64        // EditScale
	Pattern *regexp.Regexp // EditDropStack
}

// EditKind says what an edit changes.
type EditKind uint8

// The kinds of edit.
const (
	EditEmptyCache   EditKind = iota // torch.cuda.empty_cache() is called
	EditLargestFirst                 // what the largest step takes and gives back goes before the first step
	EditPrealloc                     // a block is taken and given back before anything else
	EditWithoutLeaks                 // blocks of a leaking stack are freed at the end of their step
	EditDropStack                    // blocks of some stacks are never allocated
	EditScale                        // activations have another size
)

// EditHelp lists the edits for people, one a line.
const EditHelp = `empty-cache:every=10steps   empty the cache after every tenth step (1step, or step-end: after each)
empty-cache:before=EVENT    empty it before an event (a number, or a time such as +2.5s)
largest-first               what the largest step takes and gives back goes before the first step
prealloc=8GiB               one block of this size is taken and given back at the start
without-leaks               blocks of leaking call stacks are freed at the end of their step
drop-stack=REGEX            blocks whose call stack matches are never allocated
scale=1.5                   activations are larger or smaller by this factor`

// EditError says what is wrong with the text of an edit, and where.
type EditError struct {
	Text string
	At   int // byte offset into Text
	Msg  string
}

func (e *EditError) Error() string {
	return fmt.Sprintf("edit %q: character %d: %s", e.Text, e.At+1, e.Msg)
}

// ParseEdit reads an edit as EditHelp shows it.
func ParseEdit(text string) (Edit, error) {
	p := editText{text: text, edit: Edit{Text: text, Before: -1}}
	name := strings.TrimRight(text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz-"))], " ")
	p.at = len(name)
	var err error
	switch name {
	case "empty-cache":
		p.edit.Kind = EditEmptyCache
		err = p.emptyCache()
	case "largest-first":
		p.edit.Kind = EditLargestFirst
		err = p.nothing()
	case "without-leaks":
		p.edit.Kind = EditWithoutLeaks
		err = p.nothing()
	case "prealloc":
		p.edit.Kind = EditPrealloc
		err = p.prealloc()
	case "drop-stack":
		p.edit.Kind = EditDropStack
		err = p.dropStack()
	case "scale":
		p.edit.Kind = EditScale
		err = p.scale()
	default:
		p.at = 0
		err = p.wrong("there are empty-cache, largest-first, prealloc, without-leaks, drop-stack and scale")
	}
	return p.edit, err
}

// editText is an edit while it is read.
type editText struct {
	text string
	at   int
	edit Edit
}

func (p *editText) rest() string { return p.text[p.at:] }

func (p *editText) wrong(format string, args ...any) error {
	return &EditError{p.text, p.at, fmt.Sprintf(format, args...)}
}

func (p *editText) nothing() error {
	if p.rest() != "" {
		return p.wrong("%q is too much, nothing follows here", p.rest())
	}
	return nil
}

// value moves behind an equals sign.
func (p *editText) value(example string) error {
	if !strings.HasPrefix(p.rest(), "=") || len(p.rest()) == 1 {
		return p.wrong("a value is missing, as in %s", example)
	}
	p.at++
	return nil
}

func (p *editText) emptyCache() error {
	const how = "write :every=10steps, :step-end or :before=EVENT"
	switch {
	case p.rest() == "", p.rest() == ":step-end":
		p.edit.Every = 1
		return nil
	case strings.HasPrefix(p.rest(), ":every="):
		p.at += len(":every=")
		digits := p.rest()[:len(p.rest())-len(strings.TrimLeft(p.rest(), "0123456789"))]
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return p.wrong("%q is not a number of steps from 1 on", p.rest())
		}
		p.edit.Every = n
		p.at += len(digits)
		if r := p.rest(); r != "" && r != "step" && r != "steps" {
			return p.wrong("%q is no unit: a cache is emptied every so many steps", r)
		}
		return nil
	case strings.HasPrefix(p.rest(), ":before="):
		p.at += len(":before=")
		if t, ok := strings.CutPrefix(p.rest(), "+"); ok {
			d, err := time.ParseDuration(t)
			if err != nil || d < 0 {
				return p.wrong("%q is not a time: write +2.5s or +800ms", p.rest())
			}
			p.edit.After = d
			return nil
		}
		n, err := strconv.Atoi(p.rest())
		if err != nil || n < 0 {
			return p.wrong("%q is neither the number of an event nor a time such as +2.5s", p.rest())
		}
		p.edit.Before = n
		return nil
	}
	return p.wrong("%q does not say when: %s", p.rest(), how)
}

func (p *editText) prealloc() error {
	if err := p.value("prealloc=8GiB"); err != nil {
		return err
	}
	n, err := ParseSize(p.rest())
	if err != nil {
		return p.wrong("%v", err)
	}
	if n == 0 {
		return p.wrong("a block of 0 bytes changes nothing")
	}
	p.edit.Size = n
	return nil
}

func (p *editText) dropStack() error {
	if err := p.value("drop-stack=model.py:31"); err != nil {
		return err
	}
	re, err := regexp.Compile(p.rest())
	if err != nil {
		return p.wrong("not a regular expression: %v", err)
	}
	p.edit.Pattern = re
	return nil
}

const mostScale = 1000

func (p *editText) scale() error {
	if err := p.value("scale=1.5"); err != nil {
		return err
	}
	x, err := strconv.ParseFloat(p.rest(), 64)
	if err != nil || !(x > 0 && x <= mostScale) {
		return p.wrong("%q is not a factor above 0 and up to %d", p.rest(), mostScale)
	}
	p.edit.Factor = x
	return nil
}
