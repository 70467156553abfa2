// What Go and the CUDA driver have between them. The driver's own headers are not needed: bridge.c has the
// prototypes of what is called.

#ifndef VRAMSCOPE_BRIDGE_H
#define VRAMSCOPE_BRIDGE_H

#include <stdint.h>

// A vs_op is one call of the driver, Op in Go, of the same layout.
typedef struct {
	uint32_t kind;
	int32_t result; // CUresult of the call, -1 if it was not made
	uint32_t slot;
	uint16_t flags;
	uint16_t stream;
	uint64_t addr;
	uint64_t handle;
	int64_t size;
	int64_t nanos;
	int64_t held;
	int64_t used;
	int64_t available;
} vs_op;

enum {
	vs_alloc = 1,
	vs_free,
	vs_reserve,
	vs_release,
	vs_create,
	vs_discard,
	vs_map,
	vs_access,
	vs_unmap,
	vs_pool_alloc,
	vs_pool_free,
	vs_pool_trim,
	vs_sync,
	vs_memory,
	vs_fill,
};

enum {
	vs_in_slot = 1,     // the address or handle is in the slot, or goes there
	vs_stop = 2,        // the batch ends if the call fails
	vs_look = 4,        // afterwards the driver is asked how much memory is available
	vs_look_pool = 8,   // afterwards the pool is asked what it holds, and the driver if that is new
};

typedef struct vs_library vs_library;
typedef struct vs_device vs_device;

// A vs_info is what the driver tells of a device.
typedef struct {
	char name[256];
	char bus[32];
	unsigned char uuid[16];
	int64_t total;
	int64_t granularity; // of virtual memory, 0 if there is none
	int64_t recommended;
	int32_t major, minor, processors;
	int32_t virtual_memory, pools, integrated;
	int32_t pool_handles; // bits: which handles pools can export
} vs_info;

// vs_load opens the library. Without it, it returns NULL and says why in message.
vs_library *vs_load(const char *path, char *message, int length);
void vs_unload(vs_library *l);
// vs_lacks names the first function that a feature needs and the library lacks, NULL if there is none:
// 0 for what is always needed, 1 for virtual memory, 2 for pools.
const char *vs_lacks(vs_library *l, int feature);
int vs_init(vs_library *l);
int vs_version(vs_library *l, int *version);
int vs_count(vs_library *l, int *count);
int vs_inform(vs_library *l, int index, vs_info *info);
const char *vs_error_name(vs_library *l, int code);
const char *vs_error_text(vs_library *l, int code);

// vs_open retains the primary context of a device.
int vs_open(vs_library *l, int index, vs_device **device, const char **call);
int vs_close(vs_device *d, const char **call);
int vs_stream_create(vs_device *d, uint64_t *stream);
int vs_stream_destroy(vs_device *d, uint64_t stream);
int vs_pool_create(vs_device *d, int64_t most, uint64_t *pool, const char **call);
int vs_pool_destroy(vs_device *d, uint64_t pool);

// vs_run makes calls in order and returns how many it came past. slots are addresses and handles, by number,
// and streams the driver's, by ours.
int64_t vs_run(vs_device *d, vs_op *ops, int64_t n, uint64_t *slots, const uint64_t *streams);

#endif
