package fleet

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/simulate/fleet"
)

// Fleet is what a job shows as a whole.
type Fleet struct {
	Traces  int // files that were looked at, those that failed among them
	Members []*Member
	Failed  []fleet.Failure
	Other   []fleet.Failure // files in folders that are no recordings
	Stacks  map[fleet.Print]fleet.Stack

	Spreads    []Spread // by measure, see measures
	Positions  []Position
	Outliers   []Outlier
	RanOut     []RanOut
	Growth     []Growth
	Looked     int // members with steps enough to tell what grows
	GrowUnsaid int // members that grow, and no stack says where
	Common     []Common
	Cut        int64 // a stack that is not listed for a member held no more than its Facts.Floor there; all together
	Unused     Unused
	Settings   []SettingsOf
	Tuning     *Tuning // nil if no settings were looked for
}

// Member is a device of the job: a rank, mostly.
type Member struct {
	*fleet.Device
	fleet.Place
	several bool // its file has other devices
	only    bool // there is no other file
	twice   bool // another file has the same rank
}

// Measure is a figure by which ranks are compared.
type Measure struct {
	Name  string // for programs
	Title string // for people
	Of    func(f *fleet.Facts) int64
}

// measures in the order in which they are shown.
func measures() []Measure {
	return []Measure{
		{"peak_allocated", "peak allocated", func(f *fleet.Facts) int64 { return f.PeakAllocated }},
		{"peak_reserved", "peak reserved", func(f *fleet.Facts) int64 { return f.PeakReserved }},
		{"unused", "reserved but not in use", func(f *fleet.Facts) int64 { return f.Unused }},
	}
}

// Spread is how a measure is distributed over the members that have it. All of it is exact.
type Spread struct {
	Measure
	Members                      int
	Min, Median, P90, Max, Total int64 // bytes
	Worst, Best                  *Member
}

// Ratio is the most over the median, 0 if there is no telling.
func (s *Spread) Ratio() float64 { return ratio(s.Max, s.Median) }

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Of says what a job shows, from the summaries of its recordings.
func Of(s *fleet.Summary) *Fleet {
	f := &Fleet{Stacks: s.Stacks}
	var files []string
	for i := range s.Devices {
		if n := len(files); n == 0 || files[n-1] != s.Devices[i].File {
			files = append(files, s.Devices[i].File)
		}
	}
	known := map[string]fleet.Place{}
	for i, p := range fleet.Places(files) {
		known[files[i]] = p
	}
	for i := range s.Failed {
		x := s.Failed[i]
		if _, read := known[x.File]; read {
			continue // somebody could read it
		}
		f.Traces++
		if x.Other {
			f.Other = append(f.Other, x)
			f.Traces--
		} else {
			f.Failed = append(f.Failed, x)
		}
	}
	f.Traces += len(files)
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Facts == nil {
			continue
		}
		m := &Member{Device: d, Place: known[d.File]}
		if d.Facts.Rank != nil && m.Rank < 0 {
			m.Rank = *d.Facts.Rank
		}
		f.Members = append(f.Members, m)
	}
	f.mark()
	slices.SortStableFunc(f.Members, func(a, b *Member) int { return a.order(b) })
	for _, m := range measures() {
		f.Spreads = append(f.Spreads, f.spread(m, f.Members))
	}
	f.positions()
	crowds := f.crowds()
	f.outliers(crowds)
	f.ranOut(crowds)
	f.growth()
	f.common()
	f.unused()
	f.settings()
	f.Tuning = tuningOf(s)
	return f
}

// order is by rank, those without one last, then by name.
func (m *Member) order(o *Member) int {
	if (m.Rank < 0) != (o.Rank < 0) {
		return cmp.Compare(o.Rank, m.Rank)
	}
	return cmp.Or(cmp.Compare(m.Rank, o.Rank), cmp.Compare(m.File, o.File), cmp.Compare(m.Index, o.Index))
}

// mark finds out which members need more than their rank to be told apart.
func (f *Fleet) mark() {
	devices, files := map[string]int{}, map[int]map[string]bool{}
	for _, m := range f.Members {
		devices[m.File]++
		if files[m.Rank] == nil {
			files[m.Rank] = map[string]bool{}
		}
		files[m.Rank][m.File] = true
	}
	for _, m := range f.Members {
		m.several, m.only = devices[m.File] > 1, len(devices) == 1
		m.twice = len(files[m.Rank]) > 1
	}
}

// Label names a member for people, as short as can be.
func (m *Member) Label() string {
	var name string
	switch {
	case m.several && m.only:
		return fmt.Sprintf("device %d", m.Index)
	case m.Rank >= 0 && !m.twice:
		name = fmt.Sprintf("rank %d", m.Rank)
	default:
		name = oneLine(lastParts(m.File))
	}
	if m.several {
		name += fmt.Sprintf(" device %d", m.Index)
	}
	return name
}

// oneLine is a name that may have newlines, on one line.
func oneLine(name string) string { return strings.ReplaceAll(name, "\n", `\n`) }

