package browsertest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/page"
)

// on is where on the screen a share of the timeline's bands is, counted from the left and from the top.
func (x *tab) on(left, top float64) (float64, float64) {
	x.t.Helper()
	p := x.where("#timeline-plot")
	return p.X + 66 + left*(p.Width-78), p.Y + 22 + top*(p.Height-44)
}

// view is what the page looks at.
type view struct {
	From, To, Low, High float64
	State, Block        int
	Axis, Colour        string
	Find, Only          string
}

func (x *tab) view() view {
	x.t.Helper()
	return eval[view](x, `(() => {
		const {view: v, timeline, axis} = vramscope, [From, To] = timeline.range(), [Low, High] = timeline.heights();
		return {From, To, Low, High, State: v.state, Block: v.block, Axis: axis.kind, Colour: v.colour, Find: v.find, Only: v.only};
	})()`)
}

// A click takes the block under it, and its moment: the details say what it is, and the pictures below follow.
func TestClick(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	px, py := x.on(0.5, 0.97)
	x.do(chromedp.MouseClickXY(px, py))
	x.settle()
	v := x.view()
	if v.Block < 0 {
		t.Fatal("no block was taken")
	}
	want := eval[string](x, `(() => { const r = vramscope.recording, b = vramscope.view.block; return vramscope.format.bytes(r.bytesOf(b)) + "|" + r.codes.placeText(r.stack[b]) + "|" + vramscope.format.count(r.born[b] - 1); })()`)
	details := x.text("#inspector")
	for _, s := range strings.Split(want, "|") {
		if !strings.Contains(details, s) {
			t.Errorf("the details lack %q:\n%s", s, details)
		}
	}
	if n := eval[int](x, `document.querySelectorAll("#inspector .stack li").length`); n < 3 {
		t.Errorf("a call stack of %d frames", n)
	}
	if !eval[bool](x, `vramscope.recording.born[%d] <= %d && %d < vramscope.recording.freed[%d]`, v.Block, v.State, v.State, v.Block) {
		t.Errorf("block %d does not live in state %d", v.Block, v.State)
	}
	if now := x.text("#now"); !strings.Contains(now, report.Count(v.State-1)) {
		t.Errorf("the chosen moment is %q, state %d was clicked", now, v.State)
	}
	if map_ := eval[int](x, `vramscope.map.layout.state`); map_ != v.State {
		t.Errorf("the address map shows state %d, not %d", map_, v.State)
	}
	// The same block in the map, and a block that is found there.
	sum := eval[[]float64](x, `(() => {
		const l = vramscope.map.layout, r = vramscope.recording; let sum = 0;
		for (const b of l.blocks) if (!l.waits(b)) sum += r.bytesOf(b);
		return [sum, r.allocated[l.state], l.groups.reduce((a, g) => a + g.size, 0), r.reserved(l.state), l.free().stranded + l.free().cached];
	})()`)
	if sum[0] != sum[1] || sum[2] != sum[3] || math.Abs(sum[4]-(sum[3]-sum[1])) > 0 {
		t.Errorf("the map has blocks of %v in segments of %v, free %v; allocated are %v, reserved %v", sum[0], sum[2], sum[4], sum[1], sum[3])
	}
	p := x.where("#map-plot")
	spot := eval[[]float64](x, `(() => { // some pixels behind where another block begins
		const m = vramscope.map, r = vramscope.recording, g = m.layout.groups[0], width = m.surface.width;
		for (const s of g.segments) for (const b of m.layout.blocks.slice(s.first, s.last)) {
			if (b === vramscope.view.block || r.bytesOf(b) < 8 * m.perPixel) continue;
			const pixel = Math.floor((s.offset + r.address(b) - s.addr) / m.perPixel) + 4;
			return [b, pixel %% width, g.y + Math.floor(pixel / width) * 19 + 7];
		}
	})()`)
	x.do(chromedp.MouseClickXY(p.X+spot[1], p.Y+spot[2]))
	x.settle()
	if b := x.view().Block; b != int(spot[0]) {
		t.Errorf("a click into the map takes block %d, not %v", b, spot[0])
	}
	x.press(kb.Escape)
	if b := x.view().Block; b != -1 {
		t.Errorf("after Escape block %d is still taken", b)
	}
}

