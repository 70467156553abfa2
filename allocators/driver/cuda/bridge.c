//go:build linux && cgo

// The C side: the driver's library is opened when it is asked for, its functions are called in batches, and
// each call is timed here, so that what Go does between them is not in the figures.

#define _GNU_SOURCE
#include "bridge.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Types and constants of the driver's interface, which is stable by contract: new layouts get new names.

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct {
	int type; // 1 a device
	int id;
} CUmemLocation;

typedef struct {
	int type; // 1 pinned
	int handle_types;
	CUmemLocation location;
	void *windows;
	struct {
		unsigned char compression, rdma;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} CUmemAllocationProp;

typedef struct {
	CUmemLocation location;
	int flags; // 3 read and write
} CUmemAccessDesc;

typedef struct {
	int type; // 1 pinned
	int handle_types;
	CUmemLocation location;
	void *windows;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;

_Static_assert(sizeof(CUmemAllocationProp) == 32, "CUmemAllocationProp");
_Static_assert(sizeof(CUmemAccessDesc) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(CUmemPoolProps) == 88, "CUmemPoolProps");

enum {
	invalid_value = 1,
	not_supported = 801,

	attr_processors = 16,
	attr_integrated = 18,
	attr_major = 75,
	attr_minor = 76,
	attr_virtual_memory = 102,
	attr_pools = 115,
	attr_pool_handles = 119,

	pool_release_threshold = 4,
	pool_reserved_current = 5,
	pool_used_current = 7,

	stream_non_blocking = 1,
};

// The functions: name in here, name in the library, feature that needs it, parameters.
#define FUNCTIONS(X) \
	X(cuInit, "cuInit", 0, (unsigned flags)) \
	X(cuDriverGetVersion, "cuDriverGetVersion", 0, (int *version)) \
	X(cuGetErrorName, "cuGetErrorName", 0, (CUresult code, const char **name)) \
	X(cuGetErrorString, "cuGetErrorString", 0, (CUresult code, const char **text)) \
	X(cuDeviceGetCount, "cuDeviceGetCount", 0, (int *count)) \
	X(cuDeviceGet, "cuDeviceGet", 0, (CUdevice *device, int index)) \
	X(cuDeviceGetName, "cuDeviceGetName", 0, (char *name, int length, CUdevice device)) \
	X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", 0, (void *uuid, CUdevice device)) \
	X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 0, (char *id, int length, CUdevice device)) \
	X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", 0, (size_t *bytes, CUdevice device)) \
	X(cuDeviceGetAttribute, "cuDeviceGetAttribute", 0, (int *value, int attribute, CUdevice device)) \
	X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 0, (CUcontext *context, CUdevice device)) \
	X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", 0, (CUdevice device)) \
	X(cuCtxSetCurrent, "cuCtxSetCurrent", 0, (CUcontext context)) \
	X(cuCtxSynchronize, "cuCtxSynchronize", 0, (void)) \
	X(cuMemGetInfo, "cuMemGetInfo_v2", 0, (size_t *available, size_t *total)) \
	X(cuMemAlloc, "cuMemAlloc_v2", 0, (CUdeviceptr *addr, size_t size)) \
	X(cuMemFree, "cuMemFree_v2", 0, (CUdeviceptr addr)) \
	X(cuMemsetD8Async, "cuMemsetD8Async", 0, (CUdeviceptr addr, unsigned char value, size_t size, CUstream stream)) \
	X(cuStreamCreate, "cuStreamCreate", 0, (CUstream *stream, unsigned flags)) \
	X(cuStreamDestroy, "cuStreamDestroy_v2", 0, (CUstream stream)) \
	X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 1, (size_t *bytes, const CUmemAllocationProp *prop, int which)) \
	X(cuMemAddressReserve, "cuMemAddressReserve", 1, (CUdeviceptr *addr, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
	X(cuMemAddressFree, "cuMemAddressFree", 1, (CUdeviceptr addr, size_t size)) \
	X(cuMemCreate, "cuMemCreate", 1, (unsigned long long *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)) \
	X(cuMemRelease, "cuMemRelease", 1, (unsigned long long handle)) \
	X(cuMemMap, "cuMemMap", 1, (CUdeviceptr addr, size_t size, size_t offset, unsigned long long handle, unsigned long long flags)) \
	X(cuMemSetAccess, "cuMemSetAccess", 1, (CUdeviceptr addr, size_t size, const CUmemAccessDesc *access, size_t count)) \
	X(cuMemUnmap, "cuMemUnmap", 1, (CUdeviceptr addr, size_t size)) \
	X(cuMemPoolCreate, "cuMemPoolCreate", 2, (CUmemoryPool *pool, const CUmemPoolProps *props)) \
	X(cuMemPoolDestroy, "cuMemPoolDestroy", 2, (CUmemoryPool pool)) \
	X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 2, (CUmemoryPool pool, int attribute, void *value)) \
	X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 2, (CUmemoryPool pool, int attribute, void *value)) \
	X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 2, (CUmemoryPool pool, size_t keep)) \
	X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 2, (CUdeviceptr *addr, size_t size, CUmemoryPool pool, CUstream stream)) \
	X(cuMemFreeAsync, "cuMemFreeAsync", 2, (CUdeviceptr addr, CUstream stream))

