// The address map: what the allocator held at the chosen moment, row below row like lines of a text, with the blocks in
// it. Memory of each pool and stream begins a row of its own; what lies between segments is left out.

import {FONT, Painter, Surface, byId, element, fill, fitted, inside} from "./document.js";
import {Layout, groupName} from "./memory.js";
import {address, bytes, plural, share} from "./format.js";
import {blend, css} from "./colours.js";
import {linesOf, titleOf} from "./hover.js";

const STRIP = 15, GAP = 4, ROWS = 14; // pixels, and about how many rows
const NAME = 17; // pixels of a group's name
const NAMED = 70; // pixels of a block that is named

export class AddressMap {
  constructor(app) {
    this.app = app;
    this.box = byId("map-plot");
    this.surface = new Surface(byId("map-canvas"));
    this.painter = new Painter(() => this.draw());
    this.tallest = 0;
    this.listen();
  }

  take(recording) {
    this.recording = recording;
    this.tallest = 0;
    this.layout = null;
    byId("map").hidden = !recording.meta.addresses;
    this.most = recording.reservedBytes.reduce((a, b) => Math.max(a, b), 0) || recording.allocated.reduce((a, b) => Math.max(a, b), 1);
  }

  // place gives each group its rows.
  place(width) {
    // So many bytes to a pixel that the most that was ever held takes about so many rows, whatever the moment is.
    this.perPixel = Math.max(1, this.most / (width * ROWS));
    let y = 0;
    const named = this.layout.groups.length > 1;
    for (const g of this.layout.groups) {
      g.name = named ? groupName(this.recording, g) : "";
      y += named ? NAME : 0;
      g.y = y;
      g.rows = Math.max(1, Math.ceil(g.size / (this.perPixel * width)));
      y += g.rows * (STRIP + GAP) + (named ? 4 : 0);
    }
    this.tallest = Math.max(this.tallest, y, STRIP + GAP);
    return this.tallest;
  }

  draw() {
    if (!this.recording || !this.recording.meta.addresses) return;
    const s = this.surface, c = s.context, {view, colours} = this.app;
    if (!this.layout || this.layout.state !== view.state) this.layout = new Layout(this.recording, view.state);
    const width = Math.max(10, Math.round(this.box.getBoundingClientRect().width));
    this.box.style.height = this.place(width) + "px";
    s.fit();
    s.clear();
    for (const g of this.layout.groups) this.drawGroup(c, g, width, colours);
    this.tell();
    if (this.recording.meta.extents) this.app.pins.draw(this.layout);
  }

  // drawGroup draws the rows of a group. A pixel is many bytes: it has the colour of the block that takes most of them,
  // as much of it as is in use.
  drawGroup(c, g, width, colours) {
    const looks = colours.plain, {recording, layout, perPixel} = this;
    const n = Math.ceil(g.size / perPixel);
    const used = new Float64Array(n), best = new Int32Array(n).fill(-1), most = new Float64Array(n), kept = new Uint8Array(n);
    for (const s of g.segments) {
      if (s.used > 0) kept.fill(1, Math.floor(s.offset / perPixel), Math.ceil((s.offset + s.end - s.addr) / perPixel));
      for (let i = s.first; i < s.last; i++) {
        const b = layout.blocks[i];
        const from = s.offset + recording.address(b) - s.addr, to = from + recording.bytesOf(b);
        for (let p = Math.floor(from / perPixel); p < n && p * perPixel < to; p++) {
          const part = Math.min(to, (p + 1) * perPixel) - Math.max(from, p * perPixel);
          used[p] += part;
          if (part > most[p]) {
            most[p] = part;
            best[p] = b;
          }
        }
      }
    }
    c.font = FONT;
    if (g.name) {
      c.fillStyle = css(looks.ink);
      c.textBaseline = "alphabetic";
      c.textAlign = "left";
      const text = g.name + "   " + bytes(g.size) + " in " + plural(g.segments.length, "segment") + ", " + share(g.used, g.size) + " in use";
      c.fillText(text, 0, g.y - 5);
    }
    for (let p = 0; p < n; ) {
      const row = Math.floor(p / width), x = p % width, y = g.y + row * (STRIP + GAP);
      const b = best[p], t = Math.min(1, used[p] / perPixel), waits = b >= 0 && layout.waits(b);
      let end = p + 1; // pixels that look alike are drawn together
      while (end < n && end % width !== 0 && best[end] === b && Math.abs(used[end] / perPixel - used[p] / perPixel) < 0.02 && kept[end] === kept[p]) end++;
      const free = kept[p] ? looks.hatch : looks.held;
      c.fillStyle = css(b < 0 ? free : blend(free, waits ? looks.wait : colours.colourOf(b), t));
      c.fillRect(x, y, end - p, STRIP);
      if (b < 0 && kept[p]) this.stripes(c, x, y, end - p, looks);
      if (waits) this.dots(c, x, y, end - p, looks);
      p = end;
    }
    this.drawEdges(c, g, width, looks);
    this.drawNames(c, g, width);
    this.drawMarked(c, g, width, looks);
  }

