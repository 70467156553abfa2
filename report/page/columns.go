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
//
// Columns come in bundles, each of which is deflated by itself: a large column is a bundle of its own, so that all cores
// can work on them, and a browser can leave for later what it does not need for its first picture. The small columns of
// a device are one bundle, since to begin another costs a browser more than they do.

// column is one of them.
type column struct {
	name  string
	count int    // numbers
	width int    // planes; 0 if all numbers are equal
	same  uint64 // what they are then
	raw   []byte // the planes, until they are deflated
}

// bundle is some columns, deflated together.
type bundle struct {
	columns []*column
	raw     int // bytes before
	data    []byte
}

// number is what a column can be made of.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// packing deflates columns on all cores.
type packing struct {
	slots   chan struct{}
	wait    sync.WaitGroup
	bundles []*bundle // in the order in which their first columns were added
	small   *bundle   // that takes the small columns, nil to begin a new one
}

func newPacking() *packing { return &packing{slots: make(chan struct{}, runtime.GOMAXPROCS(0))} }

// begin lets the small columns that follow be a bundle of their own.
func (p *packing) begin() { p.small = nil }

// large is how many numbers a column has that is a bundle of its own.
const large = 1 << 15

// add takes a column over. Its numbers may not change until the packing is done.
func add[T number](p *packing, name string, values []T) {
	c := &column{name: name, count: len(values)}
	b := p.small
	if len(values) >= large {
		b = &bundle{}
		p.bundles = append(p.bundles, b)
	} else if b == nil {
		b = &bundle{}
		p.small = b
		p.bundles = append(p.bundles, b)
	}
	b.columns = append(b.columns, c)
	if len(values) < large {
		planesInto(c, values)
		return
	}
	p.wait.Go(func() {
		p.slots <- struct{}{}
		defer func() { <-p.slots }()
		planesInto(c, values)
		b.deflate()
	})
}

// done waits for the columns.
func (p *packing) done() {
	p.wait.Wait()
	for _, b := range p.bundles {
		if b.data == nil {
			b.deflate()
		}
	}
}

// size is how many bytes they take.
func (p *packing) size() (n int) {
	for _, b := range p.bundles {
		n += len(b.data)
	}
	return n
}

// deflate makes the data of a bundle out of its columns.
func (b *bundle) deflate() {
	var raw []byte
	for _, c := range b.columns {
		if raw == nil {
			raw = c.raw
		} else {
			raw = append(raw, c.raw...)
		}
		c.raw = nil
	}
	b.raw, b.data = len(raw), deflated(raw)
}

func planesInto[T number](c *column, values []T) {
	if allEqual(values) {
		if len(values) > 0 {
			c.same = uint64(values[0])
		}
		return
	}
	c.raw, c.width = planesOf(values)
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
