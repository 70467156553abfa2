package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

func opName(op byte) string {
	if n, ok := refused[op]; ok {
		return n
	}
	if op > ' ' && op < 0x7f {
		return fmt.Sprintf("%q", op)
	}
	return fmt.Sprintf("0x%02x", op)
}

// slow carries out an opcode that is rare in snapshots. The input stands behind the opcode's first byte.
func (m *Machine) slow(op byte) error {
	m.op = op
	in := &m.in
	switch op {
	case opLong1:
		return m.long(uint64(m.fixed(1)))
	case opLong4:
		return m.long(m.fixed(4))
	case opShortBinUnicode, opShortBinString:
		return m.str(m.fixed(1))
	case opBinUnicode, opBinString:
		return m.str(m.fixed(4))
	case opBinUnicode8:
		return m.str(m.fixed(8))
	case opShortBinBytes:
		return m.bytes(m.fixed(1))
	case opBinBytes:
		return m.bytes(m.fixed(4))
	case opBinBytes8, opByteArray8:
		return m.bytes(m.fixed(8))
	case opBinFloat:
		m.push(Value{n: bigEndian(in.buf[in.pos:]), kind: KindFloat})
		in.pos += 8
	case opProto:
		m.Proto = int(m.fixed(1))
		if m.Proto > 5 {
			return fmt.Errorf("names protocol %d, newer than any known", m.Proto)
		}
	case opBinPut:
		return m.memoize(uint32(m.fixed(1)))
	case opLongBinPut:
		return m.memoize(uint32(m.fixed(4)))
	case opTuple1, opTuple2, opTuple3:
		return m.tuple(len(m.st) - int(op-opTuple1) - 1)
	case opEmptyTuple:
		return m.tuple(len(m.st))
	case opTuple, opFrozenSet:
		h, err := m.plainMark()
		if err != nil {
			return err
		}
		return m.tuple(h)
	case opEmptySet:
		m.push(Value{kind: kindFreshList})
	case opAddItems:
		h, _, err := m.popMark()
		if err != nil {
			return err
		}
		if h <= m.base() {
			return errUnderflow
		}
		err = m.addItems(&m.st[h-1], m.st[h:], true)
		m.st = m.st[:h]
		return err
	case opList, opDict:
		return m.marked(op)
	case opAppend:
		n := len(m.st)
		if n < m.base()+2 {
			return errUnderflow
		}
		err := m.addItems(&m.st[n-2], m.st[n-1:], false)
		m.st = m.st[:n-1]
		return err
	case opSetItem:
		n := len(m.st)
		if n < m.base()+3 {
			return errUnderflow
		}
		err := m.addPairs(&m.st[n-3], m.st[n-2:], false)
		m.st = m.st[:n-2]
		return err
	case opPop:
		if n := len(m.st); n > m.base() {
			m.st = m.st[:n-1]
			return nil
		}
		_, err := m.plainMark()
		return err
	case opPopMark:
		h, err := m.plainMark()
		if err != nil {
			return err
		}
		m.st = m.st[:h]
	case opDup:
		n := len(m.st)
		if n <= m.base() {
			return errUnderflow
		}
		if err := m.seal(m.st[n-1:]); err != nil {
			return err
		}
		m.push(m.st[n-1])
	case opInt, opLong, opFloat, opString, opUnicode, opGet, opPut:
		return m.text(op)
	case opGlobal:
		return m.global()
	case opReduce:
		return m.reduce()
	default:
		if _, ok := refused[op]; ok {
			return m.refuse(op)
		}
		return errors.New("is none that a pickle can have")
	}
	return nil
}

func (m *Machine) push(v Value) { m.st = append(m.st, v) }

// fixed reads a little-endian number; its bytes are always in the window.
func (m *Machine) fixed(n int) uint64 {
	var x [8]byte
	copy(x[:n], m.in.buf[m.in.pos:])
	m.in.pos += n
	return binary.LittleEndian.Uint64(x[:])
}

