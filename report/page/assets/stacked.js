// The bands of the timeline: blocks stacked in the order of their birth, the older ones below.
//
// LiveSet holds the blocks that are allocated in one state, as a tree in the order of births: each node knows how many
// bytes the blocks below it take, and which of its 32 children have any. So a block is added or removed in four steps,
// and the block at a given height is found by skipping whole nodes, however many there are.
//
// A picture of the stack goes from column to column. Each shows one state; between two of them only those blocks are
// touched that live in one and not in the other, since what comes and goes in between is not seen.

const FAN = 5; // bits of a block's number that one level of the tree takes

export class LiveSet {
  constructor(recording) {
    this.recording = recording;
    this.state = -1;
    this.count = 0;
    this.levels = [];
    for (let n = recording.n; ; ) {
      n = (n + 31) >> FAN;
      this.levels.push({has: new Int32Array(Math.max(1, n)), sum: new Float64Array(Math.max(1, n))});
      if (n <= 32 || this.levels.length === 4) break;
    }
  }

  // total is what all blocks take.
  total() {
    const top = this.levels[this.levels.length - 1];
    let sum = 0;
    for (let i = 0; i < top.sum.length; i++) sum += top.sum[i];
    return sum;
  }

  add(b) {
    const size = this.recording.bytes[b];
    this.count++;
    for (const level of this.levels) {
      level.has[b >> FAN] |= 1 << (b & 31);
      level.sum[b >> FAN] += size;
      b >>= FAN;
    }
  }

  remove(b) {
    const size = this.recording.bytes[b];
    this.count--;
    let empty = true; // the node one level below
    for (const level of this.levels) {
      if (empty) level.has[b >> FAN] &= ~(1 << (b & 31));
      empty = level.has[b >> FAN] === 0;
      level.sum[b >> FAN] -= size;
      b >>= FAN;
    }
  }

  // set goes to a state, from wherever it is.
  set(state) {
    const {born, freed, n} = this.recording;
    for (const level of this.levels) {
      level.has.fill(0);
      level.sum.fill(0);
    }
    this.count = 0;
    for (let b = 0; b < n && born[b] <= state; b++) if (freed[b] > state) this.add(b);
    this.state = state;
  }

  // advance goes to a later state.
  advance(state) {
    const {born, freed, touch} = this.recording;
    const from = this.state;
    for (let s = from + 1; s <= state; s++) {
      const t = touch[s];
      if (t > 0) {
        if (freed[t - 1] > state) this.add(t - 1);
      } else if (t < 0 && born[-t - 1] <= from) this.remove(-t - 1);
    }
    this.state = state;
  }

  // column finds the blocks at the heights (r+½)·scale + bottom, r = 0, 1, …, rows-1, in bytes. It writes them to
  // ids[at+r], and gives how many different ones it found.
  column(bottom, scale, rows, ids, at) {
    const {levels} = this, {bytes} = this.recording;
    const leaves = levels[0].has;
    let sum = 0, r = 0, found = 0;
    let next = bottom + scale / 2; // the height that is looked for
    const inLeaf = (leaf) => {
      for (let bits = leaves[leaf]; bits !== 0; bits &= bits - 1) {
        const b = (leaf << FAN) + 31 - Math.clz32(bits & -bits);
        sum += bytes[b];
        if (sum <= next) continue;
        const end = Math.min(rows, Math.ceil((sum - bottom) / scale - 0.5));
        while (r < end) ids[at + r++] = b;
        found++;
        if (r >= rows) return;
        next = bottom + (r + 0.5) * scale;
      }
    };
    const inNode = (level, node) => {
      if (level === 0) {
        inLeaf(node);
        return;
      }
      const below = levels[level - 1].sum;
      for (let bits = levels[level].has[node]; bits !== 0 && r < rows; bits &= bits - 1) {
        const child = (node << FAN) + 31 - Math.clz32(bits & -bits);
        if (sum + below[child] <= next) sum += below[child];
        else inNode(level - 1, child);
      }
    };
    const top = levels.length - 1, roots = levels[top].sum;
    for (let node = 0; node < roots.length && r < rows; node++) {
      if (sum + roots[node] <= next) sum += roots[node];
      else inNode(top, node);
    }
    ids.fill(-1, at + r, at + rows);
    return found;
  }

  // height is how many bytes of other blocks lie below a block.
  height(b) {
    const {levels} = this;
    let sum = 0;
    for (let i = b & ~31; i < b; i++) if (levels[0].has[i >> FAN] & 1 << (i & 31)) sum += this.recording.bytes[i];
    for (let level = 1; level <= levels.length; level++) {
      const node = b >> (FAN * level);
      for (let i = level === levels.length ? 0 : node & ~31; i < node; i++) sum += levels[level - 1].sum[i];
    }
    return sum;
  }

  // blockAt is the block at a height in bytes, -1 above all.
  blockAt(height) {
    const ids = new Int32Array(1);
    this.column(height, 0, 1, ids, 0);
    return ids[0];
  }
}
