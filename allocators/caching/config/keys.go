package config

import "strings"

// The keys that PyTorch's CUDA allocator knows, and since when. A version is the first release with the
// key, as far as that can be told from merge dates; it may be one release off.

// Names of the keys, in the order in which String writes them.
const (
	keyBackend         = "backend"
	keyExpandable      = "expandable_segments"
	keyMaxSplit        = "max_split_size_mb"
	keyMaxNonSplit     = "max_non_split_rounding_mb"
	keyLargeSegment    = "large_segment_size_mb"
	keyRoundup         = "roundup_power2_divisions"
	keyGC              = "garbage_collection_threshold"
	keyFraction        = "per_process_memory_fraction"
	keyThrow           = "throw_on_cudamalloc_oom"
	keyReleaseLock     = "release_lock_on_cudamalloc"
	keyGraphReuse      = "graph_capture_record_stream_reuse"
	keyReserve         = "expandable_segments_reserve"
	keyReserveByClass  = "expandable_segments_reserve_by_class"
	keyHostRegister    = "pinned_use_cuda_host_register"
	keyRegisterThreads = "pinned_num_register_threads"
	keyBackground      = "pinned_use_background_threads"
	keyPinnedReserve   = "pinned_reserve_segment_size_mb"
	keyPinnedCatchAll  = "pinned_free_catch_all"
	keyRoundupBypass   = "roundup_bypass_threshold_mb"
)

type key struct {
	name   string // the spelling that counts for duplicates and in findings
	since  Version
	until  Version // the first release without it; zero: still there
	native bool    // a setting of device memory that the async backend does not look at
}

var keys = []key{
	{name: keyBackend, since: Version{2, 0}},
	{name: keyExpandable, since: Version{2, 1}, native: true},
	{name: keyMaxSplit, since: Version{1, 10}, native: true},
	{name: keyMaxNonSplit, since: Version{2, 6}, native: true},
	{name: keyLargeSegment, since: Version{2, 11}, native: true},
	{name: keyRoundup, since: Version{1, 12}, native: true},
	{name: keyGC, since: Version{1, 12}, native: true},
	{name: keyFraction, since: Version{2, 10}},
	{name: keyThrow, since: Version{2, 12}, native: true},
	{name: keyReleaseLock, since: Version{2, 1}, native: true},
	{name: keyGraphReuse, since: Version{2, 9}, native: true},
	{name: keyReserve, since: Version{2, 14}, native: true},
	{name: keyReserveByClass, since: Version{2, 14}, native: true},
	{name: keyHostRegister, since: Version{2, 2}},
	{name: keyRegisterThreads, since: Version{2, 2}},
	{name: keyBackground, since: Version{2, 6}},
	{name: keyPinnedReserve, since: Version{2, 10}},
	{name: keyPinnedCatchAll, since: Version{2, 12}},
	{name: keyRoundupBypass, since: Version{1, 12}, until: Version{2, 0}, native: true},
}

// hipKeys are the spellings for ROCm, which every build accepts.
var hipKeys = map[string]key{
	"release_lock_on_hipmalloc":    {name: keyReleaseLock, since: Version{2, 2}, native: true},
	"pinned_use_hip_host_register": {name: keyHostRegister, since: Version{2, 2}},
}

// foreignKeys belong to the allocators of other vendors' extensions, which read variables of their own.
var foreignKeys = map[string]string{
	"base_addr_aligned_kb":   "PYTORCH_NPU_ALLOC_CONF",
	"page_size":              "PYTORCH_NPU_ALLOC_CONF",
	"segment_size_mb":        "PYTORCH_NPU_ALLOC_CONF",
	"throw_on_npumalloc_oom": "PYTORCH_NPU_ALLOC_CONF",
}

// lookup finds a key by a spelling that PyTorch accepts, whatever the version.
func lookup(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	k, ok := hipKeys[name]
	return k, ok
}

// knownIn says whether a version accepts the key.
func (k key) knownIn(v Version) bool {
	return !v.before(k.since) && (k.until == Version{} || v.before(k.until))
}

// nearest is the key that a misspelt one was probably meant to be, among those of the version first.
// It is empty when nothing is near.
func nearest(name string, v Version) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case r == '-' || r == '.':
			return '_'
		}
		return -1
	}, name)
	if name == "" || len(name) > 64 {
		return ""
	}
	best, bestD := "", 0
	for _, k := range keys {
		if !k.knownIn(v) {
			continue
		}
		d := distance(name, k.name)
		if strings.HasPrefix(k.name, name+"_") { // a unit or a last word left out
			d = min(d, 1)
		}
		if d <= len(k.name)/4+1 && (best == "" || d < bestD) {
			best, bestD = k.name, d
		}
	}
	return best
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
