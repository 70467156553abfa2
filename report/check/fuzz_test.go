package check

import (
	"bytes"
	"testing"

	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
)

// FuzzBaseline reads whatever it is given for a baseline, holds a recording against it, and renders what comes
// of that in every form.
func FuzzBaseline(f *testing.F) {
	r := tracetest.New("", -1)
	r.Training(2, nil)
	tr := r.Trace()
	first, err := Run("x", tr, Options{Device: -1, Limit: -1})
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	if err := Make(first.Profiles, nil).Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"vramscope/baseline/v1","devices":[{"device":0,"retries":-1,"peak_allocated_bytes":-9223372036854775808,"stacks":[{"most_bytes":-5,"frames":[]},{"frames":["a:-1 b","a:-1 b",":0 "]}]}]}`))
	f.Add([]byte(`{"schema":"vramscope/baseline/v1","devices":[{"device":7},{"device":7}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		base, err := ReadBaseline("b", bytes.NewReader(data))
		if err != nil {
			return
		}
		got, err := Run("x", tr, Options{Device: -1, Limit: -1, Baseline: base})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for _, err := range []error{got.WriteText(&out, report.Style{}), got.WriteJSON(&out), got.WriteSARIF(&out, "", ""), got.WriteAnnotations(&out, ""),
			got.WriteSummary(&out), got.WriteJUnit(&out), base.Write(&out)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzPolicy reads whatever it is given for a policy.
func FuzzPolicy(f *testing.F) {
	f.Add("baseline = \"a\"\n[limits]\npeak-allocated = \"1g\"\n[tolerance]\ndefault = \"1% or 1k\"\n[[stack]]\npattern = \"x\"\nmax = 3\n")
	f.Add("limits.retries = 1e300\nstack = [{pattern = '(a|b)*', max = -1}]")
	f.Add("tolerance = {default = true, ooms = nan}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ReadPolicy(bytes.NewReader([]byte(text)))
		if err == nil && p == nil {
			t.Fatal("no policy and no error")
		}
	})
}
