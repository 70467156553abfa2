// A CUDA driver without a GPU, for tests: it keeps books, puts cudaMalloc's blocks where the rules say, and
// refuses what is more than it has.
//
//	FAKE_CUDA_MEMORY   bytes that are free at the start (1 GiB)
//	FAKE_CUDA_DEVICES  how many devices (1)
//	FAKE_CUDA_LACKS    "vmm", "pools": what the device does not have
//	FAKE_CUDA_FAIL     call:number:code, comma-separated: the number-th such call has that result
//	FAKE_CUDA_DELAY    microseconds that each allocation takes
//	FAKE_CUDA_REPORT   file to which it is added, when the context goes, what was not given back
//
// With -DWITHOUT_POOLS or -DWITHOUT_VMM it is a driver of a time when there were none.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
typedef unsigned long long u64;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, NOT_SUPPORTED = 801 };

#define MIB (1ull << 20)
#define UNIT (32 * MIB)
#define BASE 0x7f4000000000ull
#define MOST 65536

typedef struct { u64 at, size, handle; int chunk, live; } block;

static struct {
	u64 memory, used;
	block chunks[MOST], blocks[MOST], mapped[MOST], handles[MOST], reserved[MOST];
	int n_chunks, n_blocks, n_mapped, n_handles, n_reserved; // of chunks the later ones are newer
	int contexts, streams, pools, faults, started;
} g;

typedef struct { u64 base, top, held, most, used; int open; struct { u64 at, size, want; int live; } b[MOST]; int n; } pool_t;

static u64 up(u64 n, u64 unit) { return (n + unit - 1) / unit * unit; }

static u64 number(const char *name, u64 otherwise) {
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 0) : otherwise;
}

static int lacks(const char *what) {
	const char *s = getenv("FAKE_CUDA_LACKS");
	return s && strstr(s, what);
}

// failing is the result that a call is to have, by FAKE_CUDA_FAIL.
static struct { const char *name; int calls; } counters[64];
static R failing(const char *name) {
	int i = 0;
	while (counters[i].name && strcmp(counters[i].name, name)) i++;
	counters[i].name = name;
	counters[i].calls++;
	const char *s = getenv("FAKE_CUDA_FAIL");
	char call[64];
	int at, code;
	for (; s && *s; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
		if (sscanf(s, "%63[^:]:%d:%d", call, &at, &code) == 3 && !strcmp(call, name) && at == counters[i].calls) return code;
	return OK;
}
#define CALL(name) do { R r_ = failing(name); if (r_) return r_; } while (0)

static void start(void) {
	if (g.started) return;
	g.started = 1;
	g.memory = number("FAKE_CUDA_MEMORY", 1ull << 30);
	g.chunks[0] = (block){BASE, UNIT, 0, 0, 1};
	g.chunks[1] = (block){BASE - 64 * MIB, 64 * MIB, 0, 0, 1};
	g.chunks[2] = (block){BASE - 480 * MIB, 416 * MIB, 0, 0, 1};
	g.n_chunks = 3;
	g.blocks[0] = (block){BASE, 8 * MIB, 0, 0, 1};
	g.blocks[1] = (block){BASE - 64 * MIB, 64 * MIB, 0, 1, 1};
	g.blocks[2] = (block){BASE - 480 * MIB, 414 * MIB, 0, 2, 1};
	g.n_blocks = 3;
}

static int overlaps(block *b, u64 at, u64 size) { return b->live && b->at < at + size && at < b->at + b->size; }

static int any(block *list, int n, u64 at, u64 size) {
	for (int i = 0; i < n; i++)
		if (overlaps(&list[i], at, size)) return i + 1;
	return 0;
}

static int add(block *list, int *n, block b) {
	int i = 0;
	while (i < *n && list[i].live) i++;
	if (i == *n) (*n)++;
	list[i] = b;
	return i;
}

// place finds room for size bytes, whole granules, by the rules.
static u64 place(u64 size, int *in) {
	for (int c = g.n_chunks - 1; c >= 0; c--) {
		if (!g.chunks[c].live) continue;
		u64 best = 0, best_size = ~0ull, at = g.chunks[c].at, end = at + g.chunks[c].size;
		while (at < end) {
			u64 stop = end, next = end;
			for (int i = 0; i < g.n_blocks; i++)
				if (g.blocks[i].live && g.blocks[i].at >= at && g.blocks[i].at < stop) {
					stop = g.blocks[i].at;
					next = stop + g.blocks[i].size;
				}
			if (stop - at >= size && stop - at < best_size) {
				best = at;
				best_size = stop - at;
			}
			at = next;
		}
		if (best) {
			*in = c;
			return best;
		}
	}
	u64 whole = up(size, UNIT), need = whole + UNIT - 4096, end = BASE - 480 * MIB;
	for (;;) { // the highest gap below end
		u64 low = 0;
		int hit = 0;
		for (int c = 0; c < g.n_chunks; c++)
			if (g.chunks[c].live && g.chunks[c].at < end && g.chunks[c].at + g.chunks[c].size > low) {
				low = g.chunks[c].at + g.chunks[c].size;
				hit = c;
			}
		if (low <= end && end - low >= need) break;
		end = g.chunks[hit].at;
	}
	u64 at = up(end - need, UNIT);
	g.chunks[g.n_chunks] = (block){at, whole, 0, 0, 1};
	*in = g.n_chunks++;
	return at;
}

R cuInit(unsigned flags) {
	(void)flags;
	CALL("cuInit");
	return number("FAKE_CUDA_DEVICES", 1) ? OK : NO_DEVICE;
}
R cuDriverGetVersion(int *v) { *v = 13000; return OK; }
R cuGetErrorName(R code, const char **name) {
	switch (code) {
	case INVALID: *name = "CUDA_ERROR_INVALID_VALUE"; return OK;
	case NO_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
	case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return OK;
	case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return OK;
	case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return OK;
	}
	*name = NULL;
	return INVALID;
}
R cuGetErrorString(R code, const char **text) {
	*text = code == NO_MEMORY ? "out of memory" : code == NO_DEVICE ? "no CUDA-capable device is detected" : code == 700 ? "an illegal memory access was encountered" : NULL;
	return *text ? OK : INVALID;
}
R cuDeviceGetCount(int *n) { *n = (int)number("FAKE_CUDA_DEVICES", 1); return OK; }
R cuDeviceGet(int *d, int i) { *d = i; return OK; }
R cuDeviceGetName(char *s, int n, int d) { (void)d; snprintf(s, n, "Imaginary GPU"); return OK; }
R cuDeviceGetUuid_v2(unsigned char *u, int d) { for (int i = 0; i < 16; i++) u[i] = (unsigned char)(i + d); return OK; }
R cuDeviceGetPCIBusId(char *s, int n, int d) { snprintf(s, n, "0000:%02X:00.0", d + 1); return OK; }
R cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = number("FAKE_CUDA_MEMORY", 1ull << 30) + 512 * MIB; return OK; }
R cuDeviceGetAttribute(int *v, int a, int d) {
	(void)d;
	switch (a) {
	case 16: *v = 4; return OK;
	case 75: *v = 9; return OK;
	case 76: case 18: *v = 0; return OK;
	case 102: *v = !lacks("vmm"); return OK;
	case 115: *v = !lacks("pools"); return OK;
	case 119: *v = 1; return OK;
	}
	return INVALID;
}
R cuDevicePrimaryCtxRetain(void **c, int d) {
	(void)d;
	CALL("cuDevicePrimaryCtxRetain");
	start();
	g.contexts++;
	*c = &g;
	return OK;
}