  // drawNames writes into wide blocks what they are.
  drawNames(c, g, width) {
    const {recording, layout, perPixel} = this;
    c.textBaseline = "middle";
    c.textAlign = "left";
    for (const s of g.segments) {
      for (let i = s.first; i < s.last; i++) {
        const b = layout.blocks[i];
        if (recording.bytesOf(b) < NAMED * perPixel || layout.waits(b)) continue;
        const from = Math.floor((s.offset + recording.address(b) - s.addr) / perPixel), to = from + Math.floor(recording.bytesOf(b) / perPixel);
        const row = Math.floor(from / width), end = Math.min(to, (row + 1) * width);
        const text = end - from < NAMED ? "" : fitted(c, titleOf(recording, b), end - from - 8);
        c.fillStyle = this.app.colours.inkOf(b);
        if (text) c.fillText(text, from % width + 5, g.y + row * (STRIP + GAP) + STRIP / 2 + 0.5);
      }
    }
  }

  // stripes mark what is free and cannot be given back.
  stripes(c, x, y, w, looks) {
    c.save();
    c.beginPath();
    c.rect(x, y, w, STRIP);
    c.clip();
    c.strokeStyle = css(looks.ground, 0.9);
    c.beginPath();
    for (let i = Math.floor(x / 6) * 6 - STRIP; i < x + w; i += 6) {
      c.moveTo(i, y + STRIP);
      c.lineTo(i + STRIP, y);
    }
    c.stroke();
    c.restore();
  }

  // dots mark what waits for a stream.
  dots(c, x, y, w, looks) {
    c.fillStyle = css(looks.ink);
    for (let i = x + 1; i < x + w; i += 4) for (let j = y + 2; j < y + STRIP; j += 4) c.fillRect(i, j, 1, 1);
  }

  // drawEdges draws where segments and wide blocks begin.
  drawEdges(c, g, width, looks) {
    const {recording, layout, perPixel} = this;
    for (const s of g.segments) {
      c.fillStyle = css(looks.ground, 0.55);
      for (let i = s.first; i < s.last; i++) {
        const b = layout.blocks[i];
        if (recording.bytesOf(b) < 4 * perPixel) continue;
        const p = Math.floor((s.offset + recording.address(b) - s.addr) / perPixel);
        c.fillRect(p % width, g.y + Math.floor(p / width) * (STRIP + GAP), 1, STRIP);
      }
      if (s.end - s.addr < 4 * perPixel) continue;
      const p = Math.floor(s.offset / perPixel);
      c.fillStyle = css(looks.ink);
      c.fillRect(p % width, g.y + Math.floor(p / width) * (STRIP + GAP) - 2, 1, STRIP + 4);
    }
  }

  // drawMarked outlines the selected block.
  drawMarked(c, g, width, looks) {
    const b = this.app.view.block, {recording, perPixel} = this;
    if (b < 0 || b >= recording.n) return;
    const a = recording.address(b);
    for (const s of g.segments) {
      if (a < s.addr || a >= s.end || !this.layout.blocks.slice(s.first, s.last).includes(b)) continue;
      const from = Math.floor((s.offset + a - s.addr) / perPixel), to = Math.max(from + 3, Math.ceil((s.offset + a - s.addr + recording.bytesOf(b)) / perPixel));
      c.strokeStyle = css(looks.mark);
      c.lineWidth = 2;
      for (let p = from; p < to; ) {
        const end = Math.min(to, (Math.floor(p / width) + 1) * width);
        c.strokeRect(p % width + 1, g.y + Math.floor(p / width) * (STRIP + GAP) - 1, Math.max(2, end - p - 2), STRIP + 2);
        p = end;
      }
    }
  }

