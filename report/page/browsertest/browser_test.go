// Package browsertest opens pages in a real browser: it looks at them, clicks, presses keys, and asks them what they
// show. It is a module of its own, so that the driver of browsers reaches nobody who only uses the program.
package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/vramscope/vramscope/internal/recordtest"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
	"github.com/vramscope/vramscope/trace"
	"github.com/vramscope/vramscope/trace/source"
)

// browserVariable names the browser to use. Without it the usual ones are looked for, and without any the tests skip.
const browserVariable = "VRAMSCOPE_BROWSER"

func findBrowser(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(browserVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			t.Fatalf("%s: %v", browserVariable, err)
		}
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium here; " + browserVariable + " names another browser")
	return ""
}

// tab is a page in a browser.
type tab struct {
	t       testing.TB
	ctx     context.Context
	lock    sync.Mutex
	trouble []string // what went wrong in it
	loaded  []string // what it asked for
}

// wait is how long anything may take before a test gives up.
const wait = 2 * time.Minute

// browser starts one for a test. It asks nobody for anything, has no window, and draws without a GPU.
func browser(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(findBrowser(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.WSURLReadTimeout(wait), chromedp.WindowSize(1280, 800))
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	return ctx
}

// open shows a page in a browser of its own, and waits until it is drawn.
func open(t testing.TB, file, hash string) *tab {
	t.Helper()
	x := blank(t)
	x.navigate(file, hash)
	x.settle()
	return x
}

// blank is a tab that shows nothing yet.
func blank(t testing.TB) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t))
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, wait)
	t.Cleanup(stop)
	x := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, x.listen); err != nil {
		t.Fatal(err)
	}
	x.call(func() error {
		_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 800, DeviceScaleFactor: 1})
		return err
	})
	x.scheme("light")
	for _, enable := range []func() error{
		func() error { _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); return err },
	} {
		x.call(enable)
	}
	t.Cleanup(x.check)
	return x
}

func (x *tab) call(f func() error) {
	x.t.Helper()
	if err := f(); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	if err := chromedp.Do(x.ctx, steps...); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tab) navigate(file, hash string) {
	x.t.Helper()
	x.do(chromedp.Navigate("file://" + filepath.ToSlash(file) + hash))
}

// scheme is what the person's system prefers, light or dark.
func (x *tab) scheme(name string) {
	x.t.Helper()
	x.call(func() error {
		_, err := chromedp.Call(x.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

// listen notes what no page may do: fail, complain, and load anything but itself.
func (x *tab) listen(event any) {
	note := func(format string, args ...any) {
		x.lock.Lock()
		defer x.lock.Unlock()
		x.trouble = append(x.trouble, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		note("exception: %s", text)
	case *runtime.EventConsoleAPICalled:
		note("console: %s %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError { // the rest is advice for whoever reads pixels back, as these tests do
			note("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		x.lock.Lock()
		defer x.lock.Unlock()
		x.loaded = append(x.loaded, e.Request.URL)
	}
}

// check fails the test for what went wrong in the page, and for what it loaded.
func (x *tab) check() {
	x.lock.Lock()
	defer x.lock.Unlock()
	for _, s := range x.trouble {
		x.t.Errorf("the page: %s", s)
	}
	for _, url := range x.loaded {
		if !strings.HasPrefix(url, "file://") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") || strings.HasPrefix(url, "file://") && !strings.HasSuffix(strings.SplitN(url, "#", 2)[0], ".html") {
			x.t.Errorf("the page loads %s", url)
		}
	}
}

// eval asks the page something. An expression that is a promise is waited for.
func eval[T any](x *tab, expression string, args ...any) T {
	x.t.Helper()
	v, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](fmt.Sprintf(expression, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		x.t.Fatalf("%s: %v", fmt.Sprintf(expression, args...), err)
	}
	return v
}

// settle waits until everything is drawn as it should be.
func (x *tab) settle() {
	x.t.Helper()
	if _, err := chromedp.Run(x.ctx, chromedp.Poll[bool](
		`!!window.vramscope && vramscope.settled()`)); err != nil {
		x.t.Fatalf("the page does not come to rest: %v", err)
	}
}

// frames waits until the browser has drawn twice, so that it has told the page of what has changed around it.
func (x *tab) frames() {
	x.t.Helper()
	eval[any](x, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
}

// press sends keys to the page, and waits until it has done what they ask for.
func (x *tab) press(keys string) {
	x.t.Helper()
	x.do(chromedp.KeyEvent(keys))
	x.settle()
}

// place is where something is on the screen.
type place struct{ X, Y, Width, Height float64 }

func (x *tab) where(selector string) place {
	x.t.Helper()
	eval[any](x, `document.querySelector(%q).scrollIntoView({block: "center"})`, selector)
	return eval[place](x, `(() => { const b = document.querySelector(%q).getBoundingClientRect(); return {X: b.x, Y: b.y, Width: b.width, Height: b.height}; })()`, selector)
}

func (x *tab) click(selector string) {
	x.t.Helper()
	p := x.where(selector)
	x.do(chromedp.MouseClickXY(p.X+p.Width/2, p.Y+p.Height/2))
	x.settle()
}

func (x *tab) text(selector string) string {
	x.t.Helper()
	return eval[string](x, `document.querySelector(%q).innerText`, selector)
}

// written is the page of a recording, as a file.
func written(t testing.TB, a *report.Analysis, o page.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := page.Write(&out, a, o); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func analysed(t testing.TB, name string, tr *trace.Trace) *report.Analysis {
	t.Helper()
	return report.Analyze(name, tr, report.Options{Limit: -1, Device: -1, Replay: true})
}

// recorded analyses one of the repository's recordings, or one of the corpus; it skips the test without that.
func recorded(t testing.TB, name string) *report.Analysis {
	t.Helper()
	file := filepath.Join(recordtest.Testdata(), filepath.FromSlash(name))
	if _, err := os.Stat(file); err != nil {
		if file = filepath.Join(recordtest.Corpus(), filepath.FromSlash(name)); recordtest.Corpus() == "" {
			t.Skip("the corpus is not here")
		}
	}
	tr, err := source.Open(file, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return analysed(t, file, tr)
}

// jsonOf is a value for a page to read.
func jsonOf(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
