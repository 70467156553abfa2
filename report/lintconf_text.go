package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/allocators/caching/config"
)

// Columns of the text about a setting.
const (
	lintWidth  = 100 // messages are broken before this
	lintWindow = 90  // so much of a long setting is shown around a place
)

// WriteText renders the verdict for people: the answer, then each finding under the place that it is about.
func (l *SettingLint) WriteText(w io.Writer, style Style) error {
	p := &page{w: w, style: style}
	p.line("%s", p.bold(l.answer()))
	for i := 0; i < len(l.Findings); {
		f := l.Findings[i]
		p.line("")
		p.fence()
		if f.Offset >= 0 {
			show, caret := window(l.Text, f.Offset)
			p.line("  %s", show)
			p.line("  %s^", strings.Repeat(" ", caret))
		}
		for ; i < len(l.Findings) && l.Findings[i].Offset == f.Offset; i++ {
			l.finding(p, l.Findings[i])
		}
		p.fence()
	}
	if l.Correct != "" || len(l.Others) > 0 || l.Force != "" && l.Force != l.Text {
		p.line("")
	}
	if l.Correct != "" {
		p.line("Write instead: %s", p.code(l.Correct))
	}
	if !l.Raises() && l.Force != "" && l.Force != l.Text && l.Force != l.Correct {
		p.line("In force is then: %s", p.code(l.Force))
	}
	for _, o := range l.Others {
		p.line("%s", o.text())
	}
	return p.err
}

// code sets text off that is to be copied.
func (p *page) code(s string) string {
	if p.style.Markdown {
		return "`" + s + "`"
	}
	return s
}

// answer is the first line.
func (l *SettingLint) answer() string {
	torch := "PyTorch " + l.Version.String()
	switch errs := l.count(config.Error); {
	case strings.TrimSpace(l.Text) == "":
		return "An empty setting: " + torch + " works with its defaults."
	case l.unread():
		return torch + " does not look at this setting: it is in a variable that it does not read."
	case errs == 1:
		return torch + " raises on this setting and uses nothing of it: " + l.reason() + "."
	case errs > 1:
		return fmt.Sprintf("%s raises on this setting and uses nothing of it, for %d reasons: %s, …", torch, errs, l.reason())
	}
	if ignored := l.keys(config.Ignored, config.NoEffect); len(ignored) > 0 {
		return torch + " accepts this setting, and part of it does nothing: " + strings.Join(ignored, ", ") + "."
	}
	risks, old := l.count(config.Risk), l.count(config.Deprecated)
	switch {
	case risks > 0:
		return fmt.Sprintf("%s does what this setting says; %s to weigh.", torch, plural(risks, "risk"))
	case old > 0:
		return torch + " does what this setting says, under a name that is going out of use."
	}
	return torch + " does what this setting says."
}

// reason is why PyTorch raises, as the end of a sentence that has named the version.
func (l *SettingLint) reason() string {
	for _, f := range l.Findings {
		if f.Severity == config.Error {
			return withoutVersion(f.Message, l.Version)
		}
	}
	return ""
}

// withoutVersion takes the name of a version off a message that begins with it.
func withoutVersion(message string, v config.Version) string {
	if rest, ok := strings.CutPrefix(message, "PyTorch "+v.String()+" "); ok {
		return "it " + rest
	}
	return message
}

// keys names what findings of some kinds are about, each once.
func (l *SettingLint) keys(kinds ...config.Severity) []string {
	var out []string
	for _, f := range l.Findings {
		name := f.Key
		if name == "" {
			name = f.Code
		}
		if matters(f) && slices.Contains(kinds, f.Severity) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (l *SettingLint) finding(p *page, f config.Finding) {
	kind := string(f.Severity)
	if f.Code == pastedLine {
		kind = "note"
	}
	text := f.Message
	if f.Offset < 0 && f.Key != "" {
		text = f.Key + ": " + text
	}
	for i, line := range wrapped(text, lintWidth-14) {
		if i > 0 {
			kind = ""
		} else if kind != "" {
			kind += ":"
		}
		p.line("  %-12s%s", kind, line)
	}
	if f.Suggest != "" && !strings.Contains(f.Message, f.Suggest) {
		p.line("  %-12sinstead: %s", "", f.Suggest)
	}
}

// text is one line about other versions.
func (o VersionLint) text() string {
	versions := "PyTorch " + o.From.String()
	if o.To != o.From {
		versions += " to " + o.To.String()
	}
	one := o.To == o.From
	if len(o.Findings) == 0 {
		return versions + verb(one, " takes", " take") + " all of it as written."
	}
	var parts []string
	for _, f := range o.Findings {
		head, _, _ := strings.Cut(f.Message, "; ")
		switch f.Severity {
		case config.Error:
			return versions + verb(one, " raises", " raise") + ": " + withoutVersion(head, o.From) + "."
		case config.Ignored:
			parts = append(parts, "ignored: "+head)
		case config.NoEffect:
			parts = append(parts, "without effect: "+head)
		default:
			parts = append(parts, head)
		}
	}
	return versions + ": " + strings.Join(parts, "; ") + "."
}

func verb(one bool, singular, plural string) string {
	if one {
		return singular
	}
	return plural
}

// window shows a setting around a place, on one line, and where the place is in it.
func window(s string, at int) (show string, caret int) {
	at = min(at, len(s))
	var runes []rune
	for i, r := range s {
		if i <= at {
			caret = len(runes)
		}
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			r = '·'
		}
		runes = append(runes, r)
	}
	if at == len(s) {
		caret = len(runes)
	}
	from, to := 0, len(runes)
	if to > lintWindow {
		from = max(0, min(caret-lintWindow/2, to-lintWindow))
		to = from + lintWindow
	}
	show = string(runes[from:to])
	caret -= from
	if from > 0 {
		show, caret = "…"+show, caret+1
	}
	if to < len(runes) {
		show += "…"
	}
	return show, caret
}

// wrapped breaks text at spaces.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
