package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vramscope/vramscope/trace"
)

func TestWithoutFolders(t *testing.T) {
	for file, want := range map[string]string{
		"/home/somebody/project/train.py": "train.py", `C:\Users\somebody\train.py`: "train.py", "train.py": "train.py", "??": "??",
		"/home/somebody/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py": "lib/python3.12/site-packages/torch/nn/modules/linear.py",
		"/usr/lib/python3.11/threading.py":                                            "lib/python3.11/threading.py",
		"torch/nn/modules/module.py":                                                  "torch/nn/modules/module.py",
	} {
		if got := withoutFolders(file); got != want {
			t.Errorf("%s: %s, want %s", file, got, want)
		}
		if a, b := isOwn(trace.Frame{File: file, Line: 1}), isOwn(trace.Frame{File: withoutFolders(file), Line: 1}); a != b {
			t.Errorf("%s is somebody's own: %v, and then %v", file, a, b)
		}
	}
}

func TestRedact(t *testing.T) {
	rec := stairs([]int{100, 200}, []int64{1, 2})
	rec.Devices[0].UUID = "GPU-somebody"
	stack := rec.Stacks.AddStack([]trace.FrameID{rec.Stacks.AddFrame(trace.Frame{File: "/home/somebody/train.py", Func: "f", Line: 3})})
	d := &rec.Devices[0]
	d.Events.Append(trace.Event{Time: outsideStart + 1e9, Addr: d.Events.At(0).Addr, Size: 512, Op: trace.OpAlloc, Stack: stack})
	trace.Pair(d)
	for _, name := range []string{"load /home/somebody/data.bin", `C:\Users\somebody\x.py:3`, "aten::linear/bias", "model/layer1", "a (/data/somebody/y) b"} {
		rec.Markers = append(rec.Markers, trace.Marker{Name: name})
	}
	Redact(rec)
	var names []string
	for _, m := range rec.Markers {
		names = append(names, m.Name)
	}
	if got := strings.Join(names, "|"); !strings.HasSuffix(got, "load data.bin|x.py:3|aten::linear/bias|model/layer1|a (y) b") {
		t.Errorf("names %s", got)
	}
	var b bytes.Buffer
	if err := analyzed(rec).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "somebody") || !strings.Contains(b.String(), "train.py:3 f") {
		t.Error(b.String())
	}
}
