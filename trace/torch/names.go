package torch

import "github.com/vramscope/vramscope/trace"

// Keys and words that the reader knows. They are interned before anything else, so that their string
// numbers are these constants and a key is recognised by comparing integers.
const (
	keyAction = iota
	keyAddr
	keySize
	keyStream
	keyTimeUs
	keyFrames
	keyCompileContext
	keyUserMetadata
	keyPoolID
	keyDeviceFree
	keyFilename
	keyName
	keyLine
	keyDevice
	keyAddress
	keyTotalSize
	keyAllocatedSize
	keyActiveSize
	keyRequestedSize
	keySegmentType
	keySegmentPoolID
	keyIsExpandable
	keyBlocks
	keyState
	keyHistory
	keyRealSize
	keyStage
	keySegments
	keyDeviceTraces
	keyTraces
	keyAllocatorSettings
	keyExternalAnnotations
	keyHostSegments
	keyHostTraces
	keyCudaConf
	keyConf
	keyMaxSplitSize
	keyGCThreshold
	keyExpandable
	keyRoundup
	keyStreamReuse
	keyOverflowed
	keyMaxEntries
	numKeys // at most 64: sets of keys are bit masks

	wordStart = iota - 1
	wordEnd
	wordLarge
	wordSmall
	wordActive
	wordPending
	wordAwaiting
	wordInactive
	wordUserDefined
	wordBucket0 // "1", "2", "4", … "32768": the buckets of roundup_power2_divisions
)

const (
	numBuckets = 16
	wordOp0    = wordBucket0 + numBuckets // names of operations, in the order of trace.Op from OpAlloc on
)

var names = append([]string{
	"action", "addr", "size", "stream", "time_us", "frames", "compile_context", "user_metadata",
	"pool_id", "device_free", "filename", "name", "line", "device", "address", "total_size",
	"allocated_size", "active_size", "requested_size", "segment_type", "segment_pool_id",
	"is_expandable", "blocks", "state", "history", "real_size", "stage", "segments", "device_traces",
	"traces", "allocator_settings", "external_annotations", "host_segments", "host_traces",
	"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "max_split_size", "garbage_collection_threshold",
	"expandable_segments", "roundup_power2_divisions", "graph_capture_record_stream_reuse",
	"trace_alloc_overflowed", "trace_alloc_max_entries",

	"START", "END", "large", "small",
	"active_allocated", "active_pending_free", "active_awaiting_free", "inactive", "user_defined",
	"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", "32768",
}, opNames()...)

const lastOp = trace.OpSnapshot

func opNames() []string {
	var out []string
	for op := trace.OpAlloc; op <= lastOp; op++ {
		out = append(out, op.String())
	}
	return out
}

// keys is a set of the known keys that a dictionary has.
type keys uint64

func (k keys) has(key int) bool { return k>>key&1 != 0 }

func keySet(list ...int) (k keys) {
	for _, key := range list {
		k |= 1 << key
	}
	return k
}
