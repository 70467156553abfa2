package config

import (
	"fmt"
	"math/bits"
)

// Snapshot is what a memory snapshot says about the settings of the process: the text that was parsed last,
// and the values that were in force at the dump. The values count for more, since they may have been
// changed, or refused by the platform, and since what a text means depends on the version. They lack
// some, which only the text can tell.
type Snapshot struct {
	Text string // PYTORCH_CUDA_ALLOC_CONF, empty if none

	MaxSplitSize    int64 // bytes, -1 unlimited
	HasMaxSplitSize bool
	GCThreshold     float64
	HasGCThreshold  bool
	Expandable      bool
	HasExpandable   bool
	Roundup         [16]int
	HasRoundup      bool
	ReleaseLock     bool // release_lock_on_cudamalloc; false also if the file does not say
	GraphReuse      bool // graph_capture_record_stream_reuse; the same
}

// FromSnapshot resolves the settings of a snapshot and judges them. A snapshot does not name the version
// of PyTorch. If the text makes no sense for the version given, it is read for others, since the process
// that wrote the file has accepted it.
func FromSnapshot(s Snapshot, v Version) (Config, []Finding) {
	p := parse(s.Text, v)
	for _, other := range []Version{Latest, {2, 9}} {
		if p.err == nil {
			break
		}
		if q := parse(s.Text, other); q.err == nil {
			p = q
		}
	}
	c := &p.cfg
	// differs notes that a value is not that of the text; on says that it is not the default either.
	differs := func(name, text, force string, on bool) {
		at, ok := p.seen[name]
		delete(p.seen, name)
		if on {
			p.seen[name] = -1
		}
		if !ok {
			return
		}
		p.add(Finding{Code: "not-in-force", Key: name, Severity: Ignored, Offset: at,
			Message: fmt.Sprintf("the text says %s, in force was %s: changed while the program ran, or not supported by its platform", text, force)})
	}
	if s.HasExpandable && s.Expandable != c.Expandable {
		differs(keyExpandable, fmt.Sprint(c.Expandable), fmt.Sprint(s.Expandable), s.Expandable)
		c.Expandable = s.Expandable
	}
	if s.HasMaxSplitSize {
		force := s.MaxSplitSize
		if force < 0 {
			force = Unlimited
		}
		if force != c.MaxSplitSize {
			differs(keyMaxSplit, splitText(c.MaxSplitSize), splitText(force), force != Unlimited)
			c.MaxSplitSize = force
		}
	}
	if s.HasGCThreshold && s.GCThreshold != c.GCThreshold && s.GCThreshold >= 0 && s.GCThreshold < 1 {
		differs(keyGC, fmt.Sprint(c.GCThreshold), fmt.Sprint(s.GCThreshold), s.GCThreshold != 0)
		c.GCThreshold = s.GCThreshold
	}
	if s.HasRoundup && s.Roundup != c.Roundup && usable(s.Roundup) {
		// Versions read > in two ways, and the table of either one is what the text says.
		if parse(s.Text, Version{2, 9}).cfg.Roundup != s.Roundup && parse(s.Text, Latest).cfg.Roundup != s.Roundup {
			differs(keyRoundup, divisionsText(c.Roundup), divisionsText(s.Roundup), s.Roundup != [16]int{})
		}
		c.Roundup = s.Roundup
	}
	c.ReleaseLock = c.ReleaseLock || s.ReleaseLock
	c.GraphCaptureReuse = c.GraphCaptureReuse || s.GraphReuse
	p.findings = append(p.findings, lint(c, p.v, p.seen, s.HasExpandable)...)
	sortFindings(p.findings)
	return *c, p.findings
}

// usable says whether a table could come from PyTorch.
func usable(table [16]int) bool {
	for _, d := range table {
		if d != 0 && (d < 0 || bits.OnesCount64(uint64(d)) != 1) {
			return false
		}
	}
	return true
}

func splitText(bytes int64) string {
	if bytes == Unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("%d MiB", bytes/MiB)
}

func divisionsText(table [16]int) string {
	if s := divisions(table); s != "" {
		return s
	}
	return "no divisions"
}
