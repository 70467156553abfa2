// The timeline: every block as a band, what is reserved above, steps and failures.

import {stepsIn, whenOf} from "./axis.js";
import {FONT, Painter, Surface, byId, inside} from "./document.js";
import {Raster} from "./raster.js";
import {amount, bytes, plural, ticks} from "./format.js";
import {css} from "./colours.js";
import {linesOf, titleOf} from "./hover.js";
import {writeNames} from "./labels.js";

export const MARGIN = {left: 66, right: 12, top: 22, bottom: 22};
const ZOOM = 1.0018; // for one unit of the wheel
const MOST_PIXELS = 2e6;
const TIME = 40; // milliseconds that finding the blocks of a picture may take while it moves
const PAUSE = 60; // milliseconds without a move until it is drawn in full

export class Timeline {
  constructor(app) {
    this.app = app;
    this.box = byId("timeline-plot");
    this.base = new Surface(byId("timeline-canvas"));
    this.over = new Surface(byId("timeline-over"));
    this.painter = new Painter(() => this.draw());
    this.overPainter = new Painter(() => this.drawOver());
    this.hovered = -1;
    this.pointer = null;
    this.dense = 1;
    this.settling = 0;
    this.frames = []; // how long pictures took, in milliseconds
    this.listen();
  }

  // take shows another recording.
  take(recording) {
    this.recording = recording;
    this.raster = new Raster(recording);
    this.hovered = -1;
  }

  // range is what is in view, horizontally.
  range() {
    const {view, axis} = this.app;
    return view.from === null ? [0, axis.length] : axis.clamp(view.from, view.to);
  }

  // heights is what is in view, vertically, in bytes.
  heights() {
    const {view} = this.app;
    if (view.low !== null) return [view.low, view.high];
    return [0, this.app.ceiling];
  }

  size() {
    return {w: Math.max(10, this.base.width - MARGIN.left - MARGIN.right), h: Math.max(10, this.base.height - MARGIN.top - MARGIN.bottom)};
  }

  // x of a place on the axis, in pixels of the plot.
  x(position) {
    const [from, to] = this.range();
    return MARGIN.left + (position - from) / (to - from) * this.size().w;
  }

  y(amount) {
    const [low, high] = this.heights();
    return MARGIN.top + (1 - (amount - low) / (high - low)) * this.size().h;
  }

  // position on the axis of an x.
  position(x) {
    const [from, to] = this.range();
    return from + (x - MARGIN.left) / this.size().w * (to - from);
  }

  amount(y) {
    const [low, high] = this.heights();
    return low + (1 - (y - MARGIN.top) / this.size().h) * (high - low);
  }

  // stateAt is the state that the column under an x shows.
  stateAt(x) {
    const c = Math.floor((x - MARGIN.left) * this.dense);
    const {states} = this.raster;
    if (!states || !states.length) return 0;
    return states[Math.max(0, Math.min(states.length - 1, c))];
  }

  blockAt(x, y) {
    return this.raster.at((x - MARGIN.left) * this.dense, (y - MARGIN.top) * this.dense);
  }

  draw() {
    if (!this.recording) return;
    const begun = performance.now();
    this.base.fit();
    this.over.fit();
    const {axis} = this.app;
    const {w, h} = this.size();
    const [from, to] = this.range(), [low, high] = this.heights();
    // On a dense screen a pixel of the bands may be several of the screen, so that there are not too many of them.
    const dense = w * h * this.base.ratio ** 2 <= MOST_PIXELS ? this.base.ratio : 1;
    const pw = Math.round(w * dense), ph = Math.round(h * dense);
    this.raster.compute(axis, from, to, low, high, pw, ph, TIME);
    this.dense = dense;
    this.show();
    this.frames.push(performance.now() - begun);
    if (this.frames.length > 200) this.frames.shift();
  }

  // settle draws what was left out while things moved.
  settle() {
    this.settling = 0;
    this.raster.refine(TIME);
    this.show();
  }