static int living(block *list, int n) {
	int live = 0;
	for (int i = 0; i < n; i++) live += list[i].live;
	return live;
}

R cuDevicePrimaryCtxRelease_v2(int d) {
	(void)d;
	g.contexts--;
	const char *file = getenv("FAKE_CUDA_REPORT");
	FILE *f = file ? fopen(file, "a") : NULL;
	if (f) {
		fprintf(f, "left: %d allocations, %d mappings, %d handles, %d reservations, %d pools, %d streams, %llu bytes; %d faults\n",
			living(g.blocks, g.n_blocks) - 3, living(g.mapped, g.n_mapped), living(g.handles, g.n_handles),
			living(g.reserved, g.n_reserved), g.pools, g.streams, g.used, g.faults);
		fclose(f);
	}
	return OK;
}
R cuCtxSetCurrent(void *c) { (void)c; return OK; }
R cuCtxSynchronize(void) { CALL("cuCtxSynchronize"); return OK; }
R cuMemGetInfo_v2(size_t *available, size_t *total) {
	CALL("cuMemGetInfo");
	*available = g.memory - g.used;
	*total = g.memory + 512 * MIB;
	return OK;
}

static void delay(void) {
	u64 us = number("FAKE_CUDA_DELAY", 0);
	if (us) usleep((useconds_t)us);
}

static R take(u64 n, u64 *addr) {
	int chunk;
	if (n > g.memory - g.used || g.n_chunks == MOST || g.n_blocks == MOST) return NO_MEMORY;
	*addr = place(n, &chunk);
	add(g.blocks, &g.n_blocks, (block){*addr, n, 0, chunk, 1});
	g.used += n;
	return OK;
}

