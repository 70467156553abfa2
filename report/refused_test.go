package report

import "testing"

// The verdicts at the edges of their rules, on a device of which the allocator could have had 10,000 MiB.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name                               string
		tried, allocated, reserved, device int64 // MiB
		limit                              int64 // MiB, -1 for none
		want                               string
	}{
		{"more than there is", 10_001, 0, 0, 10_000, -1, NeverPossible},
		{"as much as there is", 10_000, 1, 4_000, 6_000, -1, Genuine},
		{"more than there is, under a limit", 10_001, 0, 0, 10_000, 5_000, NeverPossible},
		{"over the limit", 1_001, 4_000, 4_000, 6_000, 5_000, OwnLimit},
		{"just under the limit", 1_000, 4_000, 4_000, 999, 5_000, Genuine},
		{"enough free", 1_000, 4_000, 4_000, 1_000, -1, OwnLimit},
		{"too much in use", 1_000, 9_001, 9_500, 500, -1, Genuine},
		{"pieces of 3 percent", 800, 9_200, 9_500, 500, -1, Fragmented},
		{"pieces of less", 501, 9_201, 9_500, 500, -1, FragmentedLittle},
		{"pieces of less than 1 percent", 501, 9_401, 9_500, 500, -1, Genuine},
		{"device not told", 1_000, 4_000, 4_000, 0, -1, NotKnown},
		{"device not told, limit known", 1_001, 4_000, 4_000, 0, 5_000, OwnLimit},
	} {
		limit := c.limit
		if limit > 0 {
			limit *= mib
		}
		got, why := judge(OOM{Requested: c.tried * mib, Tried: c.tried * mib, Allocated: c.allocated * mib, Reserved: c.reserved * mib, DeviceFree: c.device * mib}, limit)
		if got != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, got, why, c.want)
		}
	}
}
