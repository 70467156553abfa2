// Colours. Eight that people with any kind of colour vision can tell apart (Okabe and Ito), in three lightnesses; bands
// have edges and names as well, so that no colour has to be told from another to read a picture.

const HUES = {
  blue: [0, 114, 178], sky: [86, 180, 233], green: [0, 158, 115], orange: [230, 159, 0], vermilion: [213, 94, 0],
  purple: [204, 121, 167], yellow: [240, 228, 66], grey: [153, 153, 153],
};
const IN_TURN = ["sky", "orange", "green", "vermilion", "blue", "purple", "yellow"];
const BY_ROLE = ["grey", "blue", "vermilion", "green", "sky", "orange", "purple"]; // unknown, parameter, gradient, …
const BY_PHASE = ["grey", "grey", "blue", "sky", "vermilion", "green"];
// Light to dark, told apart by lightness alone.
const BY_AMOUNT = [[253, 231, 37], [159, 218, 58], [74, 193, 109], [31, 161, 135], [39, 127, 142], [54, 92, 141], [70, 51, 127], [68, 1, 84]];

export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const word = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0; // as a picture has its pixels
const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));
export const css = ([r, g, b], alpha = 1) => alpha === 1 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${alpha})`;

// luminance is how bright a colour looks, from 0 to 1.
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const GROUND = {light: [252, 252, 250], dark: [20, 23, 26]};

// the colours of what is not a block
export function plain() {
  const dark = isDark();
  const ground = dark ? GROUND.dark : GROUND.light;
  const ink = dark ? [230, 232, 234] : [28, 32, 36];
  return {
    dark, ground, ink, soft: mix(ink, ground, 0.42), line: mix(ink, ground, 0.88), held: mix(ink, ground, 0.93), hatch: mix(ink, ground, 0.72),
    wait: mix([240, 228, 66], ground, 0.45), reserved: ink, mark: dark ? [255, 255, 255] : [0, 0, 0], warn: dark ? [255, 171, 112] : [163, 60, 0],
  };
}

// the ways to colour blocks; of each, what its classes are called and which one a block belongs to
export const WAYS = {
  role: {name: "what it is for", of: (r) => r.role, names: (r) => r.meta.roles, hue: (i) => BY_ROLE[i] || IN_TURN[i % IN_TURN.length]},
  place: {name: "line of code"},
  stream: {name: "stream", of: (r) => r.stream, names: (r) => r.meta.streams.map((s) => "stream " + s), hue: (i) => IN_TURN[i % IN_TURN.length]},
  pool: {name: "pool", of: (r) => r.pool, names: (r) => r.meta.pools.map((p) => (/pool/i.test(p) ? p : p + " pool")), hue: (i) => i === 0 ? "grey" : IN_TURN[(i - 1) % IN_TURN.length]},
  size: {name: "size"},
  phase: {name: "phase", of: (r) => r.phase, names: (r) => r.meta.phases, hue: (i) => BY_PHASE[i] || "grey"},
  age: {name: "how long it lived"},
};

// several says whether a list has different numbers, or such as come to different ones in another list.
export function several(list, as) {
  for (let i = 1; i < list.length; i++) if (list[i] !== list[0] && (!as || as[list[i]] !== as[list[0]])) return true;
  return false;
}

// waysOf are those that tell blocks of a recording apart.
export function waysOf(recording) {
  return Object.keys(WAYS).filter((way) => {
    const {of} = WAYS[way];
    if (way === "place") return several(recording.stack, recording.codes.place);
    if (way === "age") return recording.states > 2;
    return !of || several(of(recording));
  });
}

const SIZES = [["under 1 MiB", 2 ** 20], ["1–10 MiB", 10 * 2 ** 20], ["10–50 MiB", 50 * 2 ** 20], ["50–200 MiB", 200 * 2 ** 20], ["200 MiB–1 GiB", 2 ** 30], ["over 1 GiB", Infinity]];
const SHARES = [["under 0.1 % of the recording", 0.001], ["up to 1 %", 0.01], ["up to 5 %", 0.05], ["up to 25 %", 0.25], ["up to all of it", 2], ["never freed in it", Infinity]];

// Colours gives each block a shade, which is a class of the legend in one of three lightnesses, and each shade its looks.
export class Colours {
  constructor(recording, way) {
    this.recording = recording;
    this.way = way;
    const n = recording.n;
    this.classes = new Uint16Array(n);
    this.names = [];
    this.bases = [];
    this.keys = [];
    if (way === "place") this.byPlace();
    else if (way === "size") this.byAmount(SIZES, (b) => recording.bytesOf(b));
    else if (way === "age") this.byAmount(SHARES, (b) => recording.freed[b] === recording.states ? 1e9 : (recording.freed[b] - recording.born[b]) / recording.states);
    else {
      const {of, names, hue} = WAYS[way];
      const from = of(recording), list = names(recording);
      for (let b = 0; b < n; b++) this.classes[b] = from[b];
      list.forEach((name, i) => this.addClass(name, HUES[hue(i)]));
      if (!list.length) this.addClass("all", HUES.sky);
    }
    this.used = new Uint8Array(this.names.length);
    for (let b = 0; b < n; b++) this.used[this.classes[b]] = 1;
  }

  addClass(name, base) {
    this.keys.push(this.names.length);
    this.names.push(name);
    this.bases.push(base);
  }

  // byPlace gives the places that hold most at the peak a colour each.
  byPlace() {
    const {recording} = this, {codes} = recording;
    const held = new Map();
    for (const b of recording.blocksAt(recording.peak(0, recording.states))) {
      const p = codes.place[recording.stack[b]];
      held.set(p, (held.get(p) || 0) + recording.bytesOf(b));
    }
    const order = [...held.keys()].sort((p, q) => held.get(q) - held.get(p)).slice(0, 3 * IN_TURN.length);
    const classOf = new Uint16Array(codes.texts.length).fill(order.length);
    order.forEach((p, i) => {
      classOf[p] = i;
      const base = HUES[IN_TURN[i % IN_TURN.length]], turn = Math.floor(i / IN_TURN.length);
      this.addClass(codes.texts[p] || "without a call stack", turn === 0 ? base : turn === 1 ? mix(base, [0, 0, 0], 0.35) : mix(base, [255, 255, 255], 0.45));
    });
    this.addClass("other places", HUES.grey);
    for (let b = 0; b < recording.n; b++) this.classes[b] = classOf[codes.place[recording.stack[b]]];
  }

  byAmount(ranges, of) {
    for (let b = 0; b < this.recording.n; b++) {
      const v = of(b);
      let k = 0;
      while (v >= ranges[k][1] && k < ranges.length - 1) k++;
      this.classes[b] = k;
    }
    ranges.forEach(([name], k) => this.addClass(name, BY_AMOUNT[Math.round(k * (BY_AMOUNT.length - 1) / (ranges.length - 1))]));
  }

  // shade fills in the looks. lit says of a block whether it is looked for; null looks for none.
  shade(lit) {
    const {recording, classes} = this;
    const looks = plain();
    this.plain = looks;
    const kinds = this.bases.length * 3;
    this.fills = new Uint32Array(2 * kinds);
    this.edges = new Uint32Array(2 * kinds); // between one band and the next
    this.sides = new Uint32Array(2 * kinds); // where a band begins, or is moved
    this.rgb = [];
    for (let k = 0; k < this.bases.length; k++) {
      for (let v = 0; v < 3; v++) {
        let rgb = mix(this.bases[k], v === 1 ? [255, 255, 255] : [0, 0, 0], v === 0 ? 0 : v === 1 ? 0.16 : 0.1);
        if (looks.dark) rgb = mix(rgb, [0, 0, 0], 0.12);
        const dim = mix(rgb, looks.ground, 0.8);
        this.rgb[3 * k + v] = rgb;
        this.rgb[kinds + 3 * k + v] = dim;
        this.fills[3 * k + v] = word(rgb);
        this.edges[3 * k + v] = word(mix(rgb, [0, 0, 0], 0.3));
        this.sides[3 * k + v] = word(mix(rgb, [0, 0, 0], 0.16));
        this.fills[kinds + 3 * k + v] = word(dim);
        this.edges[kinds + 3 * k + v] = this.sides[kinds + 3 * k + v] = word(mix(dim, looks.ink, 0.1));
      }
    }
    const {n, stack} = recording;
    const shades = this.shades ||= new Uint16Array(n);
    // Neighbours of a class differ in lightness: by their line of code, if the class is not that itself.
    const byStack = this.way === "role" || this.way === "phase";
    for (let b = 0; b < n; b++) shades[b] = 3 * classes[b] + (byStack ? (Math.imul(stack[b], 0x9e3779b1) >>> 16) % 3 : b & 1);
    if (lit) for (let b = 0; b < n; b++) if (!lit(b)) shades[b] += kinds;
    this.ground = word(looks.ground);
    this.held = word(looks.held);
    this.hatch = word(looks.hatch);
    this.wait = word(looks.wait);
    this.waits = word(looks.ink);
  }

  colourOf(b) {
    return this.rgb[this.shades[b]];
  }

  classColour(k) {
    return looksLike(this.bases[k], this.plain.dark);
  }

  // inkOf is a colour that can be read on a block's.
  inkOf(b) {
    return luminance(this.colourOf(b)) > 0.24 ? "#111417" : "#ffffff";
  }
}

function looksLike(rgb, dark) {
  return dark ? mix(rgb, [0, 0, 0], 0.12) : rgb;
}

export function pixel(rgb) {
  return word(rgb);
}

export function blend(a, b, t) {
  return mix(a, b, t);
}
