// Package cupti puts together what NVIDIA's profilers tell of a program's memory: allocations and frees by
// process, device and kind of memory, the state of stream-ordered pools, calls of the CUDA API that failed,
// and named ranges. The readers of Nsight Systems and nvprof feed it; both get their events from the same
// library of the driver, CUPTI.
//
//	rows ─▶ lanes, one for each process, device and class of memory: events in the order of time
//	     ─▶ origins: which call, of which thread, was behind each allocation
//	     ─▶ Finish: calls and ranges become stacks, failures become events, lanes are paired and put
//	        together by device
//
// An allocation of device memory is an event of its device. Host memory, pinned or managed, is none of any
// device's: it goes to Trace.Beside, so that no total of a device counts it. So do the static variables of
// modules, which are on a device but which nobody allocates, and nobody can free.
package cupti

import (
	"fmt"

	"github.com/vramscope/vramscope/trace"
)

// Kind is what kind of memory an event is about. Nsight Systems numbers kinds in this order; CUPTI and nvprof
// number them one higher, and begin with the unknown kind.
type Kind uint8

// The kinds.
const (
	Pageable Kind = iota
	Pinned
	OnDevice
	Array
	Managed
	DeviceStatic
	ManagedStatic
	UnknownKind
)

// FromCUPTI is the kind that CUPTI and nvprof give a number.
func FromCUPTI(n int64) Kind {
	if n < 1 || n > int64(UnknownKind) {
		return UnknownKind
	}
	return Kind(n - 1)
}

// FromNsight is the kind that Nsight Systems gives a number.
func FromNsight(n int64) Kind {
	if n < 0 || n > int64(UnknownKind) {
		return UnknownKind
	}
	return Kind(n)
}

// class is what kinds of memory have in common that are counted together.
type class uint8

const (
	deviceClass class = iota
	staticClass       // on a device as well, but it comes and goes with a module, not by being allocated and freed
	pinnedClass
	managedClass
	pageableClass
	importedClass // of a pool that another process owns, which has it counted
	unknownClass
	numClasses
)

var classNames = [numClasses]string{
	"device memory", "static variables of modules", "pinned host memory", "managed memory", "pageable host memory", "memory imported from another process", "memory of unknown kind",
}

func (k Kind) class() class {
	switch k {
	case OnDevice, Array:
		return deviceClass
	case DeviceStatic:
		return staticClass
	case Pinned:
		return pinnedClass
	case Managed, ManagedStatic:
		return managedClass
	case Pageable:
		return pageableClass
	}
	return unknownClass
}

// Usage is an allocation or a free.
type Usage struct {
	Time    int64
	Process uint64 // any number that the process has alone
	Device  int64  // the ordinal that the process uses
	Addr    uint64
	Size    int64
	Kind    Kind
	Free    bool
	Stream  uint64 // 0 for none
	Call    uint32 // number of the API call that did it, 0 if not known
	Thread  uint64 // that called, if that is known already, 0 if not
	Chain   uint64 // of calls, 0 if not known
	Symbol  []byte // name of a static variable
	PC      uint64 // address of the code that allocated, 0 if not known

	Pool     uint64 // address of the stream-ordered pool, 0 for none
	PoolSize int64  // bytes that it has of the device, negative if not told
	Imported bool   // from a pool of another process
}

// PoolState is what happened to a stream-ordered pool.
type PoolState struct {
	Time    int64
	Process uint64
	Device  int64
	Addr    uint64
	Size    int64 // bytes that it has of the device
}

// Recording collects the rows of a file.
type Recording struct {
	Stacks   *trace.Stacks
	Epoch    int64 // what is to be added to all times
	GPUs     []GPU
	Mappings []Mapping

	lanes  map[laneKey]*lane
	order  []*lane // as they came
	recent *lane   // of the last event
	queue  []PoolState
	ranges ranges
	codes  map[uint64]trace.StackID // by address of the code
	failed []Failure
	seen   map[[2]uint64]bool // calls that failed, by process and number

	badTimes, badSizes, manyPools, unplaced int
	other                                   map[string]int // calls that failed and are no allocations
}

