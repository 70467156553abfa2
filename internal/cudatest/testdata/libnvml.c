// NVIDIA's management library without a GPU, for tests: two devices, a process on the first, and memory that grows with
// each reading.
//
//	FAKE_NVML_INIT  the result of nvmlInit
//	FAKE_NVML_FAIL  number of a reading of memory that fails

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int R;
enum { OK = 0, NOT_SUPPORTED = 3, LOST = 15 };
typedef struct { unsigned version; unsigned long long total, reserved, available, used; } memory_v2;
typedef struct { unsigned long long total, available, used; } memory_v1;
typedef struct { unsigned pid; unsigned long long used; unsigned a, b; } process;

static int readings;
static int number(const char *name) { const char *s = getenv(name); return s ? atoi(s) : 0; }

R nvmlInit_v2(void) { return number("FAKE_NVML_INIT"); }
R nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(R r) { return r == LOST ? "GPU is lost" : r == 9 ? "Driver Not Loaded" : "Not Supported"; }
R nvmlSystemGetDriverVersion(char *s, unsigned n) { snprintf(s, n, "999.1"); return OK; }
R nvmlSystemGetProcessName(unsigned pid, char *s, unsigned n) { (void)pid; snprintf(s, n, "/usr/bin/python3, odd"); return OK; }
R nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return OK; }
R nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(size_t)(i + 1); return OK; }
R nvmlDeviceGetUUID(void *d, char *s, unsigned n) { snprintf(s, n, "GPU-%d", (int)(size_t)d); return OK; }
R nvmlDeviceGetName(void *d, char *s, unsigned n) { (void)d; snprintf(s, n, "Imaginary GPU"); return OK; }
R nvmlDeviceGetUtilizationRates(void *d, unsigned *u) { (void)d; u[0] = 7; u[1] = 1; return OK; }
R nvmlDeviceGetMemoryInfo(void *d, memory_v1 *m) { (void)d, (void)m; return NOT_SUPPORTED; }
R nvmlDeviceGetMemoryInfo_v2(void *d, memory_v2 *m) {
	(void)d;
	readings++;
	if (readings == number("FAKE_NVML_FAIL")) return LOST;
	m->total = 8ull << 30;
	m->reserved = 100 << 20;
	m->used = (unsigned long long)readings << 20;
	m->available = m->total - m->reserved - m->used;
	return OK;
}
R nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *p) {
	if ((size_t)d != 1) { *n = 0; return OK; }
	*n = 1;
	p[0].pid = 4242;
	p[0].used = (unsigned long long)readings << 19;
	return OK;
}
R nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, process *p) { return nvmlDeviceGetComputeRunningProcesses_v3(d, n, p); }
