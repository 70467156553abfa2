package oomlog

import "bytes"

// needle is a string at which the scanner stops, and what is asked there: parsers in turn, or a function
// that reads whole lines.
type needle struct {
	text    string // in lower case
	parsers []parser
	lines   func(s *scanner, at int) (end int)
}

// The parsers that can know a message with "out of memory" in it, the most telling first.
var outOfMemory = []parser{
	parseMPS, parseGGML, parseTHC, parseTorch, parseStream, parseBFC, parseXLA, parseTFDriver, parseCuPy, parsePaddle,
	parseTensorRT, parseRMM, parseNCCL, parseHost, parseBare, parseCUDAError, parseCUDAGeneric,
}

// stops are the words that the scanner looks for. Every message is caught by one of them even if a line
// break falls into another.
var stops = newNeedleSet([]needle{
	{text: "ut of memory", parsers: outOfMemory},
	{text: "ried to alloc", parsers: []parser{parseMPS, parseTorch, parseHost}},
	{text: "otal capac", parsers: []parser{parseTorch}},
	{text: "already alloc", parsers: []parser{parseTorch}},
	{text: "allocated by pyt", parsers: []parser{parseTorch}},
	{text: "outofmemory", parsers: []parser{parseStream, parseTorch, parseTensorRT, parseHost, parseBare, parseCUDAError, parseCUDAGeneric}},
	{text: "exceed allowed mem", parsers: []parser{parseStream}},
	{text: "out_of_memory", parsers: []parser{parseTFDriver, parseRMM, parseCUDAGeneric}},
	{text: "outofdevicemem", parsers: []parser{parseGGML}},
	{text: "out_of_device_mem", parsers: []parser{parseLevelZero}},
	{text: "out_of_host_mem", parsers: []parser{parseLevelZero}},
	{text: "insufficient memory (", parsers: []parser{parseMLX}},
	{text: "maximum allowed buf", parsers: []parser{parseMLX}},
	{text: "gpu video memory", parsers: []parser{parseDirectML}},
	{text: "enough memory to handle", parsers: []parser{parseVLLM}},
	{text: "of gpu memory tr", parsers: []parser{parseJulia}},
	{text: "nvml_success", parsers: []parser{parseAssert}},
	{text: "nvmapmemalloc", parsers: []parser{parseNvMap}},
	{text: "invalid buffer size", parsers: []parser{parseMPSBuffer}},
	{text: "memoryallocation", parsers: []parser{parseRMM, parseCUDAGeneric}},
	{text: "alloc_failed", parsers: []parser{parseLibrary}},
	{text: "allocation_failed", parsers: []parser{parseLibrary}},
	{text: "pool size exceeded", parsers: []parser{parseRMM}},
	{text: "std::bad_alloc", parsers: []parser{parseRMM, parseHost}},
	{text: "oom when alloc", parsers: []parser{parseTensor}},
	{text: "resource_exhausted", parsers: []parser{parseXLA, parseTensor, parseTFDriver}},
	{text: "failed to alloc", parsers: []parser{parseXLAStream, parseGGML, parseTFDriver, parseORT, parseXLA}},
	{text: "failed to cuda", parsers: []parser{parseNCCL}},
	{text: "extend /dev/shm", parsers: []parser{parseNCCL}},
	{text: "not allocate pinned", parsers: []parser{parseTFDriver}},
	{text: "could not be allocated", parsers: []parser{parseTensorRT}},
	{text: "smaller than requested", parsers: []parser{parseORT}},
	{text: "cannot alloc", parsers: []parser{parsePaddle, parseHost}},
	{text: "cannot malloc", parsers: []parser{parsePaddle}},
	{text: "startup is less", parsers: []parser{parseVLLM}},
	{text: "cache is needed", parsers: []parser{parseVLLM}},
	{text: "for the cache blocks", parsers: []parser{parseVLLM}},
	{text: "stored in kv", parsers: []parser{parseVLLM}},
	{text: "mem-fraction-static", parsers: []parser{parseVLLM}},
	{text: "memoryallocation of size", parsers: []parser{parseGGML}},
	{text: "defaultcpualloc", parsers: []parser{parseHost}},
	{text: "killed process", parsers: []parser{parseHost}},
	{text: "unable to alloc", parsers: []parser{parseHost}},
	{text: "oomkilled", parsers: []parser{parseHost}},
	{text: "bfc_allocator.", lines: (*scanner).bfcLines},
	{text: "chunks in use", lines: (*scanner).bfcLines},
	{text: "of in-use chunks", lines: (*scanner).bfcLines},
	{text: "maxinuse:", lines: (*scanner).bfcStats},
	{text: "device:gpu:", lines: (*scanner).tfDevice},
	{text: "freememory: ", lines: (*scanner).tfProperties},
	{text: "nvidia-smi", lines: (*scanner).gpuTable},
	{text: "memory summary, dev", lines: (*scanner).summary},
	{text: "cache flushes", lines: (*scanner).cacheFlush},
	{text: "memory usage", lines: (*scanner).reading},
	{text: "memory_usage", lines: (*scanner).reading},
	{text: "memory used", lines: (*scanner).reading},
	{text: "memory_used", lines: (*scanner).reading},
	{text: "used memory", lines: (*scanner).reading},
	{text: "gpu memory", lines: (*scanner).reading},
	{text: "gpu_memory", lines: (*scanner).reading},
	{text: "cuda memory", lines: (*scanner).reading},
	{text: "memory alloc", lines: (*scanner).reading},
	{text: "memory_alloc", lines: (*scanner).reading},
	{text: "mem_alloc", lines: (*scanner).reading},
	{text: "mem_usage", lines: (*scanner).reading},
	{text: "memory consum", lines: (*scanner).reading},
	{text: "current memory", lines: (*scanner).reading},
})

