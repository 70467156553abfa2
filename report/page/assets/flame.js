// The flame graph of the chosen moment: who called whom for the memory, the program's start on top.

import {FONT, Painter, Surface, byId, fitted, inside} from "./document.js";
import {Tree} from "./codes.js";
import {blend, css} from "./colours.js";
import {bytes, count, plural, share} from "./format.js";

const ROW = 18;
const OWN = [86, 180, 233], OTHER = [176, 178, 176];

export class Flame {
  constructor(app) {
    this.app = app;
    this.box = byId("flame-plot");
    this.surface = new Surface(byId("flame-canvas"));
    this.painter = new Painter(() => this.draw());
    this.cells = [];
    this.tallest = 0;
    this.listen();
  }

  take(recording) {
    this.recording = recording;
    this.tree = null;
    this.tallest = 0;
  }

  draw() {
    if (!this.recording) return;
    const {view, colours} = this.app, s = this.surface, c = s.context;
    if (!this.tree || this.state !== view.state) {
      this.tree = new Tree(this.recording, view.state);
      this.state = view.state;
    }
    if (view.node > 0 && !this.tree.bytes[view.node]) view.node = 0;
    const width = Math.max(10, this.box.getBoundingClientRect().width);
    this.lay(width);
    const rows = this.cells.reduce((a, x) => Math.max(a, x.row), 0) + 1;
    this.tallest = Math.max(this.tallest, Math.min(rows, 60) * ROW + 2);
    this.box.style.height = this.tallest + "px";
    s.fit();
    s.clear();
    c.font = FONT;
    c.textBaseline = "middle";
    c.textAlign = "left";
    const looks = colours.plain, {lit} = this.app;
    for (const x of this.cells) {
      const own = x.node > 0 && this.tree.isOwn(x.node);
      let rgb = blend(own ? OWN : OTHER, looks.ground, own ? 0.25 : 0.6);
      if (x.node === 0 || x.small) rgb = looks.held;
      if (lit && x.node > 0 && !x.small && !this.found(x.node)) rgb = blend(rgb, looks.ground, 0.7);
      c.fillStyle = css(rgb);
      c.fillRect(x.x, x.row * ROW, Math.max(0.5, x.w - 0.7), ROW - 1);
      if (x.w < 30) continue;
      c.fillStyle = css(looks.ink, own || x.node === 0 ? 1 : 0.8);
      if (own) c.font = "600 " + FONT;
      const text = fitted(c, x.text, x.w - 8);
      if (text) c.fillText(text, x.x + 4, x.row * ROW + ROW / 2);
      c.font = FONT;
    }
    byId("flame-note").textContent = (this.folded ? plural(this.folded, "frame") + " of libraries folded" : "") +
      (this.small ? (this.folded ? ", " : "") + plural(this.small, "cell") + " too narrow to draw" : "") + (view.node > 0 ? " · click the top to see all again" : "");
  }

  // found says whether a search has found something at or below a node.
  found(node) {
    if (this.foundFor !== this.app.lit || this.foundIn !== this.tree) {
      this.foundFor = this.app.lit;
      this.foundIn = this.tree;
      this.marks = new Uint8Array(this.tree.bytes.length);
      const {recording, tree} = this;
      for (const b of recording.blocksAt(this.state)) {
        if (!this.app.lit(b)) continue;
        let n = recording.stack[b] ? recording.codes.path[recording.stack[b]] : tree.size + (recording.born[b] === 0 && recording.states > 1 ? 1 : 2);
        for (; n > 0 && !this.marks[n]; n = tree.parent(n)) this.marks[n] = 1;
      }
    }
    return this.marks[node] === 1;
  }

  // lay places the cells. A frame of a library that does nothing but call one other is folded into that.
  lay(width) {
    const {tree} = this, root = this.app.view.node;
    this.cells = [];
    this.folded = 0;
    this.small = 0;
    const todo = [{node: root, x: 0, w: width, row: 0}];
    while (todo.length) {
      const t = todo.pop();
      let {node} = t, hidden = 0;
      while (node !== root && !tree.isOwn(node) && tree.own[node] === 0 && tree.below(node).length === 1) {
        node = tree.below(node)[0];
        hidden++;
      }
      this.folded += hidden;
      const name = node === 0 ? "all" : tree.name(node);
      this.cells.push({node, x: t.x, w: t.w, row: t.row, hidden, text: name + "  " + bytes(tree.bytes[node])});
      let x = t.x;
      const unit = t.w / Math.max(1, tree.bytes[node]);
      const children = tree.below(node);
      for (let i = 0; i < children.length; i++) {
        const w = tree.bytes[children[i]] * unit;
        if (w < 0.6) {
          const rest = children.length - i, room = t.x + t.w - x;
          this.small += rest;
          if (room > 0.6) this.cells.push({node, x, w: room, row: t.row + 1, hidden: 0, small: rest, text: ""});
          break;
        }
        todo.push({node: children[i], x, w, row: t.row + 1});
        x += w;
      }
    }
  }

  at(p) {
    const row = Math.floor(p.y / ROW);
    return this.cells.find((x) => x.row === row && p.x >= x.x && p.x < x.x + x.w);
  }

  listen() {
    this.box.addEventListener("pointermove", (e) => {
      const x = this.at(inside(e, this.box));
      if (!x) {
        this.app.tip.hide();
        return;
      }
      const {tree} = this, total = tree.bytes[0];
      if (x.small) {
        this.app.tip.show(e, [plural(x.small, "smaller cell"), "below " + tree.name(x.node)]);
        return;
      }
      const lines = [tree.name(x.node), bytes(tree.bytes[x.node]) + " in " + plural(tree.blocks[x.node], "block") + ", " + share(tree.bytes[x.node], total)];
      if (tree.own[x.node] > 0 && tree.own[x.node] < tree.bytes[x.node]) lines.push(bytes(tree.own[x.node]) + " by itself");
      if (x.node > 0 && x.node <= tree.size) lines.push(tree.codes.fileOf(tree.codes.frameOf[x.node - 1]));
      if (x.hidden) lines.push(count(x.hidden) + " folded above it");
      this.app.tip.show(e, lines.filter((l) => l));
    });
    this.box.addEventListener("pointerleave", () => this.app.tip.hide());
    this.box.addEventListener("click", (e) => {
      const x = this.at(inside(e, this.box));
      if (x && !x.small) this.zoom(x.node);
    });
    this.box.addEventListener("keydown", (e) => {
      const {tree} = this, node = this.app.view.node;
      const siblings = () => tree.below(tree.parent(node)), at = () => siblings().indexOf(node);
      const to = {
        ArrowDown: () => tree.below(node)[0], ArrowUp: () => node > 0 ? tree.parent(node) : 0,
        ArrowRight: () => node > 0 ? siblings()[at() + 1] : undefined, ArrowLeft: () => node > 0 ? siblings()[at() - 1] : undefined, Home: () => 0,
      }[e.key];
      if (!to) return;
      e.preventDefault();
      e.stopPropagation();
      const next = to();
      if (next !== undefined) this.zoom(next);
    });
  }

  // zoom shows what is below a node; the one that is on top already goes back up.
  zoom(node) {
    const {view} = this.app;
    view.set({node: node === view.node && node > 0 ? 0 : node});
    const {tree} = this;
    this.box.setAttribute("aria-label", "Flame graph. " + tree.name(node) + ", " + bytes(tree.bytes[node]) + ". Arrow keys go through the calls.");
  }
}
