package report

import "testing"

// TestReplayInLess tries a limit that the recorded process cannot have had: the recording is followed without it.
func TestReplayInLess(t *testing.T) {
	file, tr := openOwn(t, "gpt_oom")
	r, err := Replay(file, tr, &tr.Devices[0], ReplayOptions{Limit: 8 << 30, RecordedLimit: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Follow.Score.Exact() || r.Recorded < 11<<30 {
		t.Errorf("followed exactly: %v, peak %d", r.Follow.Score.Exact(), r.Recorded)
	}
	if r.Runs[0].Completed || r.Runs[0].Stats.Reserved.Peak > 8<<30 {
		t.Errorf("replayed to the end: %v, peak %d", r.Runs[0].Completed, r.Runs[0].Stats.Reserved.Peak)
	}
}

func TestRangeOfReplay(t *testing.T) {
	for _, c := range []struct {
		low, high int64
		want      string
	}{
		{4 << 30, 4 << 30, "±0"},
		{4208 << 20, 4210 << 20, "4,208 MiB – 4,210 MiB"},
		{4 << 30, 5 << 30, "4.00 GiB – 5.00 GiB"},
	} {
		if got := rangeOf(c.low, c.high); got != c.want {
			t.Errorf("%d to %d: %s", c.low, c.high, got)
		}
	}
}
