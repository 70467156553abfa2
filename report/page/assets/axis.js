// The horizontal axis: events, or time. A state stands at its own number, or at the time of the event before it.

import {after} from "./recording.js";
import {count, span, ticks} from "./format.js";

export class Axis {
  constructor(recording, kind) {
    this.recording = recording;
    this.kind = recording.hasTimes() && recording.duration() > 0 ? kind : "event";
    this.length = this.kind === "time" ? recording.duration() : recording.states;
    // The least that is worth looking at: a few events, or a microsecond.
    this.least = this.kind === "time" ? Math.min(this.length, 2e-6) : Math.min(this.length, 4);
  }

  position(state) {
    return this.kind === "time" ? this.recording.time(state) : state;
  }

  // before is the number of states that stand before a place.
  before(x) {
    const {states} = this.recording;
    if (this.kind === "event") return Math.max(0, Math.min(states, Math.ceil(x)));
    if (x <= 0) return 0;
    let s = this.recording.stateAt(x);
    while (s > 0 && this.recording.time(s) >= x) s--;
    return s + 1;
  }

  // stateAt is the state that holds at a place.
  stateAt(x) {
    const {states} = this.recording;
    if (this.kind === "event") return Math.max(0, Math.min(states - 1, Math.floor(x)));
    return this.recording.stateAt(x);
  }

  // clamp keeps a range inside of what there is, and not narrower than makes sense.
  clamp(from, to) {
    const width = Math.max(this.least, Math.min(this.length, to - from));
    from = Math.max(0, Math.min(this.length - width, from));
    return [from, from + width];
  }

  // columns chooses the states that columns of pixels show: the one with the most allocated in each. Columns lie on a
  // grid of their own, so that a picture that is moved shows the same states as before.
  columns(from, to, width) {
    const {recording} = this;
    const unit = (to - from) / width, first = Math.round(from / unit);
    const states = new Int32Array(width), reserved = new Float64Array(width);
    const carries = this.kind === "time" ? 1 : 0; // a state lasts into the next column
    let a = this.before(first * unit);
    let at = recording.reservedIndex(Math.max(0, a - 1));
    for (let c = 0; c < width; c++) {
      const b = this.before((first + c + 1) * unit);
      const start = Math.max(0, b > a ? a - carries : a - 1);
      states[c] = recording.peak(start, Math.max(b, start + 1));
      const {reservedFrom, reservedBytes} = recording;
      let most = reservedBytes[at] || 0;
      if (reservedFrom[at + 1] <= start) most = 0;
      while (at + 1 < reservedFrom.length && reservedFrom[at + 1] < Math.max(b, start + 1)) most = Math.max(most, reservedBytes[++at]);
      reserved[c] = Math.max(most, recording.reserved(states[c]));
      a = b;
    }
    return {states, reserved, first, unit};
  }

  // ticks are places for labels. A state stands for the event before it.
  ticks(from, to, about) {
    if (this.kind === "time") return ticks(from, to, about, false);
    return ticks(Math.max(0, from - 1), to - 1, about, false).filter(Number.isInteger).map((event) => event + 1);
  }

  // label shows a place on the axis, one of those up to the last that are step apart.
  label(x, step, last) {
    if (this.kind === "event") return count(Math.round(x) - 1);
    if (x === 0) return "0";
    const [unit, name] = last >= 1 ? [1, "s"] : last >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
    const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
    return "+" + (x / unit).toFixed(Math.min(9, digits)) + " " + name;
  }
}

// whenOf says at which moment of a recording a state is.
export function whenOf(recording, state) {
  if (state === 0) return recording.states > 1 ? "before recording began" : "the only moment";
  const parts = ["event " + count(state - 1)];
  if (recording.hasTimes()) parts.unshift((recording.meta.stride > 1 ? "≈" : "") + "+" + span(recording.time(state)));
  const step = recording.step(state);
  if (step >= 0) parts.push("step " + recording.steps.labels[step]);
  return parts.join(" · ");
}

// stepsIn lists the indexes of the steps that overlap a range of states, thinned out to at most so many.
export function stepsIn(recording, from, to, most) {
  const {steps} = recording;
  const a = Math.max(0, after(steps.from, from) - 1), b = after(steps.from, to);
  const every = Math.max(1, Math.ceil((b - a) / most));
  const list = [];
  for (let i = a; i < b; i++) if (i % every === 0) list.push(i);
  return list;
}
