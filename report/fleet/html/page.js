"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const n = (data.labels || []).length;
  if (!n) return;
  const $ = id => document.getElementById(id);
  const bytes = v => {
    if (v < 0) return "not known";
    const units = [[2 ** 30, "GiB", 2], [2 ** 20, "MiB", 1], [2 ** 10, "KiB", 1]];
    for (const [size, unit, digits] of units) if (v >= size) return (v / size).toFixed(digits) + " " + unit;
    return v + " bytes";
  };

  // Light to dark, then to red: as many steps as an eye can tell, and readable in grey.
  const stops = [[198, 219, 238], [140, 190, 220], [66, 146, 198], [8, 81, 156], [84, 39, 110], [165, 15, 60]];
  const color = t => {
    const x = Math.max(0, Math.min(1, t)) * (stops.length - 1), i = Math.min(Math.floor(x), stops.length - 2), f = x - i;
    return "rgb(" + stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * f)).join(",") + ")";
  };
  const ink = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Groups: one row or block for each.
  const hosts = new Set(data.host.filter(h => h));
  const groupings = [["in order", null]];
  if (hosts.size > 1) groupings.push(["machine", i => data.host[i] || "machine not known"]);
  (data.axes || []).forEach((axis, k) => groupings.push([axis, i => data.at[i][k] < 0 ? axis + " not known" : axis + " " + data.at[i][k]]));
  const known = k => data.measures[k].values.some(v => v >= 0);
  let measure = [1, 0, 2, 3].find(k => data.measures[k] && known(k)) || 0;
  let grouping = (data.axes || []).includes("pp") ? groupings.findIndex(g => g[0] === "pp") : hosts.size > 1 && hosts.size < n ? 1 : 0;
  let cells = [];

  const choose = (box, title, names, now, set) => {
    box.replaceChildren(title);
    names.forEach((name, i) => {
      const b = document.createElement("button");
      b.textContent = name;
      b.setAttribute("aria-pressed", i === now());
      b.onclick = () => { set(i); draw(); };
      box.append(b);
    });
  };

  const groupsOf = () => {
    const by = groupings[grouping][1];
    if (!by) return [["", [...Array(n).keys()]]];
    const map = new Map();
    for (let i = 0; i < n; i++) {
      const k = by(i);
      if (!map.has(k)) map.set(k, []);
      map.get(k).push(i);
    }
    return [...map].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true }));
  };

  const context = (canvas, width, height) => {
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const c = canvas.getContext("2d");
    c.scale(scale, scale);
    return c;
  };

  const draw = () => {
    choose($("measures"), "Colour: ", data.measures.map(m => m.name), () => measure, i => measure = i);
    choose($("groups"), groupings.length > 1 ? "By: " : "", groupings.length > 1 ? groupings.map(g => g[0]) : [], () => grouping, i => grouping = i);
    heat();
    histogram();
  };

  const range = () => {
    const v = data.measures[measure].values.filter(x => x >= 0);
    return v.length ? [v.reduce((a, b) => Math.min(a, b)), v.reduce((a, b) => Math.max(a, b))] : [0, 0];
  };

  const heat = () => {
    const groups = groupsOf(), m = data.measures[measure], [low, high] = range();
    const width = Math.max(320, $("map").clientWidth);
    const c0 = $("heat").getContext("2d");
    c0.font = "12px system-ui, sans-serif";
    const gutter = groups.length > 1 ? Math.min(200, Math.max(...groups.map(g => c0.measureText(g[0]).width)) + 12) : 0;
    const widest = Math.max(...groups.map(g => g[1].length));
    let size = Math.floor(Math.min(28, Math.max(9, n > 1200 ? 12 : n > 300 ? 16 : 26)));
    const columns = Math.max(1, Math.min(widest, Math.floor((width - gutter) / size)));
    // In order, a round number a row is easier to count along.
    const wide = groups.length > 1 || columns >= n ? columns : columns >= 64 ? 64 : columns >= 32 ? 32 : columns >= 16 ? 16 : columns;
    let y = 0;
    cells = [];
    for (const [name, list] of groups) {
      list.forEach((i, k) => cells.push([gutter + k % wide * size, y + Math.floor(k / wide) * size, size, i]));
      y += Math.ceil(list.length / wide) * size + (groups.length > 1 ? (size > 14 ? 4 : 3) : 0);
      void name;
    }
    const c = context($("heat"), gutter + wide * size + 2, y + 2);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.fillStyle = ink("--quiet");
    if (gutter) {
      let at = 0;
      for (const [name, list] of groups) {
        c.fillText(name, 0, at + Math.max(size, 12) / 2, gutter - 6);
        at += Math.ceil(list.length / wide) * size + (size > 14 ? 4 : 3);
      }
    }
    for (const [x, y, s, i] of cells) {
      const v = m.values[i];
      c.fillStyle = v < 0 ? ink("--soft") : color(high > low ? (v - low) / (high - low) : 0.3);
      c.fillRect(x, y, s - 1, s - 1);
      const mark = data.oom[i] ? "--mark" : data.odd[i] ? "--ink" : "";
      if (mark) {
        c.strokeStyle = ink(mark);
        c.lineWidth = 2;
        c.strokeRect(x + 1, y + 1, s - 3, s - 3);
      }
    }
    const legend = $("legend");
    legend.replaceChildren();
    const add = (...parts) => { const s = document.createElement("span"); s.append(...parts); legend.append(s); };
    const scale = document.createElement("i");
    scale.style.background = "linear-gradient(90deg," + [0, .2, .4, .6, .8, 1].map(color).join(",") + ")";
    add(bytes(low), scale, bytes(high));
    const box = odd => { const b = document.createElement("b"); if (odd) b.className = "odd"; return b; };
    if (data.oom.some(x => x)) add(box(false), "ran out of memory");
    if (data.odd.some(x => x)) add(box(true), "far from the others");
    if (data.failed) add(data.failed + " recordings could not be read and are not here");
  };

  const histogram = () => {
    const m = data.measures[measure], v = m.values.filter(x => x >= 0), [low, high] = range();
    $("distribution").hidden = v.length < 8 || high <= low;
    if ($("distribution").hidden) return;
    $("dtitle").textContent = "How many devices have which " + m.name;
    const bins = 60, counts = Array(bins).fill(0);
    for (const x of v) counts[Math.min(bins - 1, Math.floor((x - low) / (high - low) * bins))]++;
    const width = Math.min(900, Math.max(300, $("distribution").clientWidth)), height = 130, foot = 20, most = Math.max(...counts);
    const c = context($("histogram"), width, height + foot), w = width / bins;
    counts.forEach((k, i) => {
      c.fillStyle = color((i + .5) / bins);
      // One device alone must be seen beside thousands.
      const h = k ? Math.max(3, k / most * (height - 18)) : 0;
      c.fillRect(i * w, height - h, w - 1, h);
      c.fillStyle = ink("--line");
      c.fillRect(i * w, height, w, 1);
    });
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = ink("--quiet");
    c.textBaseline = "top";
    c.fillText(bytes(low), 0, height + 5);
    c.textAlign = "right";
    c.fillText(bytes(high), width, height + 5);
    c.textAlign = "left";
    c.fillText("up to " + most.toLocaleString("en") + " devices in a bar", 0, 0);
    if (m.median) {
      const x = (m.median - low) / (high - low) * width;
      c.fillStyle = ink("--ink");
      c.fillRect(Math.min(x, width - 1), 16, 1, height - 16);
      c.textAlign = x > width / 2 ? "right" : "left";
      c.fillText("median " + bytes(m.median), x + (x > width / 2 ? -5 : 5), 16);
    }
  };

  const find = e => {
    const r = $("heat").getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    return cells.find(c => x >= c[0] && x < c[0] + c[2] && y >= c[1] && y < c[1] + c[2]);
  };
  $("heat").onmousemove = e => {
    const hit = find(e), tip = $("tip");
    tip.hidden = !hit;
    if (!hit) return;
    const i = hit[3];
    tip.replaceChildren();
    const row = (a, b) => { const d = document.createElement("div"), s = document.createElement("span"), t = document.createElement("span"); s.textContent = a; t.textContent = b; d.append(s, t); tip.append(d); };
    const h = document.createElement("h3");
    h.textContent = data.labels[i] + (data.where[i] ? " · " + data.where[i] : "");
    tip.append(h);
    for (const m of data.measures) row(m.name, bytes(m.values[i]));
    if (data.oom[i]) row("ran out of memory", "");
    if (data.odd[i]) row("far from the others", "");
    for (const [p, b] of data.holds[i]) row(data.places[p] || "recorded without a call stack", bytes(b));
    const w = tip.offsetWidth, tall = tip.offsetHeight;
    tip.style.left = Math.min(e.clientX + 14, innerWidth - w - 8) + "px";
    tip.style.top = (e.clientY + 18 + tall > innerHeight ? e.clientY - tall - 10 : e.clientY + 18) + "px";
  };
  $("heat").onmouseleave = () => { $("tip").hidden = true; };
  $("heat").onclick = e => {
    const hit = find(e);
    if (!hit) return;
    document.querySelectorAll("#all tr.here").forEach(r => r.classList.remove("here"));
    const row = $("all").querySelector(`tr[data-i="${hit[3]}"]`);
    if (row) { row.classList.add("here"); row.scrollIntoView({ block: "center" }); }
  };

  // The table of all ranks. It sorts by what is clicked, the most first, and back on the second click.
  const columns = [["device", i => data.labels[i]], ["where", i => data.where[i]], ...data.measures.map(m => [m.name, i => m.values[i]]),
    ["", i => data.oom[i] ? "ran out of memory" : data.odd[i] ? "far from the others" : ""]];
  let sorted = -1, down = true;
  const most = 5000;
  const table = () => {
    const order = [...Array(n).keys()];
    if (sorted >= 0) {
      const of = columns[sorted][1];
      order.sort((a, b) => {
        const x = of(a), y = of(b);
        const d = typeof x === "number" ? y - x : x.localeCompare(y, "en", { numeric: true });
        return (down ? d : -d) || a - b;
      });
    }
    const head = document.createElement("tr");
    columns.forEach(([name], k) => {
      const th = document.createElement("th");
      th.textContent = name + (k === sorted ? (down ? " ▾" : " ▴") : "");
      th.onclick = () => { down = k !== sorted || !down; sorted = k; table(); };
      head.append(th);
    });
    const rows = order.slice(0, most).map(i => {
      const tr = document.createElement("tr");
      tr.dataset.i = i;
      for (const [, of] of columns) {
        const td = document.createElement("td"), v = of(i);
        if (typeof v === "number") { td.className = "n"; td.textContent = bytes(v); } else td.textContent = v;
        tr.append(td);
      }
      return tr;
    });
    $("all").replaceChildren(head, ...rows);
  };

  $("map").hidden = $("ranks").hidden = false;
  draw();
  table();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