func bigEndian(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// plainMark is popMark for opcodes that need all that was pushed since.
func (m *Machine) plainMark() (int, error) {
	h, flushed, err := m.popMark()
	if err == nil && flushed {
		err = errFlushed
	}
	return h, err
}

// marked makes a list or a dictionary of what lies above the mark (protocol 0).
func (m *Machine) marked(op byte) error {
	h, err := m.plainMark()
	if err != nil {
		return err
	}
	items := m.st[h:]
	var v Value
	if op == opList {
		v.kind = kindFreshList
		if len(items) > 0 {
			err = m.addItems(&v, items, false)
		}
	} else {
		v.kind = kindFreshDict
		if len(items) > 0 {
			err = m.addPairs(&v, items, false)
		}
	}
	m.st = append(m.st[:h], v)
	return err
}

func (m *Machine) str(n uint64) error {
	var ok bool
	if m.scratch, ok = m.in.take(m.scratch[:0], n); !ok {
		return m.cut()
	}
	m.push(StringValue(m.Strings.Intern(m.scratch)))
	m.shrink()
	return nil
}

// shrink forgets a buffer that one very long string has made large.
func (m *Machine) shrink() {
	if cap(m.scratch) > 1<<20 {
		m.scratch = nil
	}
}

func (m *Machine) bytes(n uint64) error {
	if !m.in.skip(n) {
		return m.cut()
	}
	m.push(Value{n: min(n, math.MaxUint32), kind: KindBytes})
	return nil
}

// long pushes a little-endian two's complement integer of n bytes.
func (m *Machine) long(n uint64) error {
	head, ok := m.in.take(m.scratch[:0], min(n, 9))
	if !ok {
		return m.cut()
	}
	m.scratch = head
	if n <= 8 {
		var x [8]byte
		copy(x[:], head)
		shift := 64 - 8*uint(n)
		m.push(IntValue(int64(binary.LittleEndian.Uint64(x[:])<<shift) >> shift))
		return nil
	}
	x := binary.LittleEndian.Uint64(head)
	top := head[8]
	same := true // all bytes above the ninth are its sign
	for n -= 9; n > 0; n-- {
		if m.scratch, ok = m.in.take(m.scratch[:0], 1); !ok {
			return m.cut()
		}
		same = same && m.scratch[0] == top
	}
	switch {
	case same && top == 0:
		m.push(UintValue(x))
	case same && top == 0xff && int64(x) < 0:
		m.push(IntValue(int64(x)))
	default:
		m.push(Value{kind: KindBig})
	}
	return nil
}

// text carries out the opcodes of protocol 0, whose arguments are lines.
func (m *Machine) text(op byte) error {
	var ok bool
	if m.scratch, ok = m.in.line(m.scratch[:0]); !ok {
		return m.cut()
	}
	s := m.scratch
	defer m.shrink()
	switch op {
	case opString:
		s, err := unquote(s)
		if err != nil {
			return err
		}
		m.push(StringValue(m.Strings.Intern(s)))
		return nil
	case opUnicode:
		m.push(StringValue(m.Strings.Intern(rawUnicode(s))))
		return nil
	}
	if op == opInt || op == opLong {
		return m.decimal(bytes.TrimSpace(s))
	}
	t := strings.TrimSpace(string(s[:min(len(s), 60)]))
	if op == opFloat {
		f, err := strconv.ParseFloat(t, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("has %q, which is not a number", t)
		}
		m.push(FloatValue(f))
		return nil
	}
	slot, err := strconv.ParseUint(t, 10, 32)
	if err != nil || slot == math.MaxUint32 {
		return fmt.Errorf("has %q, which is not the number of a memo entry", t)
	}
	if op == opPut {
		return m.memoize(uint32(slot))
	}
	v, err := m.recall(uint32(slot))
	m.push(v)
	return err
}

// decimal pushes an integer of any length, or a boolean, which older protocols write as 00 and 01.
func (m *Machine) decimal(s []byte) error {
	if string(s) == "00" || string(s) == "01" {
		m.push(BoolValue(s[1] == '1'))
		return nil
	}
	digits := bytes.TrimSuffix(s, []byte("L"))
	t := string(digits[:min(len(digits), 24)]) // more than enough for what is kept
	digits = bytes.TrimPrefix(digits, []byte("-"))
	if len(digits) == 0 || len(bytes.Trim(digits, "0123456789")) > 0 {
		return fmt.Errorf("has %q, which is not an integer", t)
	}
	if n, err := strconv.ParseInt(t, 10, 64); err == nil {
		m.push(IntValue(n))
	} else if n, err := strconv.ParseUint(t, 10, 64); err == nil {
		m.push(UintValue(n))
	} else {
		m.push(Value{kind: KindBig})
	}
	return nil
}

func (m *Machine) refuse(op byte) error {
	return &Error{Offset: m.at, Refused: refused[op],
		Msg: fmt.Sprintf("opcode %s would run code of the file's choice: refused", refused[op])}
}

// global tolerates one name, which TorchScript's pickler uses to tag lists with their type.
func (m *Machine) global() error {
	var ok bool
	var names [2]string
	for i := range names {
		if m.scratch, ok = m.in.line(m.scratch[:0]); !ok {
			return m.cut()
		}
		names[i] = string(m.scratch[:min(len(m.scratch), 60)])
	}
	if names != [2]string{"torch.jit._pickle", "restore_type_tag"} {
		return &Error{Offset: m.at, Refused: "GLOBAL",
			Msg: fmt.Sprintf("opcode GLOBAL would import %q: refused", names[0]+"."+names[1])}
	}
	m.push(Value{kind: kindTag})
	return nil
}

// reduce takes the tag off a tagged list: the arguments are a tuple of the list and its type.
// tuple has put the list in the tuple's place already.
func (m *Machine) reduce() error {
	n := len(m.st)
	if n < m.base()+2 || m.st[n-2].kind != kindTag || !m.tagged {
		return m.refuse(opReduce)
	}
	m.tagged = false
	m.st[n-2] = m.st[n-1]
	m.st = m.st[:n-1]
	return nil
}
