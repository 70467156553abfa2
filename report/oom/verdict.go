// Package oom says what an out-of-memory message means and what to do about it.
//
// The numbers of a message are subtracted from the device's capacity in the order in which memory is
// handed down: what PyTorch has in use, what it holds without using, what is free, and the rest, which is
// outside its allocator. From these one verdict follows by rules whose order matters (Judge). The renderers
// show the subtraction, so that anyone can disagree with the verdict.
package oom

import (
	"github.com/vramscope/vramscope/trace/oomlog"
)

// Verdict is the reason of a failure, in the names that the JSON output uses.
type Verdict string

// The verdicts.
const (
	Genuine           Verdict = "genuine"            // what is in use and what was asked for do not fit
	Fragmentation     Verdict = "fragmentation"      // it would have fitted into what the allocator holds unused
	FragmentationLow  Verdict = "fragmentation-low"  // the same, but there is little to win
	OutsideAllocator  Verdict = "outside-allocator"  // memory that this allocator does not hold made the difference
	OtherProcess      Verdict = "other-process"      // another process holds it
	ImpossibleRequest Verdict = "impossible-request" // more than the device has
	FreeButRefused    Verdict = "free-but-refused"   // the driver refused although enough was free
	Limit             Verdict = "limit"              // a limit that was set, not the device
	Inconsistent      Verdict = "inconsistent"       // the numbers cannot all be true
	InconsistentVMM   Verdict = "inconsistent-vmm"   // the allocator counts memory that was given back beneath it
	PoolOrOutside     Verdict = "pool-or-outside"    // held by the driver's pool or outside; the message cannot tell
	PlatformLimit     Verdict = "platform-limit"     // one allocation above what the platform allows at once
	HostOOM           Verdict = "host-oom"           // the host's memory
	NonAllocator      Verdict = "non-allocator"      // a library was refused, not the allocator
	Leak              Verdict = "leak"               // what is in use only ever grows
	UnknownPartial    Verdict = "unknown-partial"    // the message lacks the numbers
)

// Thresholds of the rules. They are judgement, not measurement; the order of the rules matters more.
const (
	fragmentationShare    = 0.03     // of the capacity, held unused: fragmentation
	fragmentationLowShare = 0.01     // and this, fragmentation that may not be worth it
	outsideBytes          = 3 * half // outside the allocator: more than contexts and libraries take
	outsideShare          = 0.30     // or this much of a small device
	granularity           = 32 << 20 // free memory beyond the request that the driver can still fail to give
	selfShare             = 0.97     // of the reserved memory: a lone "Process N" with that much is this process
	poolShare             = 0.03     // of the capacity, neither in use nor free: the stream-ordered pool may hold it
	planBytes             = 4 * gib  // a compiled program that needs this much fails for its own size
	half                  = gib / 2
	gib                   = 1 << 30
)

// largestCUDA and largestAny are more than any single device sold so far has (288 GB and 288 GiB), so that
// a request above them is impossible on any.
const (
	largestCUDA = 270 * gib
	largestAny  = 288 * gib
)

// Rule names the rule that a verdict came from; the reasons are written from it.
type Rule uint8

// The rules, in the order in which they are tried.
const (
	RuleCause         Rule = iota // the message itself says what failed
	RuleInconsistent              // its sums exceed the capacity
	RuleImpossible                // 1 requested > capacity
	RuleLimit                     // 2 a limit is set, and reserved + requested is over it
	RuleInferredLimit             // 2 a version that does not print its limit stopped just below a round share
	RuleFree                      // 3 free >= requested
	RuleGenuine                   // 4 allocated + requested > capacity
	RuleDominated                 // outside holds most of what matters
	RuleFragmented                // 5 free + unallocated >= requested
	RuleFull                      // 5 but next to nothing is unallocated
	RuleOutside                   // 6 too much is outside
	RuleMargin                    // 6 nothing stands out
	RulePool                      // stream-ordered allocator: rule 6 without knowing what its pool holds
	RulePartial                   // numbers are missing
)

// Judgement is a verdict with what it rests on.
type Judgement struct {
	Verdict Verdict
	Rule    Rule
	Outside oomlog.Size // capacity less reserved less free; unknown if a part is
	Others  oomlog.Size // what the listed other processes hold, this one not counted
	SelfPID int         // the listed process that is most likely this one (container), 0 if none
	Biggest oomlog.Process
	Share   float64 // RuleInferredLimit: the share of the capacity
}

