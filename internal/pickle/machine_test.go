package pickle

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// tree is a Folder that writes everything out as text: the twin of a pickle.
type tree struct {
	strings *Strings
	nodes   []string
}

const kindNode = KindUser

func (t *tree) text(v Value) string {
	switch v.Kind() {
	case KindNone:
		return "None"
	case KindBool:
		return map[int64]string{0: "False", 1: "True"}[v.Int()]
	case KindInt:
		return fmt.Sprint(v.Int())
	case KindUint:
		return fmt.Sprint(v.Uint())
	case KindBig:
		return "big"
	case KindFloat:
		return fmt.Sprintf("f%016x", math.Float64bits(v.Float()))
	case KindString:
		return `"` + hex.EncodeToString(t.strings.Bytes(v.Index())) + `"`
	case KindBytes:
		return fmt.Sprintf("bytes%d", v.Index())
	case kindNode:
		var out []string
		for i := range v.Count() {
			out = append(out, t.nodes[int(v.Index())+i])
		}
		return strings.Join(out, ",")
	}
	return fmt.Sprintf("?%d", v.Kind())
}

func (t *tree) node(open string, items []Value, end string) (Value, error) {
	if len(t.nodes) > 100_000 {
		return Value{}, errors.New("too much for a test")
	}
	var b strings.Builder
	b.WriteString(open)
	for i, it := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.text(it))
	}
	b.WriteString(end)
	t.nodes = append(t.nodes, b.String())
	return User(kindNode, uint32(len(t.nodes)-1)), nil
}

func (t *tree) List(items []Value) (Value, error)  { return t.node("[", items, "]") }
func (t *tree) Tuple(items []Value) (Value, error) { return t.node("(", items, ")") }

func (t *tree) Dict(pairs []Value) (Value, error) {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(t.text(pairs[i]) + ":" + t.text(pairs[i+1]))
	}
	t.nodes = append(t.nodes, "{"+b.String()+"}")
	return User(kindNode, uint32(len(t.nodes)-1)), nil
}

func (t *tree) Spill(items []Value, _ bool) []Value { return items }

func run(r io.Reader) (string, error) {
	t := &tree{strings: NewStrings()}
	v, err := NewMachine(r, t.strings, t).Run()
	if err != nil {
		return "", err
	}
	return t.text(v), nil
}

type testCase struct {
	name, proto string
	data        []byte
	want        string
}

// cases are pickles that CPython made; see testdata/gen.py.
func cases(t testing.TB) []testCase {
	f, err := os.Open("testdata/cases.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []testCase
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<26)
	for sc.Scan() {
		w := strings.Fields(sc.Text())
		data, err := hex.DecodeString(w[2])
		if err != nil || len(w) != 4 {
			t.Fatalf("%s: %v", w[0], err)
		}
		out = append(out, testCase{w[0], w[1], data, w[3]})
	}
	if sc.Err() != nil || len(out) < 100 {
		t.Fatalf("%d cases, %v", len(out), sc.Err())
	}
	return out
}

func TestCPython(t *testing.T) {
	for _, c := range cases(t) {
		t.Run(c.name+"/"+c.proto, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole": bytes.NewReader(c.data),
				"bytes": iotest.OneByteReader(bytes.NewReader(c.data)),
				"eof":   iotest.DataErrReader(bytes.NewReader(c.data)),
			} {
				got, err := run(r)
				if name, refused := strings.CutPrefix(c.want, "!"); refused {
					var e *Error
					if !errors.As(err, &e) || e.Refused != name || !strings.Contains(e.Msg, name) {
						t.Errorf("%s: got %q, %v; want a refusal of %s", how, got, err, name)
					} else if op := c.data[e.Offset]; refused && refusedName(op) != name {
						t.Errorf("%s: offset %d has opcode %#x", how, e.Offset, op)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", how, err)
				} else if got != c.want {
					t.Errorf("%s: got  %.300s\nwant %.300s", how, got, c.want)
				}
			}
		})
	}
}

func refusedName(op byte) string { return refused[op] }

func TestCutAnywhere(t *testing.T) {
	for _, c := range cases(t) {
		step := max(1, len(c.data)/200)
		for n := 0; n < len(c.data); n += step {
			got, err := run(bytes.NewReader(c.data[:n]))
			var e *Error
			switch {
			case err == nil:
				t.Fatalf("%s/%s cut at %d: got %.100s", c.name, c.proto, n, got)
			case !errors.As(err, &e):
				t.Fatalf("%s/%s cut at %d: %v", c.name, c.proto, n, err)
			case e.Refused != "":
			case !e.Cut || !errors.Is(err, io.ErrUnexpectedEOF) || e.Offset != int64(n):
				t.Fatalf("%s/%s cut at %d: %#v", c.name, c.proto, n, e)
			}
		}
	}
}

