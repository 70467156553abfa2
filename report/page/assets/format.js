// Numbers as people read them, exactly as the command line writes them.

const KIB = 1024, MIB = 1024 * KIB, GIB = 1024 * MIB;

// fixed is n/unit with so many decimals. Halves go to the even digit, as in the rest of the tool.
function fixed(n, unit, digits) {
  const scale = 10 ** digits;
  let q = Math.floor(n * scale / unit);
  const rest = n * scale - q * unit;
  if (2 * rest > unit || (2 * rest === unit && q % 2 === 1)) q++;
  return (q / scale).toFixed(digits);
}

// bytes shows a size in binary units.
export function bytes(n) {
  if (n < 0) return "-" + bytes(-n);
  n = Math.round(n);
  if (n >= GIB) return fixed(n, GIB, 2) + " GiB";
  if (n >= 100 * MIB) return fixed(n, MIB, 0) + " MiB";
  if (n >= MIB) return fixed(n, MIB, 1) + " MiB";
  if (n >= KIB) return fixed(n, KIB, 1) + " KiB";
  return n === 1 ? "1 byte" : n + " bytes";
}

// amount shows a size on an axis, where most are whole.
export function amount(n) {
  for (const [unit, name] of [[GIB, " GiB"], [MIB, " MiB"], [KIB, " KiB"]]) if (n >= unit) return Number((n / unit).toPrecision(4)) + name;
  return n === 0 ? "0" : n + " B";
}

// count shows a number with separators between the thousands.
export function count(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function plural(n, one) {
  return n === 1 ? "1 " + one : count(n) + " " + one + "s";
}

// share is a part of a whole in percent.
export function share(part, whole) {
  if (!whole) return "–";
  const p = part * 100 / whole;
  return p > 0 && p < 1 ? "<1 %" : fixed(p, 1, 0) + " %";
}

// span shows a duration given in seconds.
export function span(seconds) {
  const s = Math.abs(seconds);
  let text;
  if (s >= 3600) text = Math.floor(s / 3600) + " h " + Math.floor(s / 60) % 60 + " min";
  else if (s >= 60) text = Math.floor(s / 60) + " min " + Math.floor(s) % 60 + " s";
  else if (s >= 1) text = s.toFixed(s < 10 ? 2 : 1) + " s";
  else if (s >= 1e-3) text = (s * 1e3).toFixed(1) + " ms";
  else text = Math.round(s * 1e6) + " µs";
  return seconds < 0 ? "-" + text : text;
}

// address shows where something lies.
export function address(a) {
  return "0x" + a.toString(16);
}

// ticks chooses round values between two, about so many, for an axis. step is one of 1, 2 and 5 times a power of base.
export function ticks(from, to, about, binary) {
  const width = (to - from) / Math.max(1, about);
  if (!(width > 0)) return [];
  let step = binary ? 2 ** Math.ceil(Math.log2(width)) : 10 ** Math.floor(Math.log10(width));
  if (!binary) step *= [1, 2, 5, 10].find((m) => step * m >= width);
  const list = [];
  for (let k = Math.ceil(from / step); k * step <= to; k++) list.push(k * step);
  return list;
}