// gpustatWord stands in every line of gpustat; gpustatStop is its number beside those of the needles.
const (
	gpustatWord = " MB |"
	gpustatStop = -2
)

var longestNeedle = func() int {
	n := 0
	for _, s := range stops.needles {
		n = max(n, len(s.text))
	}
	return n
}()

// bfcLines reads the lines of a dump from the one at a stop on.
func (s *scanner) bfcLines(at int) int {
	line, end := s.lineAround(at)
	if bytes.Contains(line, []byte("onnxruntime")) || !s.collect.dump.line(line) {
		return at
	}
	s.collect.dumpLine(s.lines(max(0, end-len(line)-1))+1, line)
	if bytes.Contains(line, []byte("Stats:")) {
		end = s.statLines(end)
	}
	s.collect.applyDump()
	return end
}

// bfcStats reads the statistics at the end of a dump whose beginning is missing.
func (s *scanner) bfcStats(at int) int {
	start := at
	for range 3 { // MaxInUse comes third
		start = max(0, bytes.LastIndexByte(s.buf[:max(0, start-1)], '\n')+1)
		line, _ := s.lineFrom(start)
		if bytes.Contains(line, []byte("Limit:")) {
			if end := s.statLines(start); s.collect.dump.hasStats {
				s.collect.dumpLine(s.lines(start)+1, line)
				s.collect.applyDump()
				return end
			}
		}
	}
	return at
}

// statLines reads the statistics from a line on and returns where they end.
func (s *scanner) statLines(end int) int {
	for range 10 {
		next, nextEnd := s.lineFrom(end)
		if len(next) == 0 || !s.collect.dump.stat(next) {
			break
		}
		end = nextEnd
	}
	return end
}

// tfDevice reads how much memory TensorFlow gave to a device's pool.
func (s *scanner) tfDevice(at int) int {
	line, end := s.lineAround(at)
	if i := bytes.Index(line, []byte("Created ")); i >= 0 && bytes.Contains(line, []byte(" memory")) {
		v := &s.view
		v.flatten(line[i:], 0)
		v.mark = 0
		if device, limit, ok := parseTFDevice(v); ok {
			s.collect.poolLimit(device, limit)
			return end
		}
	}
	return at
}

// tfProperties reads what TensorFlow 1 prints of a device before it uses it: "totalMemory: 10.92GiB
// freeMemory: 66.19MiB".
func (s *scanner) tfProperties(at int) int {
	line, end := s.lineAround(at)
	v := &s.view
	v.flatten(line, 0)
	i := v.index("totalmemory:", 0, len(v.text))
	if i < 0 {
		return at
	}
	total, p := v.size(i + len("totalmemory:"))
	if p, ok := v.take(p, "freememory:"); ok && total.Known {
		if free, _ := v.size(p); free.Known {
			s.collect.atStart(total, free)
			return end
		}
	}
	return at
}

// gpuTable follows a table of nvidia-smi.
func (s *scanner) gpuTable(at int) int {
	line, end := s.lineAround(at)
	if bytes.IndexByte(line, '|') < 0 {
		return at
	}
	number := s.lines(max(0, end-len(line)-1)) + 1
	t := gpuTable{next: -1}
	first := number
	for end < len(s.buf) {
		var next int
		line, next = s.lineFrom(end)
		number++
		if !t.line(line, number) {
			break
		}
		end = next
	}
	orphans := t.orphans()
	for _, r := range orphans {
		s.collect.orphan(r.message("nvidia-smi table"))
	}
	if len(orphans) == 0 {
		s.collect.note(NoteTable, first)
	}
	return end
}

// gpustat reads a line of gpustat.
func (s *scanner) gpustat(at int) int {
	line, end := s.lineAround(at)
	number := s.lines(max(0, end-len(line)-1)) + 1
	r, ok := gpustatLine(line, number)
	if !ok {
		return at
	}
	if r.used.Bytes-r.listed < orphanFloor {
		s.collect.note(NoteTable, number)
		return end
	}
	m := r.message("gpustat")
	m.Text = excerpt(line)
	s.collect.orphan(m)
	return end
}

// summary follows a table of memory_summary.
func (s *scanner) summary(at int) int {
	line, end := s.lineAround(at)
	t := summaryTable{device: -1, line: s.lines(max(0, end-len(line)-1)) + 1}
	if n, ok := intAfter(line, "device ID"); ok && n < 1000 {
		t.device = int(n)
	}
	for end < len(s.buf) {
		line, next := s.lineFrom(end)
		if bytes.Contains(line, []byte("memory summary, dev")) || !t.row(line) {
			break
		}
		end = next
	}
	if m, ok := t.message(); ok {
		m.Text = "PyTorch CUDA memory summary"
		s.collect.summary(m)
	} else {
		s.collect.note(NoteSummary, t.line)
	}
	return end
}

// cacheFlush notes DeepSpeed's warning that PyTorch had to empty its cache.
func (s *scanner) cacheFlush(at int) int {
	line, end := s.lineAround(at)
	if !bytes.Contains(line, []byte("pytorch allocator cache flushes")) {
		return at
	}
	s.collect.note(NoteCacheFlush, s.lines(at)+1)
	return end
}

// reading takes in a line that says how much memory is in use. The search goes on within the line.
func (s *scanner) reading(at int) int {
	line, end := s.lineAround(at)
	start := end - len(line)
	if end <= len(s.buf) && end > 0 && s.buf[end-1] == '\n' {
		start--
	}
	if s.lastReading != s.base+int64(start) { // one reading a line
		s.lastReading = s.base + int64(start)
		s.collect.growth.read(line, at-start+9, s.lines(start)+1)
	}
	return at
}