// GPU is a device of the machine.
type GPU struct {
	ID       int64
	Name     string
	UUID     string
	Memory   int64 // bytes
	CUDevice int64 // ordinal, -1 if not told
}

// Mapping says which GPU a process meant by an ordinal.
type Mapping struct{ GPU, Ordinal, PID int64 }

// New is a recording without rows.
func New() *Recording {
	return &Recording{Stacks: trace.NewStacks(), lanes: map[laneKey]*lane{}, seen: map[[2]uint64]bool{}, other: map[string]int{}}
}

// PIDOf is the process id in a globalPid or globalTid of Nsight Systems.
func PIDOf(global uint64) int64 { return int64(global >> 24 & 0xffffff) }

// ProcessOf is the globalPid in a globalTid of Nsight Systems.
func ProcessOf(global uint64) uint64 { return global &^ 0xffffff }

// laneKey is what events must have in common for their addresses to be of one space and their sizes to be
// counted together.
type laneKey struct {
	process uint64
	device  int64
	class   class
}

// maxLanes is more processes and devices than one machine's profile has.
const maxLanes = 512

// lane is the events of one process on one device, of one class.
type lane struct {
	laneKey
	trace.Device
	last     int64
	unsorted bool
	streams  trace.StreamSet
	pools    map[trace.Pool]trace.PoolID
	held     []int64 // bytes of the pools, by PoolID
	origins  []origin
	threads  map[uint32]bool // that allocated here
}

// origin says which call made an allocation.
type origin struct {
	event  uint32
	call   uint32 // 0 once the thread is known
	thread uint32 // number of the thread in ranges, 0 for unknown
	chain  uint32 // stack, NoStack for none
}

func (r *Recording) lane(k laneKey) (*lane, error) {
	if r.recent != nil && r.recent.laneKey == k {
		return r.recent, nil
	}
	if l := r.lanes[k]; l != nil {
		r.recent = l
		return l, nil
	}
	if len(r.order) == maxLanes {
		return nil, trace.Corrupt(-1, "memory events of more than %d processes, devices and kinds: no profile has so many; export it again", maxLanes)
	}
	l := &lane{laneKey: k, pools: map[trace.Pool]trace.PoolID{}, threads: map[uint32]bool{}}
	l.Content = trace.Requests
	l.Index = int(k.device)
	l.pool(trace.Pool{}, trace.PoolInfo{Name: classNames[k.class], Direct: k.class == deviceClass})
	r.lanes[k] = l
	r.order = append(r.order, l)
	return l, nil
}

// Add takes an allocation or a free. Rows should come in the order of time.
func (r *Recording) Add(u *Usage) error {
	r.drain(u.Time)
	if u.Size < 0 || u.Free && u.Addr == 0 {
		r.badSizes++
		return nil
	}
	key := laneKey{u.Process, u.Device, u.Kind.class()}
	if u.Imported {
		key.class = importedClass
	}
	l, err := r.lane(key)
	if err != nil {
		return err
	}
	pool := trace.PoolDefault
	switch {
	case u.Pool != 0 && !u.Imported:
		pool = l.pool(trace.Pool{0, u.Pool}, trace.PoolInfo{Name: fmt.Sprintf("pool %#x", u.Pool)})
		if u.PoolSize >= 0 && key.class == deviceClass {
			r.grow(l, pool, u.Time, u.PoolSize)
		}
	case u.Kind == Array:
		pool = l.pool(poolOfArrays, trace.PoolInfo{Name: "arrays", Direct: true})
	case u.Kind == ManagedStatic:
		pool = l.pool(poolOfStatics, trace.PoolInfo{Name: "static variables"})
	}
	if pool == trace.PoolUnknown {
		r.manyPools++
	}
	e := trace.Event{Time: r.at(l, u.Time), Addr: u.Addr, Size: u.Size, Block: trace.NoBlock, Stream: l.streams.ID(u.Stream), Pool: pool, Op: trace.OpFree}
	if !u.Free {
		e.Op = trace.OpAlloc
		switch {
		case len(u.Symbol) > 0:
			e.Stack = r.symbol(u.Symbol)
		case u.PC != 0:
			e.Stack = r.code(u.PC)
		case u.Thread != 0 || u.Call != 0:
			o := origin{event: uint32(l.Events.Len()), call: u.Call, chain: uint32(trace.NoStack)}
			if u.Thread != 0 {
				o.call, o.thread = 0, r.ranges.thread(u.Thread)
				l.threads[o.thread] = true
			}
			l.origins = append(l.origins, o)
		}
	}
	l.Events.Append(e)
	return nil
}

