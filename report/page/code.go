package page

import (
	"strings"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/trace"
)

// codes are the call stacks of a page: those that blocks have, numbered in the order in which they are asked for. Stack
// 0 is the empty one.
//
// Frames are kept once, and stacks as nodes of a tree that has the outermost frames at its root: two stacks that begin
// alike share what they have in common.
type codes struct {
	stacks *trace.Stacks
	number []uint32 // by stack of the trace: number + 1, 0 for none yet

	frames   map[trace.FrameID]uint32
	nodes    map[edge]uint32
	texts    wordlist
	names    []uint32 // by frame: its function
	files    []uint32 // by frame: its file
	lines    []uint32 // by frame
	own      []uint8  // by frame: 1 for the person's own code
	parents  []uint32 // by node: how many nodes before it its parent is; the root is before node 0
	framesOf []uint32 // by node

	// By stack. Nodes are counted from 1, 0 is the root.
	whole   []uint32 // node of the innermost frame
	path    []uint32 // the same without the frames that every stack has
	places  []uint32 // texts
	modules []uint32
	inFiles []uint32
}

// edge is the step from a node to one of its children.
type edge struct {
	parent uint32
	frame  uint32
}

// wordlist numbers texts.
type wordlist struct {
	list  []string
	index map[string]uint32
}

func (s *wordlist) number(text string) uint32 {
	n, ok := s.index[text]
	if !ok {
		if s.index == nil {
			s.index = map[string]uint32{}
		}
		n = uint32(len(s.list))
		s.index[text] = n
		s.list = append(s.list, shown(text))
	}
	return n
}

// longest is how much of a name is shown, in bytes; those of templates have a few thousand.
const longest = 4000

// shown is a name as the page has it.
func shown(name string) string {
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return report.Visible(name)
}

func newCodes(stacks *trace.Stacks) *codes {
	c := &codes{stacks: stacks, frames: map[trace.FrameID]uint32{}, nodes: map[edge]uint32{}}
	if stacks == nil {
		c.stacks = trace.NewStacks()
	}
	c.number = make([]uint32, max(1, c.stacks.Len()))
	c.texts.number("")
	c.stack(trace.NoStack)
	return c
}

// stack gives the number of a stack of the trace.
func (c *codes) stack(id trace.StackID) uint32 {
	if int(id) >= len(c.number) {
		id = trace.NoStack
	}
	if n := c.number[id]; n > 0 {
		return n - 1
	}
	n := uint32(len(c.whole))
	c.number[id] = n + 1
	code := report.CodeOf(c.stacks, id)
	frames := c.stacks.Frames(id)
	node := uint32(0)
	for i := len(frames) - 1; i >= 0; i-- {
		node = c.node(node, frames[i])
	}
	c.whole = append(c.whole, node)
	node = 0
	for _, f := range code.Path {
		node = c.node(node, f)
	}
	c.path = append(c.path, node)
	c.places = append(c.places, c.texts.number(code.Place.String()))
	c.modules = append(c.modules, c.texts.number(code.Module))
	c.inFiles = append(c.inFiles, c.texts.number(code.File))
	return n
}

// node is the child of a node for a frame.
func (c *codes) node(parent uint32, f trace.FrameID) uint32 {
	e := edge{parent, c.frame(f)}
	n, ok := c.nodes[e]
	if !ok {
		c.parents = append(c.parents, uint32(len(c.parents))+1-parent)
		c.framesOf = append(c.framesOf, e.frame)
		n = uint32(len(c.parents))
		c.nodes[e] = n
	}
	return n
}

func (c *codes) frame(id trace.FrameID) uint32 {
	n, ok := c.frames[id]
	if !ok {
		f := c.stacks.Frame(id)
		n = uint32(len(c.names))
		c.frames[id] = n
		own := uint8(0)
		if report.IsOwn(f) {
			own = 1
		}
		c.names = append(c.names, c.texts.number(f.Func))
		c.files = append(c.files, c.texts.number(f.File))
		c.lines = append(c.lines, uint32(min(max(f.Line, 0), 1<<32-1)))
		c.own = append(c.own, own)
	}
	return n
}

// pack adds the columns.
func (c *codes) pack(p *packing) {
	add(p, "frame/name", c.names)
	add(p, "frame/file", c.files)
	add(p, "frame/line", c.lines)
	add(p, "frame/own", c.own)
	add(p, "node/up", c.parents)
	add(p, "node/frame", c.framesOf)
	add(p, "stack/whole", c.whole)
	add(p, "stack/path", c.path)
	add(p, "stack/place", c.places)
	add(p, "stack/module", c.modules)
	add(p, "stack/file", c.inFiles)
	addTexts(p, "texts", c.texts.list)
}