// The pointer says what it is over.
func TestHover(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	for _, c := range []struct{ left, top float64 }{{0.5, 0.97}, {0.3, 0.9}, {0.4, 0.3}} {
		px, py := x.on(c.left, c.top)
		x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, px, py))
		x.settle()
		want := eval[string](x, `(() => {
			const {timeline, recording: r} = vramscope, b = timeline.hovered;
			return b >= 0 ? vramscope.format.bytes(r.bytesOf(b)) + "\n" + r.codes.placeText(r.stack[b]) : "reserved and not in use";
		})()`)
		tip := x.text("#tip")
		for _, s := range strings.Split(want, "\n") {
			if !strings.Contains(tip, s) {
				t.Errorf("at %v the box says %q, not %q", c, tip, s)
			}
		}
	}
	for _, selector := range []string{"#map-plot", "#flame-plot", "#uses-plot"} {
		p := x.where(selector)
		x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, p.X+p.Width/3, p.Y+10))
		x.settle()
		if tip := x.text("#tip"); tip == "" || eval[bool](x, `document.querySelector("#tip").hidden`) {
			t.Errorf("%s says nothing under the pointer", selector)
		}
	}
	x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 5, 5))
	if !eval[bool](x, `document.querySelector("#tip").hidden`) {
		t.Error("the box stays when the pointer has gone")
	}
}

// The wheel zooms around the pointer, with Shift the height; dragging moves.
func TestWheelAndDrag(t *testing.T) {
	x := open(t, written(t, recorded(t, oom), page.Options{}), "")
	px, py := x.on(0.5, 0.5)
	wheel := func(delta float64, modifiers ...chromedp.MouseOption) {
		options := append([]chromedp.MouseOption{func(p *input.DispatchMouseEventParams) {
			p.DeltaX, p.DeltaY = 1e-6, delta // nothing at all would be left out
		}}, modifiers...)
		x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseWheel, px, py, options...))
		x.frames()
		x.settle()
	}
	before := x.view()
	time.Sleep(400 * time.Millisecond) // a wheel that turns while the page scrolls goes on scrolling it
	for range 5 {
		wheel(-240)
	}
	zoomed := x.view()
	if zoomed.To-zoomed.From > 0.5*(before.To-before.From) {
		t.Errorf("after the wheel %v to %v are in view, before %v to %v", zoomed.From, zoomed.To, before.From, before.To)
	}
	middle := (before.From + before.To) / 2
	if at := (middle - zoomed.From) / (zoomed.To - zoomed.From); math.Abs(at-0.5) > 0.02 {
		t.Errorf("what was under the pointer is at %.3f now", at)
	}
	if zoomed.High != before.High {
		t.Error("the wheel changes the height")
	}
	drag := func(dx, dy float64) {
		x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, px, py, chromedp.ButtonLeft, clicks),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, px+dx/2, py+dy/2, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, px+dx, py+dy, chromedp.ButtonLeft),
			chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, px+dx, py+dy, chromedp.ButtonLeft, clicks))
		x.settle()
	}
	drag(120, 0)
	moved := x.view()
	p := x.where("#timeline-plot")
	if want := zoomed.From - 120/(p.Width-78)*(zoomed.To-zoomed.From); math.Abs(moved.From-want) > 0.01*(zoomed.To-zoomed.From) {
		t.Errorf("dragged to %v, want %v", moved.From, want)
	}
	if moved.Block != before.Block || moved.State != before.State {
		t.Error("dragging takes a block")
	}
	if wrong := eval[string](x, addUp); wrong != "" {
		t.Errorf("after dragging: %s", wrong)
	}
	wheel(-300, shift)
	if v := x.view(); v.High-v.Low >= before.High || v.From != moved.From {
		t.Errorf("Shift and the wheel: %+v, before %+v", v, moved)
	}
	if wrong := eval[string](x, addUp); wrong != "" {
		t.Errorf("zoomed into the height: %s", wrong)
	}
	// Back out, however often.
	for range 12 {
		wheel(900)
	}
	if v := x.view(); v.From != before.From || v.To != before.To {
		t.Errorf("out again: %+v, before %+v", v, before)
	}
}

