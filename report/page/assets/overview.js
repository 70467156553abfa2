// The strip below the timeline: all of the recording, and which part of it is in view.

import {MARGIN} from "./timeline.js";
import {Painter, Surface, byId, inside} from "./document.js";
import {css} from "./colours.js";

export class Overview {
  constructor(app) {
    this.app = app;
    this.box = byId("overview-plot");
    this.surface = new Surface(byId("overview-canvas"));
    this.painter = new Painter(() => this.draw());
    this.listen();
  }

  take(recording) {
    this.recording = recording;
    this.key = "";
  }

  draw() {
    if (!this.recording) return;
    const s = this.surface, c = s.context, {axis, colours, ceiling, view} = this.app;
    s.fit();
    const left = MARGIN.left, w = Math.max(10, s.width - MARGIN.left - MARGIN.right), h = s.height - 1;
    const key = axis.kind + w;
    if (key !== this.key) {
      this.columns = axis.columns(0, axis.length, Math.round(w));
      this.key = key;
    }
    const looks = colours.plain;
    s.clear();
    c.fillStyle = css(looks.held);
    c.fillRect(left, 0, w, h);
    const {states, reserved} = this.columns;
    for (const [amounts, fill] of [[(i) => reserved[i], css(looks.ink, 0.16)], [(i) => this.recording.allocated[states[i]], css(looks.ink, 0.5)]]) {
      c.fillStyle = fill;
      for (let i = 0; i < states.length; i++) {
        const top = amounts(i) / ceiling * h;
        c.fillRect(left + i, h - top, 1, top);
      }
    }
    const [from, to] = this.app.timeline.range();
    const a = left + from / axis.length * w, b = left + to / axis.length * w;
    if (view.from !== null) {
      c.fillStyle = css(looks.ground, 0.7);
      c.fillRect(left, 0, a - left, h);
      c.fillRect(b, 0, left + w - b, h);
    }
    c.strokeStyle = css(looks.ink, 0.8);
    c.lineWidth = 1;
    c.strokeRect(Math.round(a) + 0.5, 0.5, Math.max(2, Math.round(b - a) - 1), h - 1);
    const at = left + axis.position(view.state) / axis.length * w;
    c.fillStyle = css(looks.ink);
    c.fillRect(Math.round(at), 0, 1, h);
  }

  listen() {
    let grip = null;
    const place = (e) => {
      const w = this.surface.width - MARGIN.left - MARGIN.right;
      return (inside(e, this.box).x - MARGIN.left) / w * this.app.axis.length;
    };
    this.box.addEventListener("pointerdown", (e) => {
      const [from, to] = this.app.timeline.range(), x = place(e);
      this.box.setPointerCapture(e.pointerId);
      const edge = this.app.axis.length * 6 / this.surface.width;
      if (this.app.view.from === null || x < from - edge || x > to + edge) grip = {kind: "new", x};
      else if (Math.abs(x - from) < edge) grip = {kind: "from"};
      else if (Math.abs(x - to) < edge) grip = {kind: "to"};
      else grip = {kind: "move", by: x - from};
    });
    this.box.addEventListener("pointermove", (e) => {
      if (!grip) return;
      const {axis, view} = this.app, x = place(e), [from, to] = this.app.timeline.range();
      let a, b;
      if (grip.kind === "new") [a, b] = [Math.min(grip.x, x), Math.max(grip.x, x)];
      else if (grip.kind === "from") [a, b] = [Math.min(x, to - axis.least), to];
      else if (grip.kind === "to") [a, b] = [from, Math.max(x, from + axis.least)];
      else [a, b] = [x - grip.by, x - grip.by + to - from];
      [a, b] = axis.clamp(a, b);
      view.set({from: a, to: b});
    });
    for (const kind of ["pointerup", "pointercancel"]) this.box.addEventListener(kind, () => { grip = null; });
    this.box.addEventListener("dblclick", () => this.app.view.set({from: null, to: null}));
  }
}
