package report

import "testing"

func TestBeyond(t *testing.T) {
	for _, c := range []struct {
		held, most int64
		want       string
	}{
		{256 << 20, 128 << 20, ": 128 MiB (50 %) more"},
		{128 << 20, 128 << 20, ", all of it in use at once"},
		{100 << 20, 128 << 20, ", which is less: not all that was reserved is in the recording"},
		{0, 0, ": 0 bytes (–) more"},
	} {
		if got := beyond(c.held, c.most, "more"); got != c.want {
			t.Errorf("%d held, %d in use: %q, not %q", c.held, c.most, got, c.want)
		}
	}
}