struct vs_library {
	void *file;
	const char *lacks[3];
#define FIELD(name, symbol, feature, parameters) CUresult(*name) parameters;
	FUNCTIONS(FIELD)
#undef FIELD
};

struct vs_device {
	vs_library *l;
	CUdevice device;
	CUcontext context;
	CUmemAllocationProp prop;
	CUmemAccessDesc access;
	int64_t last_held; // by the pool that was asked last
};

// The C library would take 64 MiB of address space for each thread that Go starts, up to many, just where the
// driver looks for room for its next chunk. It decides how many before main, so it is told before that.
#ifdef M_ARENA_MAX
__attribute__((constructor)) static void one_arena(void) { mallopt(M_ARENA_MAX, 1); }
#endif

vs_library *vs_load(const char *path, char *message, int length) {
	void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!file) {
		snprintf(message, length, "%s", dlerror());
		return NULL;
	}
	vs_library *l = calloc(1, sizeof *l);
	if (!l) {
		dlclose(file);
		snprintf(message, length, "no memory");
		return NULL;
	}
	l->file = file;
#define LOAD(name, symbol, feature, parameters) \
	*(void **)&l->name = dlsym(file, symbol); \
	if (!l->name && !l->lacks[feature]) \
		l->lacks[feature] = symbol;
	FUNCTIONS(LOAD)
#undef LOAD
	return l;
}

void vs_unload(vs_library *l) {
	dlclose(l->file);
	free(l);
}

const char *vs_lacks(vs_library *l, int feature) { return l->lacks[feature]; }
int vs_init(vs_library *l) { return l->cuInit(0); }
int vs_version(vs_library *l, int *version) { return l->cuDriverGetVersion(version); }
int vs_count(vs_library *l, int *count) { return l->cuDeviceGetCount(count); }

const char *vs_error_name(vs_library *l, int code) {
	const char *name = NULL;
	return l->cuGetErrorName(code, &name) == 0 ? name : NULL;
}

const char *vs_error_text(vs_library *l, int code) {
	const char *text = NULL;
	return l->cuGetErrorString(code, &text) == 0 ? text : NULL;
}

static void describe(CUmemAllocationProp *prop, int device) {
	memset(prop, 0, sizeof *prop);
	prop->type = 1;
	prop->location.type = 1;
	prop->location.id = device;
}

