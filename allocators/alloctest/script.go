package alloctest

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/vramscope/vramscope/allocators"
)

// Kind is what an operation of a script does.
type Kind uint8

// The kinds of operation.
const (
	Malloc Kind = iota
	Free
	FreePending // freed while another stream uses it
	Complete    // the other stream is done
	EmptyCache
)

var kindNames = [...]string{"malloc", "free", "free-pending", "complete", "empty-cache"}

func (k Kind) String() string { return kindNames[k] }

// An Op is one call of an allocator.
type Op struct {
	Kind   Kind
	Block  uint32
	Size   int64  // of a malloc, bytes
	Stream uint32 // of a malloc
}

// A Script is a valid sequence of calls: a block is freed once, and after its malloc.
type Script []Op

// String is the form in which scripts are kept as files: an operation a line,
//
//	malloc 3 1M             block 3, size
//	malloc 4 512 stream=2
//	free 3
//	free-pending 4
//	complete 4
//	empty-cache
//
// with blank lines and comments after #.
func (s Script) String() string {
	var b strings.Builder
	for _, op := range s {
		b.WriteString(op.Kind.String())
		if op.Kind != EmptyCache {
			fmt.Fprintf(&b, " %d", op.Block)
		}
		if op.Kind == Malloc {
			b.WriteString(" " + FormatSize(op.Size))
			if op.Stream != 0 {
				fmt.Fprintf(&b, " stream=%d", op.Stream)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ParseScript reads what String writes.
func ParseScript(text string) (Script, error) {
	var s Script
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		op, err := parseOp(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s = append(s, op)
	}
	return s, lines.Err()
}

func parseOp(line string) (Op, error) {
	words := strings.Fields(line)
	k := slices.Index(kindNames[:], words[0])
	if k < 0 {
		return Op{}, fmt.Errorf("%q is no operation: want one of %s", words[0], strings.Join(kindNames[:], ", "))
	}
	op, want := Op{Kind: Kind(k)}, 2
	switch op.Kind {
	case Malloc:
		want = 3
	case EmptyCache:
		want = 1
	}
	if len(words) == want+1 && op.Kind == Malloc {
		if stream, ok := strings.CutPrefix(words[3], "stream="); ok {
			n, err := strconv.ParseUint(stream, 10, 32)
			if err != nil {
				return op, fmt.Errorf("%q: %w", line, err)
			}
			op.Stream, want = uint32(n), 4
		}
	}
	if len(words) != want {
		return op, fmt.Errorf("%q: too few or too many words", line)
	}
	if want > 1 {
		n, err := strconv.ParseUint(words[1], 10, 32)
		if err != nil {
			return op, fmt.Errorf("%q: %w", line, err)
		}
		op.Block = uint32(n)
	}
	if op.Kind == Malloc {
		var err error
		if op.Size, err = ParseSize(words[2]); err != nil {
			return op, fmt.Errorf("%q: %w", line, err)
		}
	}
	return op, nil
}

const units = "KMG"

// ParseSize reads a number of bytes such as 512, 4K, 20M, 1G.
func ParseSize(text string) (int64, error) {
	number, shift := text, 0
	if i := strings.IndexByte(units, text[len(text)-1]); i >= 0 {
		number, shift = text[:len(text)-1], 10*(i+1)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is not a size: want bytes, or a number with K, M or G", text)
	}
	return n << shift, nil
}

// FormatSize is the shortest text that ParseSize reads as n.
func FormatSize(n int64) string {
	i := 0
	for n != 0 && n%1024 == 0 && i < len(units) {
		n /= 1024
		i++
	}
	return strconv.FormatInt(n, 10) + [...]string{"", "K", "M", "G"}[i]
}

func (op Op) apply(a allocators.Allocator) error {
	switch op.Kind {
	case Malloc:
		return a.Malloc(allocators.Request{Block: op.Block, Size: op.Size, Stream: op.Stream})
	case Free, FreePending:
		a.Free(op.Block, op.Kind == FreePending)
	case Complete:
		a.Complete(op.Block)
	case EmptyCache:
		a.EmptyCache()
	}
	return nil
}

// Scripts draws random scripts of up to n operations whose requests are of up to max bytes. Sizes are
// drawn the way programs draw them: many small ones, powers of two and their neighbours, repetitions of
// earlier ones. Block numbers are used again after their block is gone. Rapid shrinks a failing script
// to few operations and small sizes.
func Scripts(n int, max int64) *rapid.Generator[Script] {
	return rapid.Custom(func(t *rapid.T) Script {
		var (
			s       Script
			live    []uint32
			pending []uint32
			unused  []uint32
			next    uint32
			sizes   []int64
		)
		pick := func(from *[]uint32) uint32 {
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
			b := (*from)[i]
			*from = append((*from)[:i:i], (*from)[i+1:]...)
			return b
		}
		for range rapid.IntRange(1, n).Draw(t, "operations") {
			switch k := rapid.IntRange(0, 19).Draw(t, "kind"); {
			case k < 9 || len(live) == 0:
				op := Op{Kind: Malloc, Size: drawSize(t, max, sizes)}
				if rapid.IntRange(0, 3).Draw(t, "other stream") == 3 {
					op.Stream = rapid.Uint32Range(1, 3).Draw(t, "stream")
				}
				if len(unused) > 0 && rapid.Bool().Draw(t, "again") {
					op.Block = pick(&unused)
				} else {
					op.Block = next
					next++
				}
				sizes = append(sizes, op.Size)
				live = append(live, op.Block)
				s = append(s, op)
			case k < 16:
				b := pick(&live)
				unused = append(unused, b)
				s = append(s, Op{Kind: Free, Block: b})
			case k < 18:
				b := pick(&live)
				pending = append(pending, b)
				s = append(s, Op{Kind: FreePending, Block: b})
			case k < 19 && len(pending) > 0:
				b := pick(&pending)
				unused = append(unused, b)
				s = append(s, Op{Kind: Complete, Block: b})
			default:
				s = append(s, Op{Kind: EmptyCache})
			}
		}
		return s
	})
}

func drawSize(t *rapid.T, max int64, earlier []int64) int64 {
	var size int64
	switch rapid.IntRange(0, 3).Draw(t, "shape") {
	case 0:
		size = rapid.Int64Range(1, min(max, 4096)).Draw(t, "small")
	case 1:
		size = int64(1)<<rapid.IntRange(0, 40).Draw(t, "log") + rapid.Int64Range(-1, 1).Draw(t, "off")
	case 2:
		size = rapid.Int64Range(1, max).Draw(t, "any")
	default:
		if len(earlier) == 0 {
			return 1
		}
		size = rapid.SampledFrom(earlier).Draw(t, "like")
	}
	if size > max {
		size = size%max + 1
	}
	return clamp(size, 1, max)
}

func clamp(n, low, high int64) int64 { return min(max(n, low), high) }
