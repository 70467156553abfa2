package torch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// What a program set as metadata of its events is an annotation around them, of its device.
func TestMetadata(t *testing.T) {
	event := func(at int, metadata string) string {
		return fmt.Sprintf(`{"action": "alloc", "addr": %d, "size": 512, "stream": 0, "time_us": %d, "user_metadata": %q}`, 4096*at, at, metadata)
	}
	texts := [][]string{{"", "load", "load", "", "step 1", "step 2"}, {"step 2", "", "end"}}
	var devices []string
	at := 0
	for _, list := range texts {
		var events []string
		for _, m := range list {
			at++
			events = append(events, event(at, m))
		}
		devices = append(devices, "["+strings.Join(events, ", ")+"]")
	}
	text := `{"segments": [], "device_traces": [` + strings.Join(devices, ", ") + `]}`
	tr, err := source.Read(strings.NewReader(text), int64(len(text)), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mark := func(us, device int, name string, edge trace.Edge) trace.Marker {
		return trace.Marker{Time: trace.Time(us) * 1000, Device: device, Name: name, Edge: edge}
	}
	want := []trace.Marker{
		mark(2, 0, "load", trace.EdgeStart), mark(4, 0, "load", trace.EdgeEnd), mark(5, 0, "step 1", trace.EdgeStart), mark(6, 0, "step 1", trace.EdgeEnd),
		mark(6, 0, "step 2", trace.EdgeStart),
		mark(7, 1, "step 2", trace.EdgeStart), mark(8, 1, "step 2", trace.EdgeEnd), mark(9, 1, "end", trace.EdgeStart),
	}
	if d := cmp.Diff(want, tr.Markers); d != "" {
		t.Error(d)
	}
}
