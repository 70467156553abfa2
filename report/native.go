package report

import (
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/trace"
)

// Native frames, of recordings made with stacks="all" and of profilers. Most of them are how PyTorch gets from a
// function to its kernel, the same in every stack; which function it was, a few tell.

// plumbing begins the functions of frames that say nothing about a program.
var plumbing = []string{
	"torch::unwind::", "torch::CapturedTraceback::", "torch::cuda::(anonymous namespace)::gather", "c10::cuda::CUDACachingAllocator",
	"at::detail::empty_", "c10::impl::wrap_kernel_functor", "c10::impl::make_boxed_from", "c10::Dispatcher::",
	"_PyEval_", "PyEval_", "PyObject_", "_PyObject_", "PyRun_", "_PyRun_", "Py_RunMain", "Py_BytesMain", "PyCMethod_New", "_PyFunction_", "PyVectorcall_",
	"__libc_", "_start", "__clone", "clone3", "start_thread", "pthread_", "std::error_code::",
}

// isPlumbing says whether a frame is of the machinery that every stack has.
func isPlumbing(f trace.Frame) bool {
	if f.Line > 0 {
		return false
	}
	for _, p := range plumbing {
		if strings.HasPrefix(f.Func, p) {
			return true
		}
	}
	return false
}

var (
	autogradNode = regexp.MustCompile(`^torch::autograd::generated::(\w+)::apply\(`)
	operator     = regexp.MustCompile(`^at::_ops::(\w+)::call\(`)
)

// nativeName is what to show of a stack that has native frames only: the operation of the backward pass that allocated, or
// the operator.
func nativeName(frames []trace.Frame) string {
	name := ""
	for _, f := range frames {
		if m := autogradNode.FindStringSubmatch(f.Func); m != nil {
			return m[1]
		}
		if m := operator.FindStringSubmatch(f.Func); m != nil && name == "" {
			name = "aten::" + m[1]
		}
	}
	if name != "" {
		return name
	}
	for _, f := range frames {
		if !isPlumbing(f) {
			return showFrame(f)
		}
	}
	return showFrame(frames[0])
}
