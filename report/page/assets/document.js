// Elements of the document. All text of a recording goes in as text, never as markup.

export function byId(id) {
  return document.getElementById(id);
}

// element makes one with properties and children; a child that is a string becomes text.
export function element(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key in e && key !== "list") e[key] = value;
    else e.setAttribute(key, value);
  }
  e.append(...children.filter(isThere));
  return e;
}

// fill replaces what is in an element.
export function fill(e, ...children) {
  e.replaceChildren(...children.filter(isThere));
}

function isThere(child) {
  return child !== null && child !== undefined && child !== false;
}

// Surface is a canvas that keeps the size of its element, in the pixels of the screen.
export class Surface {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.ratio = 1;
  }

  // fit takes the size that the element has now. It gives whether that is another than before.
  fit() {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    this.width = Math.max(1, Math.round(box.width));
    this.height = Math.max(1, Math.round(box.height));
    const w = Math.round(this.width * this.ratio), h = Math.round(this.height * this.ratio);
    const changed = this.canvas.width !== w || this.canvas.height !== h;
    if (changed) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    return changed;
  }

  clear() {
    this.context.clearRect(0, 0, this.width, this.height);
  }
}

// Painter draws at most once a frame, however often it is asked to.
export class Painter {
  constructor(draw) {
    this.draw = draw;
    this.asked = 0;
  }

  ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  // now draws at once, for whoever cannot wait for a frame: a printer, a test.
  now() {
    if (this.asked) cancelAnimationFrame(this.asked);
    this.asked = 0;
    this.draw();
  }
}

// inside gives where a pointer is in an element.
export function inside(event, e) {
  const box = e.getBoundingClientRect();
  return {x: event.clientX - box.left, y: event.clientY - box.top};
}

export const FONT = '11px "Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

const LEGIBLE = 8; // characters of a cut text that say anything

// fitted cuts a text to a width, to nothing if little were left of it.
export function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let lo = 0, hi = text.length;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (context.measureText(text.slice(0, mid) + "…").width <= width) lo = mid;
    else hi = mid - 1;
  }
  return lo < LEGIBLE ? "" : text.slice(0, lo) + "…";
}
