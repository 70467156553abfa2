package simulate

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Phases of a program.
//
// A training program goes through the same phases over and over: it runs its model forward, goes back through it for
// the gradients, and lets an optimizer change the weights. In which one a block was allocated decides most of what can
// be said about its purpose (roles.go). What an event tells is its call stack: that of an optimizer, that of the
// autograd engine, or none at all in a recording that has stacks otherwise, since the engine's threads have no Python
// frames. Annotations tell as well: those that PyTorch makes for each run of an optimizer, and those that somebody
// called forward, backward or optimizer.

// Phase is what a program was doing when it allocated a block.
type Phase uint8

// The phases, in the order in which they are shown.
const (
	PhaseUnknown   Phase = iota // no telling, or no such block
	PhaseOld                    // before the recording began
	PhaseSetup                  // before the first iteration
	PhaseForward                // running the model, and whatever else the program does in its loop
	PhaseBackward               // in the autograd engine
	PhaseOptimizer              // while an optimizer ran
	numPhases
)

var phaseNames = [numPhases]string{"unknown", "before recording", "setup", "forward", "backward", "optimizer"}

// String is the name that programs know the phase by.
func (p Phase) String() string {
	if p < numPhases {
		return phaseNames[p]
	}
	return phaseNames[PhaseUnknown]
}

// traits are what the frames of a stack tell.
type traits uint16

const (
	inOptimizer traits = 1 << iota
	inBackward
	inModule     // a module was called
	appliesNode  // a function for autograd, on its way forward or back
	stepsItself  // an optimizer of PyTorch's own, which calls others only to have gradients computed
	foreign      // code that is not PyTorch's
	calledBack   // of a stack: what such an optimizer called
	makesWeights // parameters are made, moved or loaded
	makesBuckets // buffers that gradients live in
	makesCache   // caches of keys and values, workspaces of libraries
	gathers      // weights that are spread over devices are brought together for use
	scatters     // gradients are spread over devices
	loadsState   // an optimizer gets the state that it had before
)

// frameTrait is a pattern of a frame, by its file and its function. Paths have slashes, and one in front.
type frameTrait struct {
	traits
	file, function string // regular expressions, either may be empty
}

// frameTraits are what is known of PyTorch and of what is often used with it.
var frameTraits = []frameTrait{
	{inOptimizer, `/torch/optim/|/apex/optimizers/|/bitsandbytes/optim/|/torch_optimizer/|/deepspeed/ops/(adam|lamb|lion|adagrad)/|/transformer_engine/pytorch/optimizers/`, ``},
	{loadsState, `/torch/optim/`, `^(load_state_dict|_process_value_according_to_param_policy)$`},
	{stepsItself, `/torch/optim/(a|rmsprop|rprop|sgd|radam|nadam|lbfgs|sparse_adam|_muon)\w*\.py$`, `^step$`},
	{inOptimizer, ``, `^Optimizer\.step#`},
	{inBackward, `/torch/autograd/(graph|__init__)\.py$`, `^(_engine_run_backward|backward|_make_grads)$`},
	{inBackward, ``, `^autograd::engine::|torch::autograd::(Engine|python::PythonEngine)::|^\w+Backward\d*$`},
	{inModule, `/torch/nn/modules/module\.py$`, `^(_call_impl|_wrapped_call_impl|__call__)$`},
	{inModule, ``, `^nn\.Module: `},
	{inBackward, `/torch/utils/checkpoint\.py$`, `^(backward|recompute_fn|unpack_hook|inner_unpack)$`},
	{appliesNode, `/torch/autograd/function\.py$`, `^apply$`},
	{makesWeights, `/torch/nn/modules/module\.py$`, `^(_apply|convert|load_state_dict|_load_from_state_dict|load|to_empty)$`},
	{makesWeights, `/torch/nn/(parameter|init)\.py$`, ``},
	{makesWeights, `/torch/nn/modules/\w+\.py$`, `^(__init__|reset_parameters)$`},
	{makesWeights, `/transformers/(modeling_utils|core_model_loading)\.py$|/accelerate/utils/modeling\.py$|/diffusers/models/mod(el|eling)_\w+\.py$|/vllm/model_executor/model_loader/`, ``},
	{makesWeights, `/torch/distributed/(fsdp|_composable|_tensor|tensor)/`, `^(_init_\w+|flatten_tensors\w*|shard|_shard_\w+|distribute_tensor|__init__)$`},
	{gathers, `/torch/distributed/.*fsdp`, `^(init_all_gather_outputs|alloc_storage|_alloc_storage|foreach_all_gather|_alloc_padded_unsharded_flat_param|unshard)$`},
	{scatters, `/torch/distributed/.*fsdp`, `^(foreach_reduce|_reduce_grad|_get_reduce_scatter_tensors)$`},
	{makesBuckets, `/torch/nn/parallel/distributed\.py$`, `^(_ddp_init_helper|_pre_forward|_rebuild_buckets)$`},
	{makesBuckets, ``, `c10d::Reducer::(initialize_buckets|rebuild_buckets)`},
	{makesCache, `/cache_utils\.py$|/kv_cache\w*\.py$|/cache_engine\.py$`, ``},
	{makesCache, ``, `(?i)(init|alloc|setup|make|create|update)\w*_(kv_?)?cache|kv_?cache|getCUDABlasLtWorkspace|getChosenWorkspace|getNewWorkspace|WorkspaceSize`},
}

