// The bands of the timeline: blocks stacked in the order of their birth, the older ones below.
//
// LiveSet holds the blocks that are allocated in one state, as a tree in the order of births, each node of which has 32
// below it and knows how many bytes they take. So a block is added or removed in three steps, and the block at a given
// height is found by skipping whole nodes, however many there are.
//
// A picture of the stack goes from column to column. Each shows one state; between two of them only those blocks are
// touched that live in one and not in the other, since what comes and goes in between is not seen.

const FAN = 5; // bits of a block's number that one level of the tree takes

export class LiveSet {
  constructor(recording) {
    const {n} = recording;
    this.recording = recording;
    this.state = -1; // none
    this.count = 0;
    this.root = new Float64Array((n >> 3 * FAN) + 1); // bytes, as in the next two
    this.limb = new Float64Array(this.root.length << FAN);
    this.leaf = new Float64Array(this.limb.length << FAN);
    this.has = new Int32Array(this.leaf.length); // by leaf: which of its blocks are there
  }

  // total is what all blocks take.
  total() {
    let sum = 0;
    for (let i = 0; i < this.root.length; i++) sum += this.root[i];
    return sum;
  }

  add(b, size) {
    this.count++;
    this.has[b >> FAN] |= 1 << (b & 31);
    this.leaf[b >> FAN] += size;
    this.limb[b >> 2 * FAN] += size;
    this.root[b >> 3 * FAN] += size;
  }

  remove(b, size) {
    this.count--;
    this.has[b >> FAN] &= ~(1 << (b & 31));
    this.leaf[b >> FAN] -= size;
    this.limb[b >> 2 * FAN] -= size;
    this.root[b >> 3 * FAN] -= size;
  }

  // set goes to a state, from wherever it is.
  set(state) {
    const {born, freed, n, taken, size} = this.recording;
    this.has.fill(0);
    this.leaf.fill(0);
    this.limb.fill(0);
    this.root.fill(0);
    this.count = 0;
    for (let b = 0; b < n && born[b] <= state; b++) if (freed[b] > state) this.add(b, taken[size[b]]);
    this.state = state;
  }

  // go goes to a state, the cheaper way.
  go(state) {
    if (this.state >= 0 && this.state <= state && state - this.state < this.recording.n) this.advance(state);
    else this.set(state);
  }

  // advance goes to a later state.
  advance(state) {
    const {freed, touch, taken, size} = this.recording;
    const {has} = this;
    for (let s = this.state + 1; s <= state; s++) {
      const t = touch[s];
      if (t > 0) {
        if (freed[t - 1] > state) this.add(t - 1, taken[size[t - 1]]);
      } else if (t < 0) {
        const b = -t - 1;
        if (has[b >> FAN] >> (b & 31) & 1) this.remove(b, taken[size[b]]);
      }
    }
    this.state = state;
  }

  // column finds the blocks at the heights (r+½)·scale + bottom, r = 0, 1, …, rows-1, in bytes. It writes them to
  // ids[at+r], and gives how many different ones it found.
  column(bottom, scale, rows, ids, at) {
    const {has, leaf, limb, root} = this, {taken, size} = this.recording;
    let sum = 0, r = 0, found = 0;
    let next = bottom + scale / 2; // the height that is looked for
    for (let i = 0; i < root.length; i++) {
      if (sum + root[i] <= next) {
        sum += root[i];
        continue;
      }
      for (let j = i << FAN, jEnd = j + 32; j < jEnd; j++) {
        if (sum + limb[j] <= next) {
          sum += limb[j];
          continue;
        }
        for (let k = j << FAN, kEnd = k + 32; k < kEnd; k++) {
          if (sum + leaf[k] <= next) {
            sum += leaf[k];
            continue;
          }
          for (let bits = has[k]; bits !== 0; bits &= bits - 1) {
            const b = (k << FAN) + 31 - Math.clz32(bits & -bits);
            sum += taken[size[b]];
            if (sum <= next) continue;
            const end = Math.min(rows, Math.ceil((sum - bottom) / scale - 0.5));
            while (r < end) ids[at + r++] = b;
            found++;
            if (r >= rows) return found;
            next = bottom + (r + 0.5) * scale;
          }
        }
      }
    }
    ids.fill(-1, at + r, at + rows);
    return found;
  }

  // height is how many bytes of other blocks lie below a block.
  height(b) {
    const {has, leaf, limb, root} = this;
    let sum = 0;
    for (let i = b & ~31; i < b; i++) if (has[i >> FAN] >> (i & 31) & 1) sum += this.recording.bytesOf(i);
    for (let i = b >> FAN & ~31; i < b >> FAN; i++) sum += leaf[i];
    for (let i = b >> 2 * FAN & ~31; i < b >> 2 * FAN; i++) sum += limb[i];
    for (let i = 0; i < b >> 3 * FAN; i++) sum += root[i];
    return sum;
  }
}
