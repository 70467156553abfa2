package report

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// TreeNode is a frame of the tree of calls that holds memory. Nodes are in the order of the tree: each comes after its
// parent, and the larger of two siblings first. Node 0 is the root, which holds everything.
type TreeNode struct {
	Frame  trace.Frame // the zero one of the root, and of what has no stack or was cut off
	Name   string      // for people; of the root and of what has no frame the only name
	Parent int         // index, -1 for the root
	Depth  int         // 0 for the root
	Bytes  int64       // of the node with all below it
	Own    int64       // bytes of which it is the innermost frame
	Blocks int
}

// deepest is how many frames of a stack make a tree, from the outermost on. No program nests its calls deeper, except
// one that is out of hand.
const deepest = 200

// treeOf makes the tree of calls of what was held, outermost frames first.
func treeOf(stacks *trace.Stacks, h Holders) []TreeNode {
	type node struct {
		TreeNode
		children []int
	}
	type edge struct {
		parent int
		frame  trace.FrameID
	}
	nodes := []node{{TreeNode: TreeNode{Name: "all", Parent: -1}}}
	index := map[edge]int{}
	add := func(parent int, n TreeNode) int {
		n.Parent, n.Depth = parent, nodes[parent].Depth+1
		nodes = append(nodes, node{TreeNode: n})
		at := len(nodes) - 1
		nodes[parent].children = append(nodes[parent].children, at)
		return at
	}
	hold := func(at int, bytes int64, blocks int) {
		nodes[at].Own += bytes
		for ; at >= 0; at = nodes[at].Parent {
			nodes[at].Bytes += bytes
			nodes[at].Blocks += blocks
		}
	}
	for _, x := range h.ByStack {
		frames := outermostFirst(stacks, x.Stack)
		at := 0
		for _, f := range frames[:min(len(frames), deepest)] {
			e := edge{at, f}
			next, ok := index[e]
			if !ok {
				frame := stacks.Frame(f)
				next = add(at, TreeNode{Frame: frame, Name: showFrame(frame)})
				index[e] = next
			}
			at = next
		}
		hold(at, x.Bytes, x.Blocks)
	}
	if h.BeforeBlocks > 0 {
		hold(add(0, TreeNode{Name: BeforeRecording}), h.Before, h.BeforeBlocks)
	}
	if h.Unknown > 0 {
		hold(add(0, TreeNode{Name: shareBare}), h.Unattributed, h.Unknown)
	}
	out := make([]TreeNode, 0, len(nodes))
	type visit struct{ at, parent int }
	todo := []visit{{0, -1}}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := &nodes[v.at]
		n.Parent = v.parent
		out = append(out, n.TreeNode)
		slices.SortFunc(n.children, func(a, b int) int { // the smallest first: it is taken last
			return cmp.Or(cmp.Compare(nodes[a].Bytes, nodes[b].Bytes), strings.Compare(nodes[b].Name, nodes[a].Name), cmp.Compare(b, a))
		})
		for _, c := range n.children {
			todo = append(todo, visit{c, len(out) - 1})
		}
	}
	return out
}

// outermostFirst are the frames of a stack from the program's start on. Where native frames were recorded, those that
// every stack has, of the interpreter and of the recorder itself, are left out.
func outermostFirst(stacks *trace.Stacks, id trace.StackID) []trace.FrameID {
	ids := stacks.Frames(id)
	out := make([]trace.FrameID, 0, len(ids))
	for _, f := range slices.Backward(ids) {
		if !isPlumbing(stacks.Frame(f)) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		out = slices.Clone(ids)
		slices.Reverse(out)
	}
	return out
}

// fileOf is the file of the innermost frame of the person's own code, otherwise of the innermost that has a file.
func fileOf(frames []trace.Frame) string {
	other := ""
	for _, f := range frames {
		if isOwn(f) {
			return f.File
		}
		if other == "" && isPython(f) {
			other = f.File
		}
	}
	return cmp.Or(other, "native code")
}

// modulePrefix begins the frames by which a profiler names the modules of a model.
const modulePrefix = "nn.Module: "

// moduleOf is the innermost nn.Module that a stack names.
func moduleOf(frames []trace.Frame) string {
	for _, f := range frames {
		if name, ok := strings.CutPrefix(f.Func, modulePrefix); ok {
			return name
		}
	}
	return ""
}

// baseOf is the last part of a path.
func baseOf(file string) string { return path.Base(strings.ReplaceAll(file, `\`, "/")) }
