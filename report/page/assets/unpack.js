// The columns that a page carries its recording in: what columns.go packed.

const ALPHABET = "!\"#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
const TEXT_BITS = 13;

const digits = new Uint16Array(128);
for (let i = 0; i < ALPHABET.length; i++) digits[ALPHABET.charCodeAt(i)] = i;

// bytesOfText turns packed text back into bytes.
export function bytesOfText(text, length) {
  const out = new Uint8Array(length);
  let bits = 0, n = 0, at = 0;
  for (let i = 0; i + 1 < text.length; i += 2) {
    bits |= (digits[text.charCodeAt(i)] + ALPHABET.length * digits[text.charCodeAt(i + 1)]) << n;
    for (n += TEXT_BITS; n >= 8 && at < length; n -= 8) {
      out[at++] = bits & 255;
      bits >>>= 8;
    }
  }
  return out;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// numbersOf puts numbers together from their planes.
export function numbersOf(planes, count, width) {
  if (width === 1) return planes;
  if (width > 4) {
    const out = new Float64Array(count);
    for (let k = width - 1; k >= 0; k--) {
      for (let i = 0, at = k * count; i < count; i++) out[i] = out[i] * 256 + planes[at + i];
    }
    return out;
  }
  const out = width === 2 ? new Uint16Array(count) : new Uint32Array(count);
  const b = planes.subarray(count, 2 * count);
  const c = planes.subarray(2 * count, 3 * count), d = planes.subarray(3 * count, 4 * count);
  if (width === 2) for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8;
  if (width === 3) for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8 | c[i] << 16;
  if (width === 4) for (let i = 0; i < count; i++) out[i] = planes[i] | b[i] << 8 | c[i] << 16 | d[i] << 24;
  return out;
}

// Columns finds the columns of a document by their names.
export class Columns {
  constructor(elements) {
    this.elements = new Map();
    this.done = new Map();
    for (const e of elements) this.elements.set(e.dataset.column, e);
  }

  has(name) {
    return this.elements.has(name);
  }

  // load unpacks all columns whose names begin so.
  async load(prefix) {
    const work = [];
    for (const [name, e] of this.elements) {
      if (name.startsWith(prefix) && !this.done.has(name)) work.push(this.unpack(name, e));
    }
    await Promise.all(work);
  }

  async unpack(name, e) {
    const count = Number(e.dataset.count), width = Number(e.dataset.width);
    if (width === 0) {
      const same = Number(e.dataset.same);
      this.done.set(name, same < 256 ? new Uint8Array(count).fill(same) : new Float64Array(count).fill(same));
      return;
    }
    const packed = bytesOfText(e.textContent, Number(e.dataset.bytes));
    this.done.set(name, numbersOf(await inflated(packed), count, width));
  }

  // numbers is a column that was loaded; one that the page does not have is empty.
  numbers(name) {
    return this.done.get(name) || new Uint8Array(0);
  }

  // signed is a column of numbers of either sign.
  signed(name) {
    const from = this.numbers(name), out = new Float64Array(from.length);
    for (let i = 0; i < from.length; i++) out[i] = from[i] % 2 ? -(from[i] + 1) / 2 : from[i] / 2;
    return out;
  }

  // sums is a column of the differences of numbers.
  sums(name, unit = 1) {
    const from = this.numbers(name), out = new Float64Array(from.length);
    for (let i = 0, sum = 0; i < from.length; i++) out[i] = sum += from[i] * unit;
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
