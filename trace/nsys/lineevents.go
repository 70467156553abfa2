package nsys

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramscope/vramscope/trace/cupti"
)

// The events of JSON lines: what is in their objects.

// fields gives the members of an object to a function, names and values as they are written.
func (r *lineReader) fields(object []byte, each func(name, value []byte)) error {
	r.src.Reset(object)
	r.dec.Reset(&r.src, jsonOptions...)
	return eachField(r.dec, each)
}

func eachField(dec *jsontext.Decoder, each func(name, value []byte)) error {
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return errors.Join(err, errNotObject)
	}
	var key [64]byte
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		n := copy(key[:], bytes.Trim(name, `"`))
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		each(key[:n], value)
	}
	_, err := dec.ReadToken()
	return err
}

var errNotObject = errors.New("no object")

// integer is the value of a number, or of a string of digits.
func integer(value []byte) int64 {
	s := string(bytes.Trim(value, `"`))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	n, _ := strconv.ParseUint(s, 10, 64) // 0 where it is neither
	return int64(n)
}

// text is the value of a string.
func text(value []byte) []byte {
	s, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return nil
	}
	return s
}

func (r *lineReader) usage(content []byte) error {
	u := cupti.Usage{PoolSize: -1}
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			u.Time = integer(value)
		case "globalPid":
			u.Process = cupti.ProcessOf(uint64(integer(value)))
		case "deviceId":
			u.Device = integer(value)
		case "address":
			u.Addr = uint64(integer(value))
		case "bytes":
			u.Size = integer(value)
		case "memKind":
			u.Kind = cupti.FromNsight(integer(value))
		case "type":
			u.Free = bytes.Equal(value, []byte(`"deallocation"`)) || integer(value) == 1
		case "correlationId":
			u.Call = uint32(integer(value))
		case "streamId":
			u.Stream = uint64(integer(value))
		case "name":
			u.Symbol = text(value)
		case "localPoolConfig":
			u.Pool, u.PoolSize = poolConfig(value, "localPoolSize")
		default:
			if bytes.HasPrefix(name, []byte("imported")) && u.Pool == 0 {
				u.Pool, _ = poolConfig(value, "")
				u.Imported = u.Pool != 0
			}
		}
	})
	if err != nil {
		return err
	}
	if c := r.slot(u.Process, u.Call); u.Call != 0 && !u.Free && c.Number == u.Call && c.Process == u.Process {
		u.Thread = c.Thread
	}
	u.Call = 0 // what is not known yet will never be
	if u.Kind != cupti.DeviceStatic && u.Kind != cupti.ManagedStatic {
		u.Symbol = nil
	}
	r.n.events++
	return r.rec.Add(&u)
}

// poolConfig reads what a memory event says of its pool.
func poolConfig(value []byte, sizeName string) (addr uint64, size int64) {
	size = -1
	_ = eachField(jsontext.NewDecoder(bytes.NewReader(value), jsonOptions...), func(name, value []byte) {
		switch string(name) {
		case "address":
			addr = uint64(integer(value))
		case sizeName:
			size = integer(value)
		}
	})
	return addr, size
}

func (r *lineReader) pool(content []byte) error {
	p := cupti.PoolState{}
	told, destroyed := false, false
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			p.Time = integer(value)
		case "globalPid":
			p.Process = cupti.ProcessOf(uint64(integer(value)))
		case "deviceId":
			p.Device = integer(value)
		case "address":
			p.Addr = uint64(integer(value))
		case "operationType":
			destroyed = bytes.Contains(value, []byte("DESTROYED")) || integer(value) == poolDestroyed
		case "localPoolAttributes":
			_, p.Size = poolConfig(value, "size")
			told = p.Size >= 0
		}
	})
	if err != nil || !told {
		return err
	}
	if destroyed {
		p.Size = 0
	}
	r.rec.AddPool(p)
	return nil
}

func (r *lineReader) slot(process uint64, number uint32) *cupti.Call {
	return &r.recent[(process>>24*0x9e3779b1+uint64(number))%recentCalls]
}

func (r *lineReader) call(content []byte) error {
	c := cupti.Call{}
	class := int64(0)
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "startNs":
			c.Start = integer(value)
		case "correlationId":
			c.Number = uint32(integer(value))
		case "eventClass":
			class = integer(value)
		case "name":
			c.NameID = uint64(integer(value))
		case "returnValue32":
			c.Result = integer(value)
		case "globalTid":
			c.Thread = uint64(integer(value))
			c.Process = cupti.ProcessOf(c.Thread)
		}
	})
	if err != nil || class != classRuntime && class != classDriver {
		return err
	}
	r.n.calls++
	if c.Result == cupti.OutOfMemory {
		r.n.failed++
		r.failing[c.NameID] = ""
		r.rec.Fail(&c)
	}
	if c.Number != 0 {
		*r.slot(c.Process, c.Number) = c
	}
	return nil
}

// The classes of events that are calls of the CUDA API.
const (
	classRuntime = 0
	classDriver  = 1
)

func (r *lineReader) span(content []byte) error {
	var (
		kind          cupti.RangeKind
		ok, ended     bool
		start, end    int64
		thread        uint64
		words         []byte
		ref           int64
		named, refers bool
	)
	err := r.fields(content, func(name, value []byte) {
		switch string(name) {
		case "Type":
			kind, ok = rangeKind(integer(value))
		case "Timestamp":
			start = integer(value)
		case "EndTimestamp":
			end, ended = integer(value), true
		case "GlobalTid":
			thread = uint64(integer(value))
		case "Text":
			words, named = text(value), true
		case "TextId":
			ref, refers = integer(value), true
		}
	})
	if err != nil || !ok {
		return err
	}
	var name cupti.Name
	switch {
	case !named && refers:
		name = r.rec.RangeRef(uint64(ref))
	default:
		name = r.rec.RangeName(words)
	}
	r.rec.AddRange(kind, thread, start, end, ended, name)
	return nil
}
