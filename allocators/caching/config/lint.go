package config

import "fmt"

// What the settings of one text do together, and what each is known for. The parser has said by then what
// it did not accept, what it dropped, and what was spelt in a way that PyTorch reads otherwise.

// lint judges a configuration. seen has the keys that were set and where (-1: in force, not in the text).
// measured says that the values are those of a running allocator, so that its platform supports them.
func lint(c *Config, v Version, seen map[string]int, measured bool) []Finding {
	l := linter{c: c, v: v, seen: seen}
	if c.Backend == Async {
		l.async()
		return l.findings
	}
	l.expandable(measured)
	l.splitting()
	l.limit()
	l.roundup()
	return l.findings
}

type linter struct {
	c        *Config
	v        Version
	seen     map[string]int
	findings []Finding
}

// add reports about a key, if it was set.
func (l *linter) add(name, code string, s Severity, suggest, format string, args ...any) {
	if at, ok := l.seen[name]; ok {
		l.findings = append(l.findings, Finding{Code: code, Key: name, Severity: s, Offset: at, Suggest: suggest, Message: fmt.Sprintf(format, args...)})
	}
}

func (l *linter) async() {
	for _, k := range keys {
		if k.native {
			l.add(k.name, "async-ignores", Ignored, "", "backend:cudaMallocAsync does not look at %s", k.name)
		}
	}
	l.add(keyBackend, "async-blind", Risk, "", "cudaMallocAsync keeps no history and has no snapshots: calls for them raise, and statistics are few; it needs CUDA 11.4 or newer")
}

func (l *linter) expandable(measured bool) {
	if !l.c.Expandable {
		for _, name := range []string{keyReserve, keyReserveByClass} {
			l.add(name, "reserve-alone", NoEffect, keyExpandable+":True", "%s does nothing without %s:True", name, keyExpandable)
		}
		return
	}
	if !measured {
		l.add(keyExpandable, "expandable-platform", Risk, "",
			"off with no more than a warning on Windows and where PyTorch was built without the driver's mapping functions (ROCm before 7.0); on Jetson, and on WSL2 with older drivers, the first allocation fails")
	}
	l.add(keyExpandable, "expandable-ipc", Risk, "",
		"mapped memory cannot be exported with cudaIpcGetMemHandle or registered as one range: custom all-reduce kernels, tensors shared between processes and RDMA can fail, and memory pools with an allocator of their own (sleep mode of servers) do not use it")
	if l.c.MaxSplitSize != Unlimited {
		switch {
		case l.v.before(Version{2, 3}):
			l.add(keyMaxSplit, "expandable-max-split", Risk, "", "together with %s:True this can stop the program with an internal assertion; use one of them", keyExpandable)
		case l.v.before(Version{2, 5}):
			l.add(keyMaxSplit, "expandable-max-split", Risk, "", "together with %s:True it no longer limits splitting, yet free blocks of %d MiB and more serve no smaller request, so reserved memory can grow without bound, and near the end of memory an internal assertion can stop the program; use one of them", keyExpandable, l.c.MaxSplitSize/MiB)
		default:
			l.add(keyMaxSplit, "expandable-max-split", Risk, "", "together with %s:True it does not limit splitting, yet free blocks of %d MiB and more serve no smaller request, so reserved memory can grow without bound; use one of them", keyExpandable, l.c.MaxSplitSize/MiB)
		}
	}
	if l.v.before(Version{2, 5}) {
		l.add(keyGC, "expandable-gc", Risk, "", "together with %s:True this can stop the program with an internal assertion near the end of memory; use one of them", keyExpandable)
	} else {
		l.add(keyGC, "expandable-gc", NoEffect, "", "together with %s:True it does nothing, it never gives expandable segments back", keyExpandable)
	}
	if l.c.LargeSegmentSize%RoundLarge != 0 {
		l.add(keyLargeSegment, "odd-page", Risk, fmt.Sprintf("%s:%d", keyLargeSegment, l.c.LargeSegmentSize/MiB+1),
			"it is also the page of expandable segments, and drivers map memory in multiples of 2 MiB: use an even number")
	}
}

func (l *linter) splitting() {
	const largest = 512 << 30 // no GPU has more
	if l.c.MaxSplitSize >= largest {
		l.add(keyMaxSplit, "split-unlimited", NoEffect, "", "no block is that large, so all may be split, as without it")
	} else if !l.c.Expandable {
		l.add(keyMaxSplit, "split-cost", Risk, "", "blocks of %d MiB and more are kept whole: that lessens fragmentation, but they fit fewer requests, and when memory is short they go back to the driver and are taken anew, which can cost much time", l.c.MaxSplitSize/MiB)
	}
	if l.c.MaxSplitSize == Unlimited {
		l.add(keyMaxNonSplit, "non-split-alone", NoEffect, "", "%s counts only for blocks that %s keeps whole, and it is not set", keyMaxNonSplit, keyMaxSplit)
	}
}

func (l *linter) limit() {
	if l.c.MemoryFraction == 1 {
		how := "torch.cuda.set_per_process_memory_fraction is called with less than 1"
		gc, throw := "", ""
		if !l.v.before(Version{2, 10}) {
			how = keyFraction + " is below 1 too, or " + how
			gc = fmt.Sprintf("%s:%v,%s:0.95", keyGC, l.c.GCThreshold, keyFraction)
			throw = fmt.Sprintf("%s:True,%s:0.95", keyThrow, keyFraction)
		}
		l.add(keyGC, "gc-without-limit", NoEffect, gc, "without a memory limit it does nothing, silently: it counts only if %s", how)
		if l.c.ThrowOnOOM {
			l.add(keyThrow, "throw-without-limit", NoEffect, throw, "without a memory limit it does nothing: it counts only if %s", how)
		}
		l.add(keyFraction, "fraction-one", NoEffect, "", "1 sets no limit, as without it")
	}
	if l.c.MemoryFraction == 0 {
		l.add(keyFraction, "fraction-zero", Risk, "", "a limit of 0 refuses every allocation")
	}
}

func (l *linter) roundup() {
	ones := 0
	for _, d := range l.c.Roundup {
		if d == 1 {
			ones++
		}
	}
	switch {
	case ones == 0:
	case l.c.LegacyDiv1:
		l.add(keyRoundup, "roundup-one", Risk, "", "before PyTorch 2.4 divisions of 1 leave sizes above 512 bytes as they are, not even multiples of 512; 0 is not possible then, leave them out")
	default:
		l.add(keyRoundup, "roundup-one", NoEffect, "", "divisions of 1 do not round to the next power of two, whatever the documentation says: they mean the plain rounding to 512 bytes")
	}
}
