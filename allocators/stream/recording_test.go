package stream_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators"
	"github.com/vramscope/vramscope/allocators/stream"
)

const page = 32 << 20

// A device has room for some pages, and is much larger than any request.
type device struct {
	left int64 // pages
	next uint64
}

func (d *device) Alloc(int64) (uint64, error) { return 0, allocators.ErrNoMemory }
func (d *device) Free(uint64, int64)          {}
func (d *device) Reserve(size int64) (uint64, error) {
	addr := d.next
	d.next += uint64(size)
	return addr, nil
}
func (d *device) Release(uint64, int64) {}
func (d *device) Map(_ uint64, size int64) error {
	if size/page > d.left {
		return allocators.ErrNoMemory
	}
	d.left -= size / page
	return nil
}
func (d *device) Unmap(_ uint64, size int64) { d.left += size / page }
func (d *device) Memory() (free, total int64) {
	return d.left * page, 140 << 30
}

// A step is one operation of a recording and what was seen after it.
type step struct {
	op       byte   // a, f, t, S, D
	block    uint32 // a, f
	n        int64  // a: bytes; t: bytes to keep
	stream   uint32 // a, S
	offset   int64  // a: from the start of the pool, -1 if it was refused
	reserved int64  // bytes
	used     int64  // bytes
	line     int
}

// A recording is what one pool did.
type recording struct {
	name   string
	opt    stream.Options
	device int64 // pages, 0 for no limit
	steps  []step
}

func (r *recording) allocator() *stream.Allocator {
	if r.device == 0 {
		return stream.New(nil, r.opt)
	}
	return stream.New(&device{left: r.device}, r.opt)
}

// apply does one step and says at which offset a block came to lie, -1 if none did.
func apply(a *stream.Allocator, s *step) int64 {
	switch s.op {
	case 'a':
		if a.Malloc(allocators.Request{Block: s.block, Size: s.n, Stream: s.stream}) == nil {
			addr, _, _ := a.Block(s.block)
			return int64(addr)
		}
	case 'f':
		a.Free(s.block, false)
	case 't':
		a.Trim(0, s.n)
	case 'S':
		a.SynchronizeStream(s.stream)
	case 'D':
		a.Synchronize()
	}
	return -1
}

// check replays a recording and compares every step.
func (r *recording) check(t *testing.T) {
	t.Helper()
	a := r.allocator()
	wrong := 0
	for i := range r.steps {
		s := &r.steps[i]
		offset := apply(a, s)
		reserved, used := a.Stats().Reserved.Current, a.Used().Current
		if offset != s.offset || reserved != s.reserved || used != s.used {
			t.Errorf("line %d: %c %d: offset %d reserved %d used %d, recorded %d, %d, %d",
				s.line, s.op, s.block, offset, reserved, used, s.offset, s.reserved, s.used)
			if wrong++; wrong == 5 {
				t.Fatal("and so on")
			}
		}
	}
}

func unzip(t testing.TB, file string) *bufio.Scanner {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(bytes.NewReader(data))
}

func number(t testing.TB, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readCSV reads a recording of PyTorch's settings: op, id, bytes, stream, offset, reserved KiB, used
// bytes. A trim there has waited for the device first.
func readCSV(t testing.TB, file string) *recording {
	r := &recording{name: strings.TrimSuffix(filepath.Base(file), ".csv.gz"), opt: stream.PyTorch()}
	for sc, line := unzip(t, file), 1; sc.Scan(); line++ {
		f := strings.Split(sc.Text(), ",")
		if line == 1 {
			continue
		}
		s := step{
			op: f[0][0], block: uint32(number(t, f[1])), n: number(t, f[2]), stream: uint32(number(t, f[3])),
			offset: number(t, f[4]), reserved: number(t, f[5]) << 10, used: number(t, f[6]), line: line,
		}
		if s.op == 't' {
			before := r.steps[len(r.steps)-1]
			r.steps = append(r.steps, step{op: 'D', offset: -1, reserved: before.reserved, used: before.used, line: line})
		}
		r.steps = append(r.steps, s)
	}
	return r
}

// readOptions reads recordings of pools with other settings, one after the other. A line "pool" has the
// settings; the others are an operation, its operands, and what followed: "a BLOCK BYTES STREAM OFFSET",
// "f BLOCK", "t KEEP", "S STREAM" or "D", then pages reserved and bytes used.
func readOptions(t testing.TB, file string) []*recording {
	var all []*recording
	for sc, line := unzip(t, file), 1; sc.Scan(); line++ {
		f := strings.Fields(sc.Text())
		if f[0] == "pool" {
			r := &recording{name: f[len(f)-1]}
			for _, arg := range f[1 : len(f)-2] {
				k, v, _ := strings.Cut(arg, "=")
				if err := r.set(k, v); err != nil {
					t.Fatalf("%s:%d: %v", file, line, err)
				}
			}
			all = append(all, r)
			continue
		}
		s := step{
			op: f[0][0], offset: -1, line: line,
			reserved: number(t, f[len(f)-2]) * page, used: number(t, f[len(f)-1]),
		}
		switch s.op {
		case 'a':
			s.block, s.n, s.stream = uint32(number(t, f[1])), number(t, f[2]), uint32(number(t, f[3]))
			if f[4] != "-" {
				s.offset = number(t, f[4])
			}
		case 'f':
			s.block = uint32(number(t, f[1]))
		case 't':
			s.n = number(t, f[1])
		case 'S':
			s.stream = uint32(number(t, f[1]))
		}
		r := all[len(all)-1]
		r.steps = append(r.steps, s)
	}
	return all
}

// set changes a setting by its name in the recordings and scripts.
func (r *recording) set(name, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	if value == "all" {
		n, err = stream.KeepAll, nil
	}
	switch name {
	case "threshold":
		r.opt.ReleaseThreshold = n
	case "maxsize":
		r.opt.MaxSize = n
	case "opportunistic":
		r.opt.NoOpportunistic = n == 0
	case "internal":
		r.opt.NoInternalDependencies = n == 0
	case "device":
		r.device = n
	default:
		return fmt.Errorf("no setting %q", name)
	}
	return err
}

// recordings are those of the package, with the whole corpus if it is here.
func recordings(t testing.TB, pattern string) []string {
	files, _ := filepath.Glob(filepath.Join("testdata", pattern))
	for _, dir := range corpus() {
		more, _ := filepath.Glob(filepath.Join(dir, "pool", pattern))
		files = append(files, more...)
	}
	if len(files) == 0 {
		t.Fatalf("no recordings %s", pattern)
	}
	return files
}

// corpus are the folders with more recordings. VRAMSCOPE_CORPUS names them, separated like a PATH.
func corpus() []string {
	if dirs := filepath.SplitList(os.Getenv("VRAMSCOPE_CORPUS")); len(dirs) > 0 {
		return dirs
	}
	return []string{filepath.Join("..", "..", "..", "shared", "data")}
}