static R give(u64 addr) {
	for (int i = 3; i < g.n_blocks; i++) {
		block *b = &g.blocks[i];
		if (!b->live || b->at != addr) continue;
		b->live = 0;
		g.used -= b->size;
		if (!any(g.blocks, g.n_blocks, g.chunks[b->chunk].at, g.chunks[b->chunk].size)) g.chunks[b->chunk].live = 0;
		return OK;
	}
	g.faults++;
	return INVALID;
}

// Requests of less than 2 MiB share blocks: the smallest hole, of equal ones the oldest. The field handle of
// a hole is its age.
static block smalls[MOST], holes[MOST];
static int n_smalls, n_holes;
static u64 births;

static void hole(u64 at, u64 size) {
	if (size) add(holes, &n_holes, (block){at, size, ++births, 0, 1});
}

R cuMemAlloc_v2(u64 *addr, size_t size) {
	CALL("cuMemAlloc");
	delay();
	if (!size) return INVALID;
	if (size >= 2 * MIB) return take(up(size, 2 * MIB), addr);
	u64 n = up(size, 512), at;
	block *best = NULL;
	for (int pass = 0; pass < 2 && !best; pass++) {
		for (int i = 0; i < n_holes; i++) {
			block *h = &holes[i];
			if (h->live && h->size >= n && (!best || h->size < best->size || (h->size == best->size && h->handle < best->handle))) best = h;
		}
		if (best) break;
		if (take(2 * MIB, &at)) return NO_MEMORY;
		hole(at, 2 * MIB);
	}
	*addr = best->at;
	best->live = 0;
	hole(best->at + n, best->size - n);
	add(smalls, &n_smalls, (block){*addr, n, 0, 0, 1});
	return OK;
}
R cuMemFree_v2(u64 addr) {
	CALL("cuMemFree");
	for (int i = 0; i < n_smalls; i++) {
		if (!smalls[i].live || smalls[i].at != addr) continue;
		u64 from = addr, to = addr + smalls[i].size;
		smalls[i].live = 0;
		for (int j = 0; j < n_holes; j++) {
			block *h = &holes[j];
			if (!h->live || h->at / (2 * MIB) != addr / (2 * MIB)) continue;
			if (h->at + h->size == from) {
				from = h->at;
				h->live = 0;
			} else if (h->at == to) {
				to += h->size;
				h->live = 0;
			}
		}
		if (to - from == 2 * MIB) return give(from);
		hole(from, to - from);
		return OK;
	}
	return give(addr);
}
static int in_pool(u64 addr, u64 size);
R cuMemsetD8Async(u64 addr, unsigned char v, size_t size, void *stream) {
	(void)v, (void)stream;
	CALL("cuMemsetD8Async");
	int ok = any(g.blocks, g.n_blocks, addr, size) || any(g.mapped, g.n_mapped, addr, size) || in_pool(addr, size);
	if (!ok) g.faults++;
	return ok ? OK : 700;
}
R cuStreamCreate(void **s, unsigned flags) { (void)flags; CALL("cuStreamCreate"); g.streams++; *s = (void *)(uintptr_t)(0x100 + g.streams); return OK; }
R cuStreamDestroy_v2(void *s) { (void)s; g.streams--; return OK; }

#ifndef WITHOUT_VMM
R cuMemGetAllocationGranularity(size_t *n, const void *prop, int which) { (void)prop, (void)which; *n = 2 * MIB; return OK; }
R cuMemAddressReserve(u64 *addr, size_t size, size_t alignment, u64 hint, u64 flags) {
	(void)alignment, (void)hint, (void)flags;
	CALL("cuMemAddressReserve");
	u64 at = 0x302000000ull;
	for (int hit; (hit = any(g.reserved, g.n_reserved, at, up(size, UNIT)));) at = g.reserved[hit - 1].at + up(g.reserved[hit - 1].size, UNIT);
	add(g.reserved, &g.n_reserved, (block){at, size, 0, 0, 1});
	*addr = at;
	return OK;
}
R cuMemAddressFree(u64 addr, size_t size) {
	CALL("cuMemAddressFree");
	for (int i = 0; i < g.n_reserved; i++)
		if (g.reserved[i].live && g.reserved[i].at == addr && g.reserved[i].size == size && !any(g.mapped, g.n_mapped, addr, size)) {
			g.reserved[i].live = 0;
			return OK;
		}
	g.faults++;
	return INVALID;
}
R cuMemCreate(u64 *handle, size_t size, const void *prop, u64 flags) {
	(void)prop, (void)flags;
	CALL("cuMemCreate");
	delay();
	if (size % (2 * MIB)) return INVALID;
	if (size > g.memory - g.used) return NO_MEMORY;
	g.used += size;
	*handle = (u64)add(g.handles, &g.n_handles, (block){0, size, 0, 0, 1}) + 1;
	return OK;
}
R cuMemRelease(u64 handle) {
	CALL("cuMemRelease");
	block *h = &g.handles[handle - 1];
	if (!handle || !h->live) { g.faults++; return INVALID; }
	h->live = 0;
	for (int i = 0; i < g.n_mapped; i++)
		if (g.mapped[i].live && g.mapped[i].handle == handle) { g.faults++; return INVALID; }
	g.used -= h->size;
	return OK;
}
R cuMemMap(u64 addr, size_t size, size_t offset, u64 handle, u64 flags) {
	(void)offset, (void)flags;
	CALL("cuMemMap");
	int r = any(g.reserved, g.n_reserved, addr, size);
	if (!handle || !g.handles[handle - 1].live || g.handles[handle - 1].size != size || !r || any(g.mapped, g.n_mapped, addr, size)) { g.faults++; return INVALID; }
	add(g.mapped, &g.n_mapped, (block){addr, size, handle, 0, 1});
	return OK;
}
R cuMemSetAccess(u64 addr, size_t size, const void *desc, size_t count) {
	(void)desc, (void)count;
	CALL("cuMemSetAccess");
	return any(g.mapped, g.n_mapped, addr, size) ? OK : INVALID;
}
R cuMemUnmap(u64 addr, size_t size) {
	CALL("cuMemUnmap");
	for (int i = 0; i < g.n_mapped; i++)
		if (g.mapped[i].live && g.mapped[i].at == addr && g.mapped[i].size == size) {
			g.mapped[i].live = 0;
			return OK;
		}
	g.faults++;
	return INVALID;
}
#endif

