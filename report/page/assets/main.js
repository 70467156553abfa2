// The page: takes what it carries apart, and joins the parts.

import {AddressMap} from "./addressmap.js";
import {Axis, whenOf} from "./axis.js";
import {Codes} from "./codes.js";
import {Colours, WAYS, css, isDark, plain, waysOf} from "./colours.js";
import {Columns} from "./unpack.js";
import {Flame} from "./flame.js";
import {Holders} from "./holders.js";
import {Inspector} from "./inspector.js";
import {Keys} from "./keys.js";
import {Overview} from "./overview.js";
import {Pins} from "./pins.js";
import {LATER, Recording} from "./recording.js";
import {Samples} from "./samples.js";
import {Search} from "./search.js";
import {Timeline} from "./timeline.js";
import {Tip} from "./hover.js";
import {Uses} from "./uses.js";
import {View} from "./view.js";
import {Painter, byId, element, fill} from "./document.js";
import {bytes, count, plural} from "./format.js";

const FAILURES = 3; // that have a button of their own

class App {
  constructor(meta, columns) {
    this.meta = meta;
    this.columns = columns;
    this.view = new View();
    this.recording = null;
    this.recordings = new Map();
    this.lit = null;
    this.tip = new Tip();
    this.timeline = new Timeline(this);
    this.overview = new Overview(this);
    this.map = new AddressMap(this);
    this.flame = new Flame(this);
    this.uses = new Uses(this);
    this.samples = new Samples(this);
    this.holders = new Holders(this);
    this.pins = new Pins(this);
    this.inspector = new Inspector(this);
    this.search = new Search(this);
    this.keys = new Keys(this);
    this.words = new Painter(() => this.drawWords());
    this.parts = [this.timeline, this.overview, this.map, this.flame, this.uses, this.holders, this.pins, this.inspector];
    this.ready = false;
    this.format = {bytes, count, plural}; // for whoever asks the page something
  }

