//go:build linux && cgo

package cuda

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// The layouts of Op and vs_op are the same: a difference would be negative and not compile.
const (
	_ = uint(unsafe.Sizeof(Op{}) - C.sizeof_vs_op)
	_ = uint(C.sizeof_vs_op - unsafe.Sizeof(Op{}))
	_ = uint(unsafe.Offsetof(Op{}.Available) - unsafe.Offsetof(C.vs_op{}.available))
	_ = uint(unsafe.Offsetof(C.vs_op{}.available) - unsafe.Offsetof(Op{}.Available))
)

// Library is the driver's library, opened.
type Library struct {
	c    *C.vs_library
	path string
}

// device is the C side of a Device.
type device = *C.vs_device

// load opens the library of a path.
func load(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message [512]C.char
	c := C.vs_load(name, &message[0], C.int(len(message)))
	if c == nil {
		return nil, &Missing{fmt.Sprintf("NVIDIA's driver is not here (%s); on a machine with a GPU, install it or name its libcuda.so.1 in %s",
			C.GoString(&message[0]), PathVariable)}
	}
	l := &Library{c, path}
	if lacks := C.vs_lacks(c, 0); lacks != nil {
		err := &Missing{fmt.Sprintf("%s is no CUDA driver that can be used: it has no %s", path, C.GoString(lacks))}
		l.Close()
		return nil, err
	}
	if code := C.vs_init(c); code != 0 {
		err := l.error("cuInit", int32(code))
		l.Close()
		return nil, &Missing{fmt.Sprintf("the CUDA driver is here, but finds no GPU: %v; see what nvidia-smi says", err)}
	}
	return l, nil
}

// Close gives the library back. No device may be open.
func (l *Library) Close() {
	if l.c != nil {
		C.vs_unload(l.c)
		l.c = nil
	}
}

// lacks says which function of a feature the library does not have, "" if it has them all.
func (l *Library) lacks(feature int) string {
	if s := C.vs_lacks(l.c, C.int(feature)); s != nil {
		return C.GoString(s)
	}
	return ""
}

// error is the error of a call, nil for success.
func (l *Library) error(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: code, Name: fmt.Sprintf("error %d", code)}
	if s := C.vs_error_name(l.c, C.int(code)); s != nil {
		e.Name = C.GoString(s)
	}
	if s := C.vs_error_text(l.c, C.int(code)); s != nil {
		e.Text = C.GoString(s)
	}
	return e
}

// Version is the newest CUDA that the driver knows, 13000 for 13.0.
func (l *Library) Version() (int, error) {
	var v C.int
	err := l.error("cuDriverGetVersion", int32(C.vs_version(l.c, &v)))
	return int(v), err
}

func (l *Library) count() (int, error) {
	var n C.int
	err := l.error("cuDeviceGetCount", int32(C.vs_count(l.c, &n)))
	return int(n), err
}

func (l *Library) inform(index int) (Info, error) {
	var c C.vs_info
	if err := l.error("cuDeviceGet", int32(C.vs_inform(l.c, C.int(index), &c))); err != nil {
		return Info{}, err
	}
	u := *(*[16]byte)(unsafe.Pointer(&c.uuid))
	return Info{
		Index: index, Name: C.GoString(&c.name[0]), Bus: strings.ToLower(C.GoString(&c.bus[0])),
		UUID:  fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16]),
		Major: int(c.major), Minor: int(c.minor), Processors: int(c.processors), Total: int64(c.total), Integrated: c.integrated != 0,
		VirtualMemory: c.virtual_memory != 0, Granularity: int64(c.granularity), Recommended: int64(c.recommended),
		Pools: c.pools != 0, PoolHandles: int(c.pool_handles),
	}, nil
}

func (l *Library) open(index int) (device, error) {
	var d device
	var call *C.char
	code := C.vs_open(l.c, C.int(index), &d, &call)
	return d, l.error(C.GoString(call), int32(code))
}

func (l *Library) close(d device) error {
	var call *C.char
	code := C.vs_close(d, &call)
	return l.error(C.GoString(call), int32(code))
}

func (l *Library) streamCreate(d device) (uint64, error) {
	var s C.uint64_t
	code := C.vs_stream_create(d, &s)
	return uint64(s), l.error("cuStreamCreate", int32(code))
}

func (l *Library) streamDestroy(d device, s uint64) error {
	return l.error("cuStreamDestroy", int32(C.vs_stream_destroy(d, C.uint64_t(s))))
}

func (l *Library) poolCreate(d device, most int64) (uint64, error) {
	var p C.uint64_t
	var call *C.char
	code := C.vs_pool_create(d, C.int64_t(most), &p, &call)
	return uint64(p), l.error(C.GoString(call), int32(code))
}

func (l *Library) poolDestroy(d device, p uint64) error {
	return l.error("cuMemPoolDestroy", int32(C.vs_pool_destroy(d, C.uint64_t(p))))
}

// run makes calls and says how many of them it came past.
func (l *Library) run(d device, ops []Op, slots, streams []uint64) int {
	return int(C.vs_run(d, (*C.vs_op)(unsafe.Pointer(unsafe.SliceData(ops))), C.int64_t(len(ops)),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(slots))), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(streams)))))
}