// Pools that are no pools of the driver's have addresses that no memory has.
var (
	poolOfStatics = trace.Pool{0, 1}
	poolOfArrays  = trace.Pool{0, 2}
)

// AddPool takes the state of a pool. They may come before the usage that they belong between, in the order
// of time.
func (r *Recording) AddPool(p PoolState) { r.queue = append(r.queue, p) }

// drain applies the states of pools up to a time.
func (r *Recording) drain(until int64) {
	n := 0
	for ; n < len(r.queue) && r.queue[n].Time <= until; n++ {
		p := &r.queue[n]
		l, err := r.lane(laneKey{p.Process, p.Device, deviceClass})
		if err != nil || p.Addr == 0 {
			continue
		}
		pool := l.pool(trace.Pool{0, p.Addr}, trace.PoolInfo{Name: fmt.Sprintf("pool %#x", p.Addr)})
		r.grow(l, pool, p.Time, p.Size)
	}
	if n > 0 {
		r.queue = r.queue[n:]
	}
}

// grow notes that a pool has another size than before: at its end, as far as anybody can tell.
func (r *Recording) grow(l *lane, pool trace.PoolID, at, size int64) {
	if pool == trace.PoolUnknown || size < 0 || size > trace.MaxSize {
		return
	}
	have := l.held[pool]
	if size == have {
		return
	}
	addr := l.Pools[pool][1]
	e := trace.Event{Time: r.at(l, at), Addr: addr + uint64(have), Size: size - have, Block: trace.NoBlock, Pool: pool, Op: trace.OpSegmentMap, Stream: l.streams.ID(0)}
	if size < have {
		e.Op, e.Addr, e.Size = trace.OpSegmentUnmap, addr+uint64(size), have-size
	}
	l.held[pool] = size
	l.Events.Append(e)
}

// at makes a time of a row's, and notes whether rows are in order.
func (r *Recording) at(l *lane, t int64) trace.Time {
	if t < l.last {
		l.unsorted = true
	}
	l.last = t
	return r.time(t)
}

// farthest is a time that no recording has: 146 years. It can be added to an epoch of as much.
const farthest = int64(1) << 62

func (r *Recording) time(t int64) trace.Time {
	if t < -farthest || t > farthest {
		r.badTimes++
		return 0
	}
	return trace.Time(r.Epoch + t)
}

func (l *lane) pool(p trace.Pool, info trace.PoolInfo) trace.PoolID {
	id, ok := l.pools[p]
	if !ok {
		if len(l.Pools) >= int(trace.PoolUnknown) {
			return trace.PoolUnknown
		}
		id = trace.PoolID(len(l.Pools))
		l.pools[p] = id
		l.Pools = append(l.Pools, p)
		l.PoolInfo = append(l.PoolInfo, info)
		l.held = append(l.held, 0)
	}
	return id
}

// symbol is the stack of a static variable: its own name.
func (r *Recording) symbol(name []byte) trace.StackID {
	return r.Stacks.AddStack([]trace.FrameID{r.Stacks.AddFrame(trace.Frame{File: "static variable", Func: clean(string(name))})})
}

// code is the stack of an allocation of which only the address of the code is known.
func (r *Recording) code(pc uint64) trace.StackID {
	id, ok := r.codes[pc]
	if !ok {
		if r.codes == nil {
			r.codes = map[uint64]trace.StackID{}
		}
		id = r.Stacks.AddStack([]trace.FrameID{r.Stacks.AddFrame(trace.Frame{Func: fmt.Sprintf("code at %#x", pc)})})
		r.codes[pc] = id
	}
	return id
}
