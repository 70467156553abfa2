package simulate_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

// TestDeviceTime holds what the calls are said to take against what they took when the same replays were made on
// a GPU (NVIDIA H200, driver 580.159, one run each): within a factor of two, which is how much two runs differ.
func TestDeviceTime(t *testing.T) {
	for name, took := range map[string]map[string]time.Duration{
		"resnet_train.c0":   {"": 4690 * time.Microsecond, "max_split_size_mb:64": 6680 * time.Microsecond, "expandable_segments:True": 4970 * time.Microsecond},
		"dynamic_batch.c0":  {"": 2120 * time.Microsecond, "max_split_size_mb:64": 2170 * time.Microsecond, "expandable_segments:True": 3140 * time.Microsecond},
		"gpt_leak_grads.c0": {"": 1850 * time.Microsecond},
	} {
		tr, err := source.Open(filepath.Join(recordtest.Testdata(), "torch", name+".pickle.zst"), source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: -1})
		for conf, took := range took {
			c, _, err := config.Parse(conf, config.DefaultVersion)
			if err != nil {
				t.Fatal(err)
			}
			said := f.Requests.Once(f.Surroundings(), simulate.WhatIf{Config: c, Limit: -1}).DeviceTime
			t.Logf("%s under %q: %v said, %v measured", name, conf, said, took)
			if said > 2*took || 2*said < took {
				t.Errorf("%s under %q: %v said, %v measured", name, conf, said, took)
			}
		}
	}
}