func clicks(p *input.DispatchMouseEventParams) { p.ClickCount = 1 }
func shift(p *input.DispatchMouseEventParams)  { p.Modifiers = int64(chromedp.ModifierShift) }

// The keys do what the help says, and the help lists them.
func TestKeys(t *testing.T) {
	a := recorded(t, "torch/gpt_varlen_capped.c3.pickle.zst")
	d := &a.Devices[0]
	x := open(t, written(t, a, page.Options{}), "")
	all := x.view()
	state := func(keys string, want int) {
		t.Helper()
		x.press(keys)
		if got := x.view().State; got != want {
			t.Errorf("%q goes to state %d, not %d", keys, got, want)
		}
	}
	state("p", d.PeakAllocated.Event+1)
	state("r", d.PeakReserved.Event+1)
	state("o", d.OOMs[0].Event+1)
	state("e", d.Trace.Events.Len())
	state(".", d.Trace.Events.Len()) // there is none behind
	state(",", d.Trace.Events.Len()-1)
	state("[", d.Steps.Steps[len(d.Steps.Steps)-1].From+1)
	state("[", d.Steps.Steps[len(d.Steps.Steps)-2].From+1)
	state("]", d.Steps.Steps[len(d.Steps.Steps)-1].From+1)
	x.press("p++")
	if v := x.view(); v.To-v.From > 0.4*(all.To-all.From) || v.From > float64(v.State) || v.To < float64(v.State) {
		t.Errorf("+ shows %v to %v, the chosen moment is %d", v.From, v.To, v.State)
	}
	zoomed := x.view()
	x.press(kb.ArrowRight)
	if v := x.view(); v.From <= zoomed.From || math.Abs(v.To-v.From-(zoomed.To-zoomed.From)) > 1e-6 {
		t.Errorf("→ shows %v to %v, before %v to %v", v.From, v.To, zoomed.From, zoomed.To)
	}
	x.press(kb.ArrowLeft + "---")
	if v := x.view(); v.From != all.From || v.To != all.To {
		t.Errorf("- shows %v to %v", v.From, v.To)
	}
	x.press("x")
	if v := x.view(); v.Axis != "time" || math.Abs(v.To-float64(d.Trace.Events.At(d.Trace.Events.Len()-1).Time-d.Trace.Events.At(0).Time)/1e9) > 1e-6 {
		t.Errorf("x shows %+v", v)
	}
	x.press("x" + "c")
	if v := x.view(); v.Colour == all.Colour || v.Axis != "event" {
		t.Errorf("c colours by %q", v.Colour)
	}
	x.press("p" + "k")
	first := x.view().Block
	x.press("kk" + "j")
	if v := x.view(); first != 0 || v.Block <= first || !eval[bool](x, `vramscope.recording.blocksAt(vramscope.view.state)[1] === %d`, v.Block) {
		t.Errorf("k takes block %d, k, k and j block %d", first, v.Block)
	}
	x.press("z")
	if v := x.view(); !eval[bool](x, `vramscope.recording.born[%d] >= %v - 1 && vramscope.recording.freed[%d] <= %v + 1`, v.Block, v.From, v.Block, v.To) {
		t.Errorf("z shows %v to %v", v.From, v.To)
	}
	x.press("f" + "y")
	x.do(chromedp.KeyEvent("?"))
	if !eval[bool](x, `document.querySelector("#keys").open`) {
		t.Fatal("? does not open the help")
	}
	help := x.text("#keys")
	for _, key := range []string{"p", "r", "o", "e", ",", ".", "[", "]", "+", "z", "j", "k", "c", "x", "d", "t", "/", "f", "y", "?", "Esc"} {
		if !strings.Contains(help, key) {
			t.Errorf("the help does not have %q", key)
		}
	}
	x.do(chromedp.KeyEvent(kb.Escape))
	if eval[bool](x, `document.querySelector("#keys").open`) {
		t.Error("Escape does not close the help")
	}
	before := x.view().State
	x.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("e"))
	if got := x.view().State; got != before || eval[string](x, `document.activeElement.id`) != "search" {
		t.Error("a letter in the search is taken for a key")
	}
}