  // show puts the picture on the screen.
  show() {
    const {colours} = this.app, c = this.base.context, {w, h} = this.size(), {raster, dense} = this;
    if (!this.image || this.image.width !== raster.width || this.image.height !== raster.height) {
      this.image = c.createImageData(raster.width, raster.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    raster.paint(this.pixels, colours);
    this.base.clear();
    const ratio = this.base.ratio, left = Math.round(MARGIN.left * ratio), top = Math.round(MARGIN.top * ratio);
    c.putImageData(this.image, left, top);
    if (dense !== ratio) {
      c.save();
      c.setTransform(1, 0, 0, 1, 0, 0);
      c.imageSmoothingEnabled = false;
      c.drawImage(this.base.canvas, left, top, raster.width, raster.height, left, top, Math.round(w * ratio), Math.round(h * ratio));
      c.restore();
    }
    this.drawAxes();
    c.save();
    c.translate(MARGIN.left, MARGIN.top);
    writeNames(c, raster, dense, (b) => this.app.lit && !this.app.lit(b) ? "" : titleOf(this.recording, b), (b) => colours.inkOf(b));
    c.restore();
    this.drawReserved();
    this.drawSteps();
    this.drawOver();
    this.tellHidden();
    clearTimeout(this.settling);
    this.settling = raster.rough ? setTimeout(() => this.settle(), PAUSE) : 0;
  }

  drawAxes() {
    const c = this.base.context, {w, h} = this.size(), looks = this.app.colours.plain;
    const [from, to] = this.range(), [low, high] = this.heights();
    c.font = FONT;
    c.lineWidth = 1;
    c.fillStyle = css(looks.soft);
    c.strokeStyle = css(looks.ink, 0.13);
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const v of ticks(low, high, h / 60, true)) {
      const y = Math.round(this.y(v)) + 0.5;
      c.beginPath();
      c.moveTo(MARGIN.left, y);
      c.lineTo(MARGIN.left + w, y);
      c.stroke();
      c.fillText(amount(v), MARGIN.left - 8, y);
    }
    c.textBaseline = "top";
    c.textAlign = "center";
    const {axis} = this.app;
    const list = axis.ticks(from, to, w / 110);
    for (const v of list) {
      const x = this.x(v), label = axis.label(v, list.length > 1 ? list[1] - list[0] : to - from, to);
      const half = c.measureText(label).width / 2;
      c.fillRect(Math.round(x), MARGIN.top + h, 1, 4);
      c.fillText(label, Math.max(MARGIN.left + half, Math.min(MARGIN.left + w - half, x)), MARGIN.top + h + 6);
    }
  }

  // drawReserved draws the line above all.
  drawReserved() {
    const c = this.base.context, ratio = this.dense, {w, h} = this.size();
    const {reserved} = this.raster;
    if (!this.recording.reservedBytes.length) return;
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, MARGIN.top - 1, w, h + 2);
    c.clip();
    c.strokeStyle = css(this.app.colours.plain.reserved);
    c.lineWidth = 1.25;
    c.beginPath();
    let last = NaN;
    for (let i = 0; i < reserved.length; i++) {
      const y = this.y(reserved[i]), x = MARGIN.left + i / ratio;
      if (y === last) continue;
      if (i === 0) c.moveTo(x, y);
      else {
        c.lineTo(x, last);
        c.lineTo(x, y);
      }
      last = y;
    }
    c.lineTo(MARGIN.left + w, last);
    c.stroke();
    c.restore();
  }

