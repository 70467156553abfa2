// A device's recording: its blocks, what was allocated in each state, and when.
//
// State 0 is what existed before the first event; state s is what there is after event s-1. A block is allocated in the
// states born <= s < freed, and its memory is in use for born <= s < gone. Blocks are numbered in the order of their
// birth.

const OP = {alloc: 1, freeRequested: 2, freeCompleted: 3, free: 4};
const BUCKET = 8; // bits of the states that one entry of the index of peaks stands for

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
    this.place = get("addr");
    this.addrs = columns.sums(prefix + "addrs", meta.unit);
    this.n = this.stack.length;
    this.bytes = new Float64Array(this.n);
    for (let b = 0; b < this.n; b++) this.bytes[b] = this.taken[this.size[b]];
    this.live(get("op"), get("life"), get("wait"));
    this.add();
    this.index();
    this.steps = {from: columns.sums(prefix + "step/from"), length: get("step/length"), labels: columns.texts(prefix + "step/labels")};
    this.reservedFrom = columns.sums(prefix + "reserved/states");
    this.reservedBytes = running(columns.signed(prefix + "reserved/bytes"));
    this.times = running(columns.signed(prefix + "time"));
    this.latest = highest(this.times);
    this.extents = extentsOf(columns, prefix, meta.unit);
    this.use = usesOf(columns, prefix);
  }

  // live finds the states in which each block was born, freed and gone.
  live(op, life, wait) {
    const states = this.states, n = this.n;
    this.born = new Int32Array(n);
    this.freed = new Int32Array(n).fill(states);
    this.gone = new Int32Array(n).fill(states);
    // What each state changes: the block that was born as its number + 1, one that was freed as the negative of that.
    this.touch = new Int32Array(states);
    this.op = op;
    let frees = 0, completions = 0;
    for (let i = 0; i < op.length; i++) {
      if (op[i] === OP.free || op[i] === OP.freeRequested) frees++;
      else if (op[i] === OP.freeCompleted) completions++;
    }
    const freeAt = new Int32Array(frees), completedBefore = new Int32Array(frees), completedAt = new Int32Array(completions);
    frees = completions = 0;
    for (let i = 0; i < op.length; i++) {
      if (op[i] === OP.free || op[i] === OP.freeRequested) {
        completedBefore[frees] = completions;
        freeAt[frees++] = i + 1;
      } else if (op[i] === OP.freeCompleted) completedAt[completions++] = i + 1;
    }
    const end = (b, before) => {
      if (life[b] === 0) return;
      const f = before + life[b] - 1;
      const at = freeAt[f];
      this.freed[b] = at;
      this.touch[at] = -(b + 1);
      if (op[at - 1] === OP.free) this.gone[b] = at;
      else if (wait[b] > 0) this.gone[b] = completedAt[completedBefore[f] + wait[b] - 1];
    };
    for (let b = 0; b < this.meta.old; b++) end(b, 0);
    for (const b of this.meta.waiting || []) {
      this.freed[b] = 0;
      if (wait[b] > 0) this.gone[b] = completedAt[wait[b] - 1];
    }
    let b = this.meta.old;
    frees = 0;
    for (let i = 0; i < op.length; i++) {
      if (op[i] === OP.alloc) {
        this.born[b] = i + 1;
        this.touch[i + 1] = b + 1;
        end(b++, frees);
      } else if (op[i] === OP.free || op[i] === OP.freeRequested) frees++;
    }
  }

  // add adds up what is allocated in each state, and what waits for streams.
  add() {
    const {touch, bytes, states} = this;
    this.allocated = new Float64Array(states);
    let sum = 0, waits = false;
    for (let b = 0; b < this.meta.old; b++) if (this.freed[b] > 0) sum += bytes[b];
    this.allocated[0] = sum;
    for (let s = 1; s < states; s++) {
      const t = touch[s];
      if (t > 0) sum += bytes[t - 1];
      else if (t < 0) sum -= bytes[-t - 1];
      this.allocated[s] = sum;
    }
    for (let b = 0; b < this.n && !waits; b++) waits = this.gone[b] > this.freed[b] + 1;
    this.pending = null;
    if (!waits) return;
    this.pending = new Float64Array(states + 1);
    for (let b = 0; b < this.n; b++) {
      if (this.gone[b] <= this.freed[b] + 1) continue; // it did not wait, the free is two events
      this.pending[this.freed[b]] += bytes[b];
      this.pending[this.gone[b]] -= bytes[b];
    }
    for (let s = 1; s < states; s++) this.pending[s] += this.pending[s - 1];
  }

  // index notes the state with the most allocated of each stretch of states.
  index() {
    this.tops = new Int32Array((this.states >> BUCKET) + 1);
    for (let k = 0; k < this.tops.length; k++) {
      this.tops[k] = this.scan(k << BUCKET, Math.min(this.states, (k + 1) << BUCKET));
    }
  }

  scan(from, to) {
    let best = from;
    for (let s = from + 1; s < to; s++) if (this.allocated[s] > this.allocated[best]) best = s;
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
    const ticks = seconds / (this.meta.tick * 1e-9);
    const i = after(this.latest, ticks) - 1;
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
    return this.bytes[b] - this.rounding[this.size[b]];
  }

  // blocksAt lists what is allocated in a state, the older ones first.
  blocksAt(state) {
    const list = [];
    const {born, freed} = this;
    for (let b = 0; b < this.n && born[b] <= state; b++) if (freed[b] > state) list.push(b);
    return list;
  }

  // waitingAt lists what was freed before and still waits for a stream.
  waitingAt(state) {
    const list = [];
    if (!this.pending) return list;
    const {born, freed, gone} = this;
    for (let b = 0; b < this.n && born[b] <= state; b++) if (freed[b] <= state && gone[b] > state && gone[b] > freed[b] + 1) list.push(b);
    return list;
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

function running(list) {
  for (let i = 1; i < list.length; i++) list[i] += list[i - 1];
  return list;
}

// highest is the greatest number so far, for times that do not always go forward.
function highest(list) {
  const out = Float64Array.from(list);
  for (let i = 1; i < out.length; i++) if (out[i] < out[i - 1]) out[i] = out[i - 1];
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
  for (const name of ["state", "reserved", "allocated", "pending", "stranded", "cached", "known"]) {
    out[name] = columns.numbers(prefix + "use/" + name);
  }
  return out;
}
