package oomlog

import "bytes"

// view is what a parser gets to see: the flat text around a place where the scanner stopped.
type view struct {
	flat
	mark   int    // where in the flat text the scanner stopped
	before []byte // raw text before the flat text's source and up to the stop, for what stands around a message
}

// found is a message with the part of the flat text that it takes.
type found struct {
	Message
	start, end int
}

// parser looks for a message of its family at the mark. It is only believed if what it returns covers the
// mark.
type parser func(v *view) (found, bool)

// anchor finds the start of key nearest to the mark: the last one that starts at most back bytes before
// it, or else the first one that starts at most ahead bytes after it. -1 if there is none.
func (v *view) anchor(key string, back, ahead int) int {
	lo := max(0, v.mark-back)
	hi := min(len(v.text), v.mark+len(key)+1)
	last := -1 // bytes.LastIndex goes byte by byte, bytes.Index does not
	for at := v.index(key, lo, hi); at >= 0; at = v.index(key, at+1, hi) {
		last = at
	}
	if last >= 0 {
		return last
	}
	hi = min(len(v.text), v.mark+ahead+len(key))
	if v.mark < hi {
		if i := bytes.Index(v.text[v.mark:hi], []byte(key)); i >= 0 {
			return v.mark + i
		}
	}
	return -1
}

// index finds key at or after from, before limit; -1 if it is not there.
func (f *flat) index(key string, from, limit int) int {
	limit = min(limit, len(f.text))
	if from < 0 || from >= limit {
		return -1
	}
	i := bytes.Index(f.text[from:limit], []byte(key))
	if i < 0 {
		return -1
	}
	return from + i
}

// has tells whether key stands at i.
func (f *flat) has(i int, key string) bool {
	return i >= 0 && i+len(key) <= len(f.text) && string(f.text[i:i+len(key)]) == key
}

// endsWith tells whether key ends just before i.
func (f *flat) endsWith(i int, key string) bool { return f.has(i-len(key), key) }

// take is has and the place after key, or i if it is not there.
func (f *flat) take(i int, key string) (int, bool) {
	if f.has(i, key) {
		return i + len(key), true
	}
	return i, false
}

// size reads a size with its unit at i and returns the place after it; it returns i if there is none.
func (f *flat) size(i int) (Size, int) {
	if i < 0 || i >= len(f.text) {
		return Size{}, i
	}
	s, n := parseSize(f.text[i:])
	return s, i + n
}

// sizeBefore reads a size with its unit that ends just before i, and returns where it starts.
func (f *flat) sizeBefore(i int) (Size, int) {
	var best Size
	at := i
	for start := i - 2; start >= max(0, i-28); start-- {
		c := f.text[start]
		if !isDigit(c) && c != '.' && c != ',' && !isLetter(c) {
			break
		}
		if !isDigit(c) {
			continue
		}
		if s, end := f.size(start); end == i {
			best, at = s, start
		} else if best.Known {
			break
		}
	}
	return best, at
}

// number reads digits at i as a plain number. It stops where a line ends, since the next line may begin
// with digits of its own. ok is false if there are no digits or too many.
func (f *flat) number(i int) (n int64, end int, ok bool) {
	end = i
	for end < len(f.text) && isDigit(f.text[end]) && (end == i || !f.lineBreakAt(end)) {
		d := int64(f.text[end] - '0')
		if n > (1<<63-1-d)/10 {
			return 0, i, false
		}
		n = n*10 + d
		end++
	}
	return n, end, end > i
}

// bytesAt reads a plain number of bytes at i, with or without commas. What follows it is for the caller to
// check.
func (f *flat) bytesAt(i int) (Size, int) {
	end := i
	for end < len(f.text) && isDigit(f.text[end]) && (end == i || !f.lineBreakAt(end)) {
		end++
	}
	if end < len(f.text) && f.text[end] == ',' {
		if length, fraction := numberLen(f.text[i:]); length > end-i && fraction == 0 {
			end = i + length
		}
	}
	if end == i || end-i > 32 {
		return Size{}, i
	}
	s, ok := makeSize(f.text[i:end], 0, 1)
	if !ok {
		return Size{}, i
	}
	return s, end
}

// ordinal reads a device number at i: at most three digits. -1 if there is none.
func (f *flat) ordinal(i int) (int, int) {
	n, end, ok := f.number(i)
	if !ok || end-i > 3 {
		return -1, i
	}
	return int(n), end
}

// around tells whether raw text before the message, back to the start of the view, has the word.
func (v *view) around(word string) bool {
	return bytes.Contains(v.before, []byte(word))
}
