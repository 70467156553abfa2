// A device's recording: its blocks, what was allocated in each state, and when.
//
// State 0 is what existed before the first event; state s is what there is after event s-1. A block is allocated in the
// states born <= s < freed, and its memory is in use for born <= s < gone. Blocks are numbered in the order of their
// birth.

const OP = {alloc: 1, freeRequested: 2, freeCompleted: 3, free: 4};
const BUCKET = 8; // bits of the states that one entry of the index of peaks stands for

// the columns that a first picture does not need
export const LATER = /\/(addr|addrs|time)$/;

export class Recording {
  constructor(meta, columns, codes) {
    const prefix = meta.key + "/";
    const get = (name) => columns.numbers(prefix + name);
    this.meta = meta;
    this.codes = codes;
    this.states = meta.states;
    this.stack = get("stack");
    this.size = get("size");
    this.stream = get("stream");
    this.pool = get("pool");
    this.role = get("role");
    this.phase = get("phase");
    this.number = get("count");
    this.taken = Float64Array.from(get("taken"));
    this.rounding = columns.signed(prefix + "rounding");
    this.n = this.stack.length;
    this.live(get("op"), get("life"), get("wait"));
    this.add();
    this.index();
    this.steps = {from: columns.sums(prefix + "step/from"), length: get("step/length"), labels: columns.texts(prefix + "step/labels")};
    this.reservedFrom = columns.sums(prefix + "reserved/states");
    this.reservedBytes = columns.signedSums(prefix + "reserved/bytes");
    this.use = usesOf(columns, prefix);
    this.times = this.latest = this.addrs = new Float64Array(0);
    this.complete = false;
  }

  // finish takes the columns that come later.
  finish(columns) {
    const prefix = this.meta.key + "/";
    this.place = columns.numbers(prefix + "addr");
    this.addrs = columns.sums(prefix + "addrs", this.meta.unit);
    this.extents = extentsOf(columns, prefix, this.meta.unit);
    this.times = columns.signedSums(prefix + "time");
    this.latest = highest(this.times);
    this.complete = true;
  }

  // live finds the states in which each block was born, freed and gone.
  live(op, life, wait) {
    const {states, n} = this, {old, frees, completions} = this.meta;
    const born = this.born = new Int32Array(n), freed = this.freed = new Int32Array(n);
    // What each state changes: the block that was born as its number + 1, one that was freed as the negative of that.
    const touch = this.touch = new Int32Array(states);
    const freeAt = new Int32Array(frees);
    let b = old, f = 0;
    for (let i = 0; i < op.length; i++) {
      const o = op[i];
      if (o === OP.alloc) {
        born[b] = i + 1;
        freed[b] = f; // for now: how many were freed before
        touch[i + 1] = ++b;
      } else if (o === OP.freeRequested || o === OP.free) freeAt[f++] = i + 1;
    }
    for (let i = 0; i < n; i++) {
      if (life[i] === 0) freed[i] = states;
      else {
        const at = freed[i] = freeAt[freed[i] + life[i] - 1];
        touch[at] = -(i + 1);
      }
    }
    for (const i of this.meta.waiting || []) freed[i] = 0;
    this.gone = null;
    if (this.meta.waits) this.waits(op, wait, completions);
  }

  // waits finds when blocks were gone that waited for a stream.
  waits(op, wait, completions) {
    const {states, n, freed} = this;
    const doneAt = new Int32Array(completions), before = new Int32Array(states + 1);
    for (let i = 0, c = 0; i < op.length; i++) {
      before[i + 1] = c; // completions before the event that made this state
      if (op[i] === OP.freeCompleted) doneAt[c++] = i + 1;
    }
    this.gone = new Int32Array(n).fill(states);
    for (let b = 0; b < n; b++) {
      const at = freed[b];
      if (at > 0 && at < states && op[at - 1] === OP.free) this.gone[b] = at;
      else if (at < states && wait[b] > 0) this.gone[b] = doneAt[before[at] + wait[b] - 1];
    }
  }

  // waited says whether a block was kept from being used again, once it was freed.
  waited(b) {
    return this.gone !== null && this.gone[b] > this.freed[b] + 1; // a free is two events
  }

  bytesOf(b) {
    return this.taken[this.size[b]];
  }

  // add adds up what is allocated in each state, and what waits for streams.
  add() {
    const {touch, states, taken, size} = this;
    const allocated = this.allocated = new Float64Array(states);
    let sum = 0;
    for (let b = 0; b < this.meta.old; b++) if (this.freed[b] > 0) sum += taken[size[b]];
    allocated[0] = sum;
    for (let s = 1; s < states; s++) {
      const t = touch[s];
      if (t > 0) sum += taken[size[t - 1]];
      else if (t < 0) sum -= taken[size[-t - 1]];
      allocated[s] = sum;
    }
    this.pending = null;
    if (!this.gone) return;
    const pending = this.pending = new Float64Array(states + 1);
    for (let b = 0; b < this.n; b++) {
      if (!this.waited(b)) continue;
      pending[this.freed[b]] += taken[size[b]];
      pending[this.gone[b]] -= taken[size[b]];
    }
    for (let s = 1; s < states; s++) pending[s] += pending[s - 1];
  }

