// What keeps memory from being given back at the chosen moment: segments with free memory in them, and the blocks that are
// still in use there.

import {byId, element, fill} from "./document.js";
import {bytes, count, plural} from "./format.js";
import {nameOf} from "./codes.js";
import {whenOf} from "./axis.js";

const PINNED = 8; // segments that are listed

export class Pins {
  constructor(app) {
    this.app = app;
  }

  take(recording) {
    this.recording = recording;
    byId("pins").hidden = !recording.meta.extents || !recording.meta.addresses;
  }

  // rows are the segments that keep most, the largest first.
  rows(layout) {
    const {recording} = this;
    const rows = [];
    for (const s of layout.segments) {
      const free = s.end - s.addr - s.used;
      if (s.used === 0 || free === 0) continue;
      let largest = layout.blocks[s.first];
      for (let i = s.first; i < s.last; i++) if (recording.bytesOf(layout.blocks[i]) > recording.bytesOf(largest)) largest = layout.blocks[i];
      rows.push({segment: s, free, blocks: s.last - s.first, largest});
    }
    return rows.sort((a, b) => b.free - a.free);
  }

  draw(layout) {
    const {recording} = this, {view} = this.app;
    const rows = this.rows(layout), shown = rows.slice(0, PINNED), rest = rows.length - shown.length;
    const pick = (r) => view.set({block: view.block === r.largest ? -1 : r.largest});
    const body = shown.map((r) => element("tr", {
      tabIndex: 0, className: r.largest === view.block ? "chosen" : "", title: "Select the largest block in it", onclick: () => pick(r),
      onkeydown: (e) => {
        if (e.key === "Enter") pick(r);
      },
    }, element("td", {}, bytes(r.free)), element("td", {}, bytes(r.segment.end - r.segment.addr)), element("td", {}, bytes(r.segment.used)),
    element("td", {className: "text"}, r.blocks === 1 ? "1 block of " : plural(r.blocks, "block") + ", the largest " + bytes(recording.bytesOf(r.largest)) + " of ",
      element("span", {className: "code"}, nameOf(recording, r.largest) || "no known line"), element("span", {className: "fine"}, ", since " + whenOf(recording, recording.born[r.largest])))));
    fill(byId("pins-table"), rows.length ? element("table", {},
      element("thead", {}, element("tr", {}, ...["free in it", "segment", "in use"].map((t) => element("th", {scope: "col"}, t)), element("th", {scope: "col", className: "text"}, "kept by"))),
      element("tbody", {}, ...body)) : element("p", {className: "fine"}, "Nothing: no segment is partly in use."),
    rest > 0 && element("p", {className: "fine"}, count(rest) + " more, with less free memory in them, are folded."));
  }
}
