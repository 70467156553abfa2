package browsertest

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/internal/tracetest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// Text of a recording is text on the page, also where a program puts it: names of functions and files, steps, and what
// the file is called.
func TestHostileText(t *testing.T) {
	names := []string{"</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed=1'>", `"><svg onload="window.harmed=1">`, "${window.harmed=1}", "{{.}}",
		"<!--", "\u202egnissim", "javascript:window.harmed=1", strings.Repeat("long", 2000)}
	r := tracetest.New("", -1)
	for range 8 {
		r.Step("<b>step</b>", func() {
			var list []int
			for i, name := range names {
				r.Rename = func(f trace.Frame) trace.Frame { return trace.Frame{File: name + ".py", Func: name, Line: f.Line} }
				list = append(list, r.Alloc(int64(i+1)<<22, fmt.Sprintf("train.py:%d f", i+1)))
			}
			r.Free(list[1:]...)
		})
	}
	a := analysed(t, "<img src=x onerror='window.harmed=1'>.pickle", r.Trace())
	x := open(t, written(t, a, page.Options{Version: "<b>1</b>"}), "")
	for i := range names {
		eval[any](x, `vramscope.view.set({block: %d})`, i)
		x.settle()
		want := names[i]
		switch {
		case strings.HasPrefix(want, "\u202e"):
			want = `\u202egnissim` // it is written out, and turns nothing around
		case len(want) > 4000:
			want = want[:3900] // it is cut
		}
		if got := x.text("#inspector"); !strings.Contains(got, want) {
			t.Errorf("the details of %q are %.200q", names[i], got)
		}
	}
	for _, side := range []string{"place", "file", "step"} {
		eval[any](x, `vramscope.view.set({group: %q})`, side)
		x.settle()
	}
	eval[any](x, `vramscope.view.set({find: "<img"})`)
	x.settle()
	if eval[bool](x, `"harmed" in window`) {
		t.Error("a text of the recording was executed")
	}
	if n := eval[int](x, `document.querySelectorAll("main img, main b:not(#inspector b):not(#now b):not(.lead b), main svg[onload]").length`); n != 0 {
		t.Errorf("%d elements were made of text", n)
	}
	// Its own policy keeps anything else from being executed.
	x.call(func() error {
		_, err := chromedp.Run(x.ctx, chromedp.Evaluate[bool](`(() => { const s = document.createElement("script"); s.textContent = "window.harmed = 2"; document.body.append(s); return true; })()`))
		return err
	})
	if eval[bool](x, `"harmed" in window`) {
		t.Error("the page executes a program that is put into it")
	}
	x.lock.Lock()
	x.trouble = nil // of which the browser has complained
	x.lock.Unlock()
}

// Every kind of recording has a page without trouble, and everything on it can be pressed.
func TestKinds(t *testing.T) {
	files := []string{oom, "golden/graph.pickle.zst", "golden/expandable.pickle.zst", "golden/record_stream.pickle.zst", "golden/midrun.pickle.zst", "golden/oom.pickle.zst"}
	inputs, _ := filepath.Glob(filepath.Join(recordtest.Testdata(), "inputs", "*"))
	for _, f := range inputs {
		files = append(files, "inputs/"+filepath.Base(f))
	}
	files = append(files, "torch/twodev.pickle.zst", "torch/streams.c0.pickle.zst", "torch/graphs.c0.pickle.zst", "torch/gpt_varlen.c2.pickle.zst", "nsys/torch_default.sqlite.zst", "nvml/pmon.txt", "text/memory_summary.txt")
	for _, name := range files {
		t.Run(name, func(t *testing.T) {
			x := open(t, written(t, recorded(t, name), page.Options{}), "")
			for _, key := range "pre,.[]+-fyxcckjzd/" {
				x.do(chromedp.KeyEvent(string(key)))
			}
			x.do(chromedp.KeyEvent("\u001b"))
			x.settle()
			for i := range eval[int](x, `document.querySelectorAll("main button, header button").length`) {
				eval[any](x, `(() => { const b = document.querySelectorAll("main button, header button")[%d]; if (b && b.offsetParent && b.id !== "help") b.click(); })()`, i)
			}
			x.settle()
			if trouble := x.text("#trouble"); trouble != "" && eval[bool](x, `!document.querySelector("#trouble").hidden`) {
				t.Error(trouble)
			}
		})
	}
}