  async start() {
    this.view.read(location.hash);
    this.wire();
    this.view.listen((names) => this.changed(names));
    await this.takeDevice();
    addEventListener("hashchange", () => this.view.read(location.hash));
    addEventListener("resize", () => this.drawAll());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  device() {
    return this.meta.devices.find((d) => d.key === this.view.device) || this.meta.devices[0];
  }

  // takeDevice shows the device of the view: first its bands, and once the rest of its columns is there, everything.
  async takeDevice() {
    const meta = this.device(), prefix = meta.key + "/";
    await this.columns.load((name) => !/^\d/.test(name) || name.startsWith(prefix) && !LATER.test(name));
    if (meta !== this.device()) return; // somebody was faster
    this.codes ||= new Codes(this.columns);
    if (this.view.axis === "event") { // for which the first columns are enough
      this.show(meta);
      if (!this.recording || this.recording.complete) return;
      this.timeline.painter.now();
      performance.mark("bands");
      await new Promise((done) => setTimeout(done)); // lets the browser show them
    }
    await this.columns.load((name) => name.startsWith(prefix));
    if (meta === this.device()) this.show(meta, true);
  }

  // show shows a device, as far as it is unpacked.
  show(meta, whole = false) {
    for (const e of document.querySelectorAll("[data-of]")) e.hidden = e.dataset.of !== meta.key;
    for (const e of document.querySelectorAll("[data-device]")) e.setAttribute("aria-pressed", e.dataset.device === meta.key);
    this.samples.take(meta, this.columns);
    const blocks = meta.blocks > 0 || meta.states > 1;
    byId("drawn").hidden = !blocks && !this.samples.series;
    byId("timeline").classList.toggle("alone", !blocks);
    for (const e of document.querySelectorAll(".for-blocks, #overview-plot, #inspector, #axis-event, #axis-time, #zoom-in, #zoom-out, #zoom-fit, #zoom-height")) e.hidden = !blocks;
    if (!blocks) {
      this.recording = null;
      byId("fragmentation").hidden = true;
      this.samples.painter.ask();
      return;
    }
    if (!this.recordings.has(meta.key)) this.recordings.set(meta.key, new Recording(meta, this.columns, this.codes));
    const r = this.recording = this.recordings.get(meta.key);
    if (whole && !r.complete) r.finish(this.columns);
    this.most = Math.max(r.allocated[r.peak(0, r.states)], r.reservedBytes.reduce((a, b) => Math.max(a, b), 0), 1);
    this.ceiling = this.most * 1.04;
    this.axis = new Axis(r, this.view.axis);
    this.ways = waysOf(r);
    this.mend();
    fill(byId("colour"), ...this.ways.map((w) => element("option", {value: w}, WAYS[w].name)));
    byId("timeline").hidden = r.states === 1;
    byId("axis-time").hidden = byId("axis-event").hidden = !r.hasTimes();
    byId("step-back").hidden = byId("step-on").hidden = r.steps.from.length === 0;
    byId("slider").hidden = byId("event-back").hidden = byId("event-on").hidden = r.states === 1;
    for (const p of this.parts) if (p.recording !== r || p === this.map) p.take(r);
    this.showMoments();
    this.recolour();
  }

  // mend replaces what the view cannot be of this recording, as a link may have it.
  mend() {
    const r = this.recording, v = this.view, {moments} = r.meta;
    const first = ["asked", "oom", "allocated"].map((kind) => moments.find((m) => m.kind === kind)).find((m) => m);
    if (v.state === null) v.state = first ? first.state : 0;
    v.state = Math.max(0, Math.min(r.states - 1, v.state));
    if (v.block < 0 || v.block >= r.n) v.block = -1;
    if (!this.ways.includes(v.colour)) v.colour = this.ways[0] || "size";
    if (v.low !== null && (v.low < 0 || v.low >= this.ceiling)) v.low = v.high = null;
  }

  // recolour chooses the colours anew, and draws everything.
  recolour() {
    if (!this.recording) {
      this.samples.painter.ask();
      return;
    }
    if (!this.colours || this.colours.recording !== this.recording || this.colours.way !== this.view.colour) {
      this.colours = new Colours(this.recording, this.view.colour);
    }
    this.lit = this.search.litBy(this.recording);
    this.colours.shade(this.lit);
    this.drawAll();
  }

  looks() {
    return plain();
  }

  drawAll() {
    if (!this.recording) {
      this.samples.painter.ask();
      return;
    }
    for (const p of this.recording.complete ? this.painters() : [this.timeline.painter, this.overview.painter]) p.ask();
    if (!this.recording.complete) this.showNow();
  }

  painters() {
    return [this.timeline.painter, this.timeline.overPainter, this.overview.painter, this.map.painter, this.flame.painter, this.uses.painter, this.words];
  }

  // drawWords brings what is in words up to the view.
  drawWords() {
    if (!this.recording?.complete) return;
    this.showNow();
    this.showLegend();
    this.showControls();
    this.holders.draw();
    this.inspector.draw();
    this.search.tell();
  }

  // settled says whether everything is drawn as it should be.
  settled() {
    return this.ready && (!this.recording || this.recording.complete && this.painters().every((p) => !p.asked) && !this.timeline.raster.rough);
  }

  // changed draws what a change of the view concerns.
  changed(names) {
    const any = (...list) => list.some((n) => names.has(n));
    if (names.has("device")) {
      Object.assign(this.view, {from: null, to: null, low: null, high: null, block: -1, node: 0, only: "", ...(names.has("state") ? {} : {state: null})});
      this.takeDevice();
      return;
    }
    if (!this.recording?.complete) return;
    this.mend();
    if (names.has("axis")) {
      // The same moments stay in view.
      const old = this.axis, v = this.view;
      this.axis = new Axis(this.recording, v.axis);
      if (v.from !== null && !any("from")) {
        const [a, b] = [old.stateAt(v.from), old.stateAt(v.to)].map((s) => this.axis.position(s));
        [v.from, v.to] = this.axis.clamp(a, b);
      }
    }
    if (any("colour", "find", "only")) {
      this.recolour();
      return;
    }
    if (any("axis", "from", "to", "low", "high")) {
      this.timeline.painter.ask();
      this.overview.painter.ask();
      this.uses.painter.ask();
    }
    if (any("state", "block")) {
      this.timeline.overPainter.ask();
      this.map.painter.ask();
    }
    if (names.has("state")) {
      this.view.node = 0;
      this.flame.painter.ask();
      this.overview.painter.ask();
      this.uses.painter.ask();
    }
    if (names.has("node")) this.flame.painter.ask();
    if (any("state", "block", "group", "axis")) this.words.ask();
  }

  // showMoments makes the buttons for the moments that matter.
  showMoments() {
    const r = this.recording;
    const failures = r.meta.moments.filter((m) => m.kind === "oom");
    this.moments = r.meta.moments.filter((m) => m.kind !== "oom" || failures.indexOf(m) < FAILURES);
    fill(byId("moments"), ...this.moments.map((m) => element("button", {type: "button", className: m.kind, onclick: () => this.goTo(m.state)},
      element("span", {className: "what"}, m.text),
      element("span", {className: "amount"}, m.kind === "oom" ? (m.requested_bytes === null ? "" : bytes(m.requested_bytes) + " asked for") : bytes(m.kind === "reserved" ? m.reserved_bytes : m.allocated_bytes)),
      element("span", {className: "when"}, "  " + (r.hasTimes() && m.state > 0 ? whenOf(r, m.state).split(" · ")[0] : m.state > 0 ? "event " + count(m.state - 1) : "before recording")))),
      failures.length > FAILURES && element("span", {className: "fine"}, plural(failures.length - FAILURES, "more failure") + ": ", element("kbd", {}, "o")));
  }

  // showNow says what there is at the chosen moment.
  showNow() {
    const r = this.recording, {state} = this.view;
    const held = r.reservedBytes.length > 0;
    const waiting = r.pending ? r.pending[state] : 0;
    fill(byId("now"), element("b", {}, bytes(r.allocated[state]) + " allocated"), held ? ", " + bytes(r.reserved(state)) + " reserved" : "",
      waiting > 0 ? ", " + bytes(waiting) + " waiting for streams" : "", " · " + whenOf(r, state));
    const slider = byId("slider");
    if (document.activeElement !== slider || !this.sliding) slider.value = 1000 * this.axis.position(state) / this.axis.length;
    slider.setAttribute("aria-valuetext", whenOf(r, state));
    this.moments.forEach((m, i) => byId("moments").children[i].setAttribute("aria-pressed", m.state === state));
  }

  // showLegend lists the classes of the colouring, with what they have at the chosen moment.
  showLegend() {
    const r = this.recording, {colours, view} = this;
    const sums = new Float64Array(colours.names.length);
    for (const b of r.blocksAt(view.state)) sums[colours.classes[b]] += r.bytesOf(b);
    const order = colours.names.map((_, k) => k).filter((k) => colours.used[k]);
    if (view.colour === "place") order.sort((a, b) => sums[b] - sums[a]);
    const shown = order.slice(0, 12);
    fill(byId("legend"), ...shown.map((k) => {
      const key = "class:" + k;
      return element("button", {type: "button", "aria-pressed": String(view.only === key), title: "Only these", onclick: () => view.set({only: view.only === key ? "" : key, find: ""})},
        swatch(colours.classColour(k)), colours.names[k], element("span", {className: "amount"}, bytes(sums[k])));
    }), order.length > shown.length ? element("span", {}, count(order.length - shown.length) + " more folded") : null,
    r.reservedBytes.length ? element("span", {}, swatch(colours.plain.hatch, "hatch", colours.plain.held), "reserved, not in use") : null,
    r.pending ? element("span", {}, swatch(colours.plain.wait, "dots", colours.plain.ink), "waiting for a stream") : null);
  }

  showControls() {
    byId("colour").value = this.view.colour;
    byId("axis-event").setAttribute("aria-pressed", this.axis.kind === "event");
    byId("axis-time").setAttribute("aria-pressed", this.axis.kind === "time");
  }

  // goTo chooses a moment.
  goTo(state) {
    const s = Math.max(0, Math.min(this.recording.states - 1, state));
    this.view.set({state: s});
    this.timeline.reveal(s);
  }

  // goToMoment goes to the next moment of a kind.
  goToMoment(kind) {
    const list = this.recording.meta.moments.filter((m) => m.kind === kind);
    const next = list.find((m) => m.state > this.view.state) || list[0];
    if (next) this.goTo(next.state);
  }

  goToStep(by) {
    const {steps} = this.recording, {state} = this.view;
    const starts = [...steps.from];
    const next = by > 0 ? starts.find((s) => s > state) : starts.reverse().find((s) => s < state);
    if (next !== undefined) this.goTo(next);
  }

  // neighbour selects the block above or below the selected one.
  neighbour(by) {
    const list = this.recording.blocksAt(this.view.state);
    if (!list.length) return;
    const i = list.indexOf(this.view.block);
    this.view.set({block: i < 0 ? list[by > 0 ? 0 : list.length - 1] : list[Math.max(0, Math.min(list.length - 1, i + by))]});
  }

  nextColour() {
    this.view.set({colour: this.ways[(this.ways.indexOf(this.view.colour) + 1) % this.ways.length]});
  }

  nextDevice() {
    const {devices} = this.meta, i = devices.indexOf(this.device());
    this.view.set({device: devices[(i + 1) % devices.length].key});
  }

  setAxis(axis) {
    if (this.recording.hasTimes()) this.view.set({axis});
  }

  switchTheme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    this.recolour();
  }

