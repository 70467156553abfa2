package config

import (
	"fmt"
	"strconv"
	"strings"
)

// String is a setting that Parse reads as this configuration: what differs from the defaults, in a fixed
// order. An allocator without any setting gives the empty string. LegacyDiv1 is not in it, the version
// given to Parse decides it, and sizes are cut to whole MiB.
func (c Config) String() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+":"+value) }
	boolean := func(key string, b bool) {
		if b {
			add(key, "True")
		}
	}
	mib := func(key string, n int64) { add(key, strconv.FormatInt(n/MiB, 10)) }
	real := func(key string, f float64) { add(key, strconv.FormatFloat(f, 'g', -1, 64)) }

	if c.Backend == Async {
		add(keyBackend, Async)
	}
	boolean(keyExpandable, c.Expandable)
	if c.MaxSplitSize != Unlimited {
		mib(keyMaxSplit, c.MaxSplitSize)
	}
	if c.MaxNonSplitRounding != c.LargeSegmentSize {
		mib(keyMaxNonSplit, c.MaxNonSplitRounding)
	}
	if c.LargeSegmentSize != DefaultLargeSegment {
		mib(keyLargeSegment, c.LargeSegmentSize)
	}
	if s := divisions(c.Roundup); s != "" {
		add(keyRoundup, s)
	}
	if c.GCThreshold != 0 {
		real(keyGC, c.GCThreshold)
	}
	if c.MemoryFraction != 1 {
		real(keyFraction, c.MemoryFraction)
	}
	boolean(keyThrow, c.ThrowOnOOM)
	boolean(keyReleaseLock, c.ReleaseLock)
	boolean(keyGraphReuse, c.GraphCaptureReuse)
	switch {
	case c.ReserveBytes != 0:
		add(keyReserve, strconv.FormatFloat(float64(c.ReserveBytes)/(1<<30), 'g', -1, 64)+"G")
	case c.ReserveFraction != 0:
		real(keyReserve, c.ReserveFraction)
	}
	boolean(keyHostRegister, c.PinnedUseHostRegister)
	if c.PinnedRegisterThreads != 1 {
		add(keyRegisterThreads, strconv.Itoa(c.PinnedRegisterThreads))
	}
	boolean(keyBackground, c.PinnedBackgroundThreads)
	if c.PinnedReserveSegmentSize != 0 {
		mib(keyPinnedReserve, c.PinnedReserveSegmentSize)
	}
	boolean(keyPinnedCatchAll, c.PinnedFreeCatchAll)
	return strings.Join(parts, ",")
}

// divisions writes a table in a form that all versions with lists read alike: without >, which they do not
// agree on. The first entry is the last bucket of those at the start that are equal, since it fills them.
func divisions(table [16]int) string {
	first := 0
	for first+1 < len(table) && table[first+1] == table[0] {
		first++
	}
	if first == len(table)-1 {
		if table[0] == 0 {
			return ""
		}
		return strconv.Itoa(table[0])
	}
	entries := []string{fmt.Sprintf("%d:%d", 1<<first, table[first])}
	for i := first + 1; i < len(table); i++ {
		if table[i] != 0 {
			entries = append(entries, fmt.Sprintf("%d:%d", 1<<i, table[i]))
		}
	}
	return "[" + strings.Join(entries, ",") + "]"
}
