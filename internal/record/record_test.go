//go:build linux || darwin

package record

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// meter counts up: each reading has a mebibyte more in use on its device.
func meter() *Meter {
	var used [2]int64
	return &Meter{
		Driver:  "999.1",
		Devices: []Device{{0, "GPU-a", "Imaginary GPU"}, {1, "GPU-b", "Imaginary, GPU"}},
		Close:   func() {},
		Read: func(i int) (Reading, error) {
			used[i] += 1 << 20
			r := Reading{Used: used[i], Free: 8<<30 - used[i], Total: 8 << 30, Busy: -1}
			if i == 0 {
				r.Processes = []Process{{77, "python3", used[i] / 2}, {78, "other, name", -1}}
			}
			return r, nil
		},
	}
}

func run(t *testing.T, m *Meter, script string) (code int, s Summary, log, out string) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh here")
	}
	var file, stdout bytes.Buffer
	code, s, err := Run([]string{"sh", "-c", script}, [3]any{strings.NewReader("from outside\n"), &stdout, io.Discard}, m, 2*time.Millisecond, &file)
	if err != nil {
		t.Fatal(err)
	}
	return code, s, file.String(), stdout.String()
}

// TestLog: what is written is read back as it was.
func TestLog(t *testing.T) {
	code, s, log, out := run(t, meter(), "read line; echo it read: $line; sleep 0.1")
	if code != 0 || out != "it read: from outside\n" {
		t.Errorf("code %d, %q", code, out)
	}
	if s.Samples < 3 || s.Failed != 0 || s.Elapsed < 100*time.Millisecond || s.Peak[0] != int64(s.Samples)<<20 {
		t.Errorf("%+v", s)
	}
	file := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if tr.Source.Producer != "NVIDIA driver 999.1" || len(tr.Devices) != 2 || tr.Devices[1].Index != 1 || len(tr.Warnings) != 0 {
		t.Errorf("%+v, %d devices, %v", tr.Source, len(tr.Devices), tr.Warnings)
	}
	for i := range tr.Devices {
		used := trace.FindSeries(tr.Devices[i].Series, trace.DeviceUsed)
		if used == nil || used.Min != 1<<20 || used.Max != s.Peak[i] {
			t.Errorf("device %d: used %+v, the peak was %d", i, used, s.Peak[i])
		}
		now := trace.Time(time.Now().UnixNano())
		if used != nil && (used.Points[0].Time > now || used.Points[0].Time < now-trace.Time(time.Hour)) {
			t.Errorf("the first sample is of %d, it is %d", used.Points[0].Time, now)
		}
	}
	held := trace.FindSeries(tr.Devices[0].Series, trace.ProcessUsed)
	if held == nil || held.PID != 77 || held.Max != s.Peak[0]/2 {
		t.Errorf("process: %+v", held)
	}
}

// TestExitCodes: those of the program, of signals, and of what cannot be started.
func TestExitCodes(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "exit 255": 255, "kill -9 $$": 137, "kill -TERM $$": 143} {
		if code, _, _, _ := run(t, meter(), script); code != want {
			t.Errorf("%s: %d, want %d", script, code, want)
		}
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"no-such-program-anywhere": 127, filepath.Join(t.TempDir(), "none"): 127, plain: 126} {
		code, _, err := Run([]string{name}, [3]any{}, meter(), time.Millisecond, io.Discard)
		if code != want || err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %d, %v, want %d", name, code, err, want)
		}
	}
}

// TestSignals: what this process gets, the program gets, and decides about.
func TestSignals(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGHUP} {
		go func() {
			time.Sleep(200 * time.Millisecond)
			_ = syscall.Kill(os.Getpid(), sig)
		}()
		code, _, _, out := run(t, meter(), `trap 'echo got it; exit 9' TERM USR1 HUP; i=0; while [ $i -lt 100 ]; do sleep 0.05; i=$((i+1)); done`)
		if code != 9 || out != "got it\n" {
			t.Errorf("%v: code %d, %q", sig, code, out)
		}
	}
}

// TestTrouble: readings that fail and a log that cannot be written are said, and the program is none the wiser.
func TestTrouble(t *testing.T) {
	m := meter()
	read := m.Read
	m.Read = func(i int) (Reading, error) {
		if i == 1 {
			return Reading{}, errors.New("GPU is lost")
		}
		return read(i)
	}
	code, s, log, _ := run(t, m, "exit 4")
	if code != 4 || s.Failed != s.Samples || s.Error.Error() != "device 1: GPU is lost" || s.Peak[1] != -1 || strings.Contains(log, "GPU-b") {
		t.Errorf("code %d, %+v", code, s)
	}
	code, _, err := Run([]string{"sh", "-c", "sleep 0.05; exit 5"}, [3]any{}, meter(), time.Millisecond, full{})
	if code != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("code %d, %v", code, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestOnly keeps one device.
func TestOnly(t *testing.T) {
	m := meter()
	if err := m.Only(2); !errors.As(err, new(*Missing)) {
		t.Errorf("%v", err)
	}
	if err := m.Only(1); err != nil {
		t.Fatal(err)
	}
	r, err := m.Read(0)
	if err != nil || len(m.Devices) != 1 || m.Devices[0].UUID != "GPU-b" || len(r.Processes) != 0 {
		t.Errorf("%+v, %+v, %v", m.Devices, r, err)
	}
}
