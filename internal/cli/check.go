package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vramscope/vramscope/report/check"
	"github.com/vramscope/vramscope/simulate"
)

// limitFlags are flags that limit one figure, with the name of its rule.
var limitFlags = []struct{ flag, rule, help string }{
	{"max-peak-allocated", "peak-allocated", "fail if more `SIZE` was ever allocated"},
	{"max-peak-reserved", "peak-reserved", "fail if more `SIZE` was ever reserved, as recorded"},
	{"max-peak-reserved-replayed", "peak-reserved-replayed", "fail if more `SIZE` is reserved when the requests are replayed from an empty cache"},
	{"max-fragmentation", "fragmentation", "fail if a greater `SHARE` of what was reserved was never in use, such as 20%"},
	{"max-retries", "retries", "fail if the cache was flushed for want of memory more than `N` times"},
	{"max-ooms", "ooms", "fail if more than `N` requests ran out of memory"},
	{"max-live-at-end", "live-at-end", "fail if more `SIZE` is in use at the end"},
	{"max-leak-per-step", "leak-per-step", "fail if what stays grows by more `SIZE` from step to step"},
}

// checkFlags are the flags of check.
type checkFlags struct {
	baseline, policy, writeBaseline string
	junit, sarif                    string
	limits                          [8]string // by limitFlags
	stacks, tolerances              []string
	room                            roomFlags
	device                          int
}

func newCheck(e *env) *cobra.Command {
	var (
		out output
		f   checkFlags
	)
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Whether a recording keeps to a policy or a baseline: a gate for CI",
		Long: `Holds a recording against limits, given by flags or in a policy file, and against a
baseline: a small file, made of an earlier recording by --write-baseline and committed
with the code. What exceeds it is blamed on the call stacks that hold more. What depends
on the requests alone is compared exactly, what depends on the history of the process
with some room; --tolerance changes both. Exit code 1 if a rule is broken.
Where GITHUB_ACTIONS is set, findings are written as annotations and to the job's summary.`,
		Args: oneFile,
		RunE: func(c *cobra.Command, args []string) error {
			if err := out.check(args[0], f.baseline, f.policy); err != nil {
				return err
			}
			if err := f.unread(args[0]); err != nil {
				return err
			}
			policy, err := f.readPolicy()
			if err != nil {
				return err
			}
			base, err := f.readBaseline(policy)
			if err != nil {
				return err
			}
			if base == nil && policy.Empty() && f.writeBaseline == "" {
				return usageError{errors.New("nothing to check against: give --baseline, --policy or a limit such as --max-peak-allocated 12GiB; --write-baseline makes a baseline")}
			}
			t, err := e.open(args[0])
			if err != nil {
				return err
			}
			r, err := check.Run(e.label(args[0]), t, check.Options{Policy: policy, Baseline: base, Device: f.device, Limit: f.room.limit.or(-1), Memory: f.room.memory.or(0)})
			if err != nil {
				return &inputError{args[0], err}
			}
			r.Policy = f.policy
			if err := f.write(e, &out, r, policy); err != nil {
				return err
			}
			if !r.Passed() {
				return errFailed
			}
			return nil
		},
	}
	out.flags(c)
	f.add(c)
	return c
}

func (f *checkFlags) add(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.baseline, "baseline", "", "compare with this `file`")
	s.StringVar(&f.writeBaseline, "write-baseline", "", "make a baseline of this recording, in this `file`")
	s.StringVar(&f.policy, "policy", "", "limits and tolerances, in a TOML `file`")
	for i, l := range limitFlags {
		s.StringVar(&f.limits[i], l.flag, "", l.help)
	}
	s.StringArrayVar(&f.stacks, "max-stack", nil, "fail if the stacks that a pattern matches hold more at once: `PATTERN=SIZE` (repeatable)")
	s.StringArrayVar(&f.tolerances, "tolerance", nil, "by how much a figure may exceed its baseline: `[RULE=]2%`, 64MiB, \"2% or 64MiB\", off (repeatable)")
	s.StringVar(&f.junit, "junit", "", "write a JUnit report to this `file`")
	s.StringVar(&f.sarif, "sarif", "", "write SARIF to this `file`")
	f.room.recordedIn(c)
	s.Var(newDevice(&f.device), "device", "only this device")
}

// unread sees to it that nothing that is read is written over. A baseline may be: it is read first.
func (f *checkFlags) unread(recording string) error {
	for _, x := range []struct {
		flag, file string
		inputs     []string
	}{
		{"--junit", f.junit, []string{recording, f.policy, f.baseline}},
		{"--sarif", f.sarif, []string{recording, f.policy, f.baseline}},
		{"--write-baseline", f.writeBaseline, []string{recording, f.policy}},
	} {
		if err := unread(x.flag, x.file, x.inputs...); err != nil {
			return err
		}
	}
	return nil
}