int vs_inform(vs_library *l, int index, vs_info *info) {
	CUdevice device;
	size_t bytes = 0;
	CUresult r = l->cuDeviceGet(&device, index);
	memset(info, 0, sizeof *info);
	if (!r) r = l->cuDeviceGetName(info->name, sizeof info->name - 1, device);
	if (!r) r = l->cuDeviceGetUuid(info->uuid, device);
	if (!r) r = l->cuDeviceGetPCIBusId(info->bus, sizeof info->bus - 1, device);
	if (!r) r = l->cuDeviceTotalMem(&bytes, device);
	info->total = (int64_t)bytes;
	if (!r) r = l->cuDeviceGetAttribute(&info->major, attr_major, device);
	if (!r) r = l->cuDeviceGetAttribute(&info->minor, attr_minor, device);
	if (!r) r = l->cuDeviceGetAttribute(&info->processors, attr_processors, device);
	if (!r) r = l->cuDeviceGetAttribute(&info->integrated, attr_integrated, device);
	if (r) return r;
	// What an old driver does not know, it does not have.
	if (l->lacks[1] || l->cuDeviceGetAttribute(&info->virtual_memory, attr_virtual_memory, device)) info->virtual_memory = 0;
	if (l->lacks[2] || l->cuDeviceGetAttribute(&info->pools, attr_pools, device)) info->pools = 0;
	if (!info->pools || l->cuDeviceGetAttribute(&info->pool_handles, attr_pool_handles, device)) info->pool_handles = 0;
	if (info->virtual_memory) {
		CUmemAllocationProp prop;
		describe(&prop, device);
		if (!l->cuMemGetAllocationGranularity(&bytes, &prop, 0)) info->granularity = (int64_t)bytes;
		if (!l->cuMemGetAllocationGranularity(&bytes, &prop, 1)) info->recommended = (int64_t)bytes;
	}
	return 0;
}

int vs_open(vs_library *l, int index, vs_device **out, const char **call) {
	CUdevice device;
	CUcontext context;
	CUresult r = l->cuDeviceGet(&device, index);
	*call = "cuDeviceGet";
	if (r) return r;
	r = l->cuDevicePrimaryCtxRetain(&context, device);
	*call = "cuDevicePrimaryCtxRetain";
	if (r) return r;
	r = l->cuCtxSetCurrent(context);
	*call = "cuCtxSetCurrent";
	vs_device *d = r ? NULL : calloc(1, sizeof *d);
	if (!d) {
		l->cuDevicePrimaryCtxRelease(device);
		return r ? r : 2;
	}
	d->l = l;
	d->device = device;
	d->context = context;
	describe(&d->prop, device);
	d->access.location = d->prop.location;
	d->access.flags = 3;
	*out = d;
	return 0;
}

int vs_close(vs_device *d, const char **call) {
	d->l->cuCtxSetCurrent(NULL);
	*call = "cuDevicePrimaryCtxRelease";
	CUresult r = d->l->cuDevicePrimaryCtxRelease(d->device);
	free(d);
	return r;
}

// A context is current for a thread, and Go calls from any.
static CUresult enter(vs_device *d) { return d->l->cuCtxSetCurrent(d->context); }

int vs_stream_create(vs_device *d, uint64_t *stream) {
	CUstream s = NULL;
	CUresult r = enter(d);
	if (!r) r = d->l->cuStreamCreate(&s, stream_non_blocking);
	*stream = (uint64_t)(uintptr_t)s;
	return r;
}

int vs_stream_destroy(vs_device *d, uint64_t stream) {
	CUresult r = enter(d);
	return r ? r : d->l->cuStreamDestroy((CUstream)(uintptr_t)stream);
}

int vs_pool_create(vs_device *d, int64_t most, uint64_t *pool, const char **call) {
	CUmemPoolProps props;
	CUmemoryPool p = NULL;
	unsigned long long keep = ~0ull;
	memset(&props, 0, sizeof props);
	props.type = 1;
	props.location = d->prop.location;
	props.most = (size_t)most;
	*call = "cuMemPoolCreate";
	CUresult r = enter(d);
	if (!r) r = d->l->cuMemPoolCreate(&p, &props);
	if (r) return r;
	*call = "cuMemPoolSetAttribute";
	r = d->l->cuMemPoolSetAttribute(p, pool_release_threshold, &keep);
	if (r) {
		d->l->cuMemPoolDestroy(p);
		return r;
	}
	*pool = (uint64_t)(uintptr_t)p;
	return 0;
}

