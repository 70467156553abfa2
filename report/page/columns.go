package page

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Columns.
//
// A page carries its recording as columns of whole numbers. A column is written as planes: the lowest byte of every
// number, then the next higher of every number, and so on. The bytes of a plane resemble each other far more than the
// bytes of a number do, so planes take less once they are deflated, and a browser puts a number together with one
// addition a plane. A column of which all numbers are equal is kept as that number.

// column is one of them. Its name is that of the device's number, a slash, and what it holds.
type column struct {
	name  string
	count int    // numbers
	width int    // planes; 0 if all numbers are equal
	same  uint64 // what they are then
	raw   int    // bytes of the planes
	data  []byte // the planes, deflated
}

// number is what a column can be made of.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// packing deflates columns on all cores.
type packing struct {
	slots   chan struct{}
	wait    sync.WaitGroup
	columns []*column // in the order in which they were added
}

func newPacking() *packing { return &packing{slots: make(chan struct{}, runtime.GOMAXPROCS(0))} }

// add takes a column over. Its numbers may not change until the packing is done.
func add[T number](p *packing, name string, values []T) {
	c := &column{name: name, count: len(values)}
	p.columns = append(p.columns, c)
	p.wait.Go(func() {
		p.slots <- struct{}{}
		defer func() { <-p.slots }()
		if allEqual(values) {
			if len(values) > 0 {
				c.same = uint64(values[0])
			}
			return
		}
		var planes []byte
		planes, c.width = planesOf(values)
		c.raw, c.data = len(planes), deflated(planes)
	})
}

// done waits for the columns.
func (p *packing) done() { p.wait.Wait() }

// size is how many bytes they take.
func (p *packing) size() (n int) {
	for _, c := range p.columns {
		n += len(c.data)
	}
	return n
}

func allEqual[T number](values []T) bool {
	for _, v := range values {
		if v != values[0] {
			return false
		}
	}
	return true
}

// planesOf lays numbers out by the significance of their bytes.
func planesOf[T number](values []T) (planes []byte, width int) {
	var all uint64
	for _, v := range values {
		all |= uint64(v)
	}
	for width = 1; width < 8 && all>>(8*width) != 0; {
		width++
	}
	planes = make([]byte, width*len(values))
	for k := range width {
		plane := planes[k*len(values) : (k+1)*len(values)]
		for i, v := range values {
			plane[i] = byte(uint64(v) >> (8 * k))
		}
	}
	return planes, width
}

// level is of compression: those above take many times as long for a few percent.
const level = 6

func deflated(raw []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err == nil {
		_, err = w.Write(raw)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // unreachable: the level is one that there is, and memory takes all that is written to it
	}
	return out.Bytes()
}

// zigzag makes numbers of either sign into small ones without.
func zigzag(n int64) uint64 { return uint64(n<<1) ^ uint64(n>>63) }

// alphabet are the characters of packed text: those that print, without the three that mean something in HTML.
const alphabet = `!"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_` + "`" + `abcdefghijklmnopqrstuvwxyz{|}~`

const (
	textBits = 13 // of which two characters are made, the lower part first: base64 would take 8 percent more
	textBase = len(alphabet)
)

// appendText writes bytes as characters of the alphabet, the lowest bits first.
func appendText(out, data []byte) []byte {
	var bits, n uint
	pair := func() {
		v := bits & (1<<textBits - 1)
		out = append(out, alphabet[v%uint(textBase)], alphabet[v/uint(textBase)])
		bits >>= textBits
	}
	for _, b := range data {
		bits |= uint(b) << n
		if n += 8; n >= textBits {
			pair()
			n -= textBits
		}
	}
	if n > 0 {
		pair()
	}
	return out
}

// addTexts adds texts, one column for their lengths in bytes and one for the bytes of all.
func addTexts(p *packing, name string, list []string) {
	lengths := make([]uint32, len(list))
	var all []byte
	for i, s := range list {
		lengths[i] = uint32(len(s))
		all = append(all, s...)
	}
	add(p, name+"/lengths", lengths)
	add(p, name+"/bytes", all)
}
