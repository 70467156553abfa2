// Call stacks and where in the code they are.

export class Codes {
  constructor(columns) {
    const get = (name) => columns.numbers(name);
    this.texts = columns.texts("texts");
    this.frame = {name: get("frame/name"), file: get("frame/file"), line: get("frame/line"), own: get("frame/own")};
    this.up = get("node/up");
    this.frameOf = get("node/frame");
    this.whole = get("stack/whole");
    this.path = get("stack/path");
    this.place = get("stack/place");
    this.module = get("stack/module");
    this.file = get("stack/file");
    this.stacks = this.whole.length;
  }

  // parent of a node; nodes count from 1, and 0 is the root.
  parent(node) {
    return node - this.up[node - 1];
  }

  // frames of a stack, innermost first, as numbers.
  frames(stack) {
    const list = [];
    for (let node = this.whole[stack]; node > 0; node = this.parent(node)) list.push(this.frameOf[node - 1]);
    return list;
  }

  functionOf(frame) {
    return this.texts[this.frame.name[frame]] || "?";
  }

  fileOf(frame) {
    return this.texts[this.frame.file[frame]] || "";
  }

  // frameText is a frame on one line: "train.py:66 step".
  frameText(frame) {
    const file = this.fileOf(frame).replace(/^.*[/\\]/, ""), line = this.frame.line[frame];
    if (!file || file === "??") return this.functionOf(frame);
    return file + (line > 0 ? ":" + line : "") + " " + this.functionOf(frame);
  }

  placeText(stack) {
    return this.texts[this.place[stack]];
  }

  // matches says for each stack whether one of its frames has a text in its function or file.
  matches(text) {
    const wanted = text.toLowerCase();
    const {name, file, line} = this.frame;
    const inText = this.texts.map((t) => t.toLowerCase().includes(wanted));
    const inFrame = new Uint8Array(name.length);
    let frames = 0;
    for (let f = 0; f < name.length; f++) {
      inFrame[f] = inText[name[f]] || inText[file[f]] || this.frameText(f).toLowerCase().includes(wanted) ? 1 : 0;
      if (inFrame[f] && (line[f] >= 0)) frames++;
    }
    const inNode = new Uint8Array(this.up.length + 1);
    for (let n = 1; n <= this.up.length; n++) inNode[n] = inNode[this.parent(n)] | inFrame[this.frameOf[n - 1]];
    const stacks = new Uint8Array(this.stacks);
    for (let s = 0; s < this.stacks; s++) stacks[s] = inNode[this.whole[s]] | (inText[this.place[s]] ? 1 : 0) | (inText[this.module[s]] ? 1 : 0);
    return {stacks, frames};
  }
}

export const BEFORE = "before recording began";
export const WITHOUT = "without a call stack";

// nameOf is what to call a block: the line that allocated it; nothing if no block has a call stack.
export function nameOf(recording, b) {
  if (recording.codes.stacks === 1) return recording.born[b] === 0 && recording.states > 1 ? BEFORE : "";
  return recording.codes.placeText(recording.stack[b]) || (recording.born[b] === 0 && recording.states > 1 ? BEFORE : WITHOUT);
}

// Tree is who called whom for what is allocated in one state.
export class Tree {
  constructor(recording, state) {
    const {codes} = recording;
    const n = codes.up.length;
    const bytes = new Float64Array(n + 3), blocks = new Uint32Array(n + 3);
    for (const b of recording.blocksAt(state)) {
      const node = recording.stack[b] ? codes.path[recording.stack[b]] : recording.born[b] === 0 && recording.states > 1 ? n + 1 : n + 2;
      bytes[node] += recording.bytesOf(b);
      blocks[node] += recording.number[b] || 1;
    }
    const own = bytes.slice();
    this.children = new Map();
    const child = (parent, node) => {
      if (!this.children.has(parent)) this.children.set(parent, []);
      this.children.get(parent).push(node);
    };
    for (let node = n + 2; node > 0; node--) {
      if (blocks[node] === 0) continue;
      const parent = node > n ? 0 : codes.parent(node);
      bytes[parent] += bytes[node];
      blocks[parent] += blocks[node];
      child(parent, node);
    }
    for (const list of this.children.values()) list.sort((p, q) => bytes[q] - bytes[p] || p - q);
    Object.assign(this, {codes, bytes, blocks, own, size: n});
  }

  // below are the children of a node, the largest first.
  below(node) {
    return this.children.get(node) || [];
  }

  name(node) {
    if (node === 0) return "all";
    if (node > this.size) return node === this.size + 1 ? BEFORE : WITHOUT;
    return this.codes.frameText(this.codes.frameOf[node - 1]);
  }

  isOwn(node) {
    return node > 0 && node <= this.size && this.codes.frame.own[this.codes.frameOf[node - 1]] === 1;
  }

  parent(node) {
    return node > this.size ? 0 : this.codes.parent(node);
  }
}
