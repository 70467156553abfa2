package oomlog

// Messages of devices that are neither CUDA's nor ROCm's, in the words of their own runtimes.

// parseLevelZero reads Intel's: "level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)".
func parseLevelZero(v *view) (found, bool) {
	for _, shape := range [...]struct {
		key   string
		cause Cause
	}{
		{"result_error_out_of_device_memory", CauseMarker}, {"pi_error_out_of_device_memory", CauseMarker},
		{"result_error_out_of_host_memory", CauseHost}, {"pi_error_out_of_host_memory", CauseHost},
	} {
		a := v.anchor(shape.key, 40, 0)
		if a < 0 || indexString(v.text[max(0, a-60):a], "error:") < 0 && indexString(v.text[max(0, a-60):a], "returns:") < 0 {
			continue
		}
		m := Message{Framework: "level-zero", Backend: "xpu", Device: -1, Cause: shape.cause, Format: "Level Zero"}
		return found{m, a, a + len(shape.key)}, true
	}
	return found{}, false
}

// parseMLX reads Apple's MLX and Metal.
func parseMLX(v *view) (found, bool) {
	m := found{Message: Message{Framework: "mlx", Backend: "mps", Device: -1, Cause: CauseMarker, Format: "Metal"}}
	const above = "whichisgreaterthanthemaximumallowedbuffersizeof"
	if a := v.anchor(above, 60, 0); a >= 0 {
		i := v.anchorBefore("attemptingtoallocate", a, 60)
		if i < 0 {
			return found{}, false
		}
		m.Requested, _ = v.size(i + len("attemptingtoallocate"))
		m.start, m.end, m.Cause, m.Format = i, a+len(above), CausePlatform, "MLX buffer size"
		return m, m.Requested.Known
	}
	a := v.anchor("insufficientmemory(", 30, 0)
	if a < 0 || v.index("erroroutofmemory", a, a+80) < 0 {
		return found{}, false
	}
	m.start, m.end = a, a+len("insufficientmemory(")
	return m, true
}

// parseDirectML reads torch-directml: "Could not allocate tensor with 2097152 bytes. There is not enough GPU
// video memory available!"
func parseDirectML(v *view) (found, bool) {
	const key = "couldnotallocatetensorwith"
	a := v.anchor(key, 90, 0)
	if a < 0 {
		return found{}, false
	}
	m := found{Message: Message{Framework: "directml", Device: -1, Cause: CauseMarker, Format: "DirectML", Windows: true}, start: a}
	m.Requested, m.end = v.size(a + len(key))
	if i := v.index("notenoughgpuvideomemory", m.end, m.end+60); i >= 0 {
		m.end = i + len("notenoughgpuvideomemory")
		return m, m.Requested.Known
	}
	return found{}, false
}
