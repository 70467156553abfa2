package fleet

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Where a recording was made, as its name tells. People name such files after what started the program: torchrun,
// Slurm, Kubernetes, Megatron, and what the profiler of PyTorch calls its files. What is looked for, from the
// name of the file outwards to its folders, the first that is found counting:
//
//	rank3 rank_3 rank-0003 rank=3 global_rank3 r3 proc3 task3 3of8    the rank
//	local_rank3 gpu3 cuda:3                                           the rank on its machine
//	node7 host=gpu-a ip-10-0-3-7 worker-2 NAME_PID.TIME.pt.trace.json the machine
//	tp0_pp1_dp2 tp_rank_0 stage3 mp_rank_01_003                       the position
//
// A name without any of them still tells the rank if the names differ in one number that counts the files.

// Place is where a recording was made, as far as its name tells.
type Place struct {
	Rank  int    // -1 if not told
	Local int    // rank on the machine, -1 if not told
	Host  string // empty if not told
	At    []Axis // position by kind of parallelism, in the order of axes
}

// Axis is a position in one kind of parallelism.
type Axis struct {
	Name string // tp, pp, dp, ep, cp, sp
	N    int
}

// axes in the order in which they are shown.
var axes = []string{"pp", "tp", "ep", "cp", "sp", "dp"}

var (
	mpRank    = regexp.MustCompile(`(?i)\bmp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?`)
	ranks     = regexp.MustCompile(`(?i)([a-z]*)[-_.]?rank(?:[-_.]?id)?[-_=:. ]{0,2}(\d{1,7})`)
	shortRank = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(?:r|proc(?:id|ess)?|task|global)[-_=]?(\d{1,7})(?:$|[^a-z0-9])`)
	ofMany    = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(\d{1,7})[-_]?of[-_]?\d{1,7}(?:$|[^a-z0-9])`)
	positions = regexp.MustCompile(`(?i)(?:^|[^a-z])(tp|pp|dp|ep|cp|sp|fsdp|ddp|stage|pipe|pipeline|tensor|expert)[-_=]?(\d{1,5})(?:$|[^0-9])`)
	local     = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:gpu|cuda|device|dev|lr)[-_=:]?(\d{1,4})(?:$|[^0-9])`)
	hosts     = regexp.MustCompile(`(?i)(?:^|[^a-z])((?:node|host|nid|machine|worker|pod|server)[-_]?\d+)(?:$|[^0-9])`)
	namedHost = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:host|hostname|node)=([a-z0-9][a-z0-9.-]*)`)
	ipHost    = regexp.MustCompile(`(?i)(?:^|[^a-z0-9])(ip(?:-\d{1,3}){4})(?:$|[^0-9])`)
	profiled  = regexp.MustCompile(`^(.+?)_(\d+)\.(\d{10,})(?:\.pt)?\.trace\.json`)
	dumped    = regexp.MustCompile(`^(.+?)_(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)_\d\d_\d\d_\d\d_\d\d`)
)

// axisNames are what an axis is called in names.
var axisNames = map[string]string{
	"tp": "tp", "tensor": "tp", "pp": "pp", "pipe": "pp", "pipeline": "pp", "stage": "pp", "ep": "ep", "expert": "ep",
	"cp": "cp", "context": "cp", "sp": "sp", "sequence": "sp", "dp": "dp", "ddp": "dp", "fsdp": "dp", "data": "dp",
}

// Places reads the names of all files of a job. A position that is the same in all of them is none: names tell how
// many there are as often as which.
func Places(files []string) []Place {
	out := make([]Place, len(files))
	known := false
	for i, f := range files {
		out[i] = placeOf(f)
		known = known || out[i].Rank >= 0
	}
	if !known {
		for i, n := range counted(files) {
			out[i].Rank = n
		}
	}
	if len(files) > 1 {
		dropConstant(out)
	}
	return out
}

// dropConstant takes out the axes along which all files are at one position.
func dropConstant(places []Place) {
	for _, name := range axes {
		values := map[int]bool{}
		for i := range places {
			values[places[i].on(name)] = true
		}
		if len(values) > 1 {
			continue
		}
		for i := range places {
			places[i].At = slices.DeleteFunc(places[i].At, func(a Axis) bool { return a.Name == name })
		}
	}
}

// on is the position along an axis, -1 if the name does not tell.
func (p *Place) on(axis string) int {
	for _, a := range p.At {
		if a.Name == axis {
			return a.N
		}
	}
	return -1
}

// On is the position along an axis, false if the name does not tell.
func (p *Place) On(axis string) (int, bool) {
	n := p.on(axis)
	return n, n >= 0
}

