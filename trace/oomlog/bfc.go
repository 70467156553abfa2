package oomlog

import "bytes"

// bfcDump adds up the dump that TensorFlow's allocator prints after a failure. Dumps are long, so their
// lines are read as they are, not flattened; and they are often cut, so the sums are only believed if the
// chunks in use add up to what the statistics at the end say.
type bfcDump struct {
	lines       int
	used, free  int64 // bytes of the chunks seen
	largestFree int64
	inUse       int64 // from the statistics
	limit       int64
	pool        int64 // bytes that the pool has from the driver
	available   int64 // what it could still take from the driver
	hasStats    bool
	hasPool     bool
	device      int
}

// line reads one line of a dump and tells whether it was one.
func (d *bfcDump) line(line []byte) bool {
	if i := bytes.LastIndex(line, []byte("] ")); i >= 0 {
		line = line[i+2:]
	}
	line = bytes.TrimRight(line, " \r\t")
	t := bytes.TrimLeft(line, " \t>")
	switch {
	case bytes.HasPrefix(t, []byte("InUse at ")), bytes.HasPrefix(t, []byte("Chunk at ")):
		n, ok := intAfter(t, " of size ")
		d.used += n
		return d.count(ok)
	case bytes.HasPrefix(t, []byte("Free")) && bytes.Contains(t, []byte(" at ")):
		n, ok := intAfter(t, " of size ")
		d.free += n
		d.largestFree = max(d.largestFree, n)
		return d.count(ok)
	case bytes.HasPrefix(t, []byte("Bin (")), bytes.HasPrefix(t, []byte("Next region of size ")),
		bytes.HasPrefix(t, []byte("Bin for ")), bytes.HasPrefix(t, []byte("Summary of in-use Chunks")),
		bytes.HasPrefix(t, []byte("Sum Total of in-use chunks")), bytes.HasPrefix(t, []byte("Stats:")):
		return d.count(true)
	case bytes.Contains(t, []byte("Chunks of size ")) && bytes.Contains(t, []byte(" totalling ")):
		return d.count(true)
	case bytes.HasPrefix(t, []byte("Total bytes in pool: ")), bytes.HasPrefix(t, []byte("total_region_allocated_bytes_: ")):
		var ok bool
		if d.pool, ok = intAfter(t, ": "); ok {
			d.hasPool = true
			if n, ok := intAfter(t, "memory_limit_: "); ok {
				d.limit = n
			}
			d.available, _ = intAfter(t, "available bytes: ")
		}
		return d.count(true)
	case bytes.HasPrefix(t, []byte("BFCAllocator dump for ")):
		name := bytes.ToLower(t[len("BFCAllocator dump for "):])
		d.device = -1
		if i := bytes.Index(name, []byte("gpu_")); i >= 0 && i+4 < len(name) && isDigit(name[i+4]) {
			d.device = int(name[i+4] - '0')
		}
		return d.count(true)
	}
	return false
}

func (d *bfcDump) count(ok bool) bool {
	if ok {
		d.lines++
	}
	return ok
}

// stat reads a line of the statistics, "InUse:   9866432512".
func (d *bfcDump) stat(line []byte) bool {
	for _, s := range [...]struct {
		key  string
		into *int64
	}{{"Limit:", &d.limit}, {"InUse:", &d.inUse}, {"MaxInUse:", nil}, {"NumAllocs:", nil}, {"MaxAllocSize:", nil},
		{"Reserved:", nil}, {"PeakReserved:", nil}, {"LargestFreeBlock:", nil}} {
		i := bytes.Index(line, []byte(s.key))
		if i < 0 || i > 0 && isLetter(line[i-1]) {
			continue
		}
		n, ok := intAfter(line, s.key)
		if ok && s.into != nil {
			*s.into = n
		}
		if ok && s.key == "InUse:" {
			d.hasStats = true
		}
		return ok
	}
	return false
}

// apply gives a message what its dump says.
func (d *bfcDump) apply(m *Message) {
	if d.hasStats {
		m.Allocated = Exact(d.inUse)
	}
	if d.limit > 0 {
		m.Limit = Exact(d.limit)
	}
	if d.hasPool {
		m.Reserved = Exact(d.pool)
	}
	if d.hasStats && d.used == d.inUse {
		m.LargestFree, m.Unallocated = Exact(d.largestFree), Exact(d.free)
		if !m.Reserved.Known {
			m.Reserved = Exact(d.used + d.free)
		}
	} else {
		m.PartialDump = d.lines > 0
	}
	if m.Device < 0 {
		m.Device = d.device
	}
}

// intAfter reads the digits after key, with blanks between.
func intAfter(line []byte, key string) (int64, bool) {
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return 0, false
	}
	rest := bytes.TrimLeft(line[i+len(key):], " \t")
	n := digitsLen(rest)
	if n == 0 || n > 18 {
		return 0, false
	}
	var v int64
	for _, c := range rest[:n] {
		v = v*10 + int64(c-'0')
	}
	return v, true
}
