// Names inside of bands, where there is room: nobody should have to tell colours apart to know what a band is.

import {FONT, fitted} from "./document.js";

const TALL = 13; // pixels that a line of text takes
const LEAST = 52; // pixels in width that are worth a name
const NAMES = 90; // names on one picture

// placesFor finds the largest rectangles of blocks on a picture.
export function placesFor(raster, ratio) {
  const {ids, width, height} = raster;
  const tall = Math.ceil(TALL * ratio), least = LEAST * ratio;
  const found = [];
  let open = new Map();
  const close = (p) => {
    if (p.to - p.from >= least) found.push(p);
  };
  for (let c = 0; c < width; c++) {
    const next = new Map();
    const at = c * height;
    for (let r = 0; r < height; ) {
      const b = ids[at + r];
      if (b < 0) break;
      // The block that begins here ends in less than a line's height unless the pixel there is its own.
      if (r + tall > height || ids[at + r + tall - 1] !== b) {
        r++;
        continue;
      }
      let end = r + tall;
      while (end < height && ids[at + end] === b) end++;
      let start = r;
      while (start > 0 && ids[at + start - 1] === b) start--;
      const p = open.get(b);
      if (p) {
        const bottom = Math.max(p.bottom, start), top = Math.min(p.top, end);
        if (top - bottom >= tall) {
          p.bottom = bottom;
          p.top = top;
          p.to = c + 1;
          next.set(b, p);
          open.delete(b);
        } else next.set(b, {block: b, from: c, to: c + 1, bottom: start, top: end});
      } else next.set(b, {block: b, from: c, to: c + 1, bottom: start, top: end});
      r = end;
    }
    for (const p of open.values()) close(p);
    open = next;
  }
  for (const p of open.values()) close(p);
  const area = (p) => (p.to - p.from) * (p.top - p.bottom);
  return found.sort((p, q) => area(q) - area(p)).slice(0, NAMES);
}

// writeNames puts names on a picture.
export function writeNames(context, raster, ratio, nameOf, inkOf) {
  context.font = FONT;
  context.textBaseline = "middle";
  context.textAlign = "left";
  for (const p of placesFor(raster, ratio)) {
    const left = p.from / ratio, width = (p.to - p.from) / ratio;
    const name = nameOf(p.block), text = name && fitted(context, name, width - 10);
    if (!text) continue;
    context.fillStyle = inkOf(p.block);
    context.fillText(text, left + 5, (raster.height - (p.bottom + p.top) / 2) / ratio + 0.5);
  }
}
