// What there is to say of the selected block.

import {byId, element, fill} from "./document.js";
import {address, bytes, count, plural} from "./format.js";
import {lifeOf} from "./hover.js";
import {nameOf} from "./codes.js";
import {whenOf} from "./axis.js";

const LARGEST = 9;

export class Inspector {
  constructor(app) {
    this.app = app;
    this.box = byId("inspector");
  }

  take(recording) {
    this.recording = recording;
  }

  draw() {
    const {view} = this.app, {recording} = this;
    if (view.block < 0 || view.block >= recording.n) {
      this.drawLargest();
      return;
    }
    const b = view.block, {born, freed, gone, states} = recording;
    const facts = [];
    const fact = (name, ...text) => facts.push(element("dt", {}, name), element("dd", {}, ...text));
    const asked = recording.requested(b), size = recording.bytesOf(b);
    fact("size", bytes(size) + (size >= 1024 ? " (" + count(size) + " bytes)" : ""));
    if (!recording.meta.rounded && asked !== size) fact("asked for", bytes(asked) + ", " + bytes(size - asked) + " are rounding");
    if (recording.number[b] > 1) fact("blocks", count(recording.number[b]) + ", told as one");
    if (recording.role.length && recording.meta.roles.length) fact("for", recording.meta.roles[recording.role[b]] || "unknown");
    fact("phase", recording.meta.phases[recording.phase[b]] || "unknown");
    if (states > 1) {
      fact("born", whenOf(recording, born[b]));
      fact("freed", freed[b] === states ? "not in this recording" : freed[b] === 0 ? "before recording began" : whenOf(recording, freed[b]));
      if (recording.waited(b)) fact("reusable", gone[b] === states ? "not in this recording: it waits for a stream" : whenOf(recording, gone[b]) + ", after waiting for a stream");
      fact("life", lifeOf(recording, b));
    }
    if (recording.meta.streams.length > 1) fact("stream", recording.meta.streams[recording.stream[b]]);
    if (recording.meta.pools.length > 1) fact("pool", recording.meta.pools[recording.pool[b]]);
    if (recording.meta.addresses) fact("address", address(recording.address(b)));
    const {codes} = recording, stack = recording.stack[b];
    const frames = codes.frames(stack);
    const same = this.sameStack(stack);
    const button = (text, title, onclick) => element("button", {type: "button", title, onclick}, text);
    fill(this.box,
      element("h3", {}, nameOf(recording, b) || "A block of " + bytes(size)),
      element("dl", {}, ...facts),
      element("div", {className: "row"},
        states > 1 ? button("to its birth", "Choose the moment of its allocation", () => this.app.goTo(born[b])) : null,
        states > 1 && freed[b] < states && freed[b] > 0 ? button("to its free", "Choose the moment before it is freed", () => this.app.goTo(freed[b] - 1)) : null,
        states > 1 ? button("its life", "Zoom to its life (z)", () => this.app.timeline.zoomToBlock(b)) : null,
        button("×", "Forget it (Esc)", () => this.app.view.set({block: -1}))),
      stack ? element("p", {className: "fine"}, plural(same.blocks, "block") + " of this call stack, " + bytes(same.now) + " of them at the chosen moment") : null,
      frames.length ? element("ol", {className: "stack", reversed: true}, ...frames.map((f) => this.frame(f))) : element("p", {className: "fine"}, "No call stack was recorded for it."));
  }

  // drawLargest lists the largest blocks of the chosen moment, for want of a selected one.
  drawLargest() {
    const {recording} = this, {view} = this.app;
    const blocks = recording.blocksAt(view.state).slice().sort((a, b) => recording.bytesOf(b) - recording.bytesOf(a)).slice(0, LARGEST);
    fill(this.box, element("p", {className: "fine"}, "Click a band to see what it is and who allocated it. The wheel zooms, with Shift the height; drag to move; ", element("kbd", {}, "?"), " for the rest."),
      blocks.length ? element("h3", {}, "Largest at the chosen moment") : null,
      element("ol", {className: "largest"}, ...blocks.map((b) => element("li", {}, element("button", {type: "button", onclick: () => view.set({block: b})},
        element("b", {}, bytes(recording.bytesOf(b))), " ", nameOf(recording, b))))));
  }

  frame(f) {
    const {codes} = this.recording;
    const file = codes.fileOf(f), line = codes.frame.line[f];
    return element("li", {className: codes.frame.own[f] ? "own" : ""}, codes.functionOf(f),
      file ? element("span", {className: "where"}, file + (line > 0 ? ":" + line : "")) : null);
  }

  // sameStack counts the blocks that were allocated by the same calls.
  sameStack(stack) {
    const {recording} = this, {state} = this.app.view;
    let blocks = 0, now = 0;
    for (let b = 0; b < recording.n; b++) {
      if (recording.stack[b] !== stack) continue;
      blocks++;
      if (recording.born[b] <= state && state < recording.freed[b]) now += recording.bytesOf(b);
    }
    return {blocks, now};
  }
}
