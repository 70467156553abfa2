// Who held the memory at the chosen moment: a table by the line of code, or seen from another side.

import {byId, element, fill} from "./document.js";
import {bytes, count, plural, share} from "./format.js";
import {BEFORE, WITHOUT, nameOf} from "./codes.js";
import {several} from "./colours.js";

const SHOWN = 25; // rows, until somebody asks for all

// the sides from which to look; of each, what a block belongs to
const SIDES = {
  place: {name: "line that allocated", of: (r, b) => nameOf(r, b) || WITHOUT, find: true},
  role: {name: "what it is for", of: (r, b) => r.meta.roles[r.role[b]] || "unknown", only: "role"},
  module: {name: "module", of: (r, b) => r.codes.texts[r.codes.module[r.stack[b]]] || (r.stack[b] ? "no module" : bare(r, b)), find: true},
  file: {name: "file", of: (r, b) => r.stack[b] ? r.codes.texts[r.codes.file[r.stack[b]]] : bare(r, b), find: true},
  phase: {name: "phase", of: (r, b) => r.meta.phases[r.phase[b]] || "unknown", only: "phase"},
  step: {name: "step of its allocation", of: (r, b) => {
    const i = r.step(r.born[b]);
    return i >= 0 ? "step " + r.steps.labels[i] : r.born[b] === 0 ? BEFORE : "outside of steps";
  }},
  stream: {name: "stream", of: (r, b) => "stream " + r.meta.streams[r.stream[b]], only: "stream"},
  pool: {name: "pool", of: (r, b) => r.meta.pools[r.pool[b]] || "default", only: "pool"},
};

function bare(recording, b) {
  return recording.born[b] === 0 && recording.states > 1 ? BEFORE : WITHOUT;
}

// sidesOf are those from which a recording looks like anything.
function sidesOf(recording) {
  const {codes, meta} = recording;
  return Object.keys(SIDES).filter((side) => {
    switch (side) {
    case "role": return several(recording.role);
    case "phase": return several(recording.phase);
    case "module": return codes.module.some((m) => codes.texts[m]);
    case "step": return recording.steps.from.length > 0;
    case "stream": return meta.streams.length > 1;
    case "pool": return meta.pools.length > 1;
    }
    return true;
  });
}

export class Holders {
  constructor(app) {
    this.app = app;
    this.all = false;
    byId("group").addEventListener("change", (e) => app.view.set({group: e.target.value}));
  }

  take(recording) {
    this.recording = recording;
    this.sides = sidesOf(recording);
    fill(byId("group"), ...this.sides.map((s) => element("option", {value: s}, SIDES[s].name)));
  }

  // rows adds up what is allocated in a state, the largest first.
  rows(state, side) {
    const {recording} = this, {of} = SIDES[side];
    const index = new Map();
    for (const b of recording.blocksAt(state)) {
      const name = of(recording, b);
      let row = index.get(name);
      if (!row) index.set(name, row = {name, bytes: 0, blocks: 0, lit: false, first: b});
      row.bytes += recording.bytesOf(b);
      row.blocks += recording.number[b] || 1;
      row.lit ||= this.app.lit !== null && this.app.lit(b);
    }
    return [...index.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
  }

  draw() {
    const {view} = this.app;
    const side = this.sides.includes(view.group) ? view.group : "place";
    byId("group").value = side;
    const rows = this.rows(view.state, side);
    const total = rows.reduce((a, r) => a + r.bytes, 0);
    const shown = this.all ? rows : rows.slice(0, SHOWN);
    const rest = rows.slice(shown.length);
    const body = shown.map((r) => element("tr", {
      tabIndex: 0, className: r.lit ? "chosen" : "", title: "Show these blocks", onclick: () => this.pick(side, r),
      onkeydown: (e) => {
        if (e.key === "Enter") this.pick(side, r);
      },
    }, element("td", {}, bytes(r.bytes)), element("td", {}, share(r.bytes, total)), element("td", {}, count(r.blocks)), element("td", {className: "text code"}, r.name)));
    if (rest.length) {
      body.push(element("tr", {}, element("td", {}, bytes(rest.reduce((a, r) => a + r.bytes, 0))), element("td", {}), element("td", {}, count(rest.reduce((a, r) => a + r.blocks, 0))),
        element("td", {className: "text"}, plural(rest.length, "more row") + " folded ", element("button", {type: "button", onclick: () => {
          this.all = true;
          this.draw();
        }}, "show all"))));
    }
    fill(byId("holders"), element("table", {},
      element("thead", {}, element("tr", {}, ...["bytes", "share", "blocks"].map((t) => element("th", {scope: "col"}, t)), element("th", {scope: "col", className: "text"}, SIDES[side].name))),
      element("tbody", {}, ...body)));
  }

  // pick shows the blocks of a row in all pictures.
  pick(side, row) {
    const {recording} = this, {view} = this.app, s = SIDES[side];
    if (s.only) {
      const key = s.only + ":" + recording[s.only][row.first];
      view.set({only: view.only === key ? "" : key, find: ""});
    } else if (s.find && recording.stack[row.first]) view.set({find: view.find === row.name ? "" : row.name, only: ""});
    else view.set({block: row.first});
  }
}
