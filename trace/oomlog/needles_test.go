package oomlog

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFind holds the search against the obvious one, on texts made of pieces of the needles.
func TestFind(t *testing.T) {
	pieces := []string{"out of", " memory", "ried to", " alloc", "OutOfMemory", "OUT_OF", "_MEMORY", "nvidia", "-SMI", "x", " ", "\n", "Failed to ", "CUDA", "total capac", "ity"}
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 40).Draw(t, "pieces"), ""))
		from := rapid.IntRange(0, len(text)).Draw(t, "from")
		at, which := stops.find(text, from)
		want := -1
		for _, n := range stops.needles {
			if i := bytes.Index(bytes.ToLower(text[from:]), []byte(n.text)); i >= 0 && (want < 0 || from+i < want) {
				want = from + i
			}
		}
		if at != want {
			t.Fatalf("found at %d, want %d in %q from %d", at, want, text, from)
		}
		if at >= 0 && !hasPrefixFold(text[at:], stops.needles[which].text) {
			t.Fatalf("at %d: %q is not %q", at, text[at:], stops.needles[which].text)
		}
	})
}

// TestNeedles checks what the search relies on.
func TestNeedles(t *testing.T) {
	for _, n := range stops.needles {
		if n.text != strings.ToLower(n.text) || len(n.text) < 9 {
			t.Errorf("%q: must be in lower case, and long enough to keep the search fast", n.text)
		}
		if (n.lines == nil) == (len(n.parsers) == 0) {
			t.Errorf("%q: has no reader, or two kinds", n.text)
		}
	}
}
