package fidelity

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/allocators/caching/config"
	"github.com/vramscope/vramscope/simulate"
	"github.com/vramscope/vramscope/trace/source"
)

var limits = map[string]int64{"gpt_varlen_capped": 12288, "seed_example": 1280, "frag_oom": 4096, "raw_capped": 8192}

type recorded struct {
	name, conf string
	peak       int64
	oom        bool
	file       string
}

func TestFidelityTable(t *testing.T) {
	dirs := filepath.SplitList(os.Getenv("VRAMSCOPE_CORPUS"))
	if len(dirs) == 0 {
		dirs = []string{filepath.Join("..", "..", "..", "shared", "data")}
	}
	all := map[string]map[string]recorded{}
	for _, d := range dirs {
		files, _ := filepath.Glob(filepath.Join(d, "torch", "*.c?.truth.json"))
		for _, f := range files {
			base := strings.TrimSuffix(filepath.Base(f), ".truth.json")
			p := strings.SplitN(base, ".", 2)
			data, _ := os.ReadFile(f)
			var x struct {
				Conf  string
				Oom   *string
				Stats map[string]any
			}
			if err := json.Unmarshal(data, &x); err != nil {
				t.Fatal(err)
			}
			if all[p[0]] == nil {
				all[p[0]] = map[string]recorded{}
			}
			all[p[0]][p[1]] = recorded{base, x.Conf, int64(x.Stats["reserved_bytes.all.peak"].(float64)), x.Oom != nil, filepath.Join(filepath.Dir(f), base+".pickle.zst")}
		}
	}
	var names []string
	for n := range all {
		names = append(names, n)
	}
	sort.Strings(names)
	pairs, exact, within, zero := 0, 0, 0, 0
	for _, n := range names {
		from, ok := all[n]["c0"]
		if !ok {
			continue
		}
		tr, err := source.Open(from.file, source.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg, _ := simulate.SettingsOf(tr, config.DefaultVersion)
		limit := int64(-1)
		if l, ok := limits[n]; ok {
			limit = l << 20
		}
		f := simulate.Follow(&tr.Devices[0], cfg, simulate.FollowOptions{Limit: limit})
		around := f.Surroundings()
		for _, k := range []string{"c0", "c1", "c2", "c3", "c4", "c6", "c7", "c8", "c9"} {
			to, ok := all[n][k]
			if !ok {
				continue
			}
			c, _, err := config.Parse(to.conf, config.DefaultVersion)
			if err != nil {
				t.Fatal(err)
			}
			p := f.Requests.Predict(around, simulate.WhatIf{Config: c, Limit: limit})
			got := p.Stats.Reserved.Peak
			mark := "  "
			pairs++
			if got == to.peak {
				exact++
				mark = "= "
			}
			if p.Low <= to.peak && to.peak <= p.High {
				within++
				mark += "in"
			} else {
				mark += "OUT"
			}
			if p.Low == p.High {
				zero++
			}
			fmt.Printf("%-18s %s %-50s truth %9.0f got %9.0f range %9.0f..%9.0f %s completed %v truthoom %v\n", n, k, to.conf, mib(to.peak), mib(got), mib(p.Low), mib(p.High), mark, p.Completed, to.oom)
		}
	}
	fmt.Println(pairs, "pairs, exact", exact, "within", within, "zero width", zero)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