// A link holds the view: opened anew, it shows the same, to the pixel.
func TestLink(t *testing.T) {
	file := written(t, recorded(t, oom), page.Options{})
	x := open(t, file, "")
	x.press("p" + "++" + "c" + "k")
	eval[any](x, `vramscope.view.write()`)
	hash := eval[string](x, `location.hash`)
	picture := func(x *tab) string {
		return eval[string](x, `(() => { const p = vramscope.timeline.raster; let h = 0; for (const b of p.ids) h = (h * 31 + b) | 0; return h + " " + vramscope.timeline.base.canvas.toDataURL().length; })()`)
	}
	again := open(t, file, hash)
	if a, b := x.view(), again.view(); fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("%s shows %+v, not %+v", hash, b, a)
	}
	if a, b := picture(x), picture(again); a != b {
		t.Errorf("%s shows another picture: %s, not %s", hash, b, a)
	}
	// What makes no sense in a link does no harm.
	for _, bad := range []string{"#from=5", "#from=9&to=3", "#event=-7", "#event=999999999", "#block=1e9", "#axis=weight", "#colour=%FF", "#device=7&group=nothing", "#low=1&high=x", "#<script>", "#node=99999999"} {
		other := open(t, file, bad)
		if v := other.view(); v.From != 0 || v.State < 0 {
			t.Errorf("%s shows %+v", bad, v)
		}
	}
	// Going to another place of the same page changes the view.
	eval[any](x, `new Promise((done) => { addEventListener("hashchange", () => done()); location.hash = "#event=100"; })`)
	x.settle()
	if v := x.view(); v.State != 101 {
		t.Errorf("state %d after the link was changed", v.State)
	}
}

// Searching for a function leaves its blocks bright, counts them, and marks where they are in the table.
func TestSearch(t *testing.T) {
	a := recorded(t, oom)
	x := open(t, written(t, a, page.Options{}), "")
	x.do(chromedp.KeyEvent("/"), chromedp.KeyEvent(kb.Backspace)) // the driver types the key as well, which no keyboard does
	x.do(chromedp.KeyEvent("LayerNorm"))
	if _, err := chromedp.Run(x.ctx, chromedp.Poll[bool](`vramscope.view.find === "LayerNorm"`)); err != nil {
		t.Fatal(err, eval[string](x, `document.querySelector("#search").value + " " + document.activeElement.id + " " + vramscope.view.find`))
	}
	x.settle()
	want := 0
	for _, e := range a.Devices[0].Trace.Events.All() {
		if e.Op.String() != "alloc" {
			continue
		}
		for _, f := range a.Trace.Stacks.Stack(e.Stack) {
			if strings.Contains(strings.ToLower(f.Func+" "+f.File), "layernorm") {
				want++
				break
			}
		}
	}
	found := x.text("#found")
	if want == 0 {
		x.do(chromedp.KeyEvent(kb.Escape))
		x.do(chromedp.KeyEvent("/"), chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent("forward"))
	} else if !strings.Contains(found, report.Count(want)+" block") {
		t.Errorf("found %q, want %d blocks", found, want)
	}
	if _, err := chromedp.Run(x.ctx, chromedp.Poll[bool](`vramscope.lit !== null`)); err != nil {
		t.Fatal(err)
	}
	x.settle()
	if n := eval[int](x, `document.querySelectorAll("#holders tr.chosen").length`); n == 0 {
		t.Error("no row of the table is marked")
	}
	x.do(chromedp.KeyEvent(kb.Escape))
	x.settle()
	if v := x.view(); v.Find != "" {
		t.Errorf("after Escape %q is still looked for", v.Find)
	}
	// A row of the table, and an entry of the legend, do the same.
	x.click("#holders tbody tr:nth-child(2)")
	if v := x.view(); v.Find == "" && v.Block < 0 {
		t.Error("a click on a row of the table does nothing")
	}
	x.press(kb.Escape)
	x.click("#legend button")
	if v := x.view(); !strings.HasPrefix(v.Only, "class:") {
		t.Errorf("a click on the legend shows %q", v.Only)
	}
}
