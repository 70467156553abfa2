package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

const inputs = "../../testdata/inputs/"

func runMain(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// What each kind of input gives, and what it is asked for in vain.
func TestInputs(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want []string // in what is written, standard error included
	}{
		{"info kineto.json", 0, []string{"Kineto trace", "device 0 (NVIDIA H200): 12 events over 2.5 ms, 6 allocs, 6 frees; peak 296 MiB allocated, 300 MiB reserved",
			"a memory snapshot: torch.cuda.memory._record_memory_history(max_entries=1000000)"}},
		{"analyze kineto.json", 0, []string{"Peak 296 MiB allocated, 300 MiB reserved by the allocator's own count", "200 MiB   68 %        1  train.py:20 loss", "before recording began",
			"  From: step 0 232 MiB (78 %)", "Growth: not known, 3 steps are too few to tell"}},
		{"analyze kineto.json --at 3", 0, []string{"As asked (+525 µs, event 3, step 0): 64.0 MiB by the line that allocated"}},
		{"replay kineto.json", 0, []string{"recorded peak 300 MiB reserved, 296 MiB allocated", "lower fidelity: "}},
		{"verify kineto.json", 3, []string{"has no decisions of an allocator to compare with", "torch.cuda.memory._dump_snapshot"}},
		{"analyze timeline.raw.json.gz", 0, []string{"memory timeline (raw)", "allocated                      1.0 MiB     5.0 MiB     1.0 MiB", "4.0 MiB  activation", "4.0 MiB  temporary"}},
		{"replay timeline.raw.json.gz", 3, []string{"no device in this file has events; it is of the kind \"memory timeline (raw)\"; for that: a memory snapshot"}},
		{"info smi.csv", 0, []string{"nvidia-smi CSV", "device 0 (NVIDIA H200): 4 samples over 1.5 s", "used                           600 MiB     900 MiB     900 MiB"}},
		{"analyze smi.csv", 0, []string{"1 device · 4 samples over 1.5 s", "At most 900 MiB of 140.40 GiB used.", "What this file cannot tell"}},
		{"analyze kineto.json --nvml smi.csv", 0, []string{"Outside the allocator: 600 MiB to 600 MiB, by smi.csv (2 samples).", "The log's clock shows UTC+01:00"}},
		{"analyze tensorflow.log", 0, []string{"Ran out of memory: asked 3.0 MiB, with 4.0 MiB in use of 8.0 MiB held.",
			"fragmentation: 4.0 MiB were free, enough for the 3.0 MiB asked, but in 2 pieces of which the largest is 2.0 MiB.", "50.0 % of the free memory lies outside it",
			"################################................................"}},
		{"analyze jax.prof", 0, []string{"JAX device memory profile", "197 MiB in use in 59 blocks.", "buffer: 197 MiB in 50 blocks", "169 MiB   86 %       43  jax_run.py:3 <module>"}},
		{"analyze smi.csv --nvml smi.csv", 3, []string{"the recording has no events to hold the log against"}},
		{"diff kineto.json smi.csv", 3, []string{"the second file does not show what was allocated when; it is of the kind \"nvidia-smi CSV\"; for that: a memory snapshot"}},
		{"diff kineto.json kineto.json --device 7", 3, []string{"the first file has no device 7; it has 0"}},
		{"check smi.csv --max-ooms 0", 3, []string{"smi.csv: does not show what was allocated when; it is of the kind \"nvidia-smi CSV\"; for that: a memory snapshot"}},
		{"check smi.csv --max-ooms 0 --device 0", 3, []string{"does not show what was allocated when on device 0; it is of the kind"}},
		{"check smi.csv --max-ooms 0 --device 7", 3, []string{"smi.csv: has no device 7; it has 0"}},
		{"check jax.prof --max-ooms 0", 3, []string{"for that: jax.profiler.start_trace"}},
		{"analyze kineto.json --nvml kineto.json", 3, []string{"the log does not have the memory in use"}},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			if strings.Contains(a, ".") {
				args[i] = filepath.Join(inputs, a)
			}
		}
		code, out, err := runMain(t, args...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d: %s", c.args, code, c.code, err)
		}
		for _, w := range c.want {
			if !strings.Contains(out+err, w) {
				t.Errorf("%s: does not have %q:\n%s%s", c.args, w, out, err)
			}
		}
		if strings.Contains(out+err, "somebody") {
			t.Errorf("%s: a name came through:\n%s", c.args, out)
		}
	}
}

// What an input cannot give is null for programs.
func TestInputsNull(t *testing.T) {
	for file, null := range map[string][]string{
		"kineto.json": {"fragmentation", "settings", "exact"}, "smi.csv": {"fragmentation", "settings", "live", "exact"}, "tensorflow.log": {"settings", "exact"},
	} {
		code, out, err := runMain(t, "analyze", "--json", inputs+file)
		var doc struct{ Devices []map[string]any }
		if e := json.Unmarshal([]byte(out), &doc); code != 0 || e != nil || len(doc.Devices) != 1 {
			t.Fatalf("%s: %d %v %s", file, code, e, err)
		}
		for _, key := range null {
			if v, ok := doc.Devices[0][key]; !ok || v != nil {
				t.Errorf("%s: %s is %v", file, key, v)
			}
		}
		if peak := doc.Devices[0]["peak_allocated"].(map[string]any); file == "smi.csv" && (peak["bytes"] != nil || peak["reserved_bytes"] != nil) {
			t.Errorf("%s: %v", file, peak)
		}
	}
}
