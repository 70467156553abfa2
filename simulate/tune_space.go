package simulate

import (
	"cmp"
	"hash/fnv"
	"math/bits"
	"slices"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/trace"
)

// demand is what of a recording decides which settings can change anything in it. Many change nothing: a
// size above which blocks are kept whole counts only if there are such blocks, divisions count only if they
// round some request to another size, a share of the limit only if there is a limit. Two settings that come
// to the same need one replay.
type demand struct {
	sizes []int64   // that were asked for, ascending, each once
	bytes [16]int64 // asked for in all, by entry of the table of divisions; the small pool's left out
	limit bool      // the process sets itself a limit
}

func newDemand(r *Requests, limit bool) *demand {
	d := &demand{limit: limit}
	count := map[int64]int64{}
	for _, e := range r.Device.Events.All() {
		if (e.Op == trace.OpAlloc || e.Op == trace.OpOOM) && e.Size > 0 {
			count[e.Size]++
		}
	}
	for _, b := range r.Initial {
		count[max(b.Requested, 1)]++
	}
	for size, n := range count {
		d.sizes = append(d.sizes, size)
		if size > config.SmallSize {
			d.bytes[division(size)] += size * n
		}
	}
	slices.Sort(d.sizes)
	return d
}

// division is the entry of the table of divisions for a size.
func division(size int64) int {
	i := 0
	for i < 15 && size>>(21+i) > 0 {
		i++
	}
	return i
}

// busiest lists the entries of the table of divisions that most bytes were asked for in, at most n.
func (d *demand) busiest(n int) []int {
	var list []int
	for i, b := range d.bytes {
		if b > 0 {
			list = append(list, i)
		}
	}
	slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(d.bytes[b], d.bytes[a]) })
	return list[:min(n, len(list))]
}

// essence is what of a setting matters here. Settings of the same essence decide alike.
type essence struct {
	expandable   bool
	maxSplit     int64
	nonSplit     int64
	largeSegment int64
	rounding     uint64 // hash of what the sizes are rounded to
	gc           float64
}

func (d *demand) essence(c *config.Config) essence {
	e := essence{expandable: c.Expandable, maxSplit: config.Unlimited}
	largest, between := int64(0), false
	hash := fnv.New64a()
	var word [8]byte
	for _, size := range d.sizes {
		z := c.RoundSize(size)
		largest = max(largest, c.SegmentSize(z))
		between = between || z > config.SmallSize && z < config.MinLarge
		for i := range word {
			word[i] = byte(z >> (8 * i))
		}
		hash.Write(word[:])
	}
	e.rounding = hash.Sum64()
	if between || c.Expandable { // it is the page of expandable segments too
		e.largeSegment = c.LargeSegmentSize
	}
	// Free memory of an expandable segment grows together without bound, of a classic one up to its size.
	if c.MaxSplitSize <= largest || c.Expandable && c.MaxSplitSize != config.Unlimited {
		e.maxSplit, e.nonSplit = c.MaxSplitSize, c.MaxNonSplitRounding
	}
	if d.limit && !c.Expandable {
		e.gc = c.GCThreshold
	}
	return e
}

// setKeys is a set of settings.
type setKeys uint8

// changes are the settings that differ between two.
func changes(a, b *config.Config) setKeys {
	var set setKeys
	for i, differs := range []bool{
		a.Expandable != b.Expandable,
		a.MaxSplitSize != b.MaxSplitSize,
		a.MaxNonSplitRounding-a.LargeSegmentSize != b.MaxNonSplitRounding-b.LargeSegmentSize, // it follows where it is not set
		a.LargeSegmentSize != b.LargeSegmentSize,
		a.Roundup != b.Roundup,
		a.GCThreshold != b.GCThreshold,
	} {
		if differs {
			set |= 1 << i
		}
	}
	return set
}

func (s setKeys) count() int { return bits.OnesCount8(uint8(s)) }

// within says whether all of s is in t, and t has more.
func (s setKeys) within(t setKeys) bool { return s&^t == 0 && s != t }

// Values to begin with. Sizes are MiB.
var (
	splitSizes    = []int64{128, 512, 64, 256, 32, 1024, 2048, 4096}
	divisionsOf   = []int{4, 8, 2, 16, 1}
	thresholds    = []float64{0.8, 0.6, 0.9, 0.7}
	segmentSizes  = []int64{12, 32, 16, 64, 128, 256}
	roundingSizes = []int64{64, 256, 1024}
)

// singles lists the recording's own settings with one of them changed, the likeliest first: the first value
// of each, then the second of each.
func (d *demand) singles(base config.Config) []config.Config {
	var byKey [][]config.Config
	toggled := base
	setExpandable(&toggled, !base.Expandable)
	byKey = append(byKey, []config.Config{toggled})
	list := func(n int, change func(c *config.Config, i int)) {
		var out []config.Config
		for i := range n {
			c := base
			change(&c, i)
			out = append(out, c)
		}
		byKey = append(byKey, out)
	}
	list(len(divisionsOf), func(c *config.Config, i int) { setDivisions(c, divisionsOf[i]) })
	list(len(splitSizes), func(c *config.Config, i int) { setMaxSplit(c, splitSizes[i]*config.MiB) })
	list(len(thresholds), func(c *config.Config, i int) { setGC(c, thresholds[i]) })
	list(len(segmentSizes), func(c *config.Config, i int) { setLargeSegment(c, segmentSizes[i]*config.MiB) })
	undone := base // each setting that the recording has, taken out
	setMaxSplit(&undone, config.Unlimited)
	plain := base
	setDivisions(&plain, 0)
	bare := withDefaults(base)
	setExpandable(&bare, true)
	byKey = append(byKey, []config.Config{undone, plain, withDefaults(base), bare})
	var out []config.Config
	for i := 0; ; i++ {
		before := len(out)
		for _, l := range byKey {
			if i < len(l) {
				out = append(out, l[i])
			}
		}
		if len(out) == before {
			return out
		}
	}
}

// withDefaults takes all settings out that are searched; the others stay.
func withDefaults(c config.Config) config.Config {
	setExpandable(&c, false)
	c.MaxSplitSize, c.GCThreshold = config.Unlimited, 0
	c.LargeSegmentSize, c.MaxNonSplitRounding = config.DefaultLargeSegment, config.DefaultLargeSegment
	setDivisions(&c, 0)
	return c
}

// Expandable segments do not go together with a size above which blocks are kept whole, and are never
// collected as garbage, so setting either takes the other out.

func setExpandable(c *config.Config, on bool) {
	c.Expandable = on
	if on {
		c.MaxSplitSize, c.MaxNonSplitRounding, c.GCThreshold = config.Unlimited, c.LargeSegmentSize, 0
	} else {
		c.ReserveFraction, c.ReserveBytes = 0, 0
	}
}

func setMaxSplit(c *config.Config, bytes int64) {
	if bytes == config.Unlimited {
		c.MaxNonSplitRounding = c.LargeSegmentSize
	} else {
		setExpandable(c, false)
	}
	c.MaxSplitSize = bytes
}

func setGC(c *config.Config, threshold float64) {
	setExpandable(c, false)
	c.GCThreshold = threshold
}

func setLargeSegment(c *config.Config, bytes int64) {
	if c.MaxNonSplitRounding == c.LargeSegmentSize {
		c.MaxNonSplitRounding = bytes
	}
	c.LargeSegmentSize = bytes
}

func setDivisions(c *config.Config, n int) {
	for i := range c.Roundup {
		c.Roundup[i] = n
	}
}