// Opcodes that CPython's pickler never writes, or not for the values above.
func TestOpcodes(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"proto 0 dict", "(dp0\nS'a'\np1\nI1\nsS'b'\nL5L\ns.", `{"61":1,"62":5}`},
		{"DICT with pairs", "(S'a'\nI1\nS'b'\nI01\nd.", `{"61":1,"62":True}`},
		{"LIST with items", "(I1\nI2\nI-3\nl.", "[1,2,-3]"},
		{"nested LIST", "((I1\nl(I2\nlt.", "([1],[2])"},
		{"FLOAT", "F1.5\n.", "f3ff8000000000000"},
		{"FLOAT out of range", "F1e999\n.", "f7ff0000000000000"},
		{"STRING escapes", "S'a\\n\\x41\\'\\\\'\n.", `"610a41275c"`},
		{"BINSTRING", "T\x03\x00\x00\x00abc.", `"616263"`},
		{"SHORT_BINSTRING", "U\x03abc.", `"616263"`},
		{"BINUNICODE8", "\x8d\x03\x00\x00\x00\x00\x00\x00\x00abc.", `"616263"`},
		{"BINBYTES8", "\x8e\x03\x00\x00\x00\x00\x00\x00\x00abc.", "bytes3"},
		{"UNICODE", "V\\u0041\\U0001F600\xe9\n.", `"41f09f9880c3a9"`},
		{"LONG4", "\x8b\x02\x00\x00\x00\x01\x80.", "-32767"},
		{"LONG4 of nothing", "\x8b\x00\x00\x00\x00.", "0"},
		{"LONG1 of nothing", "\x8a\x00.", "0"},
		{"LONG1 of 1 and of 8", "(\x8a\x01\xff\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80t.", "(-1,-9223372036854775808)"},
		{"LONG1 padded", "(\x8a\x0b\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x8a\x0a\xfe\xff\xff\xff\xff\xff\xff\xff\xff\xfft.", "(1,-2)"},
		{"LONG text", "L18446744073709551615L\n.", "18446744073709551615"},
		{"POP", "(I1\nI2\n0t.", "(1)"},
		{"POP of a mark", "I1\n(0.", "1"},
		{"POP_MARK", "I1\n(I2\nI3\n1.", "1"},
		{"DUP", "](K\x01e2\x86.", "([1],[1])"},
		{"DUP of a list in the making", "]2\x86.", "([],[])"},
		{"sparse memo", "K\x07r\xff\xff\xff\xf00j\xff\xff\xff\xf0.", "7"},
		{"memo overwritten", "K\x01q\x00K\x02q\x00h\x00\x87.", "(1,2,2)"},
		{"memo of a float", "G?\xf8\x00\x00\x00\x00\x00\x00q\x00h\x00\x86.", "(f3ff8000000000000,f3ff8000000000000)"},
		{"memo of a large integer", "\x8a\x06\x00\x02\x00\x00\x00\x7fq\x00h\x00\x86.", "(139637976728064,139637976728064)"},
		{"text memo", "I5\np10\ng10\n\x86.", "(5,5)"},
		{"ADDITEMS", "\x8f(K\x01K\x02\x90.", "[1,2]"},
		{"FROZENSET", "(K\x01\x91.", "(1)"},
		{"empty APPENDS", "](e.", "[]"},
		{"APPEND one by one", "]K\x01aK\x02aK\x03a.", "[1,2,3]"},
		{"SETITEM one by one", "}K\x01K\x02sK\x03K\x04s.", "{1:2,3:4}"},
		{"list used twice before it is in anything", "]\x94K\x01ah\x00\x86.", "([1],[1])"},
		{"PUT behind the contents", "](K\x01eq\x05h\x05\x86.", "([1],[1])"},
		{"type tag", "ctorch.jit._pickle\nrestore_type_tag\n](K\x01eX\x09\x00\x00\x00List[int]\x86R.", "[1]"},
		{"type tag with mark and memo", "ctorch.jit._pickle\nrestore_type_tag\nq\x00(](K\x01eX\x01\x00\x00\x00xtq\x01R.", "[1]"},
		{"FRAME that lies", "\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffK\x01.", "1"},
		{"bytes behind STOP", "K\x01.\x00\x00junk", "1"},
	} {
		got, err := run(strings.NewReader(c.data))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, data, want string
		offset           int64
	}{
		{"REDUCE", "\x80\x04N)R.", "opcode REDUCE would run code", 4},
		{"BUILD", "NNb.", "opcode BUILD would", 2},
		{"INST", "(ios\nsystem\n.", "opcode INST would", 1},
		{"OBJ", "(No.", "opcode OBJ would", 2},
		{"NEWOBJ", "N)\x81.", "opcode NEWOBJ would", 2},
		{"NEWOBJ_EX", "N)}\x92.", "opcode NEWOBJ_EX would", 3},
		{"STACK_GLOBAL", "U\x02osU\x06system\x93.", "opcode STACK_GLOBAL would", 12},
		{"GLOBAL", "cos\nsystem\n.", `opcode GLOBAL would import "os.system"`, 0},
		{"EXT1", "\x82\x01.", "opcode EXT1 would", 0},
		{"EXT2", "\x83\x01\x00.", "opcode EXT2 would", 0},
		{"EXT4", "\x84\x01\x00\x00\x00.", "opcode EXT4 would", 0},
		{"PERSID", "Pid\n.", "opcode PERSID would", 0},
		{"BINPERSID", "NQ.", "opcode BINPERSID would", 1},
		{"NEXT_BUFFER", "\x97.", "opcode NEXT_BUFFER would", 0},
		{"READONLY_BUFFER", "\x97\x98.", "opcode NEXT_BUFFER would", 0},
		{"REDUCE of a tag with other arguments", "ctorch.jit._pickle\nrestore_type_tag\nK\x01K\x02K\x03\x87R.", "opcode REDUCE would", 43},
		{"unknown opcode", "K\x01\xff.", "opcode 0xff is none", 2},
		{"protocol 9", "\x80\x09N.", "protocol 9", 0},
		{"STOP on nothing", ".", "0 values on the stack", 0},
		{"STOP on two", "NN.", "2 values on the stack", 2},
		{"STOP with a mark", "N(.", "", 2},
		{"APPEND to nothing", "Na.", "takes more from the stack", 1},
		{"APPEND below the mark", "](Na.", "takes more from the stack", 3},
		{"APPEND to a number", "K\x01Na.", "not a list", 3},
		{"APPENDS without a mark", "]Ne.", "needs a mark", 2},
		{"APPENDS with nothing under the mark", "(Ne.", "takes more from the stack", 2},
		{"APPENDS to a dictionary", "}(Ne.", "not a list", 3},
		{"SETITEMS to a list", "](NNu.", "not a dictionary", 4},
		{"SETITEMS of three", "}(NNNu.", "without a value", 5},
		{"TUPLE3 of two", "NN\x87.", "takes more from the stack", 2},
		{"GET of nothing", "h\x07.", "memo entry 7", 0},
		{"text GET of nothing", "g7\n.", "memo entry 7", 0},
		{"PUT on nothing", "q\x00.", "takes more from the stack", 0},
		{"PUT with a bad number", "Np-1\n.", "not the number of a memo entry", 1},
		{"INT that is none", "Iabc\n.", "not an integer", 0},
		{"STRING without quotes", "Sabc\n.", "without its quotes", 0},
		{"list that contains itself", "]\x94h\x00a.", "contain itself", 4},
		{"dictionary that contains itself", "}\x94K\x01h\x00s.", "contain itself", 6},
		{"list that grows after it was used", "](](K\x01eK\x02ae.", "not a list", 9},
	} {
		got, err := run(strings.NewReader(c.data))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %q, %v", c.name, got, err)
			continue
		}
		if !strings.Contains(e.Msg, c.want) || e.Offset != c.offset || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %q at %d, want %q at %d", c.name, e.Msg, e.Offset, c.want, c.offset)
		}
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("disk on fire")
	_, err := run(io.MultiReader(strings.NewReader("\x80\x04]"), iotest.ErrReader(broken)))
	var e *Error
	if !errors.Is(err, broken) || !errors.As(err, &e) || !e.Read || e.Cut || e.Offset != 3 {
		t.Errorf("got %#v", err)
	}
}