  // tell says in words what the map shows.
  tell() {
    const {layout, recording} = this, {stranded, cached, pieces, largest} = layout.free();
    const segments = layout.segments.length, expandable = layout.segments.filter((s) => s.expandable).length;
    const parts = [];
    if (recording.meta.extents) {
      parts.push(plural(segments, "segment") + (expandable && recording.meta.content === "decisions" ? ", " + (expandable === segments ? "" : expandable + " ") + "mapped in expandable address space" : ""));
      parts.push(plural(layout.blocks.length, "block"));
      if (pieces) parts.push("free in " + plural(pieces, "piece") + ", the largest " + bytes(largest));
      if (layout.homeless) parts.push(plural(layout.homeless, "block") + " in memory of " + (layout.homeless === 1 ? "its" : "their") + " own");
      byId("map-note").textContent = parts.join(" · ");
    } else {
      byId("map-note").textContent = plural(layout.blocks.length, "block") + " · what was held around them the recording does not tell";
    }
    const key = [this.app.colours, stranded, cached].join();
    if (key === this.told) return;
    this.told = key;
    fill(byId("map-legend"), element("span", {}, "1 pixel is " + bytes(this.perPixel)),
      recording.meta.extents && this.sample("stranded", "free, in segments that something in use keeps: " + bytes(stranded)),
      recording.meta.extents && this.sample("cached", "free, whole segments: " + bytes(cached)),
      recording.pending && this.sample("wait", "waiting for a stream"),
      recording.meta.extents && this.sample("edge", "a segment begins"));
  }

  // sample is an entry of the legend.
  sample(kind, text) {
    const canvas = element("canvas", {width: 28, height: 24, "aria-hidden": "true"});
    const c = canvas.getContext("2d"), looks = this.app.colours.plain;
    c.scale(2, 2);
    c.fillStyle = css(kind === "stranded" ? looks.hatch : kind === "wait" ? looks.wait : looks.held);
    c.fillRect(0, 0, 14, STRIP);
    if (kind === "stranded") this.stripes(c, 0, 0, 14, looks);
    if (kind === "wait") this.dots(c, 0, 0, 14, looks);
    if (kind === "edge") {
      c.fillStyle = css(looks.ink);
      c.fillRect(6, 0, 1, 12);
    }
    return element("span", {}, canvas, text);
  }

  // find is what lies under the pointer.
  find(p) {
    if (!this.layout) return null;
    const width = this.surface.width;
    for (const g of this.layout.groups) {
      const row = Math.floor((p.y - g.y) / (STRIP + GAP));
      if (p.y < g.y || row >= g.rows) continue;
      const offset = (row * width + Math.floor(p.x) + 0.5) * this.perPixel;
      const from = offset - this.perPixel / 2, n = this.layout.at(g, offset);
      if (!n) return null;
      // The block at the middle of the pixel, otherwise any in it.
      for (let i = 0; n.block < 0 && i < 8; i++) {
        const other = this.layout.at(g, from + this.perPixel * i / 8);
        if (other && other.block >= 0) return {group: g, ...other};
      }
      return {group: g, ...n};
    }
    return null;
  }

  listen() {
    this.box.addEventListener("pointermove", (e) => {
      const x = this.find(inside(e, this.box));
      if (!x) {
        this.app.tip.hide();
        return;
      }
      const {segment, group} = x, size = segment.end - segment.addr;
      const what = this.recording.meta.extents ? (segment.expandable ? "mapped range of " : "segment of ") + bytes(size) + ", " + bytes(size - segment.used) + " of it free"
        : "in " + bytes(size) + " without a gap";
      const whose = group.name && group.name !== "all" ? [group.name] : [];
      const lines = x.block >= 0 ? linesOf(this.recording, x.block) : ["free"];
      if (x.block >= 0 && this.layout.waits(x.block)) lines.splice(1, 0, "freed, waiting for a stream");
      this.app.tip.show(e, [...lines, address(x.block >= 0 ? this.recording.address(x.block) : Math.floor(x.addr)) + " in a " + what, ...whose]);
    });
    this.box.addEventListener("pointerleave", () => this.app.tip.hide());
    this.box.addEventListener("click", (e) => {
      const x = this.find(inside(e, this.box));
      if (x && x.block >= 0) this.app.view.set({block: x.block});
    });
  }
}
