package config

import (
	"fmt"
	"strings"
	"testing"
)

// summary is the codes of findings with their places.
func summary(fs []Finding) string {
	var s []string
	for _, f := range fs {
		s = append(s, fmt.Sprintf("%d %s %s", f.Offset, f.Severity, f.Code))
	}
	return strings.Join(s, "; ")
}

func TestFindings(t *testing.T) {
	const expandable = "0 risk expandable-platform; 0 risk expandable-ipc"
	for _, c := range []struct {
		text string
		v    Version
		want string
	}{
		{"", Version{}, ""},
		{"backend:native", Version{}, ""},
		{"roundup_power2_divisions:4", Version{}, ""},
		{"expandable_segments:False", Version{}, ""},
		{"expandable_segments:True", Version{}, expandable},

		// Settings that need another one.
		{"garbage_collection_threshold:0.8", Version{}, "0 no-effect gc-without-limit"},
		{"garbage_collection_threshold:0.8,per_process_memory_fraction:1", Version{}, "0 no-effect gc-without-limit; 33 no-effect fraction-one"},
		{"garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", Version{}, ""},
		{"throw_on_cudamalloc_oom:True", Latest, "0 no-effect throw-without-limit"},
		{"throw_on_cudamalloc_oom:False", Latest, ""},
		{"max_non_split_rounding_mb:32", Version{}, "0 no-effect non-split-alone"},
		{"expandable_segments_reserve:0.5", Latest, "0 no-effect reserve-alone"},
		{"expandable_segments:True,expandable_segments_reserve:40G", Latest, expandable},
		{"expandable_segments:True,expandable_segments_reserve:0", Latest, expandable + "; 53 ignored bad-reserve"},
		{"expandable_segments:True,expandable_segments_reserve_by_class:[a:x]", Latest, expandable + "; 65 ignored bad-reserve"},

		// Settings that do not go together.
		{"expandable_segments:True,max_split_size_mb:64", Version{2, 2}, expandable + "; 25 risk expandable-max-split"},
		{"expandable_segments:True,max_split_size_mb:64", Version{2, 4}, expandable + "; 25 risk expandable-max-split"},
		{"expandable_segments:True,max_split_size_mb:64", Version{}, expandable + "; 25 risk expandable-max-split"},
		{"expandable_segments:True,garbage_collection_threshold:.5,per_process_memory_fraction:.9", Version{}, expandable + "; 25 no-effect expandable-gc"},
		{"expandable_segments:True,garbage_collection_threshold:.5", Version{2, 4}, expandable + "; 25 risk expandable-gc; 25 no-effect gc-without-limit"},
		{"expandable_segments:True,large_segment_size_mb:13", Version{}, expandable + "; 25 risk odd-page"},
		{"expandable_segments:True,large_segment_size_mb:14", Version{}, expandable},
		{"backend:cudaMallocAsync", Version{}, "0 risk async-blind"},
		{"backend:cudaMallocAsync,max_split_size_mb:64,pinned_num_register_threads:8", Version{}, "0 risk async-blind; 24 ignored async-ignores"},
		{"backend:cudaMallocAsync,expandable_segments:True", Version{}, "0 risk async-blind; 24 ignored async-ignores"},
		{"backend: cudaMallocAsync", Version{}, "0 risk backend-space; 0 risk async-blind"},
		{"backend: native", Version{}, ""},

		// Values that are not what they seem.
		{"max_split_size_mb:64", Version{}, "0 risk split-cost"},
		{"max_split_size_mb:1000000", Version{}, "0 no-effect split-unlimited"},
		{"max_split_size_mb:64MB", Version{}, "0 risk split-cost; 18 ignored unit"},
		{"max_split_size_mb:32G", Version{}, "0 risk split-cost; 18 risk unit"},
		{"max_split_size_mb:64x", Version{}, "0 risk split-cost; 18 ignored trailing"},
		{"max_split_size_mb:64.5", Version{}, "0 risk split-cost; 18 ignored trailing"},
		{"max_split_size_mb:-64", Version{}, "0 no-effect split-unlimited; 18 risk negative"},
		{"per_process_memory_fraction:0", Version{}, "0 risk fraction-zero"},
		{"per_process_memory_fraction:0.9x", Version{}, "28 ignored trailing"},
		{"backend:hipMallocAsync", Version{}, "0 risk async-blind; 8 risk rocm-only"},
		{"max_split_size_mb:64,max_split_size_mb:128", Version{}, "0 ignored duplicate; 21 risk split-cost"},
		{"pinned_use_hip_host_register:True,pinned_use_cuda_host_register:True", Version{}, "0 ignored duplicate"},
		{"max_split_size_mb/64", Version{}, "0 error no-colon"},
		{"max_split_size_mb,64", Version{}, "0 risk split-cost; 17 risk separator"},

		// Divisions.
		{"roundup_power2_divisions:1", Version{}, "0 no-effect roundup-one"},
		{"roundup_power2_divisions:1", v23, "0 risk roundup-one"},
		{"roundup_power2_divisions:[64:8,256:4]", Version{}, "25 no-effect roundup-gap"},
		{"roundup_power2_divisions:[64:8,256:4,>:4]", Version{}, "25 no-effect roundup-gap"},
		{"roundup_power2_divisions:[64:0,128:4,>:0]", Version{}, ""},
		{"roundup_power2_divisions:[256:4,512:2,>:8]", v210, ""},
		{"roundup_power2_divisions:[256:4,512:2,>:8]", v29, "38 risk roundup-overwritten"},
		{"roundup_power2_divisions:[256:4,512:8,>:8]", v29, ""},
		{"roundup_power2_divisions:[>:8]", v210, "25 no-effect roundup-gap"},
		{"roundup_power2_divisions:[256MB:4,>:8]", v210, "26 ignored trailing"},
	} {
		_, fs, _ := Parse(c.text, c.v)
		if got := summary(fs); got != c.want {
			t.Errorf("%q in %s:\n got %s\nwant %s", c.text, c.v, got, c.want)
		}
		for _, f := range fs {
			if f.Message == "" || strings.HasSuffix(f.Message, ".") || f.Offset >= len(c.text) && c.text != "" {
				t.Errorf("%q: %+v", c.text, f)
			}
		}
	}
}

