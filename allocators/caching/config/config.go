// Package config is what PyTorch's caching allocator makes of its setting, the text of
// PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF: the values that result, the two rounding rules that
// depend on them, and findings about parts that are rejected, ignored, without effect or known to hurt.
//
// The life of a setting: Parse cuts the text into tokens as PyTorch's tokenizer does, gives each value to
// its key (keys.go says which keys a version knows), and fills a Config (this file). What PyTorch would
// raise on is an error with its place in the text; what it accepts although it will not do what the user
// hopes for is a Finding (lint.go). FromSnapshot does the same for the settings that a snapshot carries,
// where resolved values are worth more than the text that they came from.
//
// The rules differ between versions of PyTorch, so whoever knows the version should say it.
package config

import (
	"math"
	"math/bits"
)

// Sizes that are constants in PyTorch, in bytes.
const (
	MiB = 1 << 20

	MinBlock     = 512      // blocks are multiples of this
	SmallSize    = 1 * MiB  // rounded sizes up to this go to the small pool
	SmallSegment = 2 * MiB  // a segment of the small pool, and a page of its expandable segments
	MinLarge     = 10 * MiB // rounded sizes from here on get a segment of their own size
	RoundLarge   = 2 * MiB  // such segments are multiples of this

	DefaultLargeSegment = 20 * MiB      // a segment for sizes between SmallSize and MinLarge
	Unlimited           = math.MaxInt64 // MaxSplitSize of an allocator that may split every block
)

// Names of the allocators behind the setting "backend".
const (
	Native = "native"
	Async  = "cudaMallocAsync"
)

// Config is a resolved setting. Default gives the values of an allocator without any setting.
type Config struct {
	Backend string // Native or Async

	Expandable          bool    // segments grow by mapping pages
	MaxSplitSize        int64   // bytes; blocks of at least this are never split; Unlimited: all may be
	MaxNonSplitRounding int64   // bytes that an unsplittable block may be longer than its request, exclusive
	LargeSegmentSize    int64   // bytes of a segment for requests between 1 and 10 MiB, and of a large expandable page
	Roundup             [16]int // divisions per power of two: entry i for sizes in [1 MiB << i, 2 MiB << i), the ends open; 0 none
	LegacyDiv1          bool    // divisions of 1 leave the size as it is, not even a multiple of 512 (PyTorch before 2.4)

	GCThreshold    float64 // share of the limit above which idle blocks are given back; 0 never; needs a limit
	MemoryFraction float64 // share of the device's memory that may be reserved; 1 no limit

	ReserveFraction float64 // address space of an expandable segment as a share of the device's memory; 0 the usual 9/8
	ReserveBytes    int64   // the same in bytes, used when not 0

	ReleaseLock       bool // the allocator's lock is dropped during cudaMalloc
	GraphCaptureReuse bool // blocks freed on other streams are reused during a graph capture where safe
	ThrowOnOOM        bool // a request over the limit fails at once, nothing is given back for it

	PinnedUseHostRegister    bool  // host memory: cudaHostRegister in place of cudaHostAlloc
	PinnedRegisterThreads    int   // host memory: threads that touch the pages
	PinnedBackgroundThreads  bool  // host memory: events are processed in the background
	PinnedReserveSegmentSize int64 // host memory: bytes reserved at the start; 0 none
	PinnedFreeCatchAll       bool  // host memory: errors while freeing are swallowed
}

// Default is the configuration of an allocator without a setting.
func Default() Config {
	return Config{
		Backend:               Native,
		MaxSplitSize:          Unlimited,
		MaxNonSplitRounding:   DefaultLargeSegment,
		LargeSegmentSize:      DefaultLargeSegment,
		MemoryFraction:        1,
		PinnedRegisterThreads: 1,
	}
}

// RoundSize is the size in bytes of the block that a request of n bytes gets.
func (c *Config) RoundSize(n int64) int64 {
	if d := c.Roundup[bucket(n)]; d != 0 {
		return c.roundDivided(n, int64(d))
	}
	return roundPlain(n)
}

// SegmentSize is what the driver is asked for when a block of the rounded size has no room in the cache.
// Expandable segments map pages instead, but count this size against the memory limit.
func (c *Config) SegmentSize(rounded int64) int64 {
	switch {
	case rounded <= SmallSize:
		return SmallSegment
	case rounded < MinLarge:
		return c.LargeSegmentSize
	}
	return (rounded + RoundLarge - 1) &^ (RoundLarge - 1)
}

// bucket is the entry of Roundup for a size.
func bucket(n int64) int {
	return min(bits.Len64(uint64(n)>>20|1)-1, 15)
}

// roundPlain is the next multiple of 512, and not 0 even if the size is.
func roundPlain(n int64) int64 {
	return (max(n, 1) + MinBlock - 1) &^ (MinBlock - 1)
}

// roundDivided rounds up to one of d equal steps between two powers of two. Steps under 512 bytes would
// break the multiple of 512, so small sizes keep the plain rule. Before 2.4 the test for "no divisions" let
// 1 through, and a single step between powers of two was taken to mean the size itself.
func (c *Config) roundDivided(n, d int64) int64 {
	if d == 1 && c.LegacyDiv1 && n > MinBlock {
		return n
	}
	if d <= 1 || (n-1)/MinBlock < d { // that is n <= 512*d, without overflow
		return roundPlain(n)
	}
	step := int64(1) << (bits.Len64(uint64(n)) - bits.Len64(uint64(d)))
	return (n + step - 1) &^ (step - 1)
}
