// The columns that a page carries its recording in: what columns.go packed.

const ALPHABET = "!\"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
const TEXT_BITS = 13;

const low = new Uint16Array(128), high = new Uint16Array(128);
for (let i = 0; i < ALPHABET.length; i++) {
  low[ALPHABET.charCodeAt(i)] = i;
  high[ALPHABET.charCodeAt(i)] = ALPHABET.length * i;
}

// bytesOfText turns packed text back into bytes.
export function bytesOfText(text, length) {
  const chars = new TextEncoder().encode(text);
  const out = new Uint8Array(length + 1);
  let bits = 0, n = 0, at = 0;
  for (let i = 0; i + 1 < chars.length; i += 2) {
    bits |= (low[chars[i]] + high[chars[i + 1]]) << n;
    n += TEXT_BITS - 8;
    out[at++] = bits;
    bits >>>= 8;
    if (n >= 8) {
      out[at++] = bits;
      bits >>>= 8;
      n -= 8;
    }
  }
  return out.subarray(0, length);
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// numbersOf puts numbers together from their planes.
export function numbersOf(planes, count, width) {
  if (width === 1) return planes;
  const b = planes.subarray(count, 2 * count), c = planes.subarray(2 * count, 3 * count), d = planes.subarray(3 * count, 4 * count);
  if (width === 2) {
    const out = new Uint16Array(count);
    for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8;
    return out;
  }
  if (width <= 4) {
    const out = new Uint32Array(count);
    if (width === 3) for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8 | c[i] << 16;
    else for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8 | c[i] << 16 | d[i] << 24;
    return out;
  }
  const out = new Float64Array(count);
  for (let k = width - 1; k >= 0; k--) for (let i = 0, at = k * count; i < count; i++) out[i] = out[i] * 256 + planes[at + i];
  return out;
}

// Columns finds the columns of a document by their names.
export class Columns {
  constructor(elements) {
    this.done = new Map();
    this.bundles = [];
    for (const e of elements) {
      const columns = e.dataset.columns.split(" ").filter((c) => c).map((c) => {
        const [name, count, width, same] = c.split(":");
        return {name, count: Number(count), width: Number(width), same: Number(same)};
      });
      this.bundles.push({columns, bytes: Number(e.dataset.bytes), element: e, work: null});
    }
  }

  // load unpacks the columns whose names are wanted, and what is bundled with them.
  async load(wanted) {
    await Promise.all(this.bundles.filter((b) => b.columns.some((c) => wanted(c.name))).map((b) => b.work ||= this.unpack(b)));
  }

  async unpack(bundle) {
    const planes = bundle.bytes > 0 ? await inflated(bytesOfText(bundle.element.textContent, bundle.bytes)) : new Uint8Array(0);
    bundle.element.remove(); // its text is no longer needed
    let at = 0;
    for (const c of bundle.columns) {
      if (c.width === 0) {
        this.done.set(c.name, c.same < 256 ? new Uint8Array(c.count).fill(c.same) : new Float64Array(c.count).fill(c.same));
        continue;
      }
      const end = at + c.width * c.count;
      this.done.set(c.name, numbersOf(planes.subarray(at, end), c.count, c.width));
      at = end;
    }
  }

  // numbers is a column that was loaded; one that the page does not have is empty.
  numbers(name) {
    return this.done.get(name) || new Uint8Array(0);
  }

  // signed is a column of numbers of either sign.
  signed(name) {
    const from = this.numbers(name), out = new Float64Array(from.length);
    if (from instanceof Float64Array) for (let i = 0; i < from.length; i++) out[i] = from[i] % 2 ? -(from[i] + 1) / 2 : from[i] / 2;
    else for (let i = 0; i < from.length; i++) out[i] = from[i] >>> 1 ^ -(from[i] & 1);
    return out;
  }

  // sums is a column of the differences of numbers.
  sums(name, unit = 1) {
    const from = this.numbers(name), out = new Float64Array(from.length);
    for (let i = 0, sum = 0; i < from.length; i++) out[i] = sum += from[i] * unit;
    return out;
  }

  // signedSums is a column of the differences of numbers, of either sign.
  signedSums(name) {
    const out = this.signed(name);
    for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
    return out;
  }

  texts(name) {
    const lengths = this.numbers(name + "/lengths"), all = this.numbers(name + "/bytes");
    const decoder = new TextDecoder();
    const list = [];
    for (let i = 0, at = 0; i < lengths.length; i++) {
      list.push(decoder.decode(all.subarray(at, at + lengths[i])));
      at += lengths[i];
    }
    return list;
  }
}
