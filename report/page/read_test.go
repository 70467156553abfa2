package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"compress/flate"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// A reader of pages, written from what columns.go and recording.go say, and not with their code.

// readPage is what a page carries.
type readPage struct {
	html    string
	meta    metaJSON
	numbers map[string][]int64
}

var scripts = regexp.MustCompile(`<script type="text/plain" data-columns="([^"]*)" data-bytes="(\d+)">([^<]*)</script>`)

func write(t testing.TB, a *report.Analysis, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, a, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func read(t testing.TB, text string) *readPage {
	t.Helper()
	p := &readPage{html: text, numbers: map[string][]int64{}}
	_, rest, ok := strings.Cut(text, `<script type="application/json" id="meta">`)
	if !ok {
		t.Fatal("no meta")
	}
	body, _, _ := strings.Cut(rest, "</script>")
	if err := json.Unmarshal([]byte(body), &p.meta); err != nil {
		t.Fatal(err)
	}
	for _, m := range scripts.FindAllStringSubmatch(text, -1) {
		size, _ := strconv.Atoi(m[2])
		raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(fromText(t, m[3], size))))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Fields(html.UnescapeString(m[1])) {
			f := strings.Split(c, ":")
			count, _ := strconv.Atoi(f[1])
			width, _ := strconv.Atoi(f[2])
			same, _ := strconv.ParseInt(f[3], 10, 64)
			list := make([]int64, count)
			for i := range list {
				list[i] = same
				for k := range width {
					list[i] += int64(raw[k*count+i]) << (8 * k)
				}
			}
			raw = raw[width*count:]
			p.numbers[f[0]] = list
		}
		if len(raw) > 0 {
			t.Fatalf("%d bytes too many in %s", len(raw), m[1])
		}
	}
	return p
}

// fromText turns characters into bytes with arithmetic on whole numbers instead of shifts.
func fromText(t testing.TB, text string, size int) []byte {
	t.Helper()
	const chars = "!\"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
	var out []byte
	value, weight := uint64(0), uint64(1)
	for i := 0; i+1 < len(text); i += 2 {
		a, b := strings.IndexByte(chars, text[i]), strings.IndexByte(chars, text[i+1])
		if a < 0 || b < 0 {
			t.Fatalf("characters %q", text[i:i+2])
		}
		value += weight * uint64(a+len(chars)*b)
		for weight *= 8192; weight >= 256; weight /= 256 {
			out = append(out, byte(value%256))
			value /= 256
		}
	}
	if len(out) < size {
		t.Fatalf("%d bytes, want %d", len(out), size)
	}
	return out[:size]
}

func unzigzag(n int64) int64 {
	if n%2 == 0 {
		return n / 2
	}
	return -(n + 1) / 2
}

// sums adds a column up.
func sums(list []int64, of func(int64) int64) []int64 {
	out := make([]int64, len(list))
	sum := int64(0)
	for i, n := range list {
		sum += of(n)
		out[i] = sum
	}
	return out
}

func same(n int64) int64 { return n }

func (p *readPage) texts(name string) []string {
	var out []string
	all := make([]byte, len(p.numbers[name+"/bytes"]))
	for i, b := range p.numbers[name+"/bytes"] {
		all[i] = byte(b)
	}
	for _, n := range p.numbers[name+"/lengths"] {
		out = append(out, string(all[:n]))
		all = all[n:]
	}
	return out
}

// readBlock is a block as a page tells it; states as recording.go counts them.
type readBlock struct {
	born, freed, gone int
	taken, requested  int64
	addr              uint64
	stack             string
	stream, pool      int64
	role, phase       int64
	count             int64
}

// blocks puts the blocks of a device together.
func (p *readPage) blocks(key string) []readBlock {
	i, _ := strconv.Atoi(key)
	m := p.meta.Devices[i]
	col := func(name string) []int64 { return p.numbers[key+"/"+name] }
	op := col("op")
	var frees, completions []int
	for i, o := range op {
		switch trace.Op(o) {
		case trace.OpFree, trace.OpFreeRequested:
			frees = append(frees, i+1)
		case trace.OpFreeCompleted:
			completions = append(completions, i+1)
		}
	}
	out := make([]readBlock, m.Blocks)
	stacks := p.stacks()
	addrs := sums(col("addrs"), same)
	at := m.Old
	for i, o := range op {
		if trace.Op(o) == trace.OpAlloc {
			out[at].born = i + 1
			at++
		}
	}
	for i := range out {
		b := &out[i]
		b.freed, b.gone = m.States, m.States
		if n := col("life")[i]; n > 0 {
			b.freed = nth(frees, b.born, int(n))
		}
		for _, w := range m.Waiting {
			if w == i {
				b.freed = 0
			}
		}
		switch n := col("wait")[i]; {
		case b.freed < m.States && b.freed > 0 && trace.Op(op[b.freed-1]) == trace.OpFree:
			b.gone = b.freed
		case b.freed < m.States && n > 0:
			b.gone = nth(completions, b.freed, int(n))
		}
		size := col("size")[i]
		b.taken = col("taken")[size]
		b.requested = b.taken - unzigzag(col("rounding")[size])
		b.addr = uint64(addrs[col("addr")[i]]) * m.Unit
		b.stack = stacks[col("stack")[i]]
		b.stream, b.pool, b.role, b.phase = col("stream")[i], col("pool")[i], col("role")[i], col("phase")[i]
		b.count = 1
		if c := col("count"); len(c) > 0 {
			b.count = c[i]
		}
	}
	return out
}

// nth is the n-th of an ascending list behind a number.
func nth(list []int, behind, n int) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := (lo + hi) / 2; list[mid] <= behind {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return list[lo+n-1]
}

// stacks are the whole call stacks as text, innermost frame first.
func (p *readPage) stacks() []string {
	texts := p.texts("texts")
	frame := func(f int64) string {
		return fmt.Sprintf("%s:%d %s", texts[p.numbers["frame/file"][f]], p.numbers["frame/line"][f], texts[p.numbers["frame/name"][f]])
	}
	var out []string
	for _, node := range p.numbers["stack/whole"] {
		var lines []string
		for node > 0 {
			lines = append(lines, frame(p.numbers["node/frame"][node-1]))
			node -= p.numbers["node/up"][node-1]
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return out
}

// frames writes a stack of a trace in the same way.
func frames(s *trace.Stacks, id trace.StackID) string {
	var lines []string
	for _, f := range s.Stack(id) {
		lines = append(lines, fmt.Sprintf("%s:%d %s", f.File, f.Line, f.Func))
	}
	return strings.Join(lines, "\n")
}
