// Package recordtest finds the recordings that tests are held against: those that come with the repository,
// and, where it is there, the whole corpus, which is too large for it.
package recordtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Recording is a snapshot with what the real allocator counted.
type Recording struct {
	Name  string // "gpt_varlen.c0"
	File  string
	Own   bool               // it comes with the repository
	Limit int64              // bytes that the process could reserve, negative for no limit
	Truth []map[string]int64 // torch.cuda.memory_stats() by device; nil if it was not kept
	Conf  string             // PYTORCH_CUDA_ALLOC_CONF, as far as Truth is there
	Late  bool               // something was allocated and freed before recording began
}

// Workload is the name without the setting.
func (r Recording) Workload() string { return strings.SplitN(r.Name, ".", 2)[0] }

// Setting is the short name of the setting, "c0" for the default, empty if the name has none.
func (r Recording) Setting() string {
	if _, s, ok := strings.Cut(r.Name, "."); ok {
		return s
	}
	return ""
}

// limits are the memory fractions under which recordings were made, in MiB: no snapshot has them.
var limits = map[string]int64{
	"gpt_varlen_capped": 12288, "gpt_oom": 12288, "seed_example": 1280, "frag_oom": 4096, "raw_capped": 8192,
	"gc": 2048, "frac": 2048, "gc_exp": 2048, "gc_streams": 2048, "small_limit": 110, "use_on_oom": 512,
	"oom": 1024, "oom_exp": 1024, "pending_flush": 1024, "midrun_free_capped": 3072,
}

// Memory is what the card of the recordings had free for an allocator, in bytes.
const Memory = 149557477376

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Testdata is the folder of the repository's own recordings.
func Testdata() string { return filepath.Join(root(), "testdata") }

// folders lists where recordings are: VRAMSCOPE_CORPUS names folders like a PATH; without it the corpus is
// looked for beside the repository.
func folders() []string {
	list := []string{Testdata()}
	if env := os.Getenv("VRAMSCOPE_CORPUS"); env != "" {
		return append(list, filepath.SplitList(env)...)
	}
	return append(list, filepath.Join(root(), "..", "shared", "data"))
}

// Corpus is the first folder of the whole corpus, or "" if it is not here.
func Corpus() string {
	for _, dir := range folders()[1:] {
		if st, err := os.Stat(filepath.Join(dir, "torch")); err == nil && st.IsDir() {
			return dir
		}
	}
	return ""
}

// Snapshots lists all snapshots that are here. A name that the repository and the corpus both have comes
// twice.
func Snapshots() []Recording {
	var out []Recording
	for i, dir := range folders() {
		for _, sub := range []string{"", "torch", "golden"} {
			files, _ := filepath.Glob(filepath.Join(dir, sub, "*.pickle*"))
			for _, f := range files {
				r := Read(f)
				r.Own = i == 0
				r.Late = sub == "golden"
				out = append(out, r)
			}
		}
	}
	return out
}

// Truths lists recordings of workloads of which only the truth need be there.
func Truths() []Recording {
	var out []Recording
	for i, dir := range folders() {
		files, _ := filepath.Glob(filepath.Join(dir, "torch", "*.truth.json"))
		for _, f := range files {
			r := Read(strings.TrimSuffix(f, ".truth.json") + ".pickle.zst")
			r.Own = i == 0
			out = append(out, r)
		}
	}
	return out
}

// Read finds out about one snapshot.
func Read(file string) Recording {
	name := strings.SplitN(filepath.Base(file), ".pickle", 2)[0]
	r := Recording{Name: name, File: file, Limit: -1}
	if l, ok := limits[r.Workload()]; ok {
		r.Limit = l << 20
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(file), name+".truth.json"))
	if err != nil {
		return r
	}
	var many []map[string]any
	var one struct {
		Conf  string
		Stats map[string]any
	}
	switch {
	case json.Unmarshal(data, &many) == nil:
		for _, m := range many {
			r.Truth = append(r.Truth, whole(m))
		}
	case json.Unmarshal(data, &one) == nil:
		r.Truth, r.Conf = []map[string]int64{whole(one.Stats)}, one.Conf
	}
	return r
}

// whole keeps the numbers.
func whole(m map[string]any) map[string]int64 {
	out := map[string]int64{}
	for k, v := range m {
		if n, ok := v.(float64); ok {
			out[k] = int64(n)
		}
	}
	return out
}