  // print draws everything dark on white, and at once.
  print(begins) {
    if (begins) {
      this.theme = document.documentElement.dataset.theme;
      document.documentElement.dataset.theme = "light";
    } else if (this.theme) document.documentElement.dataset.theme = this.theme;
    else delete document.documentElement.dataset.theme;
    this.recolour();
    if (!begins || !this.recording) return;
    for (const p of this.painters()) p.now();
  }

  wire() {
    const on = (id, act) => byId(id).addEventListener("click", act);
    on("theme", () => this.switchTheme());
    on("axis-event", () => this.setAxis("event"));
    on("axis-time", () => this.setAxis("time"));
    on("zoom-in", () => this.timeline.zoom(0.6));
    on("zoom-out", () => this.timeline.zoom(1 / 0.6));
    on("zoom-fit", () => this.view.set({from: null, to: null, low: null, high: null}));
    on("zoom-height", () => this.timeline.fitHeight());
    on("event-back", () => this.goTo(this.view.state - 1));
    on("event-on", () => this.goTo(this.view.state + 1));
    on("step-back", () => this.goToStep(-1));
    on("step-on", () => this.goToStep(1));
    byId("colour").addEventListener("change", (e) => this.view.set({colour: e.target.value}));
    byId("slider").addEventListener("input", (e) => {
      this.sliding = true;
      this.goTo(this.axis.stateAt(e.target.value / 1000 * this.axis.length));
      this.sliding = false;
    });
    for (const e of document.querySelectorAll("[data-device]")) e.addEventListener("click", () => this.view.set({device: e.dataset.device}));
  }
}