// readPolicy reads the policy file, if any; flags go over it.
func (f *checkFlags) readPolicy() (*check.Policy, error) {
	policy := check.NewPolicy()
	if f.policy != "" {
		r, err := os.Open(f.policy)
		if err != nil {
			return nil, &inputError{f.policy, fmt.Errorf("cannot be opened: %w", reason(err))}
		}
		defer r.Close()
		if policy, err = check.ReadPolicy(r); err != nil {
			return nil, &inputError{f.policy, err}
		}
	}
	for i, l := range limitFlags {
		if f.limits[i] == "" {
			continue
		}
		if err := policy.SetLimit(l.rule, f.limits[i]); err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w", l.flag, err)}
		}
	}
	for _, s := range f.stacks {
		i := strings.LastIndexByte(s, '=')
		if i <= 0 {
			return nil, usageError{fmt.Errorf("--max-stack %s: write it as PATTERN=SIZE", s)}
		}
		size, err := simulate.ParseSize(s[i+1:])
		if err == nil {
			var p check.Pattern
			if p, err = check.NewPattern(s[:i], size); err == nil {
				policy.Patterns = append(policy.Patterns, p)
			}
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("--max-stack %s: %w", s, err)}
		}
	}
	for _, s := range f.tolerances {
		rule, text, named := strings.Cut(s, "=")
		if !named {
			rule, text = "default", s
		}
		if err := policy.SetTolerance(rule, text); err != nil {
			return nil, usageError{fmt.Errorf("--tolerance %s: %w", s, err)}
		}
	}
	return policy, nil
}

// readBaseline reads the baseline that is named by a flag, or else by the policy, beside it.
func (f *checkFlags) readBaseline(policy *check.Policy) (*check.Baseline, error) {
	file := f.baseline
	if file == "" && policy.Baseline != "" {
		file = policy.Baseline
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(f.policy), file)
		}
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && f.writeBaseline != "" {
			return nil, nil // it is about to be made for the first time
		}
	}
	if file == "" {
		return nil, nil
	}
	r, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &inputError{file, fmt.Errorf("there is no baseline yet; make it with --write-baseline %s", file)}
	}
	if err != nil {
		return nil, &inputError{file, fmt.Errorf("cannot be opened: %w", reason(err))}
	}
	defer r.Close()
	b, err := check.ReadBaseline(file, r)
	if err != nil {
		return nil, &inputError{file, err}
	}
	return b, nil
}

// write puts the result everywhere it is wanted.
func (f *checkFlags) write(e *env, out *output, r *check.Result, policy *check.Policy) error {
	source := check.Checkout(cmp.Or(os.Getenv("GITHUB_WORKSPACE"), os.Getenv("CI_PROJECT_DIR"), "."))
	for _, x := range []struct {
		file  string
		write func(io.Writer) error
	}{
		{f.junit, r.WriteJUnit},
		{f.sarif, func(w io.Writer) error { return r.WriteSARIF(w, source, version) }},
		{f.writeBaseline, check.Make(r.Profiles, policy.Patterns).Write},
	} {
		if x.file == "" {
			continue
		}
		o := output{file: x.file}
		if err := o.write(e.stdout, x.write); err != nil {
			return err
		}
	}
	r.Written = f.writeBaseline
	err := out.result(e.stdout, r, 0)
	if err != nil || os.Getenv("GITHUB_ACTIONS") != "true" {
		return err
	}
	return f.tellGitHub(e, out, r, source)
}

// tellGitHub writes annotations and a part of the job's summary. A runner reads commands from both streams;
// standard output is left alone where it has a document.
func (f *checkFlags) tellGitHub(e *env, out *output, r *check.Result, source check.Checkout) error {
	to := e.stdout
	if out.format != "text" || out.quiet {
		to = e.stderr
	}
	if err := r.WriteAnnotations(to, source); err != nil {
		return outputError{fmt.Errorf("annotations: %w", err)}
	}
	file := os.Getenv("GITHUB_STEP_SUMMARY")
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	if err := r.WriteSummary(&b); err != nil {
		return err
	}
	w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = w.Write(b.Bytes())
		if e := w.Close(); err == nil {
			err = e
		}
	}
	if err != nil {
		return outputError{fmt.Errorf("%s: cannot be written: %w", file, reason(err))}
	}
	return nil
}
