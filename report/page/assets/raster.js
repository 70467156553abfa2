// The picture of the bands, pixel by pixel: first which block each pixel shows, then in which colour.

import {LiveSet} from "./stacked.js";

export class Raster {
  constructor(recording) {
    this.recording = recording;
    this.live = new LiveSet(recording);
    this.width = this.height = 0;
    this.ids = new Int32Array(0);
  }

  // compute finds the block of each pixel: ids[column*height + row], rows from the bottom; -1 is none.
  compute(axis, from, to, low, high, width, height) {
    if (this.ids.length !== width * height) this.ids = new Int32Array(width * height);
    this.width = width;
    this.height = height;
    this.low = low;
    this.scale = (high - low) / height; // bytes a pixel
    const {states, reserved, first} = axis.columns(from, to, width);
    this.states = states;
    this.reserved = reserved;
    this.first = first;
    this.totals = new Float64Array(width);
    this.hidden = 0; // blocks that no pixel shows, in the column with the most of them
    const {live, ids} = this;
    for (let c = 0; c < width; c++) {
      const at = c * height;
      if (c > 0 && states[c] === states[c - 1]) {
        ids.copyWithin(at, at - height, at);
        this.totals[c] = this.totals[c - 1];
        continue;
      }
      if (c === 0 || states[c] < states[c - 1]) live.set(states[c]);
      else live.advance(states[c]);
      this.totals[c] = live.total();
      const found = live.column(low, this.scale, height, ids, at);
      if (low <= 0 && this.totals[c] <= high) this.hidden = Math.max(this.hidden, live.count - found);
    }
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
    const {shades, fills, edges, ground, hatch, held, wait, waits} = colours;
    for (let c = 0; c < width; c++) {
      const at = c * height, x = this.first + c;
      const inner = c > 0 && c < width - 2;
      const state = this.states[c];
      const top = Math.max(0, this.row(this.totals[c]));
      const waiting = recording.pending ? Math.max(top, this.row(this.totals[c] + recording.pending[state])) : top;
      const reserved = this.row(this.reserved[c]);
      for (let r = 0, out = (height - 1) * width + c; r < height; r++, out -= width) {
        const b = ids[at + r];
        if (b >= 0) {
          const thick = r > 0 && ids[at + r - 1] !== b && ids[at + r + 1] === b && ids[at + r + 2] === b && r + 2 < height;
          const wide = inner && ids[at + r - height] !== b && ids[at + r + height] === b && ids[at + r + 2 * height] === b;
          pixels[out] = thick || wide ? edges[shades[b]] : fills[shades[b]];
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
