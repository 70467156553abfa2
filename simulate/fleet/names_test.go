package fleet_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/simulate/fleet"
)

// show writes a place on one line.
func show(p fleet.Place) string {
	var parts []string
	if p.Rank >= 0 {
		parts = append(parts, fmt.Sprintf("rank %d", p.Rank))
	}
	if p.Local >= 0 {
		parts = append(parts, fmt.Sprintf("local %d", p.Local))
	}
	if p.Host != "" {
		parts = append(parts, "on "+p.Host)
	}
	for _, a := range p.At {
		parts = append(parts, fmt.Sprintf("%s %d", a.Name, a.N))
	}
	return strings.Join(parts, ", ")
}

// TestPlace: names as programs that people use give them.
func TestPlace(t *testing.T) {
	for file, want := range map[string]string{
		"rank3.pickle":                                          "rank 3",
		"rank_3.pickle":                                         "rank 3",
		"out/rank-0003.pickle.zst":                              "rank 3",
		"snapshot_rank12.pickle":                                "rank 12",
		"memory_snapshot_rank=7.pickle.gz":                      "rank 7",
		"ddp_rank0.c0.pickle.zst":                               "rank 0",
		"r3.pickle":                                             "rank 3",
		"oom_r17_step400.pickle":                                "rank 17",
		"rank3of8.pickle":                                       "rank 3",
		"3-of-8.pickle":                                         "rank 3",
		"iteration_10/rank5_memory_snapshot.pickle":             "rank 5",
		"rank5/iteration_10/snapshot.pickle":                    "rank 5",
		"run=a/rank=5/record=event/x.parquet":                   "rank 5",
		"global_rank_9_local_rank_1.pickle":                     "rank 9, local 1",
		"globalRank9_localRank1.pickle":                         "rank 9, local 1",
		"node7/gpu3.pickle":                                     "local 3, on node7",
		"node-007_gpu3.sqlite":                                  "local 3, on node-007",
		"node_rank_2_local_rank_3.pickle":                       "local 3, on node2",
		"host=gpu-a-17/rank_4.pickle":                           "rank 4, on gpu-a-17",
		"ip-10-0-3-7/rank_4.pickle":                             "rank 4, on ip-10-0-3-7",
		"train-worker-2/rank4.pickle":                           "rank 4, on worker-2",
		"nid001234/rank4.pickle":                                "rank 4, on nid001234",
		"gpu-host-a_4711.1700000000000.pt.trace.json.gz":        "on gpu-host-a",
		"h100-a_Jun_12_10_11_12.pickle":                         "on h100-a",
		"rank7_4711.1700000000000.pt.trace.json":                "rank 7",
		"tp0_pp1_dp2.pickle":                                    "pp 1, tp 0, dp 2",
		"tp0pp1dp2.pickle":                                      "pp 1, tp 0, dp 2",
		"rank_0010_tp2_pp1_ep3_cp0.pickle":                      "rank 10, pp 1, tp 2, ep 3, cp 0",
		"tp_rank_2_pp_rank_1.pickle":                            "pp 1, tp 2",
		"mp_rank_01_003/snapshot.pickle":                        "pp 3, tp 1",
		"mp_rank_01_003_002/snapshot.pickle":                    "pp 3, tp 1, ep 2",
		"stage3_rank12.pickle":                                  "rank 12, pp 3",
		"fsdp_rank_6.pickle":                                    "rank 6",
		"ddp4.pickle":                                           "dp 4",
		"profile_proc5.nsys-rep":                                "rank 5",
		"job.task12.sqlite":                                     "rank 12",
		"slurm_123456_procid7.sqlite":                           "rank 7",
		`C:\runs\node3\rank17.pickle`:                           "rank 17, on node3",
		"./stage2/expert1/data0/rank4.pickle":                   "rank 4",
		"benchmark3.pickle":                                     "",
		"network_3.pickle":                                      "",
		"snapshot.pickle":                                       "",
		"2024_01_02_03_04_05.pickle":                            "",
		"rank.pickle":                                           "",
		"rank99999999999999999999.pickle":                       "rank 9999999",
		"":                                                      "",
		"///":                                                   "",
		strings.Repeat("rank1/", 2000) + "tp1_pp0/rank2.pickle": "rank 2, pp 0, tp 1",
	} {
		if got := show(fleet.Places([]string{file})[0]); got != want {
			t.Errorf("%.80s: %q, not %q", file, got, want)
		}
	}
}

