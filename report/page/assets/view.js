// What is looked at, and how. A link to the page holds it behind the #.

const DEFAULTS = {
  device: "0", axis: "event", from: null, to: null, low: null, high: null, // null is as far as there is
  state: null, block: -1, colour: "", only: "", find: "", group: "place", node: 0,
};

export class View {
  constructor() {
    Object.assign(this, DEFAULTS);
    this.listeners = [];
    this.timer = 0;
  }

  // listen calls back with the names of what changed.
  listen(callback) {
    this.listeners.push(callback);
  }

  set(changes) {
    const names = Object.keys(changes).filter((k) => this[k] !== changes[k]);
    if (!names.length) return;
    for (const k of names) this[k] = changes[k];
    for (const callback of this.listeners) callback(new Set(names));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), 200);
  }

  // hash is the view as it stands in a link: what is not as it is at first. Events are counted as the command line does.
  hash() {
    const out = [];
    for (const [k, usual] of Object.entries(DEFAULTS)) {
      let value = this[k];
      if (value === usual || value === "" || value === null) continue;
      let name = k;
      if (k === "state") [name, value] = ["event", value - 1];
      else if (typeof value === "number" && !Number.isInteger(value)) value = Number(value.toPrecision(12));
      out.push(name + "=" + encodeURIComponent(value));
    }
    return out.join("&");
  }

  write() {
    clearTimeout(this.timer);
    const hash = this.hash();
    if (hash === location.hash.slice(1)) return;
    try {
      history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
    } catch {
      // Some frames do not let their page name itself; it works without.
    }
  }

  // read takes the view from a link. What makes no sense there is left as it is.
  read(hash) {
    const changes = {...DEFAULTS};
    for (const part of hash.replace(/^#/, "").split("&")) {
      const i = part.indexOf("=");
      if (i < 0) continue;
      const name = part.slice(0, i);
      let value;
      try {
        value = decodeURIComponent(part.slice(i + 1));
      } catch {
        continue;
      }
      const number = Number(value);
      switch (name) {
      case "from": case "to": case "low": case "high":
        if (value !== "" && Number.isFinite(number)) changes[name] = number;
        break;
      case "block": case "node":
        if (value !== "" && Number.isInteger(number)) changes[name] = number;
        break;
      case "event":
        if (value !== "" && Number.isInteger(number) && number >= -1) changes.state = number + 1;
        break;
      case "axis":
        if (value === "time" || value === "event") changes.axis = value;
        break;
      case "device": case "colour": case "only": case "find": case "group":
        changes[name] = value;
        break;
      }
    }
    for (const [a, b] of [["from", "to"], ["low", "high"]]) {
      if (changes[a] === null || changes[b] === null || changes[a] >= changes[b]) changes[a] = changes[b] = null;
    }
    this.set(changes);
  }
}