// Judge decides what a message means.
func Judge(m *oomlog.Message) Judgement {
	j := Judgement{Outside: m.Capacity.Minus(m.Reserved).Minus(m.Free)}
	j.splitProcesses(m)
	if v, ok := byCause(m); ok {
		j.set(v, RuleCause)
		return j
	}
	if tooLargeForAny(m) {
		j.set(ImpossibleRequest, RuleImpossible)
		return j
	}
	switch m.Cause {
	case oomlog.CauseStream:
		j.stream(m)
	case oomlog.CausePool:
		j.pool(m)
	case oomlog.CausePlan:
		j.plan(m)
	case oomlog.CauseBudget:
		j.budget(m)
	case oomlog.CauseSummary:
		j.summary(m)
	default:
		j.allocator(m)
	}
	return j
}

// byCause settles the messages that say themselves what failed.
func byCause(m *oomlog.Message) (Verdict, bool) {
	switch m.Cause {
	case oomlog.CauseHuge:
		return ImpossibleRequest, true
	case oomlog.CauseHost:
		return HostOOM, true
	case oomlog.CauseLibrary:
		return NonAllocator, true
	case oomlog.CausePlatform:
		return PlatformLimit, true
	case oomlog.CauseContext, oomlog.CauseOrphan:
		return OtherProcess, true
	case oomlog.CauseStartup:
		return OutsideAllocator, true
	case oomlog.CauseGrowth:
		return Leak, true
	}
	return "", false
}

// tooLargeForAny tells a request that no device can serve, for messages without a capacity.
func tooLargeForAny(m *oomlog.Message) bool {
	if !m.Requested.Known || m.Capacity.Known || m.Backend == "mps" {
		return false
	}
	if m.Backend == "cuda" {
		return m.Requested.Low > largestCUDA
	}
	return m.Requested.Low > largestAny
}

// allocator applies the rules to a message of a caching allocator, or of any program that gives the same
// numbers. A rule whose numbers are missing does not apply.
func (j *Judgement) allocator(m *oomlog.Message) {
	if j.inconsistent(m) {
		return
	}
	tried, capacity := m.Requested, m.Capacity
	switch {
	case !tried.Known:
		j.set(UnknownPartial, RulePartial)
	case capacity.Known && tried.Low > capacity.High:
		j.set(ImpossibleRequest, RuleImpossible)
	case m.Backend == "mps":
		j.mps(m)
	case overLimit(m):
		j.set(Limit, RuleLimit)
	case m.Free.Known && m.Free.Bytes-tried.Bytes >= granularity:
		j.set(FreeButRefused, RuleFree)
		if share, ok := inferLimit(m); ok {
			j.set(Limit, RuleInferredLimit)
			j.Share = share
		}
	case m.Framework == "paddle":
		j.paddle(m)
	case !capacity.Known || !m.Allocated.Known:
		j.set(UnknownPartial, RulePartial)
	case m.Allocated.Bytes+tried.Bytes > capacity.Bytes:
		j.set(Genuine, RuleGenuine)
	case !m.Free.Known:
		j.withoutFree(m)
	case !m.Reserved.Known:
		j.set(UnknownPartial, RulePartial)
	default:
		j.crowded(m)
	}
}

// crowded applies rules 5 and 6: what is in use and the request would fit into the device, and yet not
// enough is free.
func (j *Judgement) crowded(m *oomlog.Message) {
	capacity := float64(m.Capacity.Bytes)
	outside, unused := float64(j.Outside.Bytes), float64(m.Unallocated.Bytes)
	free := m.Free.Bytes
	if free >= m.Requested.Bytes { // refused within the driver's granularity: that memory cannot be counted on
		free = max(0, free-granularity)
	}
	switch {
	case outside >= outsideShare*capacity && outside >= 2*unused:
		j.set(j.outsideVerdict(), RuleDominated)
	case free+m.Unallocated.Bytes >= m.Requested.Bytes:
		switch {
		case unused >= fragmentationShare*capacity:
			j.set(Fragmentation, RuleFragmented)
		case unused >= fragmentationLowShare*capacity:
			j.set(FragmentationLow, RuleFragmented)
		case j.Others.Known && j.Others.Bytes >= outsideBytes && m.Process.Known:
			j.set(OtherProcess, RuleOutside)
		default:
			j.set(Genuine, RuleFull)
		}
	case outside >= outsideBytes || outside >= outsideShare*capacity:
		j.set(j.outsideVerdict(), RuleOutside)
	default:
		j.set(Genuine, RuleMargin)
	}
}