// swatch is a small sample of a colour.
function swatch(rgb, pattern, second) {
  const canvas = element("canvas", {width: 28, height: 24, "aria-hidden": "true"}), c = canvas.getContext("2d");
  c.scale(2, 2);
  c.fillStyle = css(pattern === "hatch" ? second : rgb);
  c.fillRect(0, 0, 14, 12);
  if (pattern === "hatch") {
    c.strokeStyle = css(rgb);
    c.beginPath();
    for (const x of [-8, 0, 8]) {
      c.moveTo(x, 12);
      c.lineTo(x + 12, 0);
    }
    c.stroke();
  } else if (pattern === "dots") {
    c.fillStyle = css(second);
    for (let x = 1; x < 14; x += 4) for (let y = 1; y < 12; y += 4) c.fillRect(x, y, 1, 1);
  }
  return canvas;
}

async function begin() {
  const trouble = (text) => {
    byId("trouble").hidden = false;
    byId("trouble").textContent = text;
  };
  if (typeof DecompressionStream === "undefined") {
    trouble("This browser is too old to draw the pictures of this page: it needs one from 2023 or later. What is said in words is complete.");
    return;
  }
  const app = new App(JSON.parse(byId("meta").textContent), new Columns(document.querySelectorAll("script[data-columns]")));
  window.vramscope = app; // for whoever wants to ask the page something, such as its tests
  try {
    if (app.meta.devices.length) await app.start();
  } catch (e) {
    trouble("The pictures of this page could not be drawn (" + e.message + "). What is said in words is complete.");
    throw e;
  }
  requestAnimationFrame(() => requestAnimationFrame(() => {
    app.ready = true;
    document.documentElement.dataset.ready = "true";
    performance.mark("drawn");
  }));
}

begin();