  // index notes the state with the most allocated of each stretch of states.
  index() {
    this.tops = new Int32Array((this.states >> BUCKET) + 1);
    for (let k = 0; k < this.tops.length; k++) this.tops[k] = this.scan(k << BUCKET, Math.min(this.states, (k + 1) << BUCKET));
  }

  // scan is the first state with the most allocated of a short stretch.
  scan(from, to) {
    const {allocated} = this;
    let best = from, most = allocated[from];
    for (let s = from + 1; s < to; s++) {
      if (allocated[s] > most) {
        best = s;
        most = allocated[s];
      }
    }
    return best;
  }

  // peak is the first of the states from <= s < to with the most allocated.
  peak(from, to) {
    const first = (from >> BUCKET) + 1, last = to >> BUCKET;
    if (first >= last) return this.scan(from, to);
    let best = this.scan(from, first << BUCKET);
    for (let k = first; k < last; k++) if (this.allocated[this.tops[k]] > this.allocated[best]) best = this.tops[k];
    if (last << BUCKET < to) {
      const s = this.scan(last << BUCKET, to);
      if (this.allocated[s] > this.allocated[best]) best = s;
    }
    return best;
  }

  // reservedIndex is that of the last change of what is reserved up to a state.
  reservedIndex(state) {
    return Math.max(0, after(this.reservedFrom, state) - 1);
  }

  reserved(state) {
    return this.reservedBytes.length ? this.reservedBytes[this.reservedIndex(state)] : 0;
  }

  hasTimes() {
    return this.times.length > 0;
  }

  // time is when a state began, in seconds since the first event. Where times were left out it lies between two others.
  time(state) {
    const at = (state - 1) / this.meta.stride;
    if (at <= 0 || !this.times.length) return 0;
    const i = Math.min(Math.floor(at), this.times.length - 1), next = Math.min(i + 1, this.times.length - 1);
    return (this.times[i] + (this.times[next] - this.times[i]) * (at - i)) * this.meta.tick * 1e-9;
  }

  // duration is the time of the last state.
  duration() {
    return this.latest.length ? this.latest[this.latest.length - 1] * this.meta.tick * 1e-9 : 0;
  }

  // stateAt is the last state that began up to a time.
  stateAt(seconds) {
    const i = after(this.latest, seconds / (this.meta.tick * 1e-9)) - 1;
    if (i < 0) return 0;
    let state = i * this.meta.stride + 1;
    while (state + 1 < this.states && this.meta.stride > 1 && this.time(state + 1) <= seconds) state++;
    return Math.min(state, this.states - 1);
  }

  // step is the index of the step that a state lies in, -1 for none.
  step(state) {
    const i = after(this.steps.from, state) - 1;
    return i >= 0 && state < this.steps.from[i] + this.steps.length[i] ? i : -1;
  }

  address(b) {
    return this.addrs.length ? this.addrs[this.place[b]] : 0;
  }

  requested(b) {
    return this.bytesOf(b) - this.rounding[this.size[b]];
  }

  // blocksAt lists what is allocated in a state, the older ones first.
  blocksAt(state) {
    if (this.listed?.state === state) return this.listed.blocks;
    const {born, freed, n} = this, blocks = [];
    for (let b = 0; b < n && born[b] <= state; b++) if (freed[b] > state) blocks.push(b);
    this.listed = {state, blocks};
    return blocks;
  }

  // waitingAt lists what was freed before and still waits for a stream.
  waitingAt(state) {
    const blocks = [];
    if (!this.gone) return blocks;
    const {born, freed, gone, n} = this;
    for (let b = 0; b < n && born[b] <= state; b++) if (freed[b] <= state && gone[b] > state && this.waited(b)) blocks.push(b);
    return blocks;
  }
}

// after is the index of the first number of a sorted list that is greater than another.
export function after(list, value) {
  let lo = 0, hi = list.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (list[mid] <= value) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

// highest is the greatest number so far, for times that do not always go forward.
function highest(list) {
  let i = 1;
  while (i < list.length && list[i] >= list[i - 1]) i++;
  if (i >= list.length) return list;
  const out = Float64Array.from(list);
  for (; i < out.length; i++) if (out[i] < out[i - 1]) out[i] = out[i - 1];
  return out;
}

function extentsOf(columns, prefix, unit) {
  const get = (name) => columns.numbers(prefix + "extent/" + name);
  return {
    addr: columns.sums(prefix + "extent/addr", unit), size: get("size"), from: get("from"), to: get("to"),
    pool: get("pool"), stream: get("stream"), flags: get("flags"),
  };
}

function usesOf(columns, prefix) {
  const out = {};
  for (const name of ["state", "reserved", "allocated", "pending", "stranded", "cached", "known"]) out[name] = columns.numbers(prefix + "use/" + name);
  return out;
}