int vs_pool_destroy(vs_device *d, uint64_t pool) {
	CUresult r = enter(d);
	return r ? r : d->l->cuMemPoolDestroy((CUmemoryPool)(uintptr_t)pool);
}

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// call makes the one call that an op is.
static CUresult call(vs_device *d, vs_op *op, uint64_t *at, uint64_t stream) {
	vs_library *l = d->l;
	CUdeviceptr addr = 0;
	unsigned long long handle = 0;
	size_t available = 0, total = 0;
	CUresult r;
	switch (op->kind) {
	case vs_alloc:
		r = l->cuMemAlloc(&addr, (size_t)op->size);
		*at = addr;
		return r;
	case vs_free:
		return l->cuMemFree(*at);
	case vs_reserve:
		r = l->cuMemAddressReserve(&addr, (size_t)op->size, 0, 0, 0);
		*at = addr;
		return r;
	case vs_release:
		return l->cuMemAddressFree(*at, (size_t)op->size);
	case vs_create:
		r = l->cuMemCreate(&handle, (size_t)op->size, &d->prop, 0);
		*at = handle;
		return r;
	case vs_discard:
		return l->cuMemRelease(*at);
	case vs_map: // the handle is in the slot, the address is not
		return l->cuMemMap(op->addr, (size_t)op->size, 0, *at, 0);
	case vs_access:
		return l->cuMemSetAccess(*at, (size_t)op->size, &d->access, 1);
	case vs_unmap:
		return l->cuMemUnmap(*at, (size_t)op->size);
	case vs_pool_alloc:
		r = l->cuMemAllocFromPoolAsync(&addr, (size_t)op->size, (CUmemoryPool)(uintptr_t)op->handle, (CUstream)(uintptr_t)stream);
		*at = addr;
		return r;
	case vs_pool_free:
		return l->cuMemFreeAsync(*at, (CUstream)(uintptr_t)stream);
	case vs_pool_trim:
		return l->cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)op->handle, (size_t)op->size);
	case vs_sync:
		return l->cuCtxSynchronize();
	case vs_memory:
		r = l->cuMemGetInfo(&available, &total);
		op->available = (int64_t)available;
		op->held = (int64_t)total;
		return r;
	case vs_fill:
		return l->cuMemsetD8Async(*at, 0xa5, (size_t)op->size, (CUstream)(uintptr_t)stream);
	}
	return invalid_value;
}

// look asks what there is, after a call.
static void look(vs_device *d, vs_op *op) {
	if (op->flags & vs_look_pool) {
		CUmemoryPool pool = (CUmemoryPool)(uintptr_t)op->handle;
		unsigned long long held = 0, used = 0;
		if (!d->l->cuMemPoolGetAttribute(pool, pool_reserved_current, &held)) op->held = (int64_t)held;
		if (!d->l->cuMemPoolGetAttribute(pool, pool_used_current, &used)) op->used = (int64_t)used;
		if (op->held == d->last_held) return;
		d->last_held = op->held;
	} else if (!(op->flags & vs_look)) {
		return;
	}
	size_t available = 0, total = 0;
	if (!d->l->cuMemGetInfo(&available, &total)) op->available = (int64_t)available;
}

// place is where the address or the handle of a call is.
static uint64_t *place(vs_op *op, uint64_t *slots) {
	if (op->flags & vs_in_slot) return &slots[op->slot];
	switch (op->kind) {
	case vs_create:
	case vs_discard:
	case vs_map:
		return &op->handle;
	}
	return &op->addr;
}

int64_t vs_run(vs_device *d, vs_op *ops, int64_t n, uint64_t *slots, const uint64_t *streams) {
	CUresult entered = enter(d);
	for (int64_t i = 0; i < n; i++) {
		vs_op *op = &ops[i];
		uint64_t *at = place(op, slots);
		int gives = op->kind == vs_free || op->kind == vs_pool_free;
		op->result = -1;
		op->nanos = 0;
		op->held = op->used = op->available = -1;
		if ((gives || op->kind == vs_fill) && !*at) continue; // what was refused cannot be given back
		if (op->flags & vs_in_slot && op->kind != vs_map) op->addr = *at;
		int64_t start = now();
		op->result = entered ? entered : call(d, op, at, streams ? streams[op->stream] : 0);
		op->nanos = now() - start;
		if (op->flags & vs_in_slot && op->kind != vs_map) {
			if (gives && !op->result) *at = 0;
			if (!gives) op->addr = *at;
		}
		if (op->result && op->flags & vs_stop) return i + 1;
		look(d, op);
	}
	return n;
}
