package report

import (
	"io"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/allocators/caching/config"
)

// SettingLint is what a version of PyTorch makes of an allocator setting.
type SettingLint struct {
	Text     string // as it was given
	Version  config.Version
	Findings []config.Finding // in the order of the text
	Force    string           // what is in force as a result, in one form; empty if nothing is, or if it raises
	Correct  string           // what to write instead, empty if nothing better is known
	Others   []VersionLint    // versions that make something else of it
}

// VersionLint is what a range of versions makes of a setting.
type VersionLint struct {
	From, To config.Version
	Findings []config.Finding // those that make a difference: errors, what is ignored or has no effect, other risks
}

// LintSetting judges a setting for one version, and says where others differ.
func LintSetting(text string, v config.Version) *SettingLint {
	cfg, findings, err := config.Parse(text, v)
	findings = slices.DeleteFunc(findings, func(f config.Finding) bool {
		return f.Severity == config.NoEffect && refused(findings, f.Key) // what was refused has no effect, of course
	})
	l := &SettingLint{Text: text, Version: v, Findings: findings}
	if err == nil && !l.unread() {
		l.Force = cfg.String()
	}
	l.Correct = correct(text, v)
	l.Others = otherVersions(text, v, findings)
	return l
}

// refused says whether PyTorch raises on the value of a key.
func refused(fs []config.Finding, key string) bool {
	return slices.ContainsFunc(fs, func(f config.Finding) bool { return f.Severity == config.Error && f.Key == key })
}

// Raises says whether PyTorch refuses the whole setting.
func (l *SettingLint) Raises() bool { return l.count(config.Error) > 0 }

// Passed says whether PyTorch does what is written: risks and old names are for people to weigh.
func (l *SettingLint) Passed() bool {
	return !slices.ContainsFunc(l.Findings, matters)
}

// unread says whether the text names a variable that PyTorch does not look at.
func (l *SettingLint) unread() bool {
	return slices.ContainsFunc(l.Findings, func(f config.Finding) bool { return f.Code == "variable" && f.Severity == config.Ignored })
}

func (l *SettingLint) count(s config.Severity) int {
	n := 0
	for _, f := range l.Findings {
		if f.Severity == s && f.Code != pastedLine {
			n++
		}
	}
	return n
}

// pastedLine is the finding about what surrounds a value. It was taken off here, so nothing is wrong with it.
const pastedLine = "pasted-line"

// matters says whether PyTorch does something else than what is written.
func matters(f config.Finding) bool {
	switch f.Severity {
	case config.Error, config.Ignored, config.NoEffect:
		return f.Code != pastedLine
	}
	return false
}

// firstVersion is the oldest version that settings are compared with: the first whose grammar is known.
var firstVersion = config.Version{Major: 2, Minor: 0}

// otherVersions finds the versions that make something else of the setting than v does.
func otherVersions(text string, v config.Version, findings []config.Finding) []VersionLint {
	mine := verdictKey(findings)
	var out []VersionLint
	last := mine
	for w := firstVersion; w.Minor <= config.Latest.Minor; w.Minor++ {
		_, fs, _ := config.Parse(text, w)
		key := verdictKey(fs)
		switch {
		case key == mine || w == v:
			key = mine
		case key == last:
			out[len(out)-1].To = w
		default:
			out = append(out, VersionLint{From: w, To: w, Findings: slices.DeleteFunc(fs, func(f config.Finding) bool {
				return !matters(f) && (f.Severity != config.Risk || has(findings, f.Code, config.Risk))
			})})
		}
		last = key
	}
	return out
}

func has(fs []config.Finding, code string, s config.Severity) bool {
	return slices.ContainsFunc(fs, func(f config.Finding) bool { return f.Code == code && f.Severity == s })
}

// verdictKey is equal for findings that come to the same: one that raises makes the others immaterial.
func verdictKey(fs []config.Finding) string {
	if slices.ContainsFunc(fs, func(f config.Finding) bool { return f.Severity == config.Error }) {
		return "raises"
	}
	var b strings.Builder
	for _, f := range fs {
		if matters(f) {
			b.WriteString(string(f.Severity) + " " + f.Code + " " + f.Key + "\n")
		}
	}
	return b.String()
}