// Pools only grow at their top, and a block at the top gives its place back.
static pool_t *pools[16];
static int in_pool(u64 addr, u64 size) {
	for (int k = 0; k < 16; k++)
		for (int i = 0; pools[k] && i < pools[k]->n; i++)
			if (pools[k]->b[i].live && pools[k]->b[i].at == addr && size <= pools[k]->b[i].size) return 1;
	return 0;
}
#ifndef WITHOUT_POOLS
typedef struct { int type, handles, location, id; void *windows; size_t most; } props;
R cuMemPoolCreate(pool_t **out, const props *p) {
	CALL("cuMemPoolCreate");
	pool_t *q = calloc(1, sizeof *q);
	q->base = 0x600000000000ull + ((u64)g.pools << 40);
	q->most = p->most ? up(p->most, UNIT) : ~0ull;
	q->open = 1;
	pools[g.pools++ % 16] = q;
	*out = q;
	return OK;
}
static void hold(pool_t *p, u64 held) {
	g.used = g.used - p->held + held;
	p->held = held;
}
R cuMemPoolDestroy(pool_t *p) {
	for (int i = 0; i < p->n; i++) g.faults += p->b[i].live;
	hold(p, 0);
	for (int k = 0; k < 16; k++)
		if (pools[k] == p) pools[k] = NULL;
	free(p);
	g.pools--;
	return OK;
}
R cuMemPoolSetAttribute(pool_t *p, int a, void *v) { (void)p, (void)a, (void)v; CALL("cuMemPoolSetAttribute"); return OK; }
R cuMemPoolGetAttribute(pool_t *p, int a, void *v) { *(u64 *)v = a == 5 ? p->held : p->used; return OK; }
R cuMemPoolTrimTo(pool_t *p, size_t keep) {
	CALL("cuMemPoolTrimTo");
	u64 least = up(p->top, UNIT);
	if (p->held > least) hold(p, least > keep ? least : up(keep, UNIT));
	return OK;
}
R cuMemAllocFromPoolAsync(u64 *addr, size_t size, pool_t *p, void *stream) {
	(void)stream;
	CALL("cuMemAllocFromPoolAsync");
	delay();
	u64 n = up(size, 512), need = up(p->top + n, UNIT);
	if (need > p->most || (need > p->held && need - p->held > g.memory - g.used) || p->n == MOST) return NO_MEMORY;
	if (need > p->held) hold(p, need);
	p->b[p->n].at = p->base + p->top;
	p->b[p->n].size = n;
	p->b[p->n].want = size;
	p->b[p->n++].live = 1;
	*addr = p->base + p->top;
	p->top += n;
	p->used += size;
	return OK;
}
R cuMemFreeAsync(u64 addr, void *stream) {
	(void)stream;
	CALL("cuMemFreeAsync");
	for (int k = 0; k < 16; k++) {
		pool_t *p = pools[k];
		for (int i = 0; p && i < p->n; i++)
			if (p->b[i].live && p->b[i].at == addr) {
				p->b[i].live = 0;
				p->used -= p->b[i].want;
				while (p->n && !p->b[p->n - 1].live) p->top -= p->b[--p->n].size;
				return OK;
			}
	}
	g.faults++;
	return INVALID;
}
#endif