  // drawSteps names the steps above, and marks failures.
  drawSteps() {
    const c = this.base.context, {w, h} = this.size(), {axis} = this.app, {recording} = this;
    const looks = this.app.colours.plain;
    const {states} = this.raster;
    c.font = FONT;
    c.textBaseline = "alphabetic";
    c.textAlign = "left";
    let free = MARGIN.left;
    for (const i of stepsIn(recording, states[0], states[states.length - 1], w / 6)) {
      const x = this.x(axis.position(recording.steps.from[i]));
      if (x < MARGIN.left - 1 || x > MARGIN.left + w) continue;
      c.fillStyle = css(looks.soft, 0.7);
      c.fillRect(Math.round(x), MARGIN.top - 5, 1, 5);
      const text = (free === MARGIN.left ? "step " : "") + recording.steps.labels[i];
      if (x + 2 < free || x + c.measureText(text).width + 8 > MARGIN.left + w) continue;
      c.fillStyle = css(looks.soft);
      c.fillText(text, x + 3, MARGIN.top - 5);
      free = x + c.measureText(text).width + 12;
    }
    let named = 0;
    for (const m of recording.meta.moments) {
      if (m.kind !== "oom") continue;
      const x = this.x(axis.position(m.state));
      if (x < MARGIN.left || x > MARGIN.left + w) continue;
      c.fillStyle = css(looks.warn);
      c.fillRect(Math.round(x), MARGIN.top, 1.5, h);
      c.beginPath();
      c.moveTo(x - 5, MARGIN.top - 8);
      c.lineTo(x + 6, MARGIN.top - 8);
      c.lineTo(x + 0.5, MARGIN.top);
      c.fill();
      if (x < named) continue;
      named = x + 110;
      c.font = "600 " + FONT;
      c.textAlign = x > MARGIN.left + w - 110 ? "right" : "left";
      c.fillText("out of memory", c.textAlign === "left" ? x + 8 : x - 8, MARGIN.top - 8);
    }
  }

  // drawOver draws what changes as the pointer moves.
  drawOver() {
    if (!this.recording || !this.raster.states) return;
    const c = this.over.context, {w, h} = this.size(), {view, axis} = this.app;
    const looks = this.app.colours.plain, ratio = this.dense;
    this.over.clear();
    c.save();
    c.translate(MARGIN.left, MARGIN.top);
    const strong = css(looks.mark), weak = css(looks.dark ? [255, 255, 255] : [0, 0, 0], 0.55);
    if (view.block >= 0) this.raster.light(c, view.block, ratio, css([255, 255, 255], 0.3), strong);
    if (this.hovered >= 0 && this.hovered !== view.block) this.raster.light(c, this.hovered, ratio, css([255, 255, 255], 0.2), weak);
    c.restore();
    const x = this.x(axis.position(view.state));
    if (x >= MARGIN.left - 1 && x <= MARGIN.left + w + 1) {
      c.strokeStyle = css(looks.ink);
      c.setLineDash([4, 3]);
      c.beginPath();
      c.moveTo(Math.round(x) + 0.5, MARGIN.top);
      c.lineTo(Math.round(x) + 0.5, MARGIN.top + h);
      c.stroke();
      c.setLineDash([]);
      c.fillStyle = css(looks.ink);
      c.beginPath();
      c.moveTo(x - 5, MARGIN.top + h + 7);
      c.lineTo(x + 6, MARGIN.top + h + 7);
      c.lineTo(x + 0.5, MARGIN.top + h);
      c.fill();
    }
    if (this.selecting) {
      const [a, b] = this.selecting;
      c.fillStyle = css(looks.ink, 0.12);
      c.fillRect(Math.min(a, b), MARGIN.top, Math.abs(b - a), h);
    } else if (this.pointer && !this.dragging) {
      c.fillStyle = css(looks.ink, 0.35);
      c.fillRect(Math.round(this.pointer.x), MARGIN.top, 1, h);
    }
  }

  tellHidden() {
    const n = this.raster.hidden.reduce((a, b) => Math.max(a, b), 0);
    byId("folded").textContent = (n > 0
      ? "Of one moment up to " + plural(n, "block") + (n === 1 ? " is" : " are") + " thinner than a pixel: a pixel shows the block at its middle, and zooming in shows each. "
      : "") + "A column shows the moment with the most allocated in it." +
      (this.recording.meta.stride > 1 ? " Times are told for one event in " + this.recording.meta.stride + " and lie between for the others." : "");
  }

