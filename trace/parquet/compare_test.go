package parquet_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/vramscope/vramscope/trace"
)

// comparison walks through two traces and lists where they differ. It goes by reflection, so that a field that is
// added to a trace and forgotten in the files is found; it knows three types that keep things to themselves, and
// fails on any other that does.
type comparison struct {
	t     testing.TB
	found []string
}

func same(t testing.TB, want, got *trace.Trace) {
	t.Helper()
	c := comparison{t: t}
	c.trace(want, got)
	for _, f := range c.found {
		t.Error(f)
	}
}

func (c *comparison) trace(want, got *trace.Trace) {
	c.values("trace", reflect.ValueOf(want), reflect.ValueOf(got))
}

func (c *comparison) differ(where string, want, got any) {
	if len(c.found) < 20 {
		c.found = append(c.found, fmt.Sprintf("%s: wrote %v, read %v", where, want, got))
	}
}

func (c *comparison) values(where string, a, b reflect.Value) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				c.differ(where, a, b)
			}
			return
		}
		if s, ok := a.Interface().(*trace.Stacks); ok {
			c.stacks(where, s, b.Interface().(*trace.Stacks))
			return
		}
		c.values(where, a.Elem(), b.Elem())
	case reflect.Struct:
		c.structs(where, a, b)
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			c.differ(where+" length", a.Len(), b.Len())
			return
		}
		for i := range a.Len() {
			c.values(fmt.Sprintf("%s[%d]", where, i), a.Index(i), b.Index(i))
		}
	case reflect.Float64:
		if math.Float64bits(a.Float()) != math.Float64bits(b.Float()) {
			c.differ(where, a, b)
		}
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !a.Equal(b) {
			c.differ(where, a, b)
		}
	default:
		c.t.Fatalf("%s is a %s: teach the comparison about it", where, a.Kind())
	}
}

func (c *comparison) structs(where string, a, b reflect.Value) {
	if a.Type() == reflect.TypeFor[trace.Events]() {
		c.events(where, a.Interface().(trace.Events), b.Interface().(trace.Events))
		return
	}
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.IsExported() {
			c.values(where+"."+f.Name, a.Field(i), b.Field(i))
			continue
		}
		if a.Type() != reflect.TypeFor[trace.Series]() {
			c.t.Fatalf("%s keeps %s to itself: teach the comparison about it", a.Type(), f.Name)
		}
	}
	if s, ok := a.Interface().(trace.Series); ok {
		r := b.Interface().(trace.Series)
		if s.Coarse() != r.Coarse() {
			c.differ(where+".Coarse()", s.Coarse(), r.Coarse())
		}
	}
}

func (c *comparison) events(where string, a, b trace.Events) {
	if a.Len() != b.Len() {
		c.differ(where+" length", a.Len(), b.Len())
		return
	}
	if n := reflect.TypeFor[trace.Event]().NumField(); n != 8 {
		c.t.Fatalf("an event has %d fields", n)
	}
	for i, e := range a.All() {
		if *e != *b.At(i) {
			c.differ(fmt.Sprintf("%s[%d]", where, i), *e, *b.At(i))
		}
	}
}

func (c *comparison) stacks(where string, a, b *trace.Stacks) {
	if a.Len() != b.Len() || a.NumFrames() != b.NumFrames() {
		c.differ(where+" number", [2]int{a.Len(), a.NumFrames()}, [2]int{b.Len(), b.NumFrames()})
		return
	}
	for i := range a.NumFrames() {
		if x, y := a.Frame(trace.FrameID(i)), b.Frame(trace.FrameID(i)); x != y {
			c.differ(fmt.Sprintf("%s frame %d", where, i), x, y)
		}
	}
	for i := range a.Len() {
		c.values(fmt.Sprintf("%s[%d]", where, i), reflect.ValueOf(a.Frames(trace.StackID(i))), reflect.ValueOf(b.Frames(trace.StackID(i))))
	}
}
