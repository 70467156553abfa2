// What was reserved and not in use over time, and why: the findings of the command line, at some moments of each part of
// the recording.

import {FONT, Painter, Surface, byId, element, fill, inside} from "./document.js";
import {MARGIN} from "./timeline.js";
import {after} from "./recording.js";
import {amount, bytes, ticks} from "./format.js";
import {css} from "./colours.js";
import {whenOf} from "./axis.js";

// the parts, from below, with the pattern of each
const PARTS = [
  {key: "stranded", name: "stranded: free, in segments that something in use keeps", rgb: [213, 94, 0], pattern: "stripes"},
  {key: "pending", name: "waiting for streams", rgb: [240, 228, 66], pattern: "dots"},
  {key: "cached", name: "cached: whole free segments, which could be given back", rgb: [86, 180, 233], pattern: "plain"},
  {key: "untold", name: "not known why", rgb: [153, 153, 153], pattern: "grid"},
];

export class Uses {
  constructor(app) {
    this.app = app;
    this.box = byId("uses-plot");
    this.surface = new Surface(byId("uses-canvas"));
    this.painter = new Painter(() => this.draw());
    this.box.addEventListener("pointermove", (e) => this.hover(e));
    this.box.addEventListener("pointerleave", () => app.tip.hide());
    this.box.addEventListener("click", (e) => {
      const i = this.near(inside(e, this.box).x);
      if (i >= 0) app.goTo(this.points.state[i]);
    });
  }

  take(recording) {
    this.recording = recording;
    const u = recording.use, n = u.state.length;
    this.points = {state: Array.from(u.state), stranded: Array.from(u.stranded), pending: Array.from(u.pending), cached: Array.from(u.cached), untold: new Array(n).fill(0), total: []};
    for (let i = 0; i < n; i++) {
      if (!u.known[i]) {
        for (const part of PARTS) this.points[part.key][i] = 0;
        this.points.untold[i] = Math.max(0, u.reserved[i] - u.allocated[i]);
      }
      this.points.total.push(PARTS.reduce((a, p) => a + this.points[p.key][i], 0));
    }
    this.parts = PARTS.filter((p) => this.points[p.key].some((v) => v > 0));
    this.most = this.points.total.reduce((a, b) => Math.max(a, b), 0);
    byId("fragmentation").hidden = n === 0;
  }

  x(i) {
    return this.app.timeline.x(this.app.axis.position(this.points.state[i]));
  }

  draw() {
    if (!this.recording || !this.points.state.length) return;
    const s = this.surface, c = s.context, looks = this.app.colours.plain;
    s.fit();
    s.clear();
    const w = s.width - MARGIN.left - MARGIN.right, h = s.height - 12, n = this.points.state.length;
    const top = Math.max(1, this.most * 1.05), y = (v) => 6 + (1 - v / top) * h;
    c.font = FONT;
    c.textAlign = "right";
    c.textBaseline = "middle";
    for (const v of ticks(0, top, 3, true)) {
      c.fillStyle = css(looks.ink, 0.13);
      c.fillRect(MARGIN.left, Math.round(y(v)), w, 1);
      c.fillStyle = css(looks.soft);
      c.fillText(amount(v), MARGIN.left - 8, y(v));
    }
    c.save();
    c.beginPath();
    c.rect(MARGIN.left, 0, w, s.height);
    c.clip();
    const below = new Array(n).fill(0);
    for (const part of this.parts) {
      const values = this.points[part.key];
      c.beginPath();
      for (let i = 0; i < n; i++) c.lineTo(this.x(i), y(below[i] + values[i]));
      for (let i = n - 1; i >= 0; i--) c.lineTo(this.x(i), y(below[i]));
      c.closePath();
      c.fillStyle = patternOf(c, part, looks);
      c.fill();
      c.strokeStyle = css(looks.ink, 0.6);
      c.lineWidth = 0.75;
      c.stroke();
      for (let i = 0; i < n; i++) below[i] += values[i];
    }
    c.restore();
    const x = this.app.timeline.x(this.app.axis.position(this.app.view.state));
    if (x >= MARGIN.left && x <= MARGIN.left + w) {
      c.strokeStyle = css(looks.ink);
      c.setLineDash([4, 3]);
      c.beginPath();
      c.moveTo(Math.round(x) + 0.5, 6);
      c.lineTo(Math.round(x) + 0.5, 6 + h);
      c.stroke();
      c.setLineDash([]);
    }
    fill(byId("uses-legend"), ...this.parts.map((p) => {
      const canvas = element("canvas", {width: 14, height: 12, "aria-hidden": "true"}), k = canvas.getContext("2d");
      k.fillStyle = patternOf(k, p, looks);
      k.fillRect(0, 0, 14, 12);
      return element("li", {}, canvas, element("span", {}, p.name));
    }), this.parts.length ? null : element("li", {}, "Nothing was reserved that was not in use."));
  }

  // near is the point that is nearest to an x.
  near(x) {
    const {axis, timeline} = this.app;
    const state = axis.stateAt(Math.max(0, Math.min(axis.length, timeline.position(x))));
    const i = after(this.points.state, state);
    if (i === 0) return this.points.state.length ? 0 : -1;
    return i < this.points.state.length && Math.abs(this.x(i) - x) < Math.abs(this.x(i - 1) - x) ? i : i - 1;
  }

  hover(e) {
    const i = this.near(inside(e, this.box).x);
    if (i < 0) return;
    this.app.tip.show(e, [bytes(this.points.total[i]) + " reserved and not in use", ...this.parts.slice().reverse().map((p) => bytes(this.points[p.key][i]) + " " + p.name.replace(/:.*/, "")),
      whenOf(this.recording, this.points.state[i])]);
  }
}

// patternOf makes a filling that is told by its pattern as well as by its colour.
export function patternOf(context, part, looks) {
  const tile = element("canvas", {width: 8, height: 8}), c = tile.getContext("2d");
  c.fillStyle = css(part.rgb, looks.dark ? 0.75 : 0.85);
  c.fillRect(0, 0, 8, 8);
  c.fillStyle = c.strokeStyle = css(looks.ground, 0.75);
  c.lineWidth = 1.4;
  if (part.pattern === "stripes") {
    c.beginPath();
    for (const d of [-8, 0, 8]) {
      c.moveTo(d, 8);
      c.lineTo(d + 8, 0);
    }
    c.stroke();
  } else if (part.pattern === "dots") {
    c.fillStyle = css(looks.dark ? [0, 0, 0] : looks.ink);
    c.fillRect(1, 1, 2, 2);
    c.fillRect(5, 5, 2, 2);
  } else if (part.pattern === "grid") {
    c.fillRect(0, 3, 8, 1);
    c.fillRect(3, 0, 1, 8);
  }
  return context.createPattern(tile, "repeat");
}
