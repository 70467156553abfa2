package oomlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Log is what a log says about memory that ran out.
type Log struct {
	Messages []Message // in the order of their first copies
	Lines    int
	Bytes    int64
	Omitted  int    // further different messages, beyond MaxMessages
	Notes    []Note // things that are often taken for failures and are none
}

// Note is something in a log that looks like running out of memory to many and is not.
type Note struct {
	Kind  NoteKind
	Line  int // of the first
	Count int
}

// NoteKind tells notes apart.
type NoteKind uint8

// The kinds of note.
const (
	NoteSoftBFC     NoteKind = iota // TensorFlow's allocator was short and says that this is not a failure
	NoteCacheFlush                  // DeepSpeed: PyTorch emptied its cache and tried again, which worked
	NoteSkippedPlan                 // TensorRT skipped a tactic that needs too much
	NoteTable                       // a table of nvidia-smi or gpustat
	NoteSummary                     // a memory_summary without failures
	NoteGrowth                      // readings of the memory in use that only ever grow, before a failure
	numNotes
)

// MaxMessages bounds how many different messages are kept.
const MaxMessages = 4096

// Sizes of the window over the log. The block is what one read asks for; before and after are how much
// text around a stop a parser can need.
const (
	blockSize   = 512 << 10
	beforeSize  = 4 << 10
	flatBefore  = 1000
	flatAfter   = 1600
	flatLong    = 12 << 10 // for a message that does not end within flatAfter
	flatEdge    = 350      // so near its end a flat text may have cut a message
	lookahead   = 64 << 10
	maxLineSize = 8 << 10 // for what is read line by line
)

// Scan reads a log to its end, also one that is packed with gzip or zstd. Its memory does not grow with the
// log. With an error it returns what it found before.
func Scan(r io.Reader) (Log, error) {
	plain, done, err := plainReader(r)
	defer done()
	if err != nil {
		return Log{}, err
	}
	s := &scanner{r: plain, buf: make([]byte, 0, blockSize+lookahead+beforeSize)}
	s.collect.dump.device, s.stat, s.lastReading = -1, -1, -1
	s.run()
	s.collect.log.Lines = s.lines(len(s.buf))
	if n := len(s.buf); n > 0 && s.buf[n-1] != '\n' {
		s.collect.log.Lines++
	}
	s.collect.log.Bytes = s.base + int64(len(s.buf))
	log := s.collect.finish()
	if s.err != nil {
		return log, fmt.Errorf("reading stopped at byte %d: %w", log.Bytes, s.err)
	}
	return log, nil
}

// scanner moves a window over the log. buf holds the window: some text that was searched already, kept for
// its context, and text still to be searched. base is where in the log buf begins.
type scanner struct {
	r    io.Reader
	buf  []byte
	base int64
	eof  bool  // there is no more, or no more can be read
	err  error // why not

	floor   int // text before this belongs to a message already
	counted int // lines before this place in buf are in lineNo
	lineNo  int
	stat    int // the next place where gpustatWord stands, -1 if that is to be found out

	lastReading int64 // where in the log the last line with a reading begins

	view    view
	collect collector
}

func (s *scanner) run() {
	for pos := 0; ; {
		at, which := s.next(pos)
		switch {
		case at < 0 && s.eof:
			return
		case at < 0:
			// A needle can begin in what is here and end in what is to come.
			pos = max(pos, len(s.buf)-longestNeedle)
			pos -= s.fill(pos)
		case !s.eof && at+lookahead > len(s.buf):
			pos = at - s.fill(at)
		default:
			pos = s.stop(at, which)
		}
	}
}

// next finds the next place to look at.
func (s *scanner) next(pos int) (at, which int) {
	at, which = stops.find(s.buf, pos)
	// The line of gpustat has no word long enough for the needles, whose speed depends on the shortest.
	if s.stat < pos {
		s.stat = len(s.buf)
		if i := bytes.Index(s.buf[pos:], []byte(gpustatWord)); i >= 0 {
			s.stat = pos + i
		}
	}
	if s.stat < len(s.buf) && (at < 0 || s.stat < at) {
		return s.stat, gpustatStop
	}
	return at, which
}

// fill drops text that is no longer needed before keep and reads a further block, or to the end. It
// returns by how much the text moved.
func (s *scanner) fill(keep int) (moved int) {
	moved = max(0, keep-beforeSize)
	if moved > 0 {
		s.lines(moved)
		n := copy(s.buf, s.buf[moved:])
		s.buf = s.buf[:n]
		s.base += int64(moved)
		s.counted -= moved
		s.floor = max(0, s.floor-moved)
	}
	s.stat = -1
	// keep is never further than lookahead from the end, so a block has room.
	want := min(cap(s.buf), len(s.buf)+blockSize)
	for len(s.buf) < want && !s.eof {
		n, err := s.r.Read(s.buf[len(s.buf):want])
		s.buf = s.buf[:len(s.buf)+n]
		if err != nil {
			s.eof = true
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
		}
	}
	return moved
}

