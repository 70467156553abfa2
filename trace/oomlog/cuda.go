package oomlog

import "bytes"

func indexString(text []byte, s string) int { return bytes.Index(text, []byte(s)) }

// parseCUDAGeneric reads the refusals of programs that print CUDA's own names of the error. Thrust, MXNet,
// ONNX Runtime, RAPIDS and many more do.
func parseCUDAGeneric(v *view) (found, bool) {
	for _, shape := range [...]struct{ key, format string }{
		{"cuda_error_out_of_memory", "CUDA driver"},
		{"cumemallocfailed:outofmemory", "CUDA driver"},
		{"cuctxcreatefailed:outofmemory", "CUDA driver"},
		{"cudaerrormemoryallocation", "CUDA runtime"},
		{"hiperroroutofmemory", "HIP runtime"},
		{"cudamallocfailed:outofmemory", "cudaMalloc"},
		{"cudamallocretryfailed:outofmemory", "cudaMalloc"},
		{"cudafailure2:outofmemory", "CUDA runtime"},
		{"failed.status:outofmemory", "CUDA runtime"},
		{"cudaruntimeerror:outofmemory", "CUDA runtime"},
		{"cuda:outofmemory", "CUDA runtime"},
		{"failed:outofmemory", "CUDA runtime"},
		{"cudaerror2(outofmemory", "CUDA runtime"},
		{"cudaerror2at", "CUDA runtime"},
	} {
		a := v.anchor(shape.key, 60, 0)
		if a < 0 {
			continue
		}
		end := a + len(shape.key)
		if shape.key == "cudaerror2at" {
			if i := v.index(":outofmemory", end, end+160); i < 0 {
				continue
			}
		}
		if v.has(end, "inquotes") || !v.looksReported(a, end) {
			continue
		}
		m := Message{Framework: "cuda", Backend: "cuda", Device: -1, Cause: CauseMarker, Format: shape.format}
		if shape.format == "HIP runtime" {
			m.Backend = "hip"
		}
		lo := max(0, a-300)
		if indexString(v.text[lo:a], "mxnet") >= 0 || indexString(v.text[lo:a], "mshadow") >= 0 {
			m.Framework = "mxnet"
		}
		if indexString(v.text[lo:a], "onnxruntime") >= 0 {
			m.Framework = "onnxruntime"
		}
		f := found{m, a, end}
		v.context(&f)
		return f, true
	}
	return found{}, false
}

// context recognises that it was the CUDA context itself that could not be made: nothing of this process is
// on the device yet, so others have it.
func (v *view) context(m *found) {
	near := v.text[max(0, m.start-90):m.end]
	for _, call := range [...]string{"primaryctxretain", "cuctxcreate", "cudasetdevice", "cudagetdevicecount", "initializingstreamexecutor"} {
		if indexString(near, call) < 0 {
			continue
		}
		m.Cause, m.Format = CauseContext, "CUDA context"
		if i := v.index("totalmemoryreported:", m.end, m.end+40); i >= 0 {
			if s, p := v.bytesAt(i + len("totalmemoryreported:")); s.Known {
				m.Capacity, m.end = s, p
			}
		}
		return
	}
}

// looksReported tells an error that a program reports from a line of source code or an explanation that
// names it: a report has a colon or the error's own words beside the name, or says just before that
// something failed; and it compares the name with nothing.
func (v *view) looksReported(a, end int) bool {
	for _, code := range [...]string{"==", "!=", "case", "return", "if(", "::", "catch"} {
		if v.endsWith(a, code) {
			return false
		}
	}
	if v.endsWith(a, ":") || v.endsWith(a, "what()") || v.has(end, ":") || v.has(end, "outofmemory") || v.has(end, ",outofmemory") {
		return true
	}
	before := v.text[max(0, a-50):a]
	for _, said := range [...]string{"error:", "failed:", "exception:", "errorcode", "failedwith", "failedto", "checkfailed", "resultsin", "error["} {
		if indexString(before, said) >= 0 {
			return true
		}
	}
	return false
}

// parseLibrary reads the refusals of CUDA's libraries: their handles and workspaces come from the driver,
// not from a framework's allocator.
func parseLibrary(v *view) (found, bool) {
	for _, lib := range [...]struct{ key, name string }{
		{"cublas_status_alloc_failed", "cuBLAS"}, {"cudnn_status_alloc_failed", "cuDNN"},
		{"cusparse_status_alloc_failed", "cuSPARSE"}, {"cusolver_status_alloc_failed", "cuSOLVER"},
		{"cufft_alloc_failed", "cuFFT"}, {"curand_status_allocation_failed", "cuRAND"},
		{"rocblas_status_memory_error", "rocBLAS"}, {"miopenstatusallocfailed", "MIOpen"},
	} {
		a := v.anchor(lib.key, 40, 0)
		if a < 0 || !v.looksReported(a, a+len(lib.key)) {
			continue
		}
		m := Message{Framework: "cuda", Backend: "cuda", Device: -1, Cause: CauseLibrary, Format: lib.name}
		return found{m, a, a + len(lib.key)}, true
	}
	return found{}, false
}

// parseNCCL reads NCCL's refusals: its buffers come straight from the driver, and when a framework's
// allocator has taken everything there is nothing left for them.
func parseNCCL(v *view) (found, bool) {
	m := found{Message: Message{Framework: "nccl", Backend: "cuda", Device: -1, Cause: CauseLibrary, Format: "NCCL"}}
	if a := v.anchor("failedtocuda", 40, 0); a >= 0 {
		p := a + len("failedtocuda")
		for _, call := range [...]string{"mallochost", "callochost", "mallocasync", "callocasync", "malloc", "calloc", "hostalloc"} {
			if next, ok := v.take(p, call); ok {
				p = next
				if call == "mallochost" || call == "callochost" || call == "hostalloc" {
					m.Cause = CauseHost
				}
				if next, ok := v.take(p, "async"); ok {
					p = next
				}
				m.Requested, m.end = v.size(p)
				m.start = a
				return m, m.Requested.Known
			}
		}
	}
	for _, key := range [...]string{"ncclwarncudafailure2outofmemory", "ncclwarncudafailureoutofmemory", "cudafailure2outofmemory", "cudafailureoutofmemory"} {
		a := v.anchor(key, 60, 0)
		if a < 0 {
			continue
		}
		if key[:4] == "cuda" {
			before := v.text[max(0, a-400):a]
			if indexString(before, "nccl") < 0 && !v.endsWith(a, "lasterror:") {
				continue
			}
		}
		m.start, m.end = a, a+len(key)
		return m, true
	}
	if a := v.anchor("failedtoextend/dev/shm/nccl", 60, 0); a >= 0 {
		m.start, m.end, m.Cause, m.Format = a, a+27, CauseHost, "NCCL shared memory"
		return m, true
	}
	return found{}, false
}
