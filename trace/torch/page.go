package torch

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// pageData is where a page of torch.cuda._memory_viz keeps its snapshots: an array of objects with a name
// and the file in base64, padded with NUL bytes behind the end of the pickle.
const pageData = "local_files"

func readPage(r *bufio.Reader) (*trace.Trace, error) {
	if !find(r, pageData) || !find(r, `"base64"`) || !find(r, `"`) {
		return nil, trace.Corrupt(-1, "the page ends before its data: %s", cutHint)
	}
	in := bufio.NewReaderSize(&decoding{r: base64.NewDecoder(base64.StdEncoding, &quoted{r: r})}, 64<<10)
	head, err := in.Peek(in.Size())
	if len(head) == 0 && err != nil && err != io.EOF {
		return nil, err
	}
	var t *trace.Trace
	switch {
	case isPickle(head):
		t, err = readPickle(in)
	case isJSON(head):
		t, err = readJSON(in)
	default:
		return nil, notSnapshot("a page of torch.cuda._memory_viz with other data")
	}
	if err != nil {
		return nil, err
	}
	t.Source.Format = "PyTorch snapshot (HTML)"
	more := 0
	for find(r, `"base64"`) {
		more++
	}
	if more > 0 {
		t.Warnings = append(t.Warnings, trace.Warning{Code: "more-files", Count: more, First: -1,
			Message: "the page holds further snapshots, which were not read"})
	}
	return t, nil
}

// find reads up to and including a word.
func find(r *bufio.Reader, word string) bool {
	var seen []byte // the end of what was read, as long as it is the beginning of the word
	for len(seen) < len(word) {
		c, err := r.ReadByte()
		if err != nil {
			return false
		}
		seen = append(seen, c)
		for !strings.HasPrefix(word, string(seen)) {
			seen = seen[1:]
		}
	}
	return true
}

// quoted reads up to a quotation mark.
type quoted struct {
	r    *bufio.Reader
	done bool
}

func (q *quoted) Read(b []byte) (n int, err error) {
	for n < len(b) && !q.done {
		var c byte
		if c, err = q.r.ReadByte(); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		switch c {
		case '"':
			q.done = true
		case '\\': // of an escaped slash
		default:
			b[n] = c
			n++
		}
	}
	if n == 0 && q.done {
		return 0, io.EOF
	}
	return n, nil
}

// decoding says in words of the page what is wrong with its base64.
type decoding struct{ r io.Reader }

func (d *decoding) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	var bad base64.CorruptInputError
	switch {
	case errors.As(err, &bad):
		err = trace.Corrupt(-1, "the page's base64 data is damaged at its character %d; make the page again", int64(bad))
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = trace.Corrupt(-1, "the page ends in the middle of its data: %s", cutHint)
	}
	return n, err
}
