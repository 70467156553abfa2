// The box beside the pointer.

import {byId, element, fill} from "./document.js";
import {bytes, count, span} from "./format.js";
import {nameOf} from "./codes.js";

export class Tip {
  constructor() {
    this.box = byId("tip");
  }

  // show puts lines beside the pointer. A line is a text, or a text that is less important.
  show(event, lines) {
    fill(this.box, ...lines.map((l, i) => element("div", {className: i > 0 ? "dim" : ""}, i === 0 ? element("b", {}, l) : l)));
    this.box.hidden = false;
    const {width, height} = this.box.getBoundingClientRect();
    const x = event.clientX + 16 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 16;
    const y = event.clientY + 18 + height > innerHeight ? event.clientY - 12 - height : event.clientY + 18;
    this.box.style.left = Math.max(4, x) + "px";
    this.box.style.top = Math.max(4, y) + "px";
  }

  hide() {
    this.box.hidden = true;
  }
}

// lifeOf says how long a block lived.
export function lifeOf(recording, b) {
  const {born, freed, states} = recording;
  if (states === 1) return "";
  const old = born[b] === 0, kept = freed[b] === states;
  if (old && kept) return "there all along";
  if (old) return "there before recording began";
  if (kept) return "never freed in this recording";
  const events = freed[b] - born[b];
  const text = events === 1 ? "lived 1 event" : "lived " + count(events) + " events";
  return recording.hasTimes() ? text + ", " + span(recording.time(freed[b]) - recording.time(born[b])) : text;
}

// titleOf is what to write on a block.
export function titleOf(recording, b) {
  const name = nameOf(recording, b);
  return name ? name + "  " + bytes(recording.bytesOf(b)) : bytes(recording.bytesOf(b));
}

// linesOf are what to say of a block beside the pointer.
export function linesOf(recording, b) {
  const role = recording.meta.roles[recording.role[b]];
  const several = recording.number[b] > 1 ? ", " + count(recording.number[b]) + " blocks" : "";
  return [
    bytes(recording.bytesOf(b)) + several + (role && role !== "unknown" ? " · " + role : ""),
    nameOf(recording, b),
    lifeOf(recording, b),
  ].filter((l) => l);
}