// lines is the number of line ends before a place in the window. Places must not go backwards by more
// than the window holds.
func (s *scanner) lines(to int) int {
	if to >= s.counted {
		s.lineNo += bytes.Count(s.buf[s.counted:to], []byte{'\n'})
	} else {
		s.lineNo -= bytes.Count(s.buf[to:s.counted], []byte{'\n'})
	}
	s.counted = to
	return s.lineNo
}

// stop looks at a place where a needle was found and returns where the search goes on.
func (s *scanner) stop(at, which int) int {
	if which == gpustatStop {
		return max(at+1, s.gpustat(at))
	}
	n := &stops.needles[which]
	if n.lines != nil {
		if end := n.lines(s, at); end > at {
			s.floor = max(s.floor, end)
			return end
		}
		return at + 1
	}
	after := flatAfter
	for {
		from := max(0, min(s.floor, at), at-flatBefore)
		m, ok := s.parse(n, at, from, after)
		if ok && after < flatLong && m.end+flatEdge > len(s.view.text) && at+after < len(s.buf) {
			after = flatLong
			continue
		}
		if !ok {
			return at + 1
		}
		return s.accept(&m, at, from)
	}
}

// parse asks the parsers of a needle about the text around a place.
func (s *scanner) parse(n *needle, at, from, after int) (found, bool) {
	v := &s.view
	v.flatten(s.buf[from:min(len(s.buf), at+after)], at-from)
	v.mark = v.at(at - from)
	v.before = s.buf[max(0, from-beforeSize):at]
	for _, parse := range n.parsers {
		if m, ok := parse(v); ok && m.start <= v.mark && m.end > v.mark {
			m.end = min(m.end, len(v.text))
			return m, true
		}
	}
	return found{}, false
}

// accept hands a message on and returns where the search goes on after it.
func (s *scanner) accept(m *found, at, from int) int {
	start := from + int(s.view.raw[m.start])
	end := from + s.view.rawEnd(m.end)
	m.Line = s.lines(start) + 1
	m.Offset = s.base + int64(start)
	m.Ranks = ranksOf(s.buf[max(0, start-300):start])
	s.migSlice(&m.Message, start, end)
	m.Repeated = 1
	s.collect.add(m.Message, s.buf[start:end])
	s.floor = end
	return max(end, at+1)
}

// lineAround is the line in which a place stands, cut to a bounded length, and where it ends.
func (s *scanner) lineAround(at int) (line []byte, end int) {
	start := bytes.LastIndexByte(s.buf[max(0, at-maxLineSize):at], '\n') + 1 + max(0, at-maxLineSize)
	return s.lineFrom(start)
}

func (s *scanner) lineFrom(start int) (line []byte, end int) {
	limit := min(len(s.buf), start+maxLineSize)
	if i := bytes.IndexByte(s.buf[start:limit], '\n'); i >= 0 {
		return s.buf[start : start+i], start + i + 1
	}
	return s.buf[start:limit], limit
}

// excerpt is the beginning of a message on one line.
func excerpt(raw []byte) string {
	const most = 400
	var out []byte
	for _, f := range bytes.Fields(stripEscapes(raw[:min(len(raw), 2*most)])) {
		if len(out)+len(f) > most {
			out = append(out, " …"...)
			break
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = append(out, bytes.ToValidUTF8(f, []byte("?"))...)
	}
	return string(out)
}

// migSlice takes the capacity from the name of a MIG slice near a message that has none: "MIG 3g.20gb".
func (s *scanner) migSlice(m *Message, start, end int) {
	if m.Capacity.Known || m.Framework != "tensorrt" {
		return
	}
	near := s.buf[max(0, start-2048):min(len(s.buf), end+1024)]
	i := bytes.Index(near, []byte("MIG "))
	if i < 0 {
		return
	}
	f := near[i+4 : min(len(near), i+16)]
	n := digitsLen(f)
	if n == 0 || !bytes.HasPrefix(f[n:], []byte("g.")) {
		return
	}
	if g := digitsLen(f[n+2:]); g > 0 && bytes.HasPrefix(f[n+2+g:], []byte("gb")) {
		m.Capacity, _ = makeSize(f[n+2:n+2+g], 0, gib)
	}
}