// TestPlaces: what only all names together tell.
func TestPlaces(t *testing.T) {
	for _, c := range []struct{ files, want string }{
		{"0.pickle 1.pickle 2.pickle", "rank 0; rank 1; rank 2"},
		{"snap_10_7.pickle snap_11_7.pickle snap_12_7.pickle", "; ; "}, // these may be steps
		{"snap_1_700.pickle snap_2_701.pickle snap_3_655.pickle", "rank 1; rank 2; rank 3"},
		{"job1_0.pickle job1_1.pickle job1_2.pickle", "rank 0; rank 1; rank 2"},
		{"a0_0.pickle a1_1.pickle", "; "}, // two numbers count alike
		{"0.pickle 0.pickle", "; "},
		{"a/0.pickle b/1.pickle", "; "},
		// How many there are is no position.
		{"tp8_pp4/rank0.pickle tp8_pp4/rank1.pickle", "rank 0; rank 1"},
		{"tp8/rank0_pp0.pickle tp8/rank1_pp1.pickle", "rank 0, pp 0; rank 1, pp 1"},
		{"rank0.pickle 1.pickle", "rank 0; "},
		{"", ""},
	} {
		var got []string
		for _, p := range fleet.Places(strings.Fields(c.files)) {
			got = append(got, show(p))
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: %q, not %q", c.files, s, c.want)
		}
	}
}

// FuzzPlaces: no name makes it fail, and a name never has a negative number.
func FuzzPlaces(f *testing.F) {
	f.Add("node7/rank_3_tp0.pickle", "node8/rank_4_tp1.pickle")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, p := range fleet.Places([]string{a, b}) {
			if p.Rank < -1 || p.Local < -1 {
				t.Fatalf("%+v", p)
			}
			for _, x := range p.At {
				if x.N < 0 {
					t.Fatalf("%+v", p)
				}
			}
		}
	})
}

// TestNameless: of a name that is shown to others only what tells the place stays, and it tells all of it.
func TestNameless(t *testing.T) {
	files := []string{
		"/home/ann/job/host=ann-1/rank_0/snap_17.pickle",
		"/home/ann/job/host=ann-2/rank_1/snap_18.pickle",
		"/home/ann/job/pp1/ann-2_4242.1718190611000.pt.trace.json",
		"/home/ann/job/pp0/rank3_ip-10-0-3-7.pickle",
		"/home/ann/job/pp0/ann-1/gpu2/x.pickle",
	}
	names := fleet.Nameless(files)
	want := []string{"rank0_host1/snap_17.pickle", "rank1_host2/snap_18.pickle", "pp1/host2_4242.1718190611000.pt.trace.json",
		"pp0/rank3_host3.pickle", "gpu2_pp0/x.pickle"}
	var list []string
	seen := map[string]bool{}
	for i, f := range files {
		if names[f] != want[i] || strings.Contains(names[f], "ann") {
			t.Errorf("%s is called %s, want %s", f, names[f], want[i])
		}
		list, seen[names[f]] = append(list, names[f]), true
	}
	if len(seen) != len(files) {
		t.Error("two files have one name")
	}
	before, after := fleet.Places(files), fleet.Places(list)
	for i := range files {
		b, a := before[i], after[i]
		if (b.Host == "") != (a.Host == "") {
			t.Errorf("%s: machine %q, before %q", list[i], a.Host, b.Host)
		}
		b.Host, a.Host = "", ""
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s tells %+v, before %+v", list[i], a, b)
		}
	}
	if before[1].Host != before[2].Host || after[1].Host != after[2].Host || after[0].Host == after[1].Host {
		t.Error("machines are not told apart as before")
	}
}