func TestRoundupGapNamesSizes(t *testing.T) {
	for list, want := range map[string]string{
		"[64:8,256:4]":     "sizes from 128 MiB to 256 MiB and sizes from 512 MiB on",
		"[>:8]":            "sizes below 2 MiB",
		"[16384:8]":        "sizes from 32 GiB on",
		"[512:2,4096:4]":   "sizes from 1 GiB to 4 GiB and sizes from 8 GiB on",
		"[1:2,8:2,64:2]":   "sizes from 2 MiB to 8 MiB and sizes from 16 MiB to 64 MiB and sizes from 128 MiB on",
		"[512:2,1024:0]":   "sizes from 2 GiB on",
		"[64:8,256:4,>:2]": "sizes from 128 MiB to 256 MiB",
	} {
		_, fs, err := Parse("roundup_power2_divisions:"+list, Latest)
		if err != nil || len(fs) != 1 || fs[0].Code != "roundup-gap" || !strings.Contains(fs[0].Message, "covers "+want+", which") {
			t.Errorf("%s: %v %+v", list, err, fs)
		}
	}
}

// Lines that set the variable are taken for their value, with the offsets of the whole text.
func TestPastedLines(t *testing.T) {
	const pasted = " ignored pasted-line"
	for _, c := range []struct {
		text string
		v    Version
		want string
	}{
		{`export PYTORCH_ALLOC_CONF=max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 7 ignored variable; 26 risk split-cost"},
		{`export PYTORCH_ALLOC_CONF="max_split_size_mb:64"`, v29, "0" + pasted + "; 7 ignored variable; 27 risk split-cost"},
		{`PYTORCH_ALLOC_CONF=max_split_size_mb:64 python train.py`, Version{}, "0" + pasted + "; 0 risk variable; 19 risk split-cost"},
		{`PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 24 risk split-cost"},
		{`PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64`, v29, "0" + pasted + "; 0 deprecated variable; 24 risk split-cost"},
		{`PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64`, Version{2, 12}, "0" + pasted + "; 24 risk split-cost"},
		{`PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64, backend:native`, Version{2, 8}, "0" + pasted + "; 24 risk split-cost; 45 ignored after-value"},
		{`set PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64, backend:native`, Version{2, 8}, "0" + pasted + "; 28 risk split-cost"},
		{`set "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"`, Version{2, 8}, "0" + pasted + "; 29 risk split-cost"},
		{`setx PYTORCH_CUDA_ALLOC_CONF "max_split_size_mb:64"`, Version{2, 8}, "0" + pasted + "; 30 risk split-cost"},
		{`$env:PYTORCH_CUDA_ALLOC_CONF = 'max_split_size_mb:64'`, Version{2, 8}, "0" + pasted + "; 32 risk split-cost"},
		{`ENV PYTORCH_CUDA_ALLOC_CONF max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 28 risk split-cost"},
		{"\n  PYTORCH_CUDA_ALLOC_CONF: max_split_size_mb:64\n", Version{2, 8}, "3" + pasted + "; 28 risk split-cost"},
		{`-e PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 3 risk variable; 26 risk split-cost"},
		{`PYTORCH_CUDA_MALLOC_CONF=max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 0 ignored variable; 25 risk split-cost"},
		{`PYTORCH_NPU_ALLOC_CONF=max_split_size_mb:64`, Version{2, 8}, "0" + pasted + "; 0 ignored variable; 23 risk split-cost"},
		{`os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"`, Version{2, 8}, "0" + pasted + "; 0 risk set-too-late; 41 risk split-cost"},
		{`os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")`, Version{2, 8}, "0" + pasted + "; 0 risk set-too-late; 50 risk split-cost"},
		{`torch.cuda.memory._set_allocator_settings("max_split_size_mb:64")`, Version{}, "0" + pasted + "; 0 risk changed-at-run-time; 43 risk split-cost"},
		{`torch._C._accelerator_setAllocatorSettings('max_split_size_mb:64')`, Version{}, "0" + pasted + "; 0 risk changed-at-run-time; 44 risk split-cost"},
		{`"max_split_size_mb:64"`, Version{}, "0 risk quotes; 1 risk split-cost"},
		{`'max_split_size_mb:64'`, Version{}, "0 risk quotes; 1 risk split-cost"},
	} {
		cfg, fs, err := Parse(c.text, c.v)
		if got := summary(fs); err != nil || got != c.want {
			t.Errorf("%q in %s: %v\n got %s\nwant %s", c.text, c.v, err, got, c.want)
		}
		if cfg.MaxSplitSize != 64*MiB {
			t.Errorf("%q: max_split_size %d", c.text, cfg.MaxSplitSize)
		}
	}
	if cfg, _, err := Parse("export PYTORCH_ALLOC_CONF=", Version{}); err != nil || cfg != Default() {
		t.Errorf("an empty variable: %+v, %v", cfg, err)
	}
	var e *SyntaxError
	if _, _, err := Parse("export PYTORCH_ALLOC_CONF='expandable_segment:True'", Version{}); err == nil {
		t.Error("a misspelt key in a line is accepted")
	} else if e = err.(*SyntaxError); e.Offset != 27 || e.Write != "expandable_segments" {
		t.Errorf("%+v", e)
	}
}

// A senseless text gives an answer that can be read.
func TestFindingsAreBounded(t *testing.T) {
	for _, text := range []string{
		strings.Repeat(",", maxText),
		strings.Repeat("a:b,", maxText/4),
		strings.Repeat("backend:native,", maxText/15),
		"roundup_power2_divisions:[" + strings.Repeat("64:-2,", maxText/7),
		strings.Repeat("roundup_power2_divisions:[1MB:2],", maxText/33),
		strings.Repeat("[", maxText),
		strings.Repeat("x", maxText),
		strings.Repeat("x", maxText+1),
	} {
		_, fs, _ := Parse(text, Latest)
		if len(fs) > maxFindings+maxErrors {
			t.Errorf("%.20q...: %d findings", text, len(fs))
		}
		for _, f := range fs {
			if len(f.Message) > 500 || len(f.Suggest) > 200 || len(f.Key) > 200 {
				t.Errorf("%.20q...: a finding of %d bytes", text, len(f.Message)+len(f.Suggest)+len(f.Key))
			}
		}
	}
}
