package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace"
)

// sides says on a few lines what else than its line of code there is to say of what was allocated at an instant: only what
// tells anything.
func (a *Analysis) sides(p *page, d *Device, allocated int64, b *Breakdown) {
	if b == nil || allocated <= 0 {
		return
	}
	say := func(title string, list []Share, name func(string) string) {
		const shown = 8
		var parts []string
		var rest Share
		for i, s := range list {
			if i >= shown {
				rest.Bytes += s.Bytes
				rest.Blocks++
				continue
			}
			if s.Bytes == 0 {
				parts = append(parts, "nothing "+name(s.Name))
				continue
			}
			parts = append(parts, fmt.Sprintf("%s %s (%s)", name(s.Name), Bytes(s.Bytes), percent(s.Bytes, allocated)))
		}
		if rest.Blocks > 0 {
			parts = append(parts, fmt.Sprintf("%s more %s", Count(rest.Blocks), Bytes(rest.Bytes)))
		}
		p.item("%s: %s", title, strings.Join(parts, " · "))
	}
	same := func(s string) string { return s }
	if list := withUnknown(b.ByCategory); len(list) > 1 {
		say("What for", list, same)
	} else if d.Roles != nil && d.Trace.Content == trace.Decisions {
		p.item("What for: not known, there is no optimizer and no backward pass in it; --category NAME=REGEX says what lines of code are for.")
	}
	if len(b.ByPhase) > 1 {
		say("Allocated in", b.ByPhase, same)
	}
	if len(b.ByStep) > 1 {
		say("From", b.ByStep, same)
	}
	if len(b.ByFile) > 1 && slices.ContainsFunc(b.ByFile[1:], func(s Share) bool { return s.Name != shareBare && s.Name != BeforeRecording }) {
		say("Files", b.ByFile, baseOf)
	}
	if len(b.ByModule) > 1 {
		say("Modules", b.ByModule, same)
	}
	if len(b.ByStream) > 1 {
		say("Streams", b.ByStream, same)
	}
	if len(b.ByPool) > 1 {
		say("Pools", b.ByPool, same)
	}
}

// withUnknown puts what is unknown last, also if it is nothing: how much it is says how far the rest can be trusted. It is
// nil if nothing is known.
func withUnknown(list []Share) []Share {
	unknown := simulate.Unknown.String()
	i := slices.IndexFunc(list, func(s Share) bool { return s.Name == unknown })
	switch {
	case i < 0:
		return append(slices.Clone(list), Share{Name: unknown})
	case len(list) == 1:
		return nil
	}
	return append(slices.Delete(slices.Clone(list), i, i+1), list[i])
}

// branch is a node of the tree of calls as people read it: of the frames of a program, those of its own code, and what
// of the framework they called that allocated.
type branch struct {
	name     string
	bytes    int64
	children []*branch
}

// calls writes the tree of calls of what was allocated at an instant.
func (a *Analysis) calls(p *page, title string, allocated int64, h Holders) {
	root := a.branches(h)
	p.line("%s", p.bold(title))
	p.fence()
	left := 4 * p.rows()
	var show func(b *branch, indent string)
	show = func(b *branch, indent string) {
		name := b.name
		for len(b.children) == 1 && b.children[0].bytes == b.bytes {
			b = b.children[0]
			name += " › " + b.name
		}
		p.line("  %10s  %5s  %s%s", Bytes(b.bytes), percent(b.bytes, allocated), indent, name)
		left--
		var rest branch
		n := 0
		for _, c := range b.children {
			if left <= 0 || c.bytes*100 < allocated {
				rest.bytes += c.bytes
				n++
				continue
			}
			show(c, indent+"  ")
		}
		if n > 0 && rest.bytes > 0 {
			p.line("  %10s  %5s  %s  %s more", Bytes(rest.bytes), percent(rest.bytes, allocated), indent, Count(n))
		}
	}
	for _, c := range root.children {
		if left > 0 {
			show(c, "")
		}
	}
	p.fence()
}

// branches makes that tree.
func (a *Analysis) branches(h Holders) *branch {
	root := &branch{}
	type edge struct {
		parent *branch
		name   string
	}
	index := map[edge]*branch{}
	hold := func(bytes int64, path ...string) {
		at := root
		at.bytes += bytes
		for _, name := range path {
			e := edge{at, name}
			next := index[e]
			if next == nil {
				next = &branch{name: name}
				index[e] = next
				at.children = append(at.children, next)
			}
			at = next
			at.bytes += bytes
		}
	}
	for _, x := range h.ByStack {
		frames := a.Trace.Stacks.Stack(x.Stack)
		var path []string
		for _, f := range slices.Backward(frames[:min(len(frames), deepest)]) {
			if isOwn(f) {
				path = append(path, showFrame(f))
			}
		}
		if via := place(frames).Via; via != "" {
			path = append(path, via)
		}
		hold(x.Bytes, path...)
	}
	if h.BeforeBlocks > 0 {
		hold(h.Before, BeforeRecording)
	}
	if h.Unknown > 0 {
		hold(h.Unattributed, WithoutStack)
	}
	var sort func(b *branch)
	sort = func(b *branch) {
		slices.SortStableFunc(b.children, func(x, y *branch) int {
			return cmp.Or(cmp.Compare(y.bytes, x.bytes), strings.Compare(x.name, y.name))
		})
		for _, c := range b.children {
			sort(c)
		}
	}
	sort(root)
	return root
}
