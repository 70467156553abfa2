package config

import (
	"fmt"
	"regexp"
	"strings"
)

// People paste the line that sets a variable, not only its value: from a shell, a Dockerfile, a YAML file
// or a Python program. What is around the value is taken off here and said, with what follows from the
// place where it was.

// assignment is a name of a variable such as PYTORCH_CUDA_ALLOC_CONF, what may be before it, and what may
// be between it and the value. Keys are in small letters, so a name in capitals is never one.
var assignment = regexp.MustCompile(`^([^\n]{0,200}?)\b([A-Z][A-Z0-9_]*_CONF[A-Z0-9_]*)["'\]]*(\s*[=:,]\s*|\s+)`)

// call is a change of settings while the program runs.
var call = regexp.MustCompile(`^([^\n]{0,200}?llocator_?[sS]ettings)\(\s*`)

// otherVendors are the variables of extensions with allocators of their own.
var otherVendors = map[string]bool{
	"PYTORCH_NPU_ALLOC_CONF": true, "PYTORCH_MLU_ALLOC_CONF": true,
	"PYTORCH_MUSA_ALLOC_CONF": true, "PYTORCH_XPU_ALLOC_CONF": true,
}

const maxWrapped = 4096 // bytes of a line that is looked at for a name

// unwrap gives the value and where it begins in the text.
func (p *parser) unwrap(text string) (value string, base int) {
	base = len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	value = strings.TrimRight(text[base:], " \t\r\n")
	head := value[:min(len(value), maxWrapped)]
	if m := assignment.FindStringSubmatchIndex(head); m != nil {
		before, name, between := head[m[2]:m[3]], head[m[4]:m[5]], head[m[6]:m[7]]
		p.add(Finding{Code: "pasted-line", Severity: Ignored, Offset: base,
			Message: fmt.Sprintf("%s and what is around the value are not part of the setting, the value alone is read", name)})
		p.variable(name, base+m[4])
		if strings.Contains(before, "environ") || strings.Contains(before, "putenv") {
			p.setLate(base)
		}
		shell := strings.HasSuffix(between, "=") && !strings.HasPrefix(strings.ToLower(before), "set ")
		value = strings.TrimRight(value[m[1]:], ")")
		if strings.HasSuffix(before, `"`) && !strings.HasPrefix(value, `"`) {
			value = strings.TrimSuffix(value, `"`) // set "NAME=value"
		}
		return p.unquote(value, base+m[1], shell)
	}
	if m := call.FindStringSubmatchIndex(head); m != nil {
		p.add(Finding{Code: "pasted-line", Severity: Ignored, Offset: base,
			Message: "the call around the value is not part of the setting, the value alone is read"})
		p.add(Finding{Code: "changed-at-run-time", Severity: Risk, Offset: base,
			Message: "each such call first resets " + p.resets() + "; other settings keep their values, and the backend cannot change"})
		return p.unquote(strings.TrimRight(value[m[1]:], ")"), base+m[1], false)
	}
	if q := value; len(q) >= 2 && (q[0] == '"' || q[0] == '\'') && q[len(q)-1] == q[0] {
		p.add(Finding{Code: "quotes", Severity: Risk, Offset: base,
			Message: "the quotes are taken off, as a shell does; where they reach PyTorch (docker --env-file, set on Windows) it raises"})
		return q[1 : len(q)-1], base + 1
	}
	return value, base
}

// resets names the settings that go back to their defaults whenever a setting is parsed.
func (p *parser) resets() string {
	names := []string{keyMaxSplit, keyRoundup, keyGC}
	if !p.v.before(Version{2, 11}) {
		names = append(names, keyMaxNonSplit)
	}
	return strings.Join(names, ", ")
}

// unquote ends a value where its quotes, the shell or the line end it.
func (p *parser) unquote(s string, base int, shell bool) (string, int) {
	var rest string
	switch {
	case s == "":
		return s, base
	case s[0] == '"' || s[0] == '\'':
		inside, _, _ := strings.Cut(s[1:], s[:1])
		return inside, base + 1 // what is behind the quotes is a command or a bracket
	case shell:
		if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
			s, rest = s[:i], s[i:]
		}
	default:
		s, rest, _ = strings.Cut(s, "\n")
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(rest), ":"); first != "" && first != strings.TrimSpace(rest) {
		if _, ok := lookup(first); ok {
			p.add(Finding{Code: "after-value", Key: first, Severity: Ignored, Offset: base + len(s),
				Message: "the value ends at this white space for a shell, so what follows is not set; put the value in quotes or take the space out"})
		}
	}
	return s, base
}

// setLate warns about a setting made inside the program.
func (p *parser) setLate(at int) {
	when := "before anything imports torch"
	if p.v.before(Version{2, 10}) {
		when = "before the first use of the GPU, and for a backend before anything imports torch"
	}
	p.add(Finding{Code: "set-too-late", Severity: Risk, Offset: at,
		Message: "set inside of a program this holds only if it runs " + when + "; later it is ignored, and a backend set late raises",
		Suggest: "set the variable outside of the program"})
}

// variable says which versions look at a variable.
func (p *parser) variable(name string, at int) {
	f := Finding{Code: "variable", Key: name, Offset: at}
	const cuda, generic, hip = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"
	switch {
	case name == cuda && !p.v.before(Version{2, 9}) && p.v.before(Version{2, 12}):
		f.Severity = Deprecated
		f.Message = fmt.Sprintf("PyTorch %s reads %s and may print a warning in favour of %s", p.v, cuda, generic)
		if p.v.before(Version{2, 10}) {
			f.Message += ", which this version does not yet pass to the CUDA allocator: keep the old name"
		} else {
			f.Suggest = generic
		}
	case name == cuda:
		return
	case name == generic && p.v.before(Version{2, 10}):
		f.Severity, f.Suggest = Ignored, cuda
		f.Message = fmt.Sprintf("the CUDA allocator of PyTorch %s does not read %s, so nothing is set", p.v, generic)
	case name == generic:
		f.Severity = Risk
		f.Message = fmt.Sprintf("%s has no say where %s or %s is set too", generic, cuda, hip)
	case name == hip && p.v.before(Version{2, 10}):
		f.Severity, f.Suggest = Risk, cuda
		f.Message = fmt.Sprintf("only builds for ROCm read %s, and only without %s", hip, cuda)
	case name == hip:
		return
	case !otherVendors[name] && distance(name[:min(len(name), 64)], cuda) <= 6:
		f.Severity, f.Suggest = Ignored, cuda
		f.Message = fmt.Sprintf("PyTorch does not know the variable %s, %s is probably meant", name, cuda)
	default:
		f.Severity = Ignored
		f.Message = fmt.Sprintf("the CUDA allocator of PyTorch does not read %s", name)
	}
	p.add(f)
}
