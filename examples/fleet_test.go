package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/internal/fleettest"
)

// cluster is a job's recordings, and what vramscope fleet says of them on one machine.
type cluster struct {
	program, recordings, dir string
	want                     string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("slow, skipped under -short")
	}
	c := &cluster{dir: t.TempDir()}
	c.program, c.recordings = filepath.Join(c.dir, "vramscope"), filepath.Join(c.dir, "recordings")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", c.program, "../cmd/vramscope").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := fleettest.Make(c.recordings, "../testdata/torch/dynamic_batch.c0.pickle.zst", fleettest.Job{Ranks: 20, Seed: 9, Stages: 2, Far: 4, Leak: 5, OOM: 6, Broken: 7}); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(c.program, "fleet", "--json", "--journal", "off", c.recordings).Output()
	if err != nil {
		t.Fatal(err)
	}
	c.want = string(out)
	return c
}

// check compares what lies in a folder of results.
func (c *cluster) check(t *testing.T, results string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(results, "fleet.json"))
	if err != nil || string(got) != c.want {
		t.Errorf("the result is not what one machine says: %v", err)
	}
	if page, err := os.ReadFile(filepath.Join(results, "fleet.html")); err != nil || !bytes.Contains(page, []byte("needs the most")) {
		t.Errorf("the page: %v", err)
	}
}

func (c *cluster) bash(t *testing.T, env []string, args ...string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not here")
	}
	cmd := exec.Command(bash, args...)
	cmd.Env = append(append(os.Environ(), "VRAMSCOPE="+c.program), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// sbatch is a stand-in that does what it is given at once, each task of an array after the other.
const sbatch = `#!/usr/bin/env bash
set -euo pipefail
array=none
while [[ $1 == --* ]]; do
  case $1 in
  --array) array=$2; shift ;;
  --output | --job-name | --dependency | --mem | --cpus-per-task) shift ;;
  --parsable) ;;
  *) echo "sbatch: $1" >&2; exit 1 ;;
  esac
  shift
done
if [[ $array == none ]]; then
  bash "$@" >&2
else
  for ((i = ${array%-*}; i <= ${array#*-}; i++)); do
    SLURM_ARRAY_TASK_ID=$i bash "$@" >&2
  done
fi
echo 4711
`

// TestFleet runs the recipes for many machines on one, and each comes to what vramscope fleet says.
func TestFleet(t *testing.T) {
	c := newCluster(t)
	t.Run("processes", func(t *testing.T) {
		results := filepath.Join(c.dir, "processes")
		c.bash(t, nil, "fleet/processes.sh", "3", c.recordings, results)
		c.check(t, results)
		c.bash(t, nil, "fleet/processes.sh", "3", c.recordings, results) // again, with all that is kept
		c.check(t, results)
	})
	t.Run("slurm", func(t *testing.T) {
		bin, results := filepath.Join(c.dir, "bin"), filepath.Join(c.dir, "slurm")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(bin, "sbatch"), []byte(sbatch))
		if err := os.Chmod(filepath.Join(bin, "sbatch"), 0o755); err != nil {
			t.Fatal(err)
		}
		c.bash(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TASKS=5"}, "fleet/slurm.sh", "submit", c.recordings, results)
		c.check(t, results)
	})
	t.Run("kubernetes", func(t *testing.T) { c.kubernetes(t) })
}

// kubernetes reads the jobs, looks whether they belong together, and runs what each pod would.
func (c *cluster) kubernetes(t *testing.T) {
	const toJSON = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
	out, err := exec.Command("python3", "-c", toJSON, "fleet/kubernetes.yml").Output()
	if err != nil {
		t.Skip("python3 with yaml is not here")
	}
	var jobs []struct {
		APIVersion, Kind string
		Metadata         struct {
			Name   string
			Labels map[string]string
		}
		Spec struct {
			CompletionMode                         string
			Completions, Parallelism, BackoffLimit int
			Template                               struct {
				Spec struct {
					RestartPolicy string
					Containers    []struct {
						Command, Args []string
						Env           []struct{ Name string }
						VolumeMounts  []struct{ Name, MountPath string }
					}
					Volumes []struct{ Name string }
				}
			}
		}
	}
	if err := json.Unmarshal(out, &jobs); err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(c.dir, "kubernetes")
	if err := os.Mkdir(results, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		pod := j.Spec.Template.Spec
		if j.APIVersion != "batch/v1" || j.Kind != "Job" || j.Metadata.Labels["step"] != j.Metadata.Name || pod.RestartPolicy != "Never" || len(pod.Containers) != 1 || len(pod.Volumes) != 2 {
			t.Fatalf("%+v", j)
		}
		container := pod.Containers[0]
		n := 1
		if j.Spec.CompletionMode == "Indexed" {
			n = j.Spec.Completions
			if j.Spec.Parallelism != n || len(container.Env) != 1 || container.Env[0].Name != "INDEX" || !strings.Contains(strings.Join(container.Args, " "), fmt.Sprintf("--shard=$(INDEX)/%d ", n)) {
				t.Errorf("%s: %+v", j.Metadata.Name, j.Spec)
			}
		}
		for i := range n {
			args := strings.Join(container.Args, "\n")
			args = strings.NewReplacer("$(INDEX)", fmt.Sprint(i), "/recordings", c.recordings, "/results", results).Replace(args)
			if out, err := exec.Command(c.program, strings.Split(args, "\n")...).CombinedOutput(); err != nil {
				t.Fatalf("%s, pod %d: %v\n%s", j.Metadata.Name, i, err, out)
			}
		}
	}
	if len(jobs) != 4 {
		t.Errorf("%d jobs", len(jobs))
	}
	c.check(t, results)
}