// outsideVerdict tells other processes from the rest of what is outside. Only a message that lists
// processes can: a CUDA context and a library look the same in the others.
func (j *Judgement) outsideVerdict() Verdict {
	if j.Others.Known && 2*j.Others.Bytes >= j.Outside.Bytes {
		return OtherProcess
	}
	return OutsideAllocator
}

func (j *Judgement) set(v Verdict, r Rule) { j.Verdict, j.Rule = v, r }

// splitProcesses adds up the other processes. In a container a process is listed under its number on the
// host, so a message does not recognise its own process: if it does not name itself and there is one
// process whose memory covers what the allocator holds, and there is no room on the device for both, that
// is this process.
func (j *Judgement) splitProcesses(m *oomlog.Message) {
	if len(m.Others) == 0 {
		return
	}
	self := -1
	if !m.Process.Known && m.Reserved.Known {
		used := m.Capacity.Minus(m.Free)
		var listed int64
		for _, o := range m.Others {
			listed += o.Size.Bytes
		}
		roomForBoth := used.Known && listed+m.Reserved.Bytes <= used.High
		for i, o := range m.Others {
			covers := float64(o.Size.High) >= selfShare*float64(m.Reserved.Bytes)
			if covers && !roomForBoth && (self < 0 || o.Size.Bytes < m.Others[self].Size.Bytes) {
				self = i
			}
		}
	}
	j.Others = oomlog.Exact(0)
	for i, o := range m.Others {
		if i == self {
			j.SelfPID = o.PID
			continue
		}
		j.Others = j.Others.Plus(o.Size)
		if o.Size.Bytes > j.Biggest.Size.Bytes {
			j.Biggest = o
		}
	}
	if len(m.Others) == 1 && self == 0 {
		j.Others = oomlog.Size{}
	}
}

// overLimit is rule 2: a limit below the capacity, and what would have been held is above it.
func overLimit(m *oomlog.Message) bool {
	if !m.Limit.Known || m.Capacity.Known && m.Limit.High >= m.Capacity.Low {
		return false
	}
	held := m.Reserved
	if !held.Known {
		held = m.Allocated
	}
	return held.Known && held.High+m.Requested.High > m.Limit.Low
}

// inferLimit recognises a memory fraction behind a message of PyTorch 2.1, which has one but does not
// print it: the process stopped where the next segment would have crossed a round share of the device.
func inferLimit(m *oomlog.Message) (share float64, ok bool) {
	if !m.HidesLimit || !m.Reserved.Known || !m.Capacity.Known {
		return 0, false
	}
	for twentieths := 1; twentieths < 20; twentieths++ {
		share := float64(twentieths) / 20
		if float64(m.Reserved.Low) <= share*float64(m.Capacity.High) &&
			float64(m.Reserved.High+m.Requested.High) > share*float64(m.Capacity.Low) {
			return share, true
		}
	}
	return 0, false
}

// inconsistent finds sums that exceed what the device has. Rounding is allowed for, and a little more,
// since the numbers are not all read at the same instant.
func (j *Judgement) inconsistent(m *oomlog.Message) bool {
	if !m.Capacity.Known {
		return false
	}
	capacity := m.Capacity.High + m.Capacity.Bytes/200
	reserved := m.Reserved
	if !reserved.Known {
		reserved = m.Allocated
	}
	switch {
	case m.Free.Known && m.Free.Low > capacity:
		if m.Requested.Low > max(m.Free.High, capacity) {
			return false
		}
		j.set(Inconsistent, RuleInconsistent)
	case reserved.Known && m.Requested.Low <= capacity &&
		(reserved.Low > capacity || m.Free.Known && reserved.Low+m.Free.Low > capacity || j.beyondProcess(m)):
		j.set(Inconsistent, RuleInconsistent)
		if j.beyondProcess(m) || m.Backend == "cuda" && !m.Windows && m.Capacity.Bytes >= 39*gib {
			// The driver itself says less, or no such device runs under a driver that overcommits.
			j.set(InconsistentVMM, RuleInconsistent)
		}
	default:
		return false
	}
	return true
}

// beyondProcess tells that the allocator counts more than the driver says that the process has.
func (j *Judgement) beyondProcess(m *oomlog.Message) bool {
	return m.Process.Known && m.Reserved.Known && m.Reserved.Low > m.Process.High+m.Process.Bytes/100
}
