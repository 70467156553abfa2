// How memory lay in one state: what the allocator held, and which blocks were where in it.

const EXPANDABLE = 1, OLD = 2;

// segmentsAt lists what was held in a state, in the order of addresses. Ranges of an expandable segment that touch are one.
export function segmentsAt(recording, state) {
  const {addr, size, from, to, pool, stream, flags} = recording.extents;
  const list = [];
  for (let i = 0; i < addr.length; i++) {
    if (from[i] > state || to[i] <= state) continue;
    const last = list[list.length - 1];
    if (last && flags[i] & EXPANDABLE && last.expandable && last.end === addr[i] && last.stream === stream[i] && last.pool === pool[i]) {
      last.end += size[i];
      continue;
    }
    list.push({
      addr: addr[i], end: addr[i] + size[i], pool: pool[i], stream: stream[i], expandable: (flags[i] & EXPANDABLE) !== 0,
      old: (flags[i] & OLD) !== 0, since: from[i], first: 0, last: 0, used: 0,
    });
  }
  return list;
}

// byAddress puts blocks in the order of their addresses. Blocks of one state have different ones.
function byAddress(recording, blocks) {
  const at = new Int32Array(recording.addrs.length);
  for (const b of blocks) at[recording.place[b]] = b + 1;
  const list = [];
  for (let i = 0; i < at.length; i++) if (at[i]) list.push(at[i] - 1);
  return list;
}

// Layout is the memory of one state, in groups of the same pool and stream:
//   group.segments: in the order of addresses, each with the blocks first <= i < last
//   group.size = sum of the sizes of its segments
export class Layout {
  constructor(recording, state) {
    this.recording = recording;
    this.state = state;
    this.blocks = byAddress(recording, recording.blocksAt(state).concat(recording.waitingAt(state)));
    this.segments = recording.meta.extents ? segmentsAt(recording, state) : [];
    const homeless = this.settle();
    this.homeless = homeless.length;
    if (homeless.length) {
      this.segments = this.segments.concat(this.runs(homeless)).sort((a, b) => a.addr - b.addr);
      this.settle();
    }
    this.groups = [];
    const index = new Map();
    for (const s of this.segments) {
      const key = s.pool * 65536 + s.stream;
      if (!index.has(key)) {
        index.set(key, {pool: s.pool, stream: s.stream, segments: [], size: 0, used: 0});
        this.groups.push(index.get(key));
      }
      const g = index.get(key);
      s.offset = g.size;
      g.segments.push(s);
      g.size += s.end - s.addr;
      g.used += s.used;
    }
    this.groups.sort((a, b) => a.pool - b.pool || b.size - a.size || a.stream - b.stream);
  }

  // settle finds the blocks of each segment, and gives those that lie in none.
  settle() {
    const {blocks, recording} = this, homeless = [];
    let i = 0;
    for (const s of this.segments) {
      while (i < blocks.length && recording.address(blocks[i]) < s.addr) homeless.push(blocks[i++]);
      s.first = i;
      s.used = 0;
      while (i < blocks.length && recording.address(blocks[i]) < s.end) s.used += recording.bytesOf(blocks[i++]);
      s.last = i;
    }
    while (i < blocks.length) homeless.push(blocks[i++]);
    return homeless;
  }

  // runs are what blocks that touch take together, where nobody knows what was held: taken for segments.
  runs(blocks) {
    const list = [];
    for (const b of blocks) {
      const addr = this.recording.address(b), end = addr + this.recording.bytesOf(b);
      const last = list[list.length - 1];
      if (last && last.end >= addr && last.pool === this.recording.pool[b]) last.end = Math.max(last.end, end);
      else list.push({addr, end, pool: this.recording.pool[b], stream: this.recording.stream[b], expandable: false, old: false, since: 0, first: 0, last: 0, used: 0});
    }
    return list;
  }

  waits(b) {
    return this.recording.freed[b] <= this.state;
  }

  // free sums up what is held and not in use: in segments that something keeps, and in those that nothing does.
  free() {
    const sum = {stranded: 0, cached: 0, pieces: 0, largest: 0};
    for (const s of this.segments) {
      if (s.used === 0) sum.cached += s.end - s.addr;
      else sum.stranded += s.end - s.addr - s.used;
      let from = s.addr;
      const piece = (to) => {
        if (to > from) sum.pieces++;
        sum.largest = Math.max(sum.largest, to - from);
      };
      for (let i = s.first; i < s.last; i++) {
        const b = this.blocks[i], addr = this.recording.address(b);
        piece(addr);
        from = addr + this.recording.bytesOf(b);
      }
      piece(s.end);
    }
    return sum;
  }

  // at is what lies at an offset into a group: its segment, and the block there, -1 for none.
  at(group, offset) {
    const list = group.segments;
    let lo = 0, hi = list.length;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (list[mid].offset <= offset) lo = mid + 1;
      else hi = mid;
    }
    const segment = list[lo - 1];
    if (!segment || offset >= group.size) return null;
    const addr = segment.addr + offset - segment.offset;
    for (let a = segment.first, z = segment.last; a < z; ) {
      const mid = (a + z) >> 1, b = this.blocks[mid], start = this.recording.address(b);
      if (addr < start) z = mid;
      else if (addr >= start + this.recording.bytesOf(b)) a = mid + 1;
      else return {segment, block: b, addr};
    }
    return {segment, block: -1, addr};
  }
}

// groupName says whose memory a group is.
export function groupName(recording, g) {
  const {pools, streams} = recording.meta;
  const parts = [];
  if (pools.length > 1) parts.push(pools[g.pool] === "default" ? "default pool" : pools[g.pool]);
  if (streams.length > 1) parts.push("stream " + streams[g.stream]);
  return parts.join(" · ") || "all";
}