func placeOf(file string) Place {
	p := Place{Rank: -1, Local: -1}
	parts := strings.Split(strings.Trim(path.Clean(strings.ReplaceAll(file, `\`, "/")), "/"), "/")
	for i := len(parts) - 1; i >= 0; i-- {
		p.read(parts[i], i == len(parts)-1)
	}
	slices.SortFunc(p.At, func(a, b Axis) int { return cmp.Compare(slices.Index(axes, a.Name), slices.Index(axes, b.Name)) })
	return p
}

// read looks at one part of a path. What is found is taken out of it, so that it is not found again as something else.
func (p *Place) read(part string, isFile bool) {
	if isFile {
		for _, form := range []*regexp.Regexp{profiled, dumped} {
			if m := form.FindStringSubmatchIndex(part); m != nil && ranks.FindString(part[m[2]:m[3]]) == "" && !numbersOnly(part[m[2]:m[3]]) {
				p.setHost(part[m[2]:m[3]])
				part = part[m[3]:]
				break
			}
		}
	}
	part = take(part, mpRank, func(m []string) bool {
		for i, axis := range []string{"tp", "pp", "ep"} {
			p.setAxis(axis, m[i+1])
		}
		return true
	})
	part = take(part, ranks, func(m []string) bool {
		switch prefix := strings.ToLower(m[1]); prefix {
		case "local":
			set(&p.Local, m[2])
		case "node", "host", "machine", "group":
			p.setHost(prefix + m[2])
		default:
			if axis, ok := axisNames[prefix]; ok && prefix != "ddp" && prefix != "fsdp" && prefix != "data" {
				p.setAxis(axis, m[2])
			} else {
				set(&p.Rank, m[2])
			}
		}
		return true
	})
	part = take(part, ofMany, func(m []string) bool { set(&p.Rank, m[1]); return true })
	part = take(part, positions, func(m []string) bool {
		word := strings.ToLower(m[1])
		if len(word) > 2 && !isFile {
			return false // a folder that is called stage1 or expert2 may be called so for any reason
		}
		p.setAxis(axisNames[word], m[2])
		return true
	})
	part = take(part, namedHost, func(m []string) bool { p.setHost(m[1]); return true })
	part = take(part, ipHost, func(m []string) bool { p.setHost(m[1]); return true })
	part = take(part, hosts, func(m []string) bool { p.setHost(m[1]); return true })
	part = take(part, local, func(m []string) bool { set(&p.Local, m[1]); return true })
	take(part, shortRank, func(m []string) bool { set(&p.Rank, m[1]); return true })
}

// take calls use with each match of a form and puts a separator in the place of those that it wants.
func take(s string, form *regexp.Regexp, use func(m []string) bool) string {
	for at := 0; at < len(s); {
		m := form.FindStringSubmatchIndex(s[at:])
		if m == nil {
			break
		}
		groups := make([]string, len(m)/2)
		for i := range groups {
			if m[2*i] >= 0 {
				groups[i] = s[at+m[2*i] : at+m[2*i+1]]
			}
		}
		from, to := at+m[0], at+m[1]
		last := at + m[len(m)-1]
		if m[len(m)-1] < 0 {
			last = to
		}
		if !use(groups) {
			at = last
			continue
		}
		// What ends the match may begin the next one.
		s = s[:from] + "/" + s[last:]
		at = from
	}
	return s
}

func (p *Place) setHost(name string) {
	if p.Host == "" {
		p.Host = name
	}
}

func (p *Place) setAxis(name, digits string) {
	if n, err := strconv.Atoi(digits); err == nil && p.on(name) < 0 {
		p.At = append(p.At, Axis{name, n})
	}
}

func set(to *int, digits string) {
	if n, err := strconv.Atoi(digits); err == nil && *to < 0 {
		*to = n
	}
}

func numbersOnly(s string) bool {
	return strings.Trim(s, "0123456789-_.") == ""
}

var numbers = regexp.MustCompile(`\d+`)

// counted finds the number that counts the files, if their names are otherwise alike; nil if there is none, or
// more than one.
func counted(files []string) []int {
	if len(files) < 2 {
		return nil
	}
	form := func(f string) string { return numbers.ReplaceAllString(f, "#") }
	want := form(files[0])
	fields := make([][]int, len(numbers.FindAllString(files[0], -1)))
	for _, f := range files {
		if form(f) != want {
			return nil
		}
		for i, digits := range numbers.FindAllString(f, -1) {
			n, err := strconv.Atoi(digits)
			if err != nil {
				n = -1
			}
			fields[i] = append(fields[i], n)
		}
	}
	var found []int
	for _, values := range fields {
		sorted := slices.Sorted(slices.Values(values))
		if len(slices.Compact(slices.Clone(sorted))) < len(files) || sorted[0] < 0 || sorted[len(sorted)-1] >= 2*len(files) {
			continue
		}
		if found != nil {
			return nil
		}
		found = values
	}
	return found
}
