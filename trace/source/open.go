// Package source opens files of any kind that the tool reads: it unpacks them, finds out by their content
// what they are, and reads them into a trace.
package source

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/jax"
	"github.com/vramscope/vramscope/trace/kineto"
	"github.com/vramscope/vramscope/trace/minimalloc"
	"github.com/vramscope/vramscope/trace/nsys"
	"github.com/vramscope/vramscope/trace/nvml"
	"github.com/vramscope/vramscope/trace/nvprof"
	"github.com/vramscope/vramscope/trace/rmm"
	"github.com/vramscope/vramscope/trace/stalloc"
	"github.com/vramscope/vramscope/trace/tables"
	"github.com/vramscope/vramscope/trace/torch"
)

// Options say how to open a file.
type Options struct {
	Stdin io.Reader // what "-" reads; os.Stdin if nil

	// Progress, if not nil, is told now and then how many bytes of the file have been read, out of how
	// many (0 if that is not known).
	Progress func(read, total int64)
}

// source is a kind of file; one without a name only answers files that cannot be read. read sees at least
// the first 64 KiB by Peek. For a file of another kind it returns trace.ErrUnrecognized itself and has taken
// nothing; any other error is final, also one that wraps trace.ErrUnrecognized.
type source struct {
	name string
	read func(*bufio.Reader) (*trace.Trace, error)
	// named, if not nil, adds what only the name of the file tells. It is called after read, with the name
	// without folders, and only if there is one.
	named func(t *trace.Trace, name string)
}

// sources in the order in which they are tried.
var sources = [...]source{
	{name: "PyTorch snapshots", read: torch.Read},
	{name: "torch.profiler traces", read: kineto.Read},
	{name: "Nsight Systems exports", read: nsys.ReadLines},
	{name: "Nsight Systems exports", read: nsys.ReadStats},
	{read: nsys.ReadClosed},
	{name: "nvprof profiles", read: nvprof.ReadText},
	{name: "RMM logs", read: rmm.Read, named: rmm.Named},
	{name: "STAlloc logs", read: stalloc.Read, named: stalloc.Named},
	{name: "MiniMalloc lists", read: minimalloc.Read},
	{name: "NVML logs", read: nvml.Read},
	{name: "JAX and XProf profiles", read: jax.Read},
	{name: "BFC dumps in logs", read: readLog},
}

// window is how much of a file sources can look at before they decide.
const window = 64 << 10

// Open reads a file; "-" is standard input. Errors do not name the file, and are one line that says what
// is wrong and what to do.
func Open(path string, opts Options) (*trace.Trace, error) {
	if path == "-" {
		in := opts.Stdin
		if in == nil {
			in = os.Stdin
		}
		return Read(in, 0, opts)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cause("cannot be opened", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, cause("cannot be opened", err)
	}
	if st.IsDir() {
		t, err := readFolder(path, opts.Progress)
		if err != nil {
			return nil, cause("cannot be read", err)
		}
		return t, nil
	}
	t, err := read(f, st.Size(), path, opts)
	if closed := nsys.ClosedByName(path); closed != nil && errors.Is(err, trace.ErrUnrecognized) {
		return nil, closed
	}
	return t, err
}

// Read reads a file from r, which has size bytes, or 0 if that is not known.
func Read(r io.Reader, size int64, opts Options) (*trace.Trace, error) {
	return read(r, size, "", opts)
}

// read reads a file; path is "" if it is not a file on its own.
func read(r io.Reader, size int64, path string, opts Options) (*trace.Trace, error) {
	var told *progress
	if opts.Progress != nil {
		told = &progress{r: r, total: size, tell: opts.Progress}
		r = told
	}
	br, packed, closeAll, err := unpack(bufio.NewReaderSize(r, window))
	defer closeAll()
	if err != nil {
		return nil, cause("cannot be read", err)
	}
	head, err := br.Peek(window)
	if err != nil && err != io.EOF && len(head) == 0 {
		return nil, cause("cannot be read", err)
	}
	if len(head) == 0 {
		return nil, &trace.SyntaxError{Offset: -1, Msg: "is empty: nothing was written to it", Err: trace.ErrCorrupt}
	}
	if tables.IsDatabase(head) {
		if packed {
			path = ""
		}
		t, err := readDatabase(br, path, told.second(path == ""))
		if err != nil {
			return nil, cause("cannot be read", err)
		}
		return t, nil
	}
	if isParquet(head) {
		if packed {
			path = ""
		}
		t, err := readParquet(br, path)
		if err != nil {
			return nil, cause("cannot be read", err)
		}
		return t, nil
	}
	unknown := unrecognized(head)
	for _, s := range sources {
		t, err := s.read(br)
		switch err {
		case trace.ErrUnrecognized:
			continue
		case errNothing:
			return nil, unknown
		}
		if err == nil && packed && !t.Source.Cut {
			err = rest(br)
		}
		if err != nil {
			return nil, cause("cannot be read", err)
		}
		if s.named != nil && path != "" {
			s.named(t, filepath.Base(path))
		}
		return t, nil
	}
	if err != nil && err != io.EOF {
		return nil, cause("cannot be read", err)
	}
	return nil, unknown
}

// rest reads what is left of a packed file, so that its checksum is looked at. There is normally nothing.
func rest(r io.Reader) error {
	_, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20))
	return err
}