// lastParts is a file with its folder.
func lastParts(file string) string {
	dir, base := path.Split(strings.ReplaceAll(file, `\`, "/"))
	if up := path.Base(dir); dir != "" && up != "." && up != "/" && up != ".." {
		return up + "/" + base
	}
	return base
}

// Where says at which position and on which machine a member is, empty if its name does not tell.
func (m *Member) Where() string {
	var parts []string
	for _, a := range m.At {
		parts = append(parts, fmt.Sprintf("%s %d", a.Name, a.N))
	}
	if m.Host != "" {
		parts = append(parts, m.Host)
	}
	return strings.Join(parts, ", ")
}

// Full is the label, and in brackets where it is.
func (m *Member) Full() string {
	if w := m.Where(); w != "" {
		return m.Label() + " (" + w + ")"
	}
	return m.Label()
}

// spread takes the distribution of a measure.
func (f *Fleet) spread(m Measure, members []*Member) Spread {
	s := Spread{Measure: m}
	var values []int64
	for _, x := range members {
		v := m.Of(x.Facts)
		if v < 0 {
			continue
		}
		values = append(values, v)
		s.Total += v
		if s.Worst == nil || v > s.Max {
			s.Worst, s.Max = x, v
		}
		if s.Best == nil || v < s.Min {
			s.Best, s.Min = x, v
		}
	}
	s.Members = len(values)
	slices.Sort(values)
	s.Median, s.P90 = fleet.Median(values), fleet.Quantile(values, 0.9)
	return s
}

// Position is the members at one place along one kind of parallelism.
type Position struct {
	Axis    string
	N       int
	Members int
	Spreads []Spread
}

// positions compares the members of each position. Data parallel ranks are copies of each other, so their position
// says nothing.
func (f *Fleet) positions() {
	for _, axis := range []string{"pp", "tp", "ep", "cp", "sp"} {
		at := map[int][]*Member{}
		for _, m := range f.Members {
			if n, ok := m.On(axis); ok {
				at[n] = append(at[n], m)
			}
		}
		var order []int
		for n := range at {
			order = append(order, n)
		}
		slices.Sort(order)
		if len(order) < 2 {
			continue
		}
		for _, n := range order {
			p := Position{Axis: axis, N: n, Members: len(at[n])}
			for _, m := range measures() {
				p.Spreads = append(p.Spreads, f.spread(m, at[n]))
			}
			f.Positions = append(f.Positions, p)
		}
	}
}

// between is the greatest median of the positions along an axis over the least, 0 if there is no telling.
func (f *Fleet) between(axis string, measure int) float64 {
	var low, high int64
	for _, p := range f.Positions {
		s := &p.Spreads[measure]
		if p.Axis != axis || s.Members == 0 {
			continue
		}
		if low == 0 || s.Median < low {
			low = s.Median
		}
		high = max(high, s.Median)
	}
	return ratio(high, low)
}

// SettingsOf is settings that members ran under.
type SettingsOf struct {
	Conf    string
	Members []*Member
}

// settings groups the members by what they ran under, the largest group first.
func (f *Fleet) settings() {
	index := map[string]int{}
	for _, m := range f.Members {
		if m.Facts.Format != snapshotFormat {
			continue
		}
		i, ok := index[m.Facts.Conf]
		if !ok {
			i = len(f.Settings)
			index[m.Facts.Conf] = i
			f.Settings = append(f.Settings, SettingsOf{Conf: m.Facts.Conf})
		}
		f.Settings[i].Members = append(f.Settings[i].Members, m)
	}
	slices.SortStableFunc(f.Settings, func(a, b SettingsOf) int { return cmp.Compare(len(b.Members), len(a.Members)) })
}

// snapshotFormat is the only kind of file that tells settings of the allocator.
const snapshotFormat = "PyTorch snapshot"

// Unused is how much of what was reserved was not in use.
type Unused struct {
	AtPeak  []int64      // share at the reserved peak, in thousandths, sorted, a member each: exact
	Time    fleet.Shares // share over time, each member counting alike
	Members int          // that Time is of
}

func (f *Fleet) unused() {
	var list []fleet.Shares
	for _, m := range f.Members {
		if v := m.unusedShare(); v >= 0 {
			f.Unused.AtPeak = append(f.Unused.AtPeak, v)
		}
		if len(m.Facts.Time) > 0 {
			list = append(list, m.Facts.Time)
		}
	}
	slices.Sort(f.Unused.AtPeak)
	f.Unused.Time, f.Unused.Members = fleet.Sum(list...), len(list)
}

// unusedShare is the share of what was reserved at most that was not in use, in thousandths, negative if not known.
func (m *Member) unusedShare() int64 {
	if m.Facts.Unused < 0 || m.Facts.PeakReserved <= 0 {
		return -1
	}
	return (m.Facts.Unused*1000 + m.Facts.PeakReserved/2) / m.Facts.PeakReserved
}

// place shows a stack on one line.
func (f *Fleet) place(p fleet.Print) string {
	if p == "" {
		return "recorded without a call stack"
	}
	return report.PlaceOfFrames(f.Stacks[p]).String()
}
