package pickle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Machine runs one pickle.
type Machine struct {
	Builder
	in      input
	scratch []byte
	at      int64 // offset of the opcode that can go wrong next
	op      byte  // and that opcode

	// Proto is the protocol that the pickle says it uses, 0 if it says none.
	Proto int
}

// NewMachine makes a machine that reads from r and hands complete containers to fold.
func NewMachine(r io.Reader, strings *Strings, fold Folder) *Machine {
	return &Machine{Builder: *NewBuilder(strings, fold), in: newInput(r)}
}

// Offset is the number of bytes read so far.
func (m *Machine) Offset() int64 { return m.in.offset() }

// Run reads up to STOP and returns the value that the pickle is. What follows STOP is left unread,
// though some of it may have been taken from the reader.
func (m *Machine) Run() (Value, error) {
	v, err := m.loop()
	if err == nil {
		return v, nil
	}
	var e *Error
	if errors.As(err, &e) {
		return v, err
	}
	return v, &Error{Offset: m.at, Msg: fmt.Sprintf("opcode %s %s", opName(m.op), err), Err: err}
}

func (m *Machine) cut() error {
	if m.in.err != nil && m.in.err != io.EOF {
		return &Error{Offset: m.in.base + int64(m.in.end), Msg: m.in.err.Error(), Read: true, Err: m.in.err}
	}
	return &Error{Offset: m.in.base + int64(m.in.end), Msg: "ends in the middle", Cut: true, Err: io.ErrUnexpectedEOF}
}

// loop has the opcodes that make up nearly all of a snapshot; slow has the others. Window and stack are
// kept in local variables and written back around everything that needs them.
func (m *Machine) loop() (Value, error) {
	in := &m.in
	buf, pos, end := in.buf, in.pos, in.end
	st := m.st
	for {
		if end-pos < pad {
			in.pos, m.st = pos, st
			if in.err == nil {
				in.fill()
				buf, pos, end = in.buf, in.pos, in.end
				if err := m.tidy(); err != nil {
					return Value{}, &Error{Offset: in.offset(), Msg: "it " + err.Error(), Err: err}
				}
				st = m.st
			}
			if pos >= end {
				return Value{}, m.cut()
			}
		}
		op := buf[pos]
		switch op {
		case opBinGet, opLongBinGet:
			var slot uint32
			n := 2
			if op == opBinGet {
				slot = uint32(buf[pos+1])
			} else {
				slot = binary.LittleEndian.Uint32(buf[pos+1:])
				n = 5
			}
			if slot < m.memo.n {
				e := m.memo.pages[slot>>memoPageShift][slot%memoPageSize]
				if Kind(e>>entryBits) > kindWide {
					st = append(st, Value{n: uint64(e & entryMask), kind: Kind(e >> entryBits)})
					pos += n
					continue
				}
			}
			m.at, m.op = in.base+int64(pos), op
			v, err := m.recall(slot)
			if err != nil {
				return v, err
			}
			st = append(st, v)
			pos += n
		case opBinInt1:
			st = append(st, Value{n: uint64(buf[pos+1]), kind: KindInt})
			pos += 2
		case opBinInt2:
			st = append(st, Value{n: uint64(binary.LittleEndian.Uint16(buf[pos+1:])), kind: KindInt})
			pos += 3
		case opBinInt:
			st = append(st, Value{n: uint64(int64(int32(binary.LittleEndian.Uint32(buf[pos+1:])))), kind: KindInt})
			pos += 5
		case opLong1:
			n := int(buf[pos+1])
			if n > 8 {
				goto slow
			}
			{
				shift := uint(64 - 8*n)
				x := binary.LittleEndian.Uint64(buf[pos+2:])
				st = append(st, Value{n: uint64(int64(x<<shift) >> shift), kind: KindInt})
				pos += 2 + n
			}
		case opShortBinUnicode:
			n := int(buf[pos+1])
			if end-pos < 2+n {
				goto slow
			}
			st = append(st, Value{n: uint64(m.Strings.Intern(buf[pos+2 : pos+2+n])), kind: KindString})
			pos += 2 + n
		case opEmptyDict:
			st = append(st, Value{kind: kindFreshDict})
			pos++
		case opEmptyList:
			st = append(st, Value{kind: kindFreshList})
			pos++
		case opMark:
			m.marks = append(m.marks, uint32(len(st)))
			pos++
		case opNone:
			st = append(st, Value{kind: KindNone})
			pos++
		case opNewTrue:
			st = append(st, Value{n: 1, kind: KindBool})
			pos++
		case opNewFalse:
			st = append(st, Value{kind: KindBool})
			pos++
		case opMemoize:
			m.at, m.op, m.st = in.base+int64(pos), op, st
			if err := m.memoize(m.memo.count()); err != nil {
				return Value{}, err
			}
			pos++
		case opSetItems, opAppends:
			m.at, m.op, m.st = in.base+int64(pos), op, st
			h, _, err := m.popMark()
			if err != nil {
				return Value{}, err
			}
			if h <= m.base() {
				return Value{}, errUnderflow
			}
			if op == opSetItems {
				err = m.addPairs(&st[h-1], st[h:], true)
			} else {
				err = m.addItems(&st[h-1], st[h:], true)
			}
			if err != nil {
				return Value{}, err
			}
			st = st[:h]
			pos++
		case opFrame:
			pos += 9
		case opStop:
			m.at, m.op, m.st, in.pos = in.base+int64(pos), op, st, pos+1
			return m.Result()
		default:
			goto slow
		}
		continue
	slow:
		m.at = in.base + int64(pos)
		in.pos, m.st = pos+1, st
		if err := m.slow(op); err != nil {
			return Value{}, err
		}
		st = m.st
		buf, pos, end = in.buf, in.pos, in.end
	}
}