// cause puts an error of the operating system in a form that does not name the file.
func cause(what string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return &trace.SyntaxError{Offset: -1, Msg: fmt.Sprintf("%s: %s", what, path.Err), Err: err}
	}
	return err
}

// unrecognized says what a file is that no source wanted.
func unrecognized(head []byte) error {
	var known []string
	for _, s := range sources {
		if s.name != "" {
			known = append(known, s.name)
		}
	}
	for _, s := range databases {
		known = append(known, s.name)
	}
	known = append(known, "Parquet of convert")
	what := fmt.Sprintf("begins with the bytes % x, like no file known here", head[:min(len(head), 8)])
	switch {
	case strings.HasPrefix(string(head), "PK\x03\x04"):
		what = "is a zip archive (a checkpoint of torch.save?), not a recording of memory"
	case isText(head):
		what = "is a text of no kind known here"
		if isOOM(head) {
			what += " (for its out-of-memory messages: vramscope oom FILE)"
		}
	}
	return &trace.SyntaxError{Offset: -1, Err: trace.ErrUnrecognized,
		Msg: fmt.Sprintf("%s; readable are %s, packed or not", what, strings.Join(dropRepeated(known), ", "))}
}

// dropRepeated names each kind once.
func dropRepeated(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func isText(head []byte) bool {
	for i := 0; i < len(head); {
		c, n := utf8.DecodeRune(head[i:])
		if c == utf8.RuneError && n <= 1 && len(head)-i >= utf8.UTFMax || c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			return false
		}
		i += n
	}
	return true
}

// progress tells how much of a file has been read.
type progress struct {
	r           io.Reader
	read, total int64
	tell        func(read, total int64)
	halved      bool // reading it is half of the work
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.read += int64(n)
	if p.halved {
		p.tell(p.read/2, p.total)
	} else {
		p.tell(p.read, p.total)
	}
	return n, err
}

// finished tells that all has been read.
func finished(tell func(read, total int64), total int64) {
	if tell != nil {
		tell(total, total)
	}
}

// second gives what to tell when the file is read in another way. If it is copied first, that is half of the work.
func (p *progress) second(copied bool) func(read, total int64) {
	if p == nil {
		return nil
	}
	if !copied {
		return p.tell
	}
	p.halved = true
	return func(read, total int64) {
		if p.total == 0 {
			p.tell(read, total)
			return
		}
		done := p.total / 2
		p.tell(done+int64(float64(read)/float64(max(total, 1))*float64(p.total-done)), p.total)
	}
}
