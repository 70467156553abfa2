package torch

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// isPickle reports whether a file that begins so is a pickle: by its first opcode and protocol, or, for
// protocols 0 and 1, as far as a dictionary or list at the top can be told from text.
func isPickle(head []byte) bool {
	if len(head) > 0 && head[0] == 0x80 {
		return len(head) == 1 || head[1] >= 2 && head[1] < 16
	}
	for _, p := range []string{"(dp", "(lp", "(d.", "(l.", "}q", "}(", "}r", "}.", "]q", "](", "]r", "]."} {
		if bytes.HasPrefix(head, []byte(p)) {
			return true
		}
	}
	return false
}

// isJSON reports whether a file that begins so is a snapshot as JSON: an object that has one of a
// snapshot's lists or objects, or a list of objects that have a segment's keys.
func isJSON(head []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(head), jsonOptions...)
	want := []string{"segments", "device_traces", "traces", "allocator_settings", "external_annotations", "host_segments", "host_traces"}
	tok, err := dec.ReadToken()
	plain := false
	if err == nil && tok.Kind() == '[' {
		plain = true
		want = []string{"total_size", "segment_type", "blocks"}
		tok, err = dec.ReadToken()
	}
	if err != nil || tok.Kind() != '{' {
		return false
	}
	for {
		name, err := dec.ReadToken()
		if err != nil || name.Kind() != '"' {
			return false
		}
		if slices.Contains(want, name.String()) {
			kind := dec.PeekKind() // 0 where the head ends
			if plain || kind == '[' || kind == '{' || kind == 0 {
				return true
			}
		}
		if dec.SkipValue() != nil {
			return false
		}
	}
}

// isPage reports whether a file that begins so is a page of torch.cuda._memory_viz.
func isPage(head []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n"), []byte("<")) && bytes.Contains(head, []byte(pageData))
}
