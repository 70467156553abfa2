// Package pickle is a pickle machine that streams and never executes anything.
//
// It reads the opcodes of protocols 0 to 5 from a reader and builds nothing of its own: whenever a
// container is complete it is handed to a Folder, which answers with a small value that takes the
// container's place on the stack and in the memo. A reader of a known schema therefore folds millions of
// dictionaries into records as they go by, and what it has no use for into nothing at all.
//
// Opcodes that import, call or construct are errors that name the opcode and where it stands. Memory is
// bounded by the input: no length field is believed before its bytes have come, the stack and the
// nesting have limits, and a memo entry takes four bytes. There is no recursion.
package pickle

import "math"

// Kind says what a Value is.
type Kind uint8

// Kinds below KindNone are containers that may still grow; a Folder never sees them.
const (
	kindInvalid Kind = iota
	kindFreshList
	kindFreshDict
	kindOpenList
	kindOpenDict
	kindWide // in the memo only: an index into the table of values that do not fit an entry

	KindNone
	KindBool   // Int is 0 or 1
	KindInt    // Int
	KindUint   // Uint, at least 2^63
	KindBig    // an integer that fits neither; its value is not kept
	KindFloat  // Float
	KindString // Index names it in the machine's Strings
	KindBytes  // Index is its length at most 2^32-1; its content is not kept
	kindTag    // the one global that is tolerated
	kindLast

	// KindUser is the first kind that a Folder may use for its own values, which are an index each.
	KindUser Kind = 16
	maxKind  Kind = 31
)

// Value is something on the stack: 16 bytes without pointers.
type Value struct {
	n    uint64
	slot uint32 // for a container that may still grow: its memo slot + 1, 0 if it has none
	kind Kind
}

// Kind says what the value is.
func (v Value) Kind() Kind { return v.kind }

// Int is the value of a KindInt, or the bits of a KindUint.
func (v Value) Int() int64 { return int64(v.n) }

// Uint is the value of a KindUint; a negative KindInt counts from 2^64 down.
func (v Value) Uint() uint64 { return v.n }

// Float is the value of a KindFloat.
func (v Value) Float() float64 { return math.Float64frombits(v.n) }

// Index is the number that a Folder gave to its value, or the number of a string.
func (v Value) Index() uint32 { return uint32(v.n) }

// Count is how many values with consecutive indexes this one stands for. Long lists of a Folder's
// values are handed over so.
func (v Value) Count() int { return int(v.n>>32) + 1 }

// User makes a Folder's own value. kind is KindUser or above.
func User(kind Kind, index uint32) Value { return Value{n: uint64(index), kind: kind} }

// IntValue, FloatValue, … make values for those who drive a Builder themselves.
func IntValue(n int64) Value { return Value{n: uint64(n), kind: KindInt} }

// UintValue makes an integer of the smallest kind that holds it.
func UintValue(n uint64) Value {
	if n <= math.MaxInt64 {
		return Value{n: n, kind: KindInt}
	}
	return Value{n: n, kind: KindUint}
}

// FloatValue makes a float.
func FloatValue(f float64) Value { return Value{n: math.Float64bits(f), kind: KindFloat} }

// BoolValue makes a boolean.
func BoolValue(b bool) Value {
	if b {
		return Value{n: 1, kind: KindBool}
	}
	return Value{kind: KindBool}
}

// NoneValue is None, or null.
func NoneValue() Value { return Value{kind: KindNone} }

// StringValue makes a string of its number in Strings.
func StringValue(id uint32) Value { return Value{n: uint64(id), kind: KindString} }
