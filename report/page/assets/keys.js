// Keys, and the help that lists them.

import {byId, element, fill} from "./document.js";

const KEYS = [
  [["←", "→"], "move along the timeline"],
  [["+", "−"], "zoom in and out"],
  [["Shift ↑", "Shift ↓"], "zoom the height"],
  [["f"], "show everything"],
  [["y"], "fit the height to what is in view"],
  [[",", "."], "the event before, the next event"],
  [["[", "]"], "the step before, the next step"],
  [["p", "r"], "to the peak of allocated, of reserved"],
  [["o", "e"], "to the next out-of-memory, to the end"],
  [["j", "k"], "the block below, above, at the chosen moment"],
  [["z"], "zoom to the life of the selected block"],
  [["c"], "another colouring"],
  [["x"], "events or time along the axis"],
  [["d"], "the next device"],
  [["t"], "light or dark"],
  [["/"], "find a function or file"],
  [["Esc"], "forget selection and search"],
  [["?"], "this help"],
];

const READING = [
  "Each band is a block of memory, from its allocation to its free; older blocks lie below younger ones, and together they are what is allocated. The line above is what the allocator holds from the driver; between the two, hatched, is what it holds and nobody uses.",
  "A click takes the band, and the moment: the address map, the flame graph and the table below show that moment. The wheel zooms, with Shift the height; dragging moves, dragging with Shift zooms to what is dragged over; a double click zooms to the life of a block.",
  "In the address map a pixel is many bytes. It has the colour of the block that takes most of them, the paler the less of it is in use. Striped is free memory in a segment that something in use keeps, plain are whole free segments.",
  "The address of this page keeps the view: copy it to show somebody what you see.",
];

export class Keys {
  constructor(app) {
    this.app = app;
    this.dialog = byId("keys");
    const half = Math.ceil(KEYS.length / 2);
    const list = (some) => element("dl", {}, ...some.flatMap(([keys, what]) => [
      element("dt", {}, ...keys.flatMap((k, i) => [i ? " " : "", element("kbd", {}, k)])), element("dd", {}, what)]));
    fill(this.dialog, element("h2", {}, "Keys"), element("div", {className: "columns"}, list(KEYS.slice(0, half)), list(KEYS.slice(half))),
      element("h2", {}, "How to read this page"), ...READING.map((t) => element("p", {}, t)),
      element("p", {}, element("button", {type: "button", onclick: () => this.dialog.close()}, "Close")));
    byId("help").addEventListener("click", () => this.dialog.showModal());
    this.dialog.addEventListener("click", (e) => {
      if (e.target === this.dialog) this.dialog.close();
    });
    addEventListener("keydown", (e) => this.press(e));
  }

  press(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.dialog.open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range") return;
    if (e.target.type === "range" && e.key.startsWith("Arrow")) return;
    const {app} = this, {timeline, view} = app;
    const blocks = app.recording !== null;
    const does = {
      "?": () => this.dialog.showModal(),
      "t": () => app.switchTheme(),
      "d": () => app.nextDevice(),
      "/": () => byId("search").focus(),
      "Escape": () => view.set({block: -1, find: "", only: "", node: 0}),
    };
    if (blocks) {
      Object.assign(does, {
        "ArrowLeft": () => timeline.move(-0.2),
        "ArrowRight": () => timeline.move(0.2),
        "ArrowUp": e.shiftKey ? () => timeline.zoomHeight(0.7) : null,
        "ArrowDown": e.shiftKey ? () => timeline.zoomHeight(1 / 0.7) : null,
        "+": () => timeline.zoom(0.6),
        "=": () => timeline.zoom(0.6),
        "-": () => timeline.zoom(1 / 0.6),
        "f": () => view.set({from: null, to: null, low: null, high: null}),
        "y": () => timeline.fitHeight(),
        ",": () => app.goTo(view.state - 1),
        ".": () => app.goTo(view.state + 1),
        "[": () => app.goToStep(-1),
        "]": () => app.goToStep(1),
        "p": () => app.goToMoment("allocated"),
        "r": () => app.goToMoment("reserved"),
        "o": () => app.goToMoment("oom"),
        "e": () => app.goToMoment("end"),
        "j": () => app.neighbour(-1),
        "k": () => app.neighbour(1),
        "z": () => view.block >= 0 && timeline.zoomToBlock(view.block),
        "c": () => app.nextColour(),
        "x": () => app.setAxis(view.axis === "time" ? "event" : "time"),
      });
    }
    const act = does[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  }
}
