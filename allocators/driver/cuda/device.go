package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
)

// PathVariable names the library if it is not to be looked for.
const PathVariable = "VRAMSCOPE_LIBCUDA"

// defaultPath is found by the system's loader.
const defaultPath = "libcuda.so.1"

// Features that a driver can lack.
const (
	needsVirtualMemory = 1
	needsPools         = 2
)

// Load opens the driver's library, the one of VRAMSCOPE_LIBCUDA if that is set. A *Missing says why it
// cannot be used.
func Load() (*Library, error) {
	path := os.Getenv(PathVariable)
	if path == "" {
		path = defaultPath
	}
	return load(path)
}

// Devices lists the GPUs.
func (l *Library) Devices() ([]Info, error) {
	n, err := l.count()
	if err != nil {
		return nil, err
	}
	var out []Info
	for i := range n {
		info, err := l.inform(i)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		out = append(out, info)
	}
	return out, nil
}

// Device is a GPU with a context. The goroutine that opened it uses it and closes it, on one thread of the
// system.
type Device struct {
	Info
	lib     *Library
	c       device
	open    bool
	streams []uint64 // the driver's, by our numbers; 0 is the default stream
	pools   []uint64
	slots   []uint64
	timings *Timings
}

// Open makes a context on a device.
func (l *Library) Open(index int) (*Device, error) {
	n, err := l.count()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= n {
		return nil, &Missing{fmt.Sprintf("there is no device %d here: the driver has %d, numbered from 0", index, n)}
	}
	info, err := l.inform(index)
	if err != nil {
		return nil, err
	}
	startThreads()
	runtime.LockOSThread()
	c, err := l.open(index)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return &Device{Info: info, lib: l, c: c, open: true, streams: []uint64{0}, timings: &Timings{}}, nil
}

// startThreads makes Go have as many threads as it will want, so that their stacks are not put where the driver
// looks for room for its next chunk later on.
func startThreads() {
	n := 2*runtime.GOMAXPROCS(0) + 4
	var there, done sync.WaitGroup
	there.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			there.Done()
			there.Wait() // on a thread of its own, as all of them
			runtime.UnlockOSThread()
		})
	}
	done.Wait()
}

// Empty destroys streams and pools, and with them whatever is left in them.
func (d *Device) Empty() error {
	var errs []error
	if len(d.pools)+len(d.streams) > 1 {
		errs = append(errs, d.Sync())
	}
	for _, p := range d.pools {
		errs = append(errs, d.lib.poolDestroy(d.c, p))
	}
	for _, s := range d.streams[1:] {
		errs = append(errs, d.lib.streamDestroy(d.c, s))
	}
	d.pools, d.streams = nil, d.streams[:1]
	return errors.Join(errs...)
}

// Close empties the device and lets the context go.
func (d *Device) Close() error {
	if !d.open {
		return nil
	}
	err := d.Empty()
	d.open = false
	err = errors.Join(err, d.lib.close(d.c))
	runtime.UnlockOSThread()
	return err
}

// NeedVirtualMemory says what is missing for reservations and mappings, nil if nothing is.
func (d *Device) NeedVirtualMemory() error {
	switch s := d.lib.lacks(needsVirtualMemory); {
	case s != "":
		return &Missing{fmt.Sprintf("virtual memory needs a newer driver: this one has no %s (CUDA 10.2 and later have it)", s)}
	case !d.VirtualMemory:
		return &Missing{fmt.Sprintf("%s has no virtual memory management", d.Name)}
	}
	return nil
}

// NeedPools says what is missing for stream-ordered pools, nil if nothing is.
func (d *Device) NeedPools() error {
	switch s := d.lib.lacks(needsPools); {
	case s != "":
		return &Missing{fmt.Sprintf("stream-ordered pools need a newer driver: this one has no %s (CUDA 11.2 and later have it)", s)}
	case !d.Pools:
		return &Missing{fmt.Sprintf("%s has no stream-ordered pools", d.Name)}
	}
	return nil
}

// Slots makes the slots up to a number usable. Their contents stay.
func (d *Device) Slots(n int) {
	if n > len(d.slots) {
		d.slots = slices.Grow(d.slots, n-len(d.slots))[:n]
	}
}

// ClearSlots forgets what is in the slots.
func (d *Device) ClearSlots() { clear(d.slots) }

// Run makes calls in order, in one crossing to C, and returns how many it came past: all of them, unless
// one failed that says Stop, which is then the last. Slots that they name must be usable.
func (d *Device) Run(ops []Op) (int, error) {
	if !d.open {
		return 0, errors.New("the device is closed")
	}
	if len(ops) == 0 {
		return 0, nil
	}
	for i := range ops {
		if op := &ops[i]; op.Flags&InSlot != 0 && int(op.Slot) >= len(d.slots) || int(op.Stream) >= len(d.streams) {
			return 0, fmt.Errorf("call %d (%v): there is no slot %d or no stream %d", i, op.Kind, op.Slot, op.Stream)
		}
	}
	n := d.lib.run(d.c, ops, d.slots, d.streams)
	for i := range ops[n:] {
		ops[n+i].Result = NotMade
	}
	d.timings.add(ops[:n])
	return n, nil
}

// Err is the error of a call, nil if it succeeded or was not made.
func (d *Device) Err(op *Op) error {
	if op.Result <= 0 {
		return nil
	}
	return d.lib.error(op.Kind.String(), op.Result)
}

// one makes a single call.
func (d *Device) one(op *Op) error {
	ops := [1]Op{*op}
	_, err := d.Run(ops[:])
	*op = ops[0]
	if err != nil {
		return err
	}
	return d.Err(op)
}

// Memory is how many bytes are free on the device and how many it has, by its own account: other processes
// count.
func (d *Device) Memory() (free, total int64, err error) {
	op := Op{Kind: Memory}
	err = d.one(&op)
	return op.Available, op.Held, err
}

// Sync waits for the device.
func (d *Device) Sync() error { return d.one(&Op{Kind: Sync}) }

// Stream makes a stream that does not wait for the default one, and returns its number.
func (d *Device) Stream() (uint16, error) {
	if len(d.streams) > 1<<16-1 {
		return 0, fmt.Errorf("more than %d streams", 1<<16-1)
	}
	s, err := d.lib.streamCreate(d.c)
	if err != nil {
		return 0, err
	}
	d.streams = append(d.streams, s)
	return uint16(len(d.streams) - 1), nil
}

// Pool makes a pool that keeps what it got until it is trimmed, as PyTorch sets up its own, and returns the
// handle that PoolAlloc and PoolTrim want. It holds at most so many bytes, 0 for no limit.
func (d *Device) Pool(most int64) (uint64, error) {
	if err := d.NeedPools(); err != nil {
		return 0, err
	}
	p, err := d.lib.poolCreate(d.c, most)
	if err != nil {
		return 0, err
	}
	d.pools = append(d.pools, p)
	return p, nil
}

// TakeTimings is how long the calls took since it was called last.
func (d *Device) TakeTimings() *Timings {
	t := d.timings
	d.timings = &Timings{}
	return t
}
