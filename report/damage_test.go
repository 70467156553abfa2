package report_test

import (
	"io"
	"testing"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// Whatever has happened to a recording, there is something to say about it, and its parts add up.
func TestDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, rec := range recordtest.Snapshots() {
		if !rec.Own {
			continue // there are enough without them
		}
		t.Run(rec.Name, func(t *testing.T) {
			whole, err := source.Open(rec.File, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range tracetest.Damages {
				tr := x.ApplyAll(whole)
				addsUp(t, x.Name, rec.Name, tr)
			}
		})
	}
}

func addsUp(t *testing.T, damage, file string, tr *trace.Trace) {
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: panic: %v", damage, p)
		}
	}()
	a := report.Analyze(file, tr, report.Options{Limit: -1, Device: -1, Replay: true})
	for i := range a.Devices {
		d := &a.Devices[i]
		for _, m := range []report.Peak{d.PeakAllocated, d.End} {
			parts := m.Holders.Before + m.Holders.Unattributed
			for _, h := range m.Holders.ByStack {
				parts += h.Bytes
			}
			if parts != m.Allocated || parts < 0 {
				t.Errorf("%s: the parts are %d bytes, the whole %d", damage, parts, m.Allocated)
			}
		}
		if err := sidesAddUp(d); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if d.PeakAllocated.Allocated < d.End.Allocated {
			t.Errorf("%s: %d at the peak, %d at the end", damage, d.PeakAllocated.Allocated, d.End.Allocated)
		}
		f := d.Fragmentation
		if d.Fragmented && f.Stranded+f.Cached+f.Pending != d.PeakReserved.Reserved-d.PeakReserved.Allocated || min(f.Stranded, f.Cached, f.Pending, f.Largest) < 0 {
			t.Errorf("%s: %+v of %+v", damage, f, d.PeakReserved)
		}
	}
	v := report.Verify(file, tr, report.Options{Limit: -1, Device: -1})
	for _, write := range []func(io.Writer) error{
		a.WriteJSON, v.WriteJSON,
		func(w io.Writer) error { return a.WriteText(w, report.Style{}) },
		func(w io.Writer) error { return a.WriteText(w, report.Style{Markdown: true}) },
		func(w io.Writer) error { return v.WriteText(w, report.Style{}) },
	} {
		if err := write(io.Discard); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
	}
}
