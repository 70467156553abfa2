package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/vramscope/vramscope/allocators"
)

// TestScripts runs the scripts of testdata/scripts. Their addresses were worked out by hand from the
// rules. A line of a script is one call; sizes are in MiB, or in bytes with a b behind; addresses are
// given as MiB from the base of the context.
//
//	new [capacity=SIZE] [policy=descending|ascending] [base-hole=no] [held=AT:SIZE,…]
//	alloc NAME SIZE, free NAME, reserve NAME SIZE, release NAME, map SIZE, unmap SIZE, memory, faults
//	event OP gap|hole|take AT SIZE, event OP block|mapping SIZE, tick OP
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, data *datadriven.TestData) string {
			if data.Cmd != "run" {
				t.Fatalf("%s: the only command is run", data.Pos)
			}
			s := &script{}
			var out strings.Builder
			for line := range strings.Lines(data.Input) {
				words := strings.Fields(line)
				if len(words) == 0 {
					continue
				}
				said, err := s.do(words)
				if err != nil {
					t.Fatalf("%s: %s: %v", data.Pos, line, err)
				}
				if said != "" {
					fmt.Fprintln(&out, said)
				}
				if s.driver == nil {
					continue
				}
				if err := s.driver.check(); err != nil {
					t.Fatalf("%s: after %s: %v", data.Pos, line, err)
				}
			}
			return out.String()
		})
	})
}

type script struct {
	config Config
	driver *Driver
	names  map[string]Range
}

func (s *script) do(words []string) (string, error) {
	what, args := words[0], words[1:]
	switch what {
	case "new":
		return "", s.new(args)
	case "event":
		return "", s.event(args)
	}
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch what {
	case "alloc", "reserve":
		size, err := parseSize(arg(1))
		if err != nil {
			return "", err
		}
		call := s.driver.Alloc
		if what == "reserve" {
			call = s.driver.Reserve
		}
		addr, err := call(size)
		if err != nil {
			return arg(0) + " " + refusal(err), nil
		}
		s.names[arg(0)] = Range{addr, size}
		if what == "reserve" {
			return fmt.Sprintf("%s %#x", arg(0), addr), nil
		}
		return fmt.Sprintf("%s %+d", arg(0), int64(addr-DefaultBase)/mib), nil
	case "free":
		r := s.names[arg(0)]
		s.driver.Free(r.Addr, r.Size)
	case "release":
		r := s.names[arg(0)]
		s.driver.Release(r.Addr, r.Size)
	case "map", "unmap":
		size, err := parseSize(arg(0))
		if err != nil {
			return "", err
		}
		if what == "unmap" {
			s.driver.Unmap(reserveBottom, size)
			return "", nil
		}
		if err := s.driver.Map(reserveBottom, size); err != nil {
			return "map " + refusal(err), nil
		}
	case "tick":
		op, err := strconv.ParseInt(arg(0), 10, 64)
		s.driver.Tick(op)
		return "", err
	case "memory":
		free, total := s.driver.Memory()
		return fmt.Sprintf("free %d of %d", free, total), nil
	case "faults":
		return fmt.Sprintf("faults %d", s.driver.Faults()), nil
	default:
		return "", fmt.Errorf("no command %q", what)
	}
	return "", nil
}

func refusal(err error) string {
	if errors.Is(err, allocators.ErrNoMemory) {
		return "no memory"
	}
	return err.Error()
}

// new starts a device, with the events given before it.
func (s *script) new(args []string) error {
	c := Config{Events: s.config.Events}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "capacity":
			size, err := parseSize(value)
			if err != nil {
				return err
			}
			c.Capacity = size
		case "policy":
			c.Policy = map[string]Policy{"descending": Descending, "ascending": Ascending}[value]
		case "base-hole":
			c.NoBaseHole = true
		case "held":
			for _, h := range strings.Split(value, ",") {
				at, size, _ := strings.Cut(h, ":")
				r, err := parseRange(at, size)
				if err != nil {
					return err
				}
				c.Held = append(c.Held, r)
			}
		default:
			return fmt.Errorf("no option %q", key)
		}
	}
	s.driver, s.names = New(c), map[string]Range{}
	for i, r := range c.Held {
		s.names["held"+strconv.Itoa(i)] = r
	}
	return nil
}

func (s *script) event(args []string) error {
	if len(args) < 3 {
		return errors.New("an event has an operation, a kind, a place and a size")
	}
	op, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	kinds := map[string]EventKind{"gap": OpenGap, "hole": OpenHole, "take": TakeRange, "block": TakeBlock, "mapping": TakeMapping}
	kind, ok := kinds[args[1]]
	if !ok {
		return fmt.Errorf("no event %q", args[1])
	}
	r, err := parseRange(args[2], args[len(args)-1])
	s.config.Events = append(s.config.Events, Event{Op: op, Kind: kind, Addr: r.Addr, Size: r.Size})
	return err
}

func parseSize(s string) (int64, error) {
	if bytes, ok := strings.CutSuffix(s, "b"); ok {
		return strconv.ParseInt(bytes, 10, 64)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * mib, err
}

func parseRange(at, size string) (Range, error) {
	off, err := parseSize(at)
	if err != nil {
		return Range{}, err
	}
	n, err := parseSize(size)
	return Range{DefaultBase + uint64(off), n}, err
}