// correct mends what can be mended without guessing at what is wanted: misspelt keys, values that are
// written otherwise, parts that no version knows. It is empty if nothing was wrong, or if something stays so.
func correct(text string, v config.Version) string {
	value := text
	for range 2 * maxMended {
		_, fs, err := config.Parse(value, v)
		i := slices.IndexFunc(fs, mendable)
		if i < 0 {
			if err != nil || value == text || strings.Trim(value, " ,") == "" || strings.ContainsAny(value, `"'=`) {
				return ""
			}
			return strings.ReplaceAll(value, " ", "")
		}
		mended := mend(value, fs[i])
		if mended == value {
			return ""
		}
		value = mended
	}
	return ""
}

const maxMended = 20 // mistakes in one setting that are mended

func mendable(f config.Finding) bool {
	switch f.Code {
	case "unit", "trailing", "separator", "duplicate", "bad-reserve", "async-ignores":
		return f.Offset >= 0
	}
	return f.Severity == config.Error && f.Offset >= 0
}

// mend applies one suggestion, or takes the part out that it is about.
func mend(s string, f config.Finding) string {
	at := min(f.Offset, len(s))
	from, to := partAt(s, at)
	switch {
	case f.Code == "separator" && f.Suggest != "" && at < len(s):
		return s[:at] + f.Suggest + s[at+1:]
	case strings.Contains(f.Suggest, ":") && !strings.HasSuffix(f.Suggest, "..."):
		return s[:from] + f.Suggest + s[to:]
	case f.Suggest != "" && !strings.HasSuffix(f.Suggest, "..."):
		end := at
		for end < to && !strings.ContainsRune(",:[]", rune(s[end])) {
			end++
		}
		return s[:at] + f.Suggest + s[end:]
	case strings.Contains(s[from:to], ";"):
		return s[:from] + strings.Replace(s[from:to], ";", ",", 1) + s[to:]
	case f.Code == "missing-key" && at < len(s):
		return s[:at] + s[at+1:]
	case f.Code == "unknown-key", f.Code == "key-of-other-version", f.Severity == config.Ignored:
		return strings.Trim(s[:from]+strings.TrimPrefix(s[to:], ","), ", ")
	}
	return s
}

// partAt is the key:value that a place lies in, bounded by commas outside of brackets, without the white
// space around it.
func partAt(s string, at int) (from, to int) {
	depth := 0
	to = len(s)
scan:
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			if i >= at {
				to = i
				break scan
			}
			from = i + 1
		}
	}
	for from < to && s[from] == ' ' {
		from++
	}
	return from, to
}

type lintJSON struct {
	Schema   string            `json:"schema"`
	Setting  string            `json:"setting"`
	Torch    string            `json:"torch"`
	Passed   bool              `json:"passed"`
	Raises   bool              `json:"raises"`
	Findings []lintFindingJSON `json:"findings"`
	Force    *string           `json:"in_force"`
	Correct  *string           `json:"write_instead"`
	Others   []lintVersionJSON `json:"other_versions"`
}

type lintFindingJSON struct {
	Code     string  `json:"code"`
	Key      *string `json:"key"`
	Severity string  `json:"severity"`
	Message  string  `json:"message"`
	Offset   *int    `json:"offset"`
	Suggest  *string `json:"suggest"`
}

type lintVersionJSON struct {
	From     string            `json:"from"`
	To       string            `json:"to"`
	Raises   bool              `json:"raises"`
	Findings []lintFindingJSON `json:"findings"`
}

// WriteJSON renders the verdict for programs, schema vramscope/lint-conf/v1.
func (l *SettingLint) WriteJSON(w io.Writer) error {
	out := lintJSON{Schema: "vramscope/lint-conf/v1", Setting: l.Text, Torch: l.Version.String(), Passed: l.Passed(),
		Raises: l.Raises(), Findings: lintFindings(l.Findings), Correct: known(l.Correct), Others: []lintVersionJSON{}}
	if !l.Raises() && !l.unread() {
		out.Force = &l.Force
	}
	for _, o := range l.Others {
		raises := slices.ContainsFunc(o.Findings, func(f config.Finding) bool { return f.Severity == config.Error })
		out.Others = append(out.Others, lintVersionJSON{o.From.String(), o.To.String(), raises, lintFindings(o.Findings)})
	}
	return WriteJSON(w, out)
}

func lintFindings(fs []config.Finding) []lintFindingJSON {
	out := []lintFindingJSON{}
	for _, f := range fs {
		j := lintFindingJSON{Code: f.Code, Key: known(f.Key), Severity: string(f.Severity), Message: f.Message, Suggest: known(f.Suggest)}
		if f.Offset >= 0 {
			j.Offset = &f.Offset
		}
		out = append(out, j)
	}
	return out
}