// Whatever has happened to a recording, its page draws it without trouble, and the bands add up.
func TestDamaged(t *testing.T) {
	x := blank(t)
	for _, name := range []string{"golden/record_stream.pickle.zst", "golden/graph.pickle.zst"} {
		whole := recorded(t, name).Trace
		for _, damage := range tracetest.Damages {
			tr := damage.ApplyAll(whole)
			x.navigate(written(t, report.Analyze(name, tr, report.Options{Limit: -1, Device: -1}), page.Options{}), "")
			x.settle()
			for _, keys := range []string{"", "x", "e", "++"} {
				if keys != "" {
					x.press(keys)
				}
				if wrong := eval[string](x, addUp); wrong != "" {
					t.Errorf("%s, %s, after %q: %s", name, damage.Name, keys, wrong)
				}
			}
			x.lock.Lock()
			if len(x.trouble) > 0 {
				t.Fatalf("%s, %s", name, damage.Name)
			}
			x.lock.Unlock()
		}
	}
}

// A page without events, without devices, without anything is a page all the same.
func TestNothing(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty.json": `{"segments": [], "device_traces": []}`, "bare.json": `{"segments": [], "device_traces": [[]]}`} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tr, err := source.Open(file, source.Options{})
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		open(t, written(t, analysed(t, file, tr), page.Options{}), "")
	}
	r := tracetest.New("", -1)
	r.Alloc(1<<20, "a.py:1 f")
	x := open(t, written(t, analysed(t, "one", r.Trace()), page.Options{}), "")
	if wrong := eval[string](x, addUp); wrong != "" {
		t.Error(wrong)
	}
	x.press("+++---fyxcpre,.")
}

// Several devices are shown one at a time, each with its own words and pictures.
func TestDevices(t *testing.T) {
	a := recorded(t, "torch/twodev.pickle.zst")
	x := open(t, written(t, a, page.Options{}), "")
	for i, keys := range []string{"", "d", "d"} {
		if keys != "" {
			x.press(keys)
		}
		d := &a.Devices[i%2]
		if got := eval[int64](x, `vramscope.recording.allocated[%d]`, d.PeakAllocated.Event+1); got != d.PeakAllocated.Allocated {
			t.Errorf("device %d: %d at the peak, want %d", d.Index, got, d.PeakAllocated.Allocated)
		}
		if shown := x.text("#summary"); !strings.Contains(shown, strings.Trim(a.Lead(d)[0], "*")) {
			t.Errorf("device %d: the summary is %q", d.Index, shown)
		}
		if wrong := eval[string](x, addUp); wrong != "" {
			t.Errorf("device %d: %s", d.Index, wrong)
		}
	}
}

// Dark and light: the system's choice is taken, a switch changes it, and text can be read in both.
func TestThemes(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	ground := func() float64 {
		return eval[float64](x, `(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).map(Number); return (r + g + b) / 3; })()`)
	}
	pixel := func() float64 {
		return eval[float64](x, `(() => { const [r, g, b] = vramscope.timeline.base.context.getImageData(70, 24, 1, 1).data; return (r + g + b) / 3; })()`)
	}
	check := func(what string, light bool) {
		t.Helper()
		if g, p := ground(), pixel(); g > 128 != light || p > 128 != light {
			t.Errorf("%s: the ground is %v, of the picture %v", what, g, p)
		}
		for _, faint := range eval[[]string](x, contrasts) {
			t.Errorf("%s: hard to read: %s", what, faint)
		}
	}
	check("light system", true)
	x.press("t")
	check("switched to dark", false)
	x.press("t")
	check("switched back", true)
	eval[any](x, `delete document.documentElement.dataset.theme`)
	x.scheme("dark")
	x.frames()
	x.settle()
	check("dark system", false)
}