// compiled is a pattern that is ready for use; a nil expression matches anything.
type compiled struct {
	traits
	file, function *regexp.Regexp
}

// compile readies the patterns: only for who wants them, since most of what this program does does not.
func compile(list []frameTrait) []compiled {
	ready := func(s string) *regexp.Regexp {
		if s == "" {
			return nil
		}
		return regexp.MustCompile(s)
	}
	out := make([]compiled, len(list))
	for i, x := range list {
		out[i] = compiled{x.traits, ready(x.file), ready(x.function)}
	}
	return out
}

// evidence knows what each stack of a trace tells, each frame being looked at once.
type evidence struct {
	stacks *trace.Stacks
	known  []compiled
	frames []traits
	seen   []bool
	stack  []traits
	told   []bool
}

func newEvidence(s *trace.Stacks) *evidence {
	return &evidence{stacks: s, known: compile(frameTraits), frames: make([]traits, s.NumFrames()), seen: make([]bool, s.NumFrames()),
		stack: make([]traits, s.Len()), told: make([]bool, s.Len())}
}

// traitsOf looks for what a frame tells.
func (v *evidence) traitsOf(f trace.Frame) traits {
	file := "/" + strings.ReplaceAll(f.File, `\`, "/")
	var t traits
	for i := range v.known {
		x := &v.known[i]
		if (x.file == nil || x.file.MatchString(file)) && (x.function == nil || x.function.MatchString(f.Func)) {
			t |= x.traits
		}
	}
	if f.Line > 0 && !strings.Contains(file, "/torch/") {
		t |= foreign
	}
	return t
}

// phases are the traits that tell a phase, of which a stack has at most one.
const phases = inOptimizer | inBackward | inModule

// of is what a stack tells. Of what it tells about the phase the innermost counts: an optimizer may call the model, and a
// hook of the backward pass an optimizer. Only a module that is called in the backward pass is part of that.
func (v *evidence) of(id trace.StackID) traits {
	if int(id) >= len(v.stack) {
		return 0
	}
	if v.told[id] {
		return v.stack[id]
	}
	v.told[id] = true
	var t, phase traits
	ids := v.stacks.Frames(id)
	for i, f := range ids {
		if !v.seen[f] {
			v.seen[f] = true
			v.frames[f] = v.traitsOf(v.stacks.Frame(f))
		}
		of := v.frames[f]
		if of&appliesNode != 0 && i == len(ids)-1 {
			of |= inBackward // the thread begins with it
		}
		if phase == 0 && of&stepsItself != 0 && t&foreign != 0 {
			t |= calledBack
		}
		if t&calledBack != 0 {
			of &^= inOptimizer
		}
		if phase == 0 || phase == inModule && of&inBackward != 0 {
			phase = of & phases
		}
		t |= of
	}
	if phase&inBackward != 0 {
		phase = inBackward
	}
	if t&loadsState != 0 {
		phase = 0
	}
	v.stack[id] = t&^phases | phase
	return v.stack[id]
}

// spans are disjoint ranges of events in order, asked for by events in order.
type spans struct {
	list []Iteration
	at   int
	near int // where the last search ended: the next one mostly ends there as well
}

// spansOf joins ranges that touch or overlap. One without an event, such as a run of an optimizer that needs no memory,
// is a point between two events.
func spansOf(list []Iteration) spans {
	list = slices.DeleteFunc(slices.Clone(list), func(r Iteration) bool { return r.From > r.To })
	slices.SortFunc(list, func(a, b Iteration) int { return cmp.Compare(a.From, b.From) })
	var out []Iteration
	for _, r := range list {
		if n := len(out); n > 0 && r.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, Iteration{From: r.From, To: r.To})
	}
	return spans{list: out}
}

func (s *spans) has(event int) bool {
	for s.at < len(s.list) && s.list[s.at].To <= event {
		s.at++
	}
	return s.at < len(s.list) && s.list[s.at].From <= event
}

// after is the first range that begins after an event or contains it, and its place; nil if there is none.
func (s *spans) after(event int) (int, *Iteration) {
	s.near = firstAfter(s.list, event, s.near)
	if s.near == len(s.list) {
		return s.near, nil
	}
	return s.near, &s.list[s.near]
}

// firstAfter is the place of the first of some ranges in order that ends behind an event, looked for near a place first.
func firstAfter(list []Iteration, event, near int) int {
	for i := near; i <= near+1; i++ {
		if (i == 0 || list[i-1].To <= event) && (i == len(list) || list[i].To > event) {
			return i
		}
		if i == len(list) {
			break
		}
	}
	i, _ := slices.BinarySearchFunc(list, event, func(r Iteration, e int) int { return cmp.Compare(r.To, e+1) })
	return i
}

// Names of annotations that tell a phase.
const (
	namesForward   = `(?i)(^|[^a-z])(forward|fwd)([^a-z]|$)`
	namesBackward  = `(?i)(^|[^a-z])(backward|bwd)([^a-z]|$)`
	namesOptimizer = `^Optimizer\.step|(?i)(^|[^a-z])(optimizer|optim|opt)[_ ]?(step)?[^a-z]*$`
)

// phaser tells the phase of each event, asked for in order.
type phaser struct {
	*evidence
	optimizer, zeroing, forward, backward spans
	starts                                int  // the event with which the first iteration begins
	hasStacks                             bool // some requests have a stack, so that one without tells something
	told                                  bool // some call stack is of a model, an optimizer or the backward pass
	noLoop                                bool // there is no iteration, or nothing says that there is a model
}

func newPhaser(t *trace.Trace, d *trace.Device, steps StepList) *phaser {
	p := &phaser{evidence: newEvidence(t.Stacks)}
	var optimizer, zeroing, forward, backward []Iteration
	onward, back, optimizes := regexp.MustCompile(namesForward), regexp.MustCompile(namesBackward), regexp.MustCompile(namesOptimizer)
	for _, s := range scopesOf(t, d) {
		switch {
		case strings.HasPrefix(s.name, zeroGrad):
			zeroing = append(zeroing, s.ranges(d)...)
		case optimizes.MatchString(s.name):
			optimizer = append(optimizer, s.ranges(d)...)
		case back.MatchString(s.name):
			backward = append(backward, s.ranges(d)...)
		case onward.MatchString(s.name):
			forward = append(forward, s.ranges(d)...)
		}
	}
	p.zeroing, p.forward, p.backward = spansOf(zeroing), spansOf(forward), spansOf(backward)
	p.starts = d.Events.Len()
	if len(steps.Steps) > 0 {
		p.starts = steps.Steps[0].From
	}
	p.optimizer = p.updates(d, optimizer)
	if len(p.optimizer.list) > 0 {
		p.starts = min(p.starts, p.optimizer.list[0].From)
	}
	named := len(optimizer)+len(zeroing)+len(forward)+len(backward) > 0
	p.noLoop = p.starts == d.Events.Len() || !p.told && !named
	return p
}

// updates are the ranges of events in which an optimizer changed weights: those of its annotations, without what it called
// to have gradients computed first; if there are none, those of its call stacks. It notes where the first iteration starts.
func (p *phaser) updates(d *trace.Device, annotated []Iteration) spans {
	given := spansOf(annotated)
	at := 0
	var byStack []Iteration
	for i, e := range d.Events.All() {
		if e.Op != trace.OpAlloc {
			continue
		}
		is := p.of(e.Stack) & (phases | calledBack)
		p.hasStacks = p.hasStacks || e.Stack != trace.NoStack
		bare := e.Stack == trace.NoStack && p.hasStacks
		if is == 0 && !bare {
			continue
		}
		if is != 0 {
			p.told = true
			p.starts = min(p.starts, i)
		}
		if is == inOptimizer {
			if n := len(byStack); n > 0 && byStack[n-1].Ended {
				byStack[n-1].To = i + 1
			} else {
				byStack = append(byStack, Iteration{From: i, To: i + 1, Ended: true})
			}
			continue
		}
		if n := len(byStack); n > 0 {
			byStack[n-1].Ended = false // the program went on to something else
		}
		for at < len(given.list) && given.list[at].To <= i {
			at++
		}
		if at < len(given.list) && given.list[at].From <= i {
			given.list[at].From = min(beforeRequest(d, i+1), given.list[at].To)
		}
	}
	if len(given.list) == 0 {
		return spansOf(byStack)
	}
	return given
}

// phase tells the phase of a request.
func (p *phaser) phase(i int, e *trace.Event) Phase {
	is := p.of(e.Stack)
	optimizes := p.optimizer.has(i) || p.zeroing.has(i)
	onward, back := p.forward.has(i), p.backward.has(i)
	switch {
	case is&inOptimizer != 0:
		return PhaseOptimizer
	case is&inBackward != 0:
		return PhaseBackward
	case p.noLoop:
		return PhaseUnknown
	case i < p.starts:
		return PhaseSetup
	case is&(inModule|calledBack) != 0:
		return PhaseForward
	case e.Stack == trace.NoStack && p.hasStacks && !onward:
		return PhaseBackward
	case optimizes:
		return PhaseOptimizer
	case back:
		return PhaseBackward
	case onward || p.hasStacks:
		return PhaseForward
	}
	return PhaseUnknown
}
