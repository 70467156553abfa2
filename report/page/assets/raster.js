// The picture of the bands, pixel by pixel: first which block each pixel shows, then in which colour.

import {LiveSet} from "./stacked.js";

export class Raster {
  constructor(recording) {
    this.recording = recording;
    this.live = new LiveSet(recording);
    this.width = this.height = this.first = 0;
    this.ids = new Int32Array(0);
    this.cost = 0; // of a column, in milliseconds, as far as is known
    this.rough = false;
  }

  // compute finds the block of each pixel: ids[column*height + row], rows from the bottom; -1 is none. What it had already
  // found it keeps, if the picture was only moved. If all columns would take longer than there is time for, in
  // milliseconds, it finds every second or fourth, …, of them, and the picture is rough until refine has been called.
  compute(axis, from, to, low, high, width, height, time) {
    const {states, reserved, first, unit} = axis.columns(from, to, width);
    const by = first - this.first;
    const moved = this.axis === axis && this.unit === unit && this.width === width && this.height === height && this.low === low && this.high === high && Math.abs(by) < width;
    if (moved) this.move(by);
    else {
      if (this.ids.length !== width * height) this.ids = new Int32Array(width * height);
      this.totals = new Float64Array(width);
      this.shown = new Int32Array(width); // the states that columns show by now
      this.hidden = new Int32Array(width); // blocks of each column that no pixel shows
      this.done = new Uint8Array(width); // 1 for a column that is as it should be
    }
    Object.assign(this, {axis, unit, width, height, low, high, first, states, reserved, scale: (high - low) / height});
    let missing = 0;
    for (let c = 0; c < width; c++) if (!this.done[c]) missing++;
    let stride = 1;
    while (stride < 32 && missing * this.cost > time * stride) stride *= 2;
    const begun = performance.now();
    let n = 0;
    for (let c = 0; c < width; c++) {
      if (this.done[c]) continue;
      if (c === 0 || (first + c) % stride === 0) {
        this.find(c);
        n++;
      } else this.copy(c);
    }
    if (n > 8) this.cost = this.cost === 0 ? (performance.now() - begun) / n : 0.5 * this.cost + 0.5 * (performance.now() - begun) / n;
    this.rough = stride > 1;
  }

  // refine finds columns that were left out, as many as there is time for.
  refine(time) {
    const begun = performance.now();
    this.rough = false;
    for (let c = 0; c < this.width; c++) {
      if (this.done[c]) continue;
      if (performance.now() - begun > time) {
        this.rough = true;
        return;
      }
      this.find(c);
    }
  }

  // move shifts what was found by some columns.
  move(by) {
    const {height, width} = this, n = Math.abs(by);
    const to = by > 0 ? 0 : n, from = by > 0 ? n : 0;
    this.ids.copyWithin(to * height, from * height, (width - to) * height);
    for (const list of [this.totals, this.shown, this.hidden, this.done]) list.copyWithin(to, from, width - to);
    this.done.fill(0, by > 0 ? width - n : 0, by > 0 ? width : n);
  }

  // find finds one column.
  find(c) {
    const {live, ids, height, states} = this, at = c * height;
    this.done[c] = 1;
    this.shown[c] = states[c];
    if (c > 0 && this.done[c - 1] && states[c] === this.shown[c - 1]) {
      this.copy(c);
      this.done[c] = 1;
      return;
    }
    live.go(states[c]);
    this.totals[c] = live.total();
    const found = live.column(this.low, this.scale, height, ids, at);
    this.hidden[c] = this.low <= 0 && this.totals[c] <= this.high ? live.count - found : 0;
  }

  // copy makes a column like the one before it.
  copy(c) {
    const {height} = this, at = c * height;
    this.ids.copyWithin(at, at - height, at);
    this.totals[c] = this.totals[c - 1];
    this.shown[c] = this.shown[c - 1];
    this.hidden[c] = this.hidden[c - 1];
  }

  // at is the block at a place of the picture, -1 for none.
  at(x, y) {
    const c = Math.floor(x), r = this.height - 1 - Math.floor(y);
    if (c < 0 || c >= this.width || r < 0 || r >= this.height) return -1;
    return this.ids[c * this.height + r];
  }

  // row is the row in which a number of bytes ends.
  row(bytes) {
    return Math.round((bytes - this.low) / this.scale);
  }

  // paint fills the pixels of an image. colours has for each block a shade, and for each shade what it looks like, inside
  // and at an edge.
  paint(pixels, colours) {
    const {ids, width, height, recording} = this;
    const {shades, fills, edges, sides, ground, hatch, held, wait, waits} = colours;
    for (let c = 0; c < width; c++) {
      const at = c * height, x = this.first + c;
      const inner = c > 0 && c < width - 2;
      const state = this.shown[c];
      const top = Math.max(0, this.row(this.totals[c]));
      const waiting = recording.pending ? Math.max(top, this.row(this.totals[c] + recording.pending[state])) : top;
      const reserved = this.row(this.reserved[c]);
      for (let r = 0, out = (height - 1) * width + c; r < height; r++, out -= width) {
        const b = ids[at + r];
        if (b >= 0) {
          const thick = r > 0 && ids[at + r - 1] !== b && ids[at + r + 1] === b && ids[at + r + 2] === b && r + 2 < height;
          const wide = inner && ids[at + r - height] !== b && ids[at + r + height] === b && ids[at + r + 2 * height] === b;
          pixels[out] = (thick ? edges : wide ? sides : fills)[shades[b]];
        } else if (r < waiting) pixels[out] = (x & 3) === 0 && (r & 3) === 0 ? waits : wait;
        else if (r < reserved) pixels[out] = ((x + r) & 7) === 0 ? hatch : held;
        else pixels[out] = ground;
      }
    }
  }

  // light makes the pixels of one block brighter in another picture.
  light(context, b, ratio, fill, stroke) {
    const {ids, width, height} = this;
    let c0 = -1, c1 = -1;
    context.fillStyle = fill;
    for (let c = 0; c < width; c++) {
      const at = c * height;
      let r = 0;
      while (r < height && ids[at + r] !== b) r++;
      if (r === height) continue;
      let end = r;
      while (end < height && ids[at + end] === b) end++;
      if (c0 < 0) c0 = c;
      c1 = c;
      context.fillRect(c / ratio, (height - end) / ratio, 1 / ratio, (end - r) / ratio);
      context.fillStyle = stroke;
      context.fillRect(c / ratio, (height - end) / ratio, 1 / ratio, 1);
      context.fillRect(c / ratio, (height - r) / ratio - 1, 1 / ratio, 1);
      context.fillStyle = fill;
    }
    if (c0 < 0) return;
    context.fillStyle = stroke;
    for (const c of [c0, c1]) {
      const at = c * height;
      let r = 0;
      while (r < height && ids[at + r] !== b) r++;
      let end = r;
      while (end < height && ids[at + end] === b) end++;
      context.fillRect(c / ratio, (height - end) / ratio, 1, (end - r) / ratio);
    }
  }
}
