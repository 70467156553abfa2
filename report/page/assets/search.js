// Finding a function: its blocks stay bright in all pictures, and others fade.

import {byId} from "./document.js";
import {bytes, plural} from "./format.js";

export class Search {
  constructor(app) {
    this.app = app;
    this.input = byId("search");
    this.input.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => app.view.set({find: this.input.value.trim(), only: ""}), 120);
    });
    this.input.addEventListener("keydown", (e) => {
      if (e.key === "Escape") {
        this.input.value = "";
        app.view.set({find: ""});
        this.input.blur();
      }
    });
    this.input.form.addEventListener("submit", (e) => e.preventDefault());
  }

  // litBy is what says of a block whether it is looked for; null if nothing is.
  litBy(recording) {
    const {find, only} = this.app.view;
    if (find) {
      const {stacks, frames} = recording.codes.matches(find);
      this.frames = frames;
      return (b) => stacks[recording.stack[b]] === 1;
    }
    const [key, value] = only.split(":");
    if (only && key === "class") {
      const {classes} = this.app.colours;
      return (b) => classes[b] === Number(value);
    }
    const of = {role: recording.role, phase: recording.phase, stream: recording.stream, pool: recording.pool}[key];
    return of ? (b) => of[b] === Number(value) : null;
  }

  // tell says how much was found.
  tell() {
    const {view, lit, recording} = this.app, out = byId("found");
    if (document.activeElement !== this.input) this.input.value = view.find;
    if (!lit || !recording) {
      out.textContent = "";
      return;
    }
    let blocks = 0, now = 0;
    for (let b = 0; b < recording.n; b++) {
      if (!lit(b)) continue;
      blocks++;
      if (recording.born[b] <= view.state && view.state < recording.freed[b]) now += recording.bytesOf(b);
    }
    out.textContent = blocks === 0 ? "nothing found" : plural(blocks, "block") + ", " + bytes(now) + " now";
  }
}