// nothing is a Folder that keeps nothing, so that what is measured is the machine's own memory.
type nothing struct{}

func (nothing) Dict([]Value) (Value, error)         { return User(KindUser, 0), nil }
func (nothing) List([]Value) (Value, error)         { return User(KindUser, 0), nil }
func (nothing) Tuple([]Value) (Value, error)        { return User(KindUser, 0), nil }
func (nothing) Spill(items []Value, _ bool) []Value { return items[:min(len(items), 16)] }

// Whatever a pickle says, the memory that reading it takes is bounded by a constant and a small multiple
// of its length.
func TestMemoryIsBounded(t *testing.T) {
	le32 := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	le64 := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	unique := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(f(i))
		}
		return b.String()
	}
	const mega = 1 << 20
	for _, c := range []struct{ name, data string }{
		{"string of 4 GiB", "X" + le32(math.MaxUint32) + "abc"},
		{"string of 16 EiB", "\x8d" + le64(math.MaxUint64) + "abc"},
		{"bytes of 16 EiB", "\x8e" + le64(math.MaxUint64) + "abc"},
		{"bytearray of 16 EiB", "\x96" + le64(math.MaxUint64) + "abc"},
		{"integer of 4 GiB", "\x8b" + le32(math.MaxUint32) + "abc"},
		{"frame of 16 EiB", "\x95" + le64(math.MaxUint64) + "abc"},
		{"memo slot 4294967295", "Nr" + le32(math.MaxUint32) + "."},
		{"sparse memo", unique(mega/6, func(i int) string { return "Nr" + le32(uint32(i)*20011) })},
		{"memo bomb", "N" + strings.Repeat("\x94", 4*mega)},
		{"memo bomb of floats", "G12345678" + strings.Repeat("\x94", 4*mega)},
		{"memo references", "N\x94" + strings.Repeat("h\x00", 2*mega)},
		{"stack of nothing", strings.Repeat("N", 4*mega)},
		{"stack of lists", strings.Repeat("]", 4*mega)},
		{"marks", strings.Repeat("(", 4*mega)},
		{"deep lists", strings.Repeat("](", mega) + strings.Repeat("e", mega)},
		{"deep lists one by one", strings.Repeat("]", mega) + strings.Repeat("a", mega)},
		{"deep tuples", strings.Repeat("(", mega) + strings.Repeat("t", mega)},
		{"deep in a row", "N" + strings.Repeat("\x85", 4*mega) + "."},
		{"empty dictionaries", "](" + strings.Repeat("}", 4*mega) + "e."},
		{"strings", "](" + unique(mega/2, func(i int) string { return "U\x03" + le32(uint32(i))[:3] }) + "e."},
		{"memoized strings", "](" + unique(mega/2, func(i int) string { return "U\x03" + le32(uint32(i))[:3] + "\x94" }) + "e."},
		{"large integers, memoized", unique(mega/2, func(i int) string { return "\x8a\x06\x00\x00" + le32(uint32(i)) + "\x940" })},
		{"long line", "I" + strings.Repeat("1", 4*mega)},
		{"long list of the other dialect", "](" + strings.Repeat("K\x01", 2*mega) + "e."},
		{"dictionary one by one", "}" + strings.Repeat("NNs", mega)},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = NewMachine(strings.NewReader(c.data), NewStrings(), nothing{}).Run()
		runtime.ReadMemStats(&after)
		// Everything ever allocated, garbage included.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(40*mega+30*len(c.data)); got > most {
			t.Errorf("%s: %d bytes of input took %d bytes", c.name, len(c.data), got)
		} else {
			t.Logf("%-32s %9d bytes of input, %9d allocated", c.name, len(c.data), got)
		}
	}
}

// The other dialect pushes the items of a list in one go; they must not all wait on the stack.
func TestLongListsLeaveTheStack(t *testing.T) {
	const n = 3 * maxStack
	data := "](" + strings.Repeat("](K\x01K\x02e", n) + "e."
	got, err := NewMachine(strings.NewReader(data), NewStrings(), nothing{}).Run()
	if err != nil || got.Kind() != KindUser {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzMachine(f *testing.F) {
	for _, c := range cases(f) {
		if len(c.data) < 4000 {
			f.Add(c.data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, errA := run(bytes.NewReader(data))
		b, errB := run(iotest.HalfReader(bytes.NewReader(data)))
		if a != b || fmt.Sprint(errA) != fmt.Sprint(errB) {
			t.Fatalf("the same bytes read in other pieces:\n%.200s, %v\n%.200s, %v", a, errA, b, errB)
		}
		var e *Error
		if errA != nil && (!errors.As(errA, &e) || e.Offset < 0 || e.Offset > int64(len(data))) {
			t.Fatalf("bad error %#v", errA)
		}
	})
}