  // zoom makes what is in view smaller by a factor, around a place.
  zoom(factor, around) {
    const {view, axis} = this.app;
    const [from, to] = this.range();
    if (around === undefined) around = this.middle();
    const width = Math.max(axis.least, Math.min(axis.length, (to - from) * factor));
    const share = (around - from) / (to - from);
    const [a, b] = axis.clamp(around - share * width, around + (1 - share) * width);
    if (b - a >= axis.length * (1 - 1e-9)) view.set({from: null, to: null});
    else view.set({from: a, to: b});
  }

  // middle is where zooming by keys goes to: the chosen moment, if it is in view.
  middle() {
    const [from, to] = this.range();
    const at = this.app.axis.position(this.app.view.state);
    return at >= from && at <= to ? at : (from + to) / 2;
  }

  zoomHeight(factor, around) {
    const {view, ceiling} = this.app;
    const [low, high] = this.heights();
    if (around === undefined) around = low;
    const height = Math.min(ceiling, Math.max(1024, (high - low) * factor));
    let a = around - (around - low) * height / (high - low);
    a = Math.max(0, Math.min(ceiling - height, a));
    if (height >= ceiling) view.set({low: null, high: null});
    else view.set({low: a, high: a + height});
  }

  // move shifts what is in view by a share of it.
  move(dx, dy = 0) {
    const {view, axis, ceiling} = this.app;
    const [from, to] = this.range(), [low, high] = this.heights();
    const changes = {};
    if (view.from !== null && dx) [changes.from, changes.to] = axis.clamp(from + dx * (to - from), to + dx * (to - from));
    if (view.low !== null && dy) {
      changes.low = Math.max(0, Math.min(ceiling - (high - low), low + dy * (high - low)));
      changes.high = changes.low + high - low;
    }
    view.set(changes);
  }

  // fitHeight makes the height that of what is in view.
  fitHeight() {
    const {states, reserved} = this.raster;
    let most = 0;
    for (let i = 0; i < states.length; i++) most = Math.max(most, this.recording.allocated[states[i]]);
    const all = reserved.reduce((a, b) => Math.max(a, b), most);
    if (most > 0) this.app.view.set({low: 0, high: (all > 1.6 * most ? most : all) * 1.04});
  }

  // reveal brings a state into view.
  reveal(state) {
    const {view, axis} = this.app;
    if (view.from === null) return;
    const [from, to] = this.range(), at = axis.position(state);
    if (at >= from && at <= to) return;
    const [a, b] = axis.clamp(at - (to - from) / 2, at + (to - from) / 2);
    view.set({from: a, to: b});
  }

