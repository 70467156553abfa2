// Recordings that are samples: lines over time instead of blocks.

import {FONT, Painter, Surface, byId, element, fill, inside} from "./document.js";
import {MARGIN} from "./timeline.js";
import {after} from "./recording.js";
import {amount, bytes, count, span, ticks} from "./format.js";
import {css} from "./colours.js";

const DRAWN = 12; // lines that can be told apart
const LINES = [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233], [120, 120, 120]];
const DASHES = [[], [6, 3], [2, 3]];

export class Samples {
  constructor(app) {
    this.app = app;
    this.box = byId("timeline-plot");
    this.surface = new Surface(byId("timeline-canvas"));
    this.painter = new Painter(() => this.draw());
    this.box.addEventListener("pointermove", (e) => this.series && this.hover(e));
  }

  take(meta, columns) {
    this.series = null;
    if (!meta.series.length) return;
    const all = meta.series.map((s, i) => {
      const prefix = meta.key + "/series/" + i + "/";
      return {...s, time: columns.sums(prefix + "time"), low: columns.signed(prefix + "low"), high: columns.signed(prefix + "high")};
    }).filter((s) => s.time.length > 0);
    const most = (s) => s.high.reduce((a, b) => Math.max(a, b), 0);
    const ofBytes = all.filter((s) => s.unit === "bytes").sort((a, b) => most(b) - most(a));
    this.series = ofBytes.slice(0, DRAWN);
    this.folded = all.length - this.series.length;
    this.top = this.series.reduce((a, s) => Math.max(a, most(s)), 1) * 1.04;
    this.length = this.series.reduce((a, s) => Math.max(a, s.time[s.time.length - 1]), 0) || 1;
  }

  draw() {
    if (!this.series) return;
    const s = this.surface, c = s.context, looks = this.app.looks();
    s.fit();
    s.clear();
    const w = s.width - MARGIN.left - MARGIN.right, h = s.height - MARGIN.top - MARGIN.bottom;
    const x = (t) => MARGIN.left + t / this.length * w, y = (v) => MARGIN.top + (1 - v / this.top) * h;
    c.font = FONT;
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const v of ticks(0, this.top, h / 60, true)) {
      c.fillStyle = css(looks.ink, 0.13);
      c.fillRect(MARGIN.left, Math.round(y(v)), w, 1);
      c.fillStyle = css(looks.soft);
      c.fillText(amount(v), MARGIN.left - 8, y(v));
    }
    c.textAlign = "center";
    c.textBaseline = "top";
    for (const t of ticks(0, this.length * 1e-9, w / 110)) c.fillText(t === 0 ? "0" : "+" + span(t), x(t * 1e9), MARGIN.top + h + 6);
    this.series.forEach((one, i) => {
      c.strokeStyle = css(LINES[i % LINES.length]);
      c.setLineDash(DASHES[Math.floor(i / LINES.length) % DASHES.length]);
      c.lineWidth = 1.75;
      c.beginPath();
      one.time.forEach((t, k) => {
        if (k > 0) c.lineTo(x(t), y(one.low[k - 1]));
        c.lineTo(x(t), y(one.high[k]));
        c.lineTo(x(t), y(one.low[k]));
      });
      c.stroke();
    });
    c.setLineDash([]);
    fill(byId("legend"), ...this.series.map((one, i) => element("span", {}, this.sample(i), one.name)));
    byId("folded").textContent = this.folded ? "Not drawn, being smaller or not of bytes: " + count(this.folded) + " more. vramscope analyze lists them." : "";
  }

  sample(i) {
    const canvas = element("canvas", {width: 28, height: 24, "aria-hidden": "true"}), c = canvas.getContext("2d");
    c.strokeStyle = css(LINES[i % LINES.length]);
    c.setLineDash(DASHES[Math.floor(i / LINES.length) % DASHES.length].map((v) => 2 * v));
    c.lineWidth = 4;
    c.moveTo(0, 12);
    c.lineTo(28, 12);
    c.stroke();
    return canvas;
  }

  hover(e) {
    const w = this.surface.width - MARGIN.left - MARGIN.right;
    const t = (inside(e, this.box).x - MARGIN.left) / w * this.length;
    if (t < 0 || t > this.length) return;
    const lines = this.series.map((s) => {
      const i = after(s.time, t) - 1;
      return i < 0 ? "" : bytes(s.high[i]) + "  " + s.name;
    });
    this.app.tip.show(e, ["+" + span(t * 1e-9), ...lines.filter((l) => l)]);
  }
}