// contrasts lists texts whose contrast to what is behind them is below 4.5 to 1.
const contrasts = `(() => {
	const parse = (s) => s.match(/[\d.]+/g).map(Number);
	const lum = ([r, g, b]) => { const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.5) return c; } return [255, 255, 255]; };
	const faint = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.offsetParent) continue;
		const a = lum(parse(getComputedStyle(e).color)), b = lum(behind(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) faint.add(ratio.toFixed(1) + " " + e.tagName + "." + e.className + " " + e.textContent.slice(0, 30));
	}
	return [...faint];
})()`

// Whoever cannot see it, or has no mouse: everything that can be pressed has a name, pictures say what they are, and
// the keyboard reaches all.
func TestAccessible(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	for _, bad := range eval[[]string](x, `[...document.querySelectorAll("button, input, select, [role=application], canvas, table, section")].filter((e) => {
		if (e.ariaHidden === "true" || e.closest("[aria-hidden=true]") || e.matches("#timeline-canvas, #timeline-over, #flame-canvas")) return false; // their box has the name
		if (e.tagName === "TABLE") return !e.querySelector("th");
		const label = e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.title || e.textContent.trim() || e.labels && e.labels.length && e.labels[0].textContent;
		return !label;
	}).map((e) => e.outerHTML.slice(0, 120))`) {
		t.Errorf("without a name: %s", bad)
	}
	if ids := eval[[]string](x, `(() => { const seen = {}; for (const e of document.querySelectorAll("[id]")) seen[e.id] = (seen[e.id] || 0) + 1; return Object.keys(seen).filter((i) => seen[i] > 1); })()`); len(ids) > 0 {
		t.Errorf("ids that two have: %v", ids)
	}
	reached := map[string]bool{}
	for range 60 {
		x.do(chromedp.KeyEvent("\t"))
		reached[eval[string](x, `document.activeElement.id || document.activeElement.closest("[id]")?.id || ""`)] = true
	}
	for _, id := range []string{"search", "theme", "help", "moments", "colour", "axis-time", "zoom-in", "timeline-plot", "legend", "slider", "flame-plot", "group", "holders"} {
		if !reached[id] {
			t.Errorf("the tabulator does not reach %s, of %v", id, reached)
		}
	}
	eval[any](x, `document.querySelector("#flame-plot").focus()`)
	x.press("\uE015") // down
}

// On paper it is light, everything is there, and nothing is pressed together.
func TestPrint(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	x.press("t")
	pdf, err := chromedp.Run(x.ctx, chromedp.PrintToPDF())
	if err != nil {
		t.Fatal(err)
	}
	if len(pdf) < 20_000 {
		t.Errorf("a PDF of %d bytes", len(pdf))
	}
	x.settle()
	if dark := eval[bool](x, `document.documentElement.dataset.theme === "dark"`); !dark {
		t.Error("after printing the page is not dark again")
	}
}

// Without a program the words are all there.
func TestWithoutScript(t *testing.T) {
	a := recorded(t, oom)
	x := blank(t)
	x.call(func() error {
		_, err := chromedp.Call(x.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	})
	x.navigate(written(t, a, page.Options{}), "")
	shot, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(shot)); err != nil {
		t.Fatal(err)
	}
	text, err := chromedp.Run(x.ctx, chromedp.Text(chromedp.CSS("body")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{strings.Trim(a.Lead(&a.Devices[0])[0], "*"), "does not run it", "Mind"} {
		if !strings.Contains(text, want) {
			t.Errorf("without a program the page lacks %q", want)
		}
	}
}