  listen() {
    const box = this.box;
    let scrolled = 0, moved = false;
    addEventListener("scroll", () => { scrolled = performance.now(); }, {passive: true});
    box.addEventListener("wheel", (e) => {
      // Whoever scrolls through the page does not mean to zoom when this comes along.
      if (performance.now() - scrolled < 200 && !e.ctrlKey && !e.shiftKey) return;
      e.preventDefault();
      const p = inside(e, box), d = (e.deltaY || e.deltaX) * (e.deltaMode === 1 ? 16 : 1);
      const factor = ZOOM ** Math.max(-400, Math.min(400, d));
      if (e.shiftKey) this.zoomHeight(factor, this.amount(p.y));
      else if (!e.deltaY && e.deltaX) this.move(d / 1000);
      else this.zoom(factor, this.position(p.x));
    }, {passive: false});
    box.addEventListener("pointerdown", (e) => {
      if (e.button !== 0) return;
      const p = inside(e, box);
      box.focus({preventScroll: true});
      box.setPointerCapture(e.pointerId);
      moved = false;
      if (e.shiftKey) this.selecting = [p.x, p.x];
      else this.dragging = {x: p.x, y: p.y, range: this.range(), heights: this.heights()};
    });
    box.addEventListener("pointermove", (e) => {
      const p = inside(e, box);
      if (this.selecting) {
        this.selecting[1] = p.x;
        this.overPainter.ask();
      } else if (this.dragging) {
        const d = this.dragging;
        if (!moved && Math.hypot(p.x - d.x, p.y - d.y) < 4) return;
        moved = true;
        box.classList.add("dragging");
        this.app.tip.hide();
        this.drag(d, p);
      } else this.hover(e, p);
    });
    const end = (e) => {
      const p = inside(e, box);
      if (this.selecting) {
        const [a, b] = this.selecting.map((x) => this.position(x)).sort((s, t) => s - t);
        this.selecting = null;
        if (b > a) this.zoomTo(a, b);
      } else if (this.dragging && !moved && e.type === "pointerup") this.choose(p);
      this.dragging = null;
      box.classList.remove("dragging");
      this.overPainter.ask();
    };
    box.addEventListener("pointerup", end);
    box.addEventListener("pointercancel", end);
    box.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.hovered = -1;
      this.app.tip.hide();
      this.overPainter.ask();
    });
    box.addEventListener("dblclick", (e) => {
      const p = inside(e, box), b = this.blockAt(p.x, p.y);
      if (b >= 0) this.zoomToBlock(b);
    });
  }

  zoomTo(a, b) {
    const [from, to] = this.app.axis.clamp(a, b);
    this.app.view.set({from, to});
  }

  // zoomToBlock shows the life of a block, with something around it.
  zoomToBlock(b) {
    const {axis} = this.app;
    const from = axis.position(this.recording.born[b]), to = this.recording.freed[b] >= this.recording.states ? axis.length : axis.position(this.recording.freed[b]);
    const room = Math.max((to - from) * 0.15, axis.least / 2);
    this.zoomTo(from - room, to + room);
  }

  drag(d, p) {
    const {view, axis, ceiling} = this.app, {w, h} = this.size();
    const [from, to] = d.range, [low, high] = d.heights;
    const changes = {};
    if (view.from !== null) {
      const by = (d.x - p.x) / w * (to - from);
      [changes.from, changes.to] = axis.clamp(from + by, to + by);
    }
    if (view.low !== null) {
      const by = (p.y - d.y) / h * (high - low);
      changes.low = Math.max(0, Math.min(Math.max(0, ceiling - (high - low)), low + by));
      changes.high = changes.low + high - low;
    }
    view.set(changes);
  }

  // choose takes the moment and the block under the pointer.
  choose(p) {
    const b = this.blockAt(p.x, p.y);
    this.app.view.set({state: this.stateAt(p.x), block: b});
  }

  hover(e, p) {
    const {w, h} = this.size();
    const within = p.x >= MARGIN.left && p.x < MARGIN.left + w && p.y >= MARGIN.top && p.y < MARGIN.top + h;
    this.pointer = within ? p : null;
    const b = within ? this.blockAt(p.x, p.y) : -1;
    this.hovered = b;
    if (!within) this.app.tip.hide();
    else {
      const state = this.stateAt(p.x);
      this.app.tip.show(e, b >= 0 ? [...linesOf(this.recording, b), whenOf(this.recording, state)] : this.linesAt(state, p));
    }
    this.overPainter.ask();
  }

  // linesAt is what to say where there is no block.
  linesAt(state, p) {
    const {recording} = this;
    const allocated = recording.allocated[state], reserved = recording.reserved(state);
    const waiting = recording.pending ? recording.pending[state] : 0;
    const lines = [bytes(allocated) + " allocated"];
    const amount = this.amount(p.y);
    if (waiting > 0) lines.push(bytes(waiting) + " freed, waiting for streams");
    if (recording.reservedBytes.length) {
      lines.push(bytes(reserved) + " reserved");
      if (amount < reserved && amount > allocated + waiting) lines.unshift(bytes(reserved - allocated - waiting) + " reserved and not in use");
    }
    lines.push(whenOf(recording, state));
    return lines;
  }
}
