package nsys

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/cupti"
	"github.com/vramscope/vramscope/trace/tables"
)

// usage reads the allocations and frees.
func (r *reader) usage() error {
	columns := []string{"start", "globalPid", "deviceId", "address", "bytes", "memKind", "memoryOperationType", "correlationId",
		"streamId", "localMemoryPoolAddress", "localMemoryPoolSize", "importedMemoryPoolAddress", "name"}
	var u cupti.Usage
	return r.set.Scan(tableUsage, columns, func(row tables.Row) error {
		r.n.events++
		u = cupti.Usage{
			Time: row.Int(0), Process: cupti.ProcessOf(uint64(row.Int(1))), Device: row.Int(2), Addr: uint64(row.Int(3)), Size: row.Int(4),
			Kind: cupti.FromNsight(row.Int(5)), Free: row.Int(6) == 1, Stream: uint64(row.Int(8)),
			Pool: uint64(row.Int(9)), PoolSize: -1,
		}
		if r.joins {
			u.Call = uint32(row.Int(7))
		}
		switch {
		case u.Pool != 0:
			if !row.Null(10) {
				u.PoolSize = row.Int(10)
			}
		case row.Int(11) != 0:
			u.Pool, u.Imported = uint64(row.Int(11)), true
		}
		if u.Kind == cupti.DeviceStatic || u.Kind == cupti.ManagedStatic {
			u.Symbol = row.Bytes(12)
		}
		return r.rec.Add(&u)
	})
}

// pools reads what happened to stream-ordered pools.
func (r *reader) pools() error {
	var all []cupti.PoolState
	err := r.set.Scan(tablePools, []string{"start", "globalPid", "deviceId", "address", "operationType", "poolType", "localMemoryPoolSize"}, func(row tables.Row) error {
		if row.Int(5) == poolImported || row.Null(6) {
			return nil
		}
		p := cupti.PoolState{Time: row.Int(0), Process: cupti.ProcessOf(uint64(row.Int(1))), Device: row.Int(2), Addr: uint64(row.Int(3)), Size: row.Int(6)}
		if row.Int(4) == poolDestroyed {
			p.Size = 0
		}
		all = append(all, p)
		return nil
	})
	slices.SortStableFunc(all, func(a, b cupti.PoolState) int { return cmp.Compare(a.Time, b.Time) })
	for _, p := range all {
		r.rec.AddPool(p)
	}
	return err
}

// What the tables call an operation on a pool, and a pool that another process owns.
const (
	poolDestroyed = 2
	poolImported  = 2
)

// ranges reads what the program named with NVTX.
func (r *reader) ranges() error {
	return r.set.Scan(tableRanges, []string{"eventType", "start", "end", "globalTid", "textId", "text"}, func(row tables.Row) error {
		kind, ok := rangeKind(row.Int(0))
		if !ok || row.Null(1) {
			return nil
		}
		var name cupti.Name
		switch {
		case !row.Null(5):
			name = r.rec.RangeName(row.Bytes(5))
		case !row.Null(4):
			name = r.rec.RangeRef(uint64(row.Int(4)))
		default:
			name = r.rec.RangeName(nil)
		}
		r.rec.AddRange(kind, uint64(row.Int(3)), row.Int(1), row.Int(2), !row.Null(2), name)
		return nil
	})
}

// rangeKind says what an event type of NVTX is; ok is false for those that are no ranges.
func rangeKind(eventType int64) (k cupti.RangeKind, ok bool) {
	switch eventType {
	case 34, 65:
		return cupti.Mark, true
	case 59, 70:
		return cupti.PushPop, true
	case 60, 71:
		return cupti.StartEnd, true
	}
	return 0, false
}

// calls reads the calls of the API: who made the allocations, and what was refused.
func (r *reader) calls() error {
	chained := r.set.Has(tableChains)
	join := r.rec.Join(r.joins)
	w := words{}
	columns := []string{"returnValue", "correlationId", "globalTid", "start", "nameId", "callchainId"}
	err := r.set.Scan(tableCalls, columns, func(row tables.Row) error {
		r.n.calls++
		refused := row.Int(0) == cupti.OutOfMemory
		if !refused && !r.joins {
			return nil
		}
		c := cupti.Call{Result: row.Int(0), Number: uint32(row.Int(1)), Thread: uint64(row.Int(2)), NameID: uint64(row.Int(4))}
		c.Process = cupti.ProcessOf(c.Thread)
		if refused {
			r.n.failed++
			c.Start = row.Int(3)
			w.want(c.NameID)
		}
		if chained {
			c.Chain = uint64(row.Int(5))
		}
		join.Add(&c)
		return nil
	})
	if err != nil {
		return err
	}
	links, err := r.chains(join, w)
	if err != nil {
		return err
	}
	if err := r.words(w); err != nil {
		return err
	}
	join.End(r.stacks(links, w), w)
	return nil
}

// words are those strings of the file that are asked for, by number. All others stay unread.
type words map[uint64]string

func (w words) want(id uint64) {
	if _, ok := w[id]; !ok {
		w[id] = ""
	}
}

func (r *reader) words(w words) error {
	if len(w) == 0 && !r.rec.HasRangeRefs() {
		return nil
	}
	return r.set.Scan(tableStrings, []string{"id", "value"}, func(row tables.Row) error {
		id := uint64(row.Int(0))
		if _, ok := w[id]; ok {
			w[id] = cupti.Clean(row.Text(1))
		}
		r.rec.SetName(id, row.Bytes(1))
		return nil
	})
}

// link is a frame of a chain of callers: numbers of strings.
type link struct {
	depth          int64
	symbol, module uint64
}

// chains reads those chains of callers that allocated.
func (r *reader) chains(join *cupti.Joiner, w words) (map[uint64][]link, error) {
	chains := map[uint64][]link{}
	if !join.NeedsChains() {
		return chains, nil
	}
	err := r.set.Scan(tableChains, []string{"id", "symbol", "module", "stackDepth"}, func(row tables.Row) error {
		id := uint64(row.Int(0))
		if !join.NeedsChain(id) || len(chains[id]) == mostFrames {
			return nil
		}
		l := link{row.Int(3), uint64(row.Int(1)), uint64(row.Int(2))}
		chains[id] = append(chains[id], l)
		w.want(l.symbol)
		w.want(l.module)
		return nil
	})
	return chains, err
}

// mostFrames is how many frames of a chain are read.
const mostFrames = 256

// stacks makes stacks of chains, the innermost frame first. Of a module its file's name is enough: where it
// lies is nobody's business.
func (r *reader) stacks(chains map[uint64][]link, w words) map[uint64]trace.StackID {
	out := make(map[uint64]trace.StackID, len(chains))
	for id, links := range chains {
		slices.SortStableFunc(links, func(a, b link) int { return cmp.Compare(a.depth, b.depth) })
		frames := make([]trace.FrameID, len(links))
		for i, l := range links {
			frames[i] = r.rec.Stacks.AddFrame(trace.Frame{File: baseName(w[l.module]), Func: w[l.symbol]})
		}
		out[id] = r.rec.Stacks.AddStack(frames)
	}
	return out
}

// baseName is the last part of a path, of whatever system.
func baseName(p string) string {
	if p == "" {
		return ""
	}
	return path.Base(strings.ReplaceAll(p, `\`, "/"))
}
