package fleet_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/fleet"
	summaries "github.com/vramscope/vramscope/simulate/fleet"
)

// FuzzOf: whatever somebody writes into a summary, something is said of it, in every form.
func FuzzOf(f *testing.F) {
	const head = `{"schema":"vramscope/fleet-summary/v1","devices":[`
	f.Add(head + `{"file":"rank0","facts":{"format":"PyTorch snapshot","replayable":true,"peak_allocated_bytes":9,"peak_reserved_bytes":10,"unused_bytes":1,"growing":true,` +
		`"held":[{"stack":"a","bytes":5}],"leaks":[{"stack":"","per_step_bytes":3}],"ooms":[{"requested_bytes":5}],"unused_time":[[3,1000000]]},` +
		`"search":{"confs":["expandable_segments:True"],"recommended":"x","tried":3},"trials":[{"conf":"","completed":true,"peak_reserved_bytes":10},{"conf":"expandable_segments:True","peak_reserved_bytes":5,"close":true}]},` +
		`{"file":"rank1_pp1","device":3,"facts":{"peak_allocated_bytes":-1,"floor_bytes":7}},{"file":"node3/rank1_pp0","lost":"gone"}],"failed":[{"file":"x","error":"y"}],"stacks":{"a":[{"f":"m.py","n":"g","l":3}]}}`)
	f.Add(head + `{"file":"","facts":{"held":[{"stack":"","bytes":-5}],"leaks":[{}],"ooms":[{},{}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := summaries.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		r := fleet.Of(s)
		var b bytes.Buffer
		for _, err := range []error{r.WriteJSON(&b), r.WriteText(&b, report.Style{}), r.WriteText(&b, report.Style{Markdown: true, Rows: 1}),
			fleet.Page{Fleet: r, Title: "t"}.Write(&b), r.Tables(func(string, []byte) error { return nil })} {
			if err != nil {
				t.Fatal(err)
			}
		}
		// Tasks that find nothing more are not asked for for ever: what is lost is left alone.
		for rounds := 0; ; rounds++ {
			tasks := fleet.Next(s)
			if len(tasks) == 0 {
				break
			}
			if rounds > 3 {
				t.Fatalf("still to do: %+v", tasks)
			}
			for _, x := range tasks {
				for _, d := range x.Search {
					s = summaries.Merge(s, &summaries.Summary{Devices: []summaries.Device{{File: x.File, Index: d, Lost: "gone"}}})
				}
				for _, w := range x.Try {
					s = summaries.Merge(s, &summaries.Summary{Devices: []summaries.Device{{File: x.File, Index: w.Device, Lost: "gone"}}})
				}
			}
		}
	})
}
