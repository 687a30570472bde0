"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  const [graph, scene, minimap, panel] = ["graph", "scene", "minimap", "panel"].map(element);
  const HEIGHT = data.size[1];
  const GAP = { x: 24, y: 36, frame: 16, head: 30 };
  const state = { x: 0, y: 0, scale: 1, selected: null, hits: [], at: -1, unfolded: new Set() };
  let drawn = { boxes: new Map(), lines: [], width: 0, height: 0 };

  // --- text ----------------------------------------------------------------------------

  const pen = document.createElement("canvas").getContext("2d");
  const NAME = "600 13px system-ui, sans-serif";
  const SOFT = "11.5px system-ui, sans-serif";
  const widths = new Map();
  function measured(text, font) {
    const key = font + text;
    if (!widths.has(key)) { pen.font = font; widths.set(key, pen.measureText(text).width); }
    return widths.get(key);
  }

  const ROOM = 330; // what a text may take of a node
  function shortened(text, font) {
    if (measured(text, font) <= ROOM) return text;
    const signs = [...text];
    let [low, high] = [0, signs.length];
    while (low < high) {
      const half = Math.ceil((low + high) / 2);
      if (measured(`${signs.slice(0, half).join("")}…`, font) <= ROOM) low = half; else high = half - 1;
    }
    return `${signs.slice(0, low).join("")}…`;
  }

  const layerOf = (node) => (node.layer === null ? null : data.layers[node.layer]);
  const gistOf = (node) => layerOf(node)?.gist || "";

  // --- where things are ------------------------------------------------------------------

  // Items of each rank keep their order, and stand close to what they are joined to; see spread.py.
  function spread(ranks, sizes, above, below) {
    const x = [];
    const weight = (item) => (sizes[item].width ? 4 : 1);
    for (const rank of ranks) rank.forEach((item, place) => { x[item] = place; });
    const mean = (items, other) => {
      if (!items.length) return other;
      let [sum, total] = [0, 0];
      for (const item of items) { sum += x[item] * weight(item); total += weight(item); }
      return sum / total;
    };
    const place = (rank, joined) => {
      const wanted = rank.map((item) => mean(joined[item], x[item]));
      const offsets = [0];
      for (let i = 1; i < rank.length; i++) offsets.push(offsets[i - 1] + (sizes[rank[i - 1]].width + sizes[rank[i]].width) / 2 + GAP.x);
      const pools = [];
      rank.forEach((item, i) => {
        let [at, heavy, size] = [wanted[i] - offsets[i], weight(item), 1];
        while (pools.length && pools[pools.length - 1][0] > at) {
          const [other, more, count] = pools.pop();
          at = (at * heavy + other * more) / (heavy + more);
          heavy += more;
          size += count;
        }
        pools.push([at, heavy, size]);
      });
      let i = 0;
      for (const [at, , size] of pools) for (let n = 0; n < size; n++, i++) x[rank[i]] = at + offsets[i];
    };
    for (let sweep = 0; sweep < 12; sweep++) {
      for (let r = ranks.length - 1; r >= 0; r--) place(ranks[r], below);
      for (const rank of ranks) place(rank, above);
    }
    return x;
  }

  const groupKey = (prefix, group) => `${prefix}[${group.name}]`;
  // Which of the shades a value has: 0 for none; see shades.py.
  const stepOf = (value) => (data.shades === null || !(value > 0) ? 0 : 1 + data.shades.most.filter((most) => value > most).length);
  // Shares of a total add up; of other values, the largest counts.
  const together = (values) => (data.shades?.is_share ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values));
  const shadeOf = (view, box) => (box.group ? together(box.group.nodes.map((number) => view.nodes[number].shade?.value || 0)) : box.node.shade?.value || 0);
  const inWords = (value) => {
    if (data.shades.is_share) return `${(100 * value).toFixed(1)} %`;
    return value < 1e9 ? `up to ${Number(value.toPrecision(2))}` : "not finite";
  };
  const lines = (node) => [[shortened(node.name, NAME), NAME], [shortened([node.label, node.shade ? node.shade.text : gistOf(node)].filter(Boolean).join(" · "), SOFT), SOFT], [shortened(node.output, SOFT), SOFT]];
  const groupLines = (group, value) => {
    const facts = [`${group.nodes.length} calls`];
    if (group.parameters !== null) facts.push(`${group.parameters.toLocaleString("en")} parameters`);
    if (value > 0) facts.push(inWords(value));
    return [[shortened(group.name, NAME), NAME], [facts.join(", "), SOFT], [group.differences ? `${group.differences} differ` : shortened(group.output, SOFT), SOFT]];
  };

  // A frame is what is drawn inside a view or an unfolded group. Coordinates are its own.
  function frame(number, scope, prefix) {
    const view = data.views[number];
    const { items, ranks, lines: joined } = view.scopes[scope];
    const parts = items.map((item) => part(view, item, prefix));
    const sizes = parts.map((one) => ({ width: one.width, height: one.height }));
    const count = Math.max(items.length, ...ranks.flat().map((item) => item + 1));
    while (sizes.length < count) sizes.push({ width: 0, height: 0 });
    const [above, below] = [sizes.map(() => []), sizes.map(() => [])];
    for (const line of joined) {
      const upwards = rankOf(ranks, line.path[0]) > rankOf(ranks, line.path[line.path.length - 1]);
      const path = upwards ? [...line.path].reverse() : line.path;
      for (let i = 1; i < path.length; i++) { above[path[i]].push(path[i - 1]); below[path[i - 1]].push(path[i]); }
    }
    const x = spread(ranks, sizes, above, below);
    let [left, right] = [Infinity, -Infinity];
    for (const item of ranks.flat()) { left = Math.min(left, x[item] - sizes[item].width / 2); right = Math.max(right, x[item] + sizes[item].width / 2); }
    if (left === Infinity) [left, right] = [0, 0];
    const spots = [];
    let y = GAP.frame;
    for (const rank of ranks) {
      const height = Math.max(...rank.map((item) => sizes[item].height), 0);
      for (const item of rank) spots[item] = { x: x[item] - left + GAP.frame, y: y + height / 2, top: y, bottom: y + height };
      y += height + GAP.y;
    }
    return { view: number, parts, spots, joined, width: right - left + 2 * GAP.frame, height: Math.max(y - GAP.y, GAP.frame) + GAP.frame };
  }

  const placesInRanks = new WeakMap();
  function rankOf(ranks, item) {
    if (!placesInRanks.has(ranks)) placesInRanks.set(ranks, new Map(ranks.flatMap((rank, number) => rank.map((one) => [one, number]))));
    return placesInRanks.get(ranks).get(item);
  }

  // Of an item: its size, its texts, and the frame inside it if it is unfolded.
  function part(view, item, prefix) {
    if (typeof item === "string") return { port: item, width: 0, height: 0 };
    const group = item < 0 ? view.groups[-1 - item] : null;
    const node = item < 0 ? null : view.nodes[item];
    const key = group ? groupKey(prefix, group) : prefix + node.name;
    const inside = group ? [data.views.indexOf(view), -item, prefix] : node.inside === null ? null : [node.inside, 0, `${key}/`];
    const texts = group ? groupLines(group, shadeOf(view, { group })) : lines(node);
    if (inside && state.unfolded.has(key)) {
      const inner = frame(...inside);
      const title = measured(texts[0][0], NAME) + 80;
      return { key, node, group, texts, inner, width: Math.max(inner.width, title), height: inner.height + GAP.head };
    }
    const width = Math.max(...texts.map(([text, font]) => measured(text, font))) + (inside ? 52 : 30);
    return { key, node, group, texts, folds: Boolean(inside), width: Math.max(150, width), height: HEIGHT };
  }

  // --- what is drawn -----------------------------------------------------------------------

  const NS = graph.namespaceURI;
  function shape(tag, attributes, ...children) {
    const node = document.createElementNS(NS, tag);
    for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  function draw() {
    const root = frame(data.root, 0, "");
    drawn = { boxes: new Map(), lines: [], width: root.width, height: root.height };
    const layers = { frames: [], lines: [], nodes: [] };
    collect(root, 0, 0, null, layers);
    scene.replaceChildren(...layers.frames, ...layers.lines, ...layers.nodes);
    mark();
    drawMinimap();
    move();
  }

  function collect(one, left, top, parent, layers) {
    const boxes = one.parts.map((item, number) => {
      const spot = one.spots[number];
      const box = { ...item, parent, frame: one, number, x: left + spot.x, y: top + spot.y, joined: { above: [], below: [] } };
      if (box.port) return box;
      drawn.boxes.set(box.key, box);
      if (box.inner) {
        box.left = box.x - box.width / 2;
        box.top = box.y - box.height / 2;
        box.element = drawFrame(box);
        layers.frames.push(box.element);
        const shift = (box.width - box.inner.width) / 2;
        collect(box.inner, box.left + shift, box.top + GAP.head, box, layers);
        box.entry = portOf(box, "in", box.left + shift);
        box.exit = portOf(box, "out", box.left + shift);
      } else {
        box.element = drawNode(box);
        layers.nodes.push(box.element);
      }
      return box;
    });
    for (const line of one.joined) {
      const [from, to] = [boxes[line.path[0]], boxes[line.path[line.path.length - 1]]];
      const points = [[from.port ? from.x : from.exit ?? from.x, from.port ? top : from.y + from.height / 2]];
      for (const point of line.path.slice(1, -1)) {
        const spot = one.spots[point];
        points.push([left + spot.x, top + spot.top], [left + spot.x, top + spot.bottom]);
      }
      points.push([to.port ? to.x : to.entry ?? to.x, to.port ? top + one.height : to.y - to.height / 2]);
      const shapes = drawLine(points, line, Boolean(to.port));
      layers.lines.push(...shapes);
      const edge = { from, to, shapes };
      drawn.lines.push(edge);
      from.joined.below.push(to);
      to.joined.above.push(from);
    }
    if (parent) parent.children = boxes.filter((box) => !box.port);
    else drawn.top = boxes.filter((box) => !box.port);
  }

  function portOf(box, name, left) {
    const number = box.inner.parts.findIndex((item) => item.port === name);
    return number < 0 ? undefined : left + box.inner.spots[number].x;
  }

  function drawLine(points, line, ends) {
    const path = [`M${points[0].map(round).join(" ")}`];
    for (let i = 1; i < points.length; i++) {
      const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
      const middle = (y1 + y2) / 2;
      path.push(`C${[x1, middle, x2, middle, x2, y2].map(round).join(" ")}`);
    }
    const style = `${line.masked ? "masked " : ""}${line.difference === "same" ? "" : line.difference}`.trim();
    const shapes = [shape("path", { class: `line ${style}`, d: path.join("") })];
    if (!ends) {
      const [x, y] = points[points.length - 1];
      shapes.push(shape("path", { class: `tip ${style}`, d: `M${round(x - 4)} ${round(y - 7)}L${round(x)} ${round(y)}L${round(x + 4)} ${round(y - 7)}z` }));
    }
    return shapes;
  }

  const round = (value) => Math.round(value * 10) / 10;
  const differenceOf = (box) => (box.group ? (box.group.differences ? "changed" : "same") : box.node.difference);

  // What a screen reader says of a box.
  function spoken(box) {
    if (box.group) return `block ${box.group.name}, ${box.group.nodes.length} calls`;
    const node = box.node;
    const words = [node.name, node.label, gistOf(node), node.output, node.shade?.text];
    if (node.masked) words.push("carries a mask");
    if (node.shared) words.push("shared");
    if (node.difference !== "same") words.push(node.difference, ...node.reasons);
    if (node.sources.length) words.push(`reads ${node.sources.join(", ")}`);
    return words.filter(Boolean).join(", ");
  }

  function holder(box) {
    const difference = differenceOf(box);
    const foldable = box.folds || box.inner;
    const step = stepOf(shadeOf(data.views[box.frame.view], box));
    const classes = ["node", difference === "same" ? "" : difference, step ? `step${step}` : ""].filter(Boolean).join(" ");
    const g = shape("g", { class: classes, role: "button", tabindex: -1, "aria-label": spoken(box), "aria-expanded": foldable ? String(Boolean(box.inner)) : null });
    g.dataset.key = box.key;
    g.append(shape("title", {}, box.group ? box.group.name : box.node.name));
    return g;
  }

  const colourOf = (box) => data.colours[box.group ? "other" : box.node.word];

  function drawNode(box) {
    const [x, y] = [box.x - box.width / 2, box.y - box.height / 2];
    const g = holder(box);
    if (box.folds) g.append(shape("rect", { class: "stack", x: x + 5, y: y + 5, width: box.width, height: box.height, rx: 8 }));
    g.append(shape("rect", { class: "box", x, y, width: box.width, height: box.height, rx: 8 }));
    g.append(shape("rect", { x: x + 5, y: y + 8, width: 5, height: box.height - 16, rx: 2, fill: colourOf(box) }));
    box.texts.forEach(([text], row) => {
      if (text) g.append(shape("text", { class: row ? "soft" : "name", x: x + 18, y: y + 20 + 17 * row }, text));
    });
    if (box.folds) g.append(toggle(box, x + box.width - 24, y + HEIGHT / 2 - 9, "+"));
    let right = x + box.width - 6;
    if (box.node?.masked) right = badge(g, "mask", right, y);
    if (box.node?.shared) badge(g, "shared", right, y);
    return g;
  }

  function drawFrame(box) {
    const g = holder(box);
    g.append(shape("rect", { class: "frame", x: box.left, y: box.top, width: box.width, height: box.height, rx: 10 }));
    g.append(shape("rect", { x: box.left + 5, y: box.top + 8, width: 5, height: 16, rx: 2, fill: colourOf(box) }));
    g.append(shape("text", { class: "name", x: box.left + 18, y: box.top + 20 }, box.texts[0][0]));
    g.append(toggle(box, box.left + box.width - 26, box.top + 6, "−"));
    return g;
  }

  function toggle(box, x, y, sign) {
    const g = shape("g", { class: "toggle" }, shape("rect", { x, y, width: 18, height: 18, rx: 4 }), shape("text", { x: x + 9, y: y + 14, "text-anchor": "middle" }, sign));
    g.addEventListener("click", (event) => { event.stopPropagation(); fold(box.key); });
    return g;
  }

  function badge(g, text, right, y) {
    const width = measured(text, SOFT) + 10;
    g.append(shape("g", { class: `badge ${text}` }, shape("rect", { x: right - width, y: y - 8, width, height: 15, rx: 7 }), shape("text", { x: right - width / 2, y: y + 3.5, "text-anchor": "middle" }, text)));
    return right - width - 4;
  }

  // Selection, hits and the lines near the selection.
  function mark() {
    const hits = new Set(state.hits);
    for (const [key, box] of drawn.boxes) {
      box.element.classList.toggle("selected", key === state.selected);
      box.element.classList.toggle("hit", hits.has(key));
      box.element.setAttribute("tabindex", "-1");
    }
    for (const line of drawn.lines) {
      const near = state.selected !== null && (line.from.key === state.selected || line.to.key === state.selected);
      for (const one of line.shapes) one.classList.toggle("near", near);
    }
    const current = drawn.boxes.get(state.selected) || drawn.top?.[0];
    current?.element.setAttribute("tabindex", "0");
  }

  // --- where we look -----------------------------------------------------------------------

  const size = () => [graph.clientWidth, graph.clientHeight];

  function move() {
    scene.setAttribute("transform", `translate(${round(state.x)} ${round(state.y)}) scale(${state.scale})`);
    graph.classList.toggle("far", state.scale < 0.4);
    graph.classList.toggle("farther", state.scale < 0.16);
    const seen = minimap.querySelector(".seen");
    if (seen) {
      const [width, height] = size();
      const ratio = Number(minimap.dataset.ratio);
      const box = { x: -state.x / state.scale * ratio, y: -state.y / state.scale * ratio, width: width / state.scale * ratio, height: height / state.scale * ratio };
      for (const [key, value] of Object.entries(box)) seen.setAttribute(key, round(value));
      const all = state.x >= 0 && state.y >= 0 && state.x + drawn.width * state.scale <= width && state.y + drawn.height * state.scale <= height;
      minimap.style.visibility = all ? "hidden" : "visible";
    }
  }

  function drawMinimap() {
    const ratio = Math.min(150 / drawn.width, 190 / drawn.height);
    minimap.dataset.ratio = ratio;
    minimap.setAttribute("width", Math.max(24, Math.round(drawn.width * ratio)));
    minimap.setAttribute("height", Math.max(24, Math.round(drawn.height * ratio)));
    const dots = [...drawn.boxes.values()].filter((box) => !box.inner).map((box) => shape("rect", {
      class: `dot ${differenceOf(box) === "same" ? "" : differenceOf(box)}`.trim(), x: round((box.x - box.width / 2) * ratio), y: round((box.y - box.height / 2) * ratio),
      width: Math.max(1, round(box.width * ratio)), height: Math.max(1, round(box.height * ratio)),
    }));
    minimap.replaceChildren(...dots, shape("rect", { class: "seen" }));
  }

  function zoomAt(x, y, factor) {
    const scale = Math.min(3, Math.max(0.01, state.scale * factor));
    state.x = x - (x - state.x) * (scale / state.scale);
    state.y = y - (y - state.y) * (scale / state.scale);
    state.scale = scale;
    move();
  }

  function fit(whole) {
    const [width, height] = size();
    const all = Math.min(width / drawn.width, height / drawn.height, 1);
    // A deep model as a whole is a thread: begin at its top, and readable.
    state.scale = whole || all > 0.6 ? all : Math.min(1, Math.max(0.7, width / drawn.width));
    state.x = (width - drawn.width * state.scale) / 2;
    state.y = drawn.height * state.scale < height ? (height - drawn.height * state.scale) / 2 : 0;
    const first = drawn.top?.[0];
    if (!whole && drawn.width * state.scale > width && first) state.x = width / 2 - first.x * state.scale;
    move();
  }

  function center(key) {
    const box = drawn.boxes.get(key);
    if (!box) return;
    if (state.scale < 0.5) state.scale = 0.9;
    const [width, height] = size();
    const y = box.inner ? box.top + Math.min(box.height, height / state.scale) / 2 : box.y;
    state.x = width / 2 - box.x * state.scale;
    state.y = height / 2 - y * state.scale;
    move();
  }

  // --- folding ---------------------------------------------------------------------------

  // The box that is folded stays where it is on the screen.
  function fold(key) {
    const before = drawn.boxes.get(key);
    const at = before && [before.x * state.scale + state.x, (before.y - before.height / 2) * state.scale + state.y];
    if (!state.unfolded.delete(key)) state.unfolded.add(key);
    const focused = document.activeElement?.dataset?.key;
    draw();
    const after = drawn.boxes.get(key);
    if (at && after) {
      state.x = at[0] - after.x * state.scale;
      state.y = at[1] - (after.y - after.height / 2) * state.scale;
      move();
    }
    if (focused) drawn.boxes.get(focused)?.element.focus({ preventScroll: true });
  }

  // Everything that can be unfolded, as long as there are not too many nodes to draw.
  function* foldable(view, prefix) {
    for (const group of data.views[view].groups) yield { key: groupKey(prefix, group), size: group.nodes.length, differs: group.differences > 0 };
    for (const node of data.views[view].nodes) {
      if (node.inside === null) continue;
      const key = prefix + node.name;
      yield { key, size: data.views[node.inside].nodes.length, differs: node.difference !== "same" };
      yield* foldable(node.inside, `${key}/`);
    }
  }

  const MOST = 6000;
  function unfoldAll(wanted, most) {
    let count = data.views[data.root].nodes.length;
    for (const one of foldable(data.root, "")) {
      if (!wanted(one)) continue;
      if ((count += one.size) > most) break;
      state.unfolded.add(one.key);
    }
  }

  // The path of a node, or of a group, is where a permanent link leads.
  function located(path) {
    let [view, prefix, rest] = [data.root, "", path];
    for (;;) {
      const here = data.views[view];
      const group = here.groups.find((one) => rest === `[${one.name}]`);
      if (group) return { view, prefix, group };
      const node = here.nodes.find((one) => rest === one.name) || here.nodes.find((one) => one.inside !== null && rest.startsWith(`${one.name}/`));
      if (!node) return null;
      if (rest === node.name) return { view, prefix, node };
      prefix += `${node.name}/`;
      rest = rest.slice(node.name.length + 1);
      view = node.inside;
    }
  }

  function reveal(path) {
    const target = located(path);
    if (!target) return false;
    let unfolded = false;
    const unfold = (key) => { unfolded = unfolded || !state.unfolded.has(key); state.unfolded.add(key); };
    const parts = target.prefix.split("/").slice(0, -1);
    parts.forEach((_, depth) => {
      const key = parts.slice(0, depth + 1).join("/");
      unfoldAround(key, unfold);
      unfold(key);
    });
    unfoldAround(path, unfold);
    if (unfolded) draw();
    return true;
  }

  function unfoldAround(path, unfold) {
    const { view, prefix, node, group } = located(path) || {};
    if (view === undefined) return;
    const { groups, nodes } = data.views[view];
    let parent = group ? group.parent : null;
    if (node) {
      const number = nodes.indexOf(node);
      parent = groups.reduce((found, one, at) => (one.nodes.includes(number) ? at : found), null);
    }
    for (; parent !== null; parent = groups[parent].parent) unfold(groupKey(prefix, groups[parent]));
  }

  // --- the panel -----------------------------------------------------------------------

  // Texts of a model only ever become text nodes.
  function made(tag, text, name) {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (name) node.className = name;
    return node;
  }

  function button(name, text, click) {
    const node = made("button", text, name);
    node.type = "button";
    node.addEventListener("click", click);
    return node;
  }

  function select(key, { keepPanel = false } = {}) {
    state.selected = key;
    const box = key === null ? null : drawn.boxes.get(key);
    if (!keepPanel || box) element("main").classList.remove("closed");
    panel.replaceChildren(...(box ? (box.group ? describeGroup(box) : describe(box)) : summary()));
    panel.scrollTop = 0;
    const hash = key === null ? " " : `#${encodeURIComponent(key)}`;
    if (key !== null || location.hash) history.replaceState(null, "", key === null ? location.pathname + location.search : hash);
    mark();
  }

  function go(key) { if (reveal(key)) { select(key); center(key); } }

  const closer = () => {
    const close = button("close", "×", () => { select(null, { keepPanel: true }); element("main").classList.add("closed"); });
    close.setAttribute("aria-label", "Close the panel");
    return close;
  };

  function swatch(word) {
    const mark = made("i", undefined, "kind");
    mark.style.background = data.colours[word];
    return mark;
  }

  function summary() {
    const view = data.views[data.root];
    const parts = [closer(), made("h2", view.name), ...data.totals.map((line) => made("p", line)), made("h3", "Outputs"), made("p", view.outputs.join(", "))];
    if (data.compared) parts.push(...differences());
    const table = made("table");
    const kinds = new Map();
    for (const node of view.nodes) kinds.set(node.kind, { count: (kinds.get(node.kind)?.count || 0) + 1, word: node.word });
    for (const [kind, { count, word }] of [...kinds].sort((one, other) => other[1].count - one[1].count)) {
      const row = table.insertRow();
      const cell = row.insertCell();
      cell.append(swatch(word), button("link", kind, () => { element("search").value = kind; search(kind); }));
      row.append(made("td", String(count), "number"));
    }
    parts.push(made("h3", "Types"), table, made("h3", "Controls"));
    parts.push(made("p", "Drag or scroll to move, Ctrl and scroll to zoom. Click a node to see more of it; double click, or +, unfolds a block or a model in place. On the keyboard: Tab to the graph, arrows to follow connections, Enter to fold and unfold, / to search. The address of the page leads to the selected node."));
    return parts;
  }

  function differences() {
    const parts = [];
    const all = [...everyNode(data.root, "")];
    for (const difference of ["added", "removed", "changed"]) {
      const found = all.filter(({ node }) => node.difference === difference);
      parts.push(...links(difference, found.map(({ key }) => [key, key])));
    }
    return parts.length ? parts : [made("h3", "Differences"), made("p", "none in what is compared")];
  }

  function* everyNode(view, prefix, met = new Set()) {
    if (met.has(view)) return;
    met.add(view);
    for (const node of data.views[view].nodes) {
      yield { key: prefix + node.name, node };
      if (node.inside !== null) yield* everyNode(node.inside, `${prefix}${node.name}/`, met);
    }
  }

  function describeGroup(box) {
    const { group } = box;
    const view = data.views[box.frame.view];
    const prefix = box.key.slice(0, box.key.lastIndexOf("["));
    const parts = [closer(), made("h2", group.name), made("p", `a block of ${group.nodes.length} calls`)];
    if (group.parameters !== null) parts.push(made("p", `${group.parameters.toLocaleString("en")} parameters`));
    if (shadeOf(view, box) > 0) parts.push(made("p", `${inWords(shadeOf(view, box))}, ${data.shades.title}`));
    parts.push(button("open", box.inner ? "Fold" : "Unfold", () => { fold(box.key); select(box.key); }));
    parts.push(...links("Calls", group.nodes.map((number) => [prefix + view.nodes[number].name, view.nodes[number].name])));
    return parts;
  }

  function describe(box) {
    const { node } = box;
    const view = data.views[box.frame.view];
    const prefix = box.key.slice(0, box.key.length - node.name.length);
    const kind = made("p");
    kind.append(swatch(node.word), node.label);
    const parts = [closer(), made("h2", node.name), kind, ...badges(node)];
    if (node.inside !== null) parts.push(button("open", box.inner ? "Fold the model" : "Unfold the model", () => { fold(box.key); select(box.key); }));
    if (node.difference === "changed") parts.push(made("h3", "Difference"), ...node.reasons.map((reason) => made("p", reason)));
    parts.push(made("h3", "Output"), made("p", node.output || "known on build"));
    if (node.parameters === null) parts.push(made("p", "parameters: known on build"));
    else parts.push(made("p", `${node.parameters.toLocaleString("en")} parameters`));
    if (node.shade?.text) parts.push(made("p", node.shade.text));
    const index = view.nodes.indexOf(node);
    const above = view.edges.filter((edge) => edge.to === index);
    const below = view.edges.filter((edge) => edge.from === index);
    parts.push(...links("Inputs", above.map((edge) => [prefix + view.nodes[edge.from].name, taken(view, node, edge)])));
    parts.push(...links("Used by", below.map((edge) => [prefix + view.nodes[edge.to].name, view.nodes[edge.to].name + was(edge)])));
    const layer = layerOf(node);
    const before = node.before === null ? null : data.layers[node.before];
    if (layer) parts.push(...variables(layer, before), ...configs(layer, before));
    return parts;
  }

  function badges(node) {
    const shown = [];
    if (node.difference !== "same") shown.push([node.difference, node.difference]);
    if (node.shared) shown.push(["shared", "shared"]);
    if (node.masked) shown.push(["carries a mask", "masked"]);
    if (node.masked === null) shown.push(["mask: known on build", "masked"]);
    return shown.map(([text, colour]) => {
      const badge = made("span", text, "badge");
      badge.style.background = `var(--${colour})`;
      return badge;
    });
  }

  const was = (edge) => (edge.difference === "removed" ? " (before)" : "");

  // Of a call with several outputs, those that are taken: split.0, split.1.
  function taken(view, node, edge) {
    const name = view.nodes[edge.from].name;
    const outputs = node.sources.filter((source) => source.startsWith(`${name}.`) && /^\d+$/.test(source.slice(name.length + 1)));
    return (outputs.length && !was(edge) ? outputs.join(", ") : name) + was(edge);
  }

  function links(title, found) {
    if (!found.length) return [];
    const line = made("p");
    found.forEach(([key, text], number) => {
      if (number) line.append(", ");
      line.append(button("link", text, () => go(key)));
    });
    return [made("h3", title), line];
  }

  // An object in a config as it would be written: GlorotUniform(seed=3).
  function text(value) {
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return `[${value.map(text).join(", ")}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    const object = "class_name" in value && "config" in value;
    if (object && value.class_name === "DTypePolicy") return text(value.config.name);
    if (object && (value.config === null || typeof value.config !== "object")) return text(value.class_name === "function" ? value.config : value.class_name);
    const pairs = Object.entries(object ? value.config : value).filter(([, item]) => !object || item !== null);
    return object
      ? `${value.class_name}(${pairs.map(([key, item]) => `${key}=${text(item)}`).join(", ")})`
      : `{${pairs.map(([key, item]) => `${key}: ${text(item)}`).join(", ")}}`;
  }

  function configs(layer, before) {
    const [now, then] = [layer.config || {}, before?.config];
    const keys = [...new Set([...Object.keys(then || {}), ...Object.keys(now)])];
    if (!keys.length) return [];
    const table = made("table");
    for (const key of keys) {
      const row = table.insertRow();
      row.append(made("th", key));
      const cell = row.insertCell();
      const [old, value] = [then && key in then ? text(then[key]) : undefined, key in now ? text(now[key]) : undefined];
      if (!then || old === value) cell.textContent = value;
      else {
        if (old !== undefined) cell.append(made("del", old), " ");
        if (value !== undefined) cell.append(made("ins", value));
      }
    }
    return [made("h3", "Config"), table];
  }

  const number = (value) => (value === null ? "–" : Number(value.toPrecision(4)).toString());

  function variables(layer, before) {
    if (layer.variables === null) return [made("h3", "Weights"), made("p", "known on build")];
    const parts = layer.variables.length ? [made("h3", "Weights")] : [];
    layer.variables.forEach((variable, index) => {
      const old = before?.variables?.[index];
      parts.push(made("p", variable.name, "variable"));
      parts.push(made("p", `${variable.dtype}[${variable.shape.join(", ")}]${variable.trainable ? "" : ", not trainable"}`));
      if (variable.values.length) parts.push(made("p", variable.values.map(number).join("  "), "values"));
      else parts.push(statistics(variable, old));
      if (variable.counts.length) parts.push(histogram(variable));
      if (variable.not_finite) parts.push(made("p", `${variable.not_finite.toLocaleString("en")} values are NaN or infinite`));
    });
    return parts;
  }

  function statistics(variable, old) {
    const table = made("table", undefined, "statistics");
    const columns = [["mean", "mean"], ["std", "std"], ["min", "low"], ["max", "high"]];
    const head = table.insertRow();
    if (old) head.append(made("th", ""));
    for (const [title] of columns) head.append(made("th", title, "number"));
    const rows = old ? [["before", old], ["after", variable]] : [[null, variable]];
    for (const [side, values] of rows) {
      const row = table.insertRow();
      if (side) row.append(made("th", side));
      for (const [, key] of columns) row.append(made("td", number(values[key]), "number"));
    }
    return table;
  }

  function histogram({ counts, low, high }) {
    const most = Math.max(...counts);
    const bars = counts.map((count, step) => shape("rect", { x: step * 10 + 0.5, y: 40 - 40 * count / most, width: 9, height: 40 * count / most }));
    return shape("svg", { class: "histogram", viewBox: `0 0 ${counts.length * 10} 40`, preserveAspectRatio: "none", role: "img", "aria-label": `histogram from ${number(low)} to ${number(high)}` }, ...bars);
  }

  // --- search --------------------------------------------------------------------------

  const texts = [...everyNode(data.root, "")].map(({ key, node }) => {
    const layer = layerOf(node);
    const config = Object.entries(layer?.config || {}).map(([name, value]) => `${name}=${text(value)}`);
    return { key, name: node.name.toLowerCase(), rest: [node.kind, node.output, gistOf(node), ...config].join("\n").toLowerCase() };
  });

  // Names first, then everything else that is said of a node.
  function search(query) {
    const wanted = query.trim().toLowerCase();
    const inRest = wanted ? texts.filter((one) => one.rest.includes(wanted)) : [];
    const inName = wanted ? texts.filter((one) => one.name.includes(wanted)) : [];
    state.hits = [...new Set([...inName, ...inRest].map((one) => one.key))];
    state.at = -1;
    if (state.hits.length) visit(0); else { mark(); count(); }
  }

  function count() {
    element("count").textContent = element("search").value.trim() ? `${state.hits.length ? state.at + 1 : 0} of ${state.hits.length}` : "";
  }

  function visit(at) {
    state.at = (at + state.hits.length) % state.hits.length;
    go(state.hits[state.at]);
    count();
  }

  // --- pictures ------------------------------------------------------------------------

  function svgText() {
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "paper", "frame", "ink", "soft", "line", "edge", "accent", "shared", "masked", "added", "removed", "changed", "added-fill", "removed-fill", "changed-fill", "step1", "step2", "step3", "step4", "step5"];
    let css = element("drawing").textContent;
    for (const name of names) css = css.replaceAll(`var(--${name})`, style.getPropertyValue(`--${name}`).trim());
    const content = scene.cloneNode(true);
    content.removeAttribute("transform");
    content.removeAttribute("id");
    for (const one of content.querySelectorAll(".toggle")) one.remove();
    for (const one of content.querySelectorAll(".near, .selected, .hit")) one.classList.remove("near", "selected", "hit");
    for (const one of content.querySelectorAll("[data-key]")) for (const name of ["data-key", "tabindex", "role", "aria-expanded"]) one.removeAttribute(name);
    const [width, height] = [Math.ceil(drawn.width), Math.ceil(drawn.height)];
    const picture = shape("svg", { xmlns: NS, width, height, viewBox: `0 0 ${width} ${height}` }, shape("title", {}, document.title), shape("style", {}, css), shape("rect", { width, height, fill: style.getPropertyValue("--back").trim() }), content);
    return new XMLSerializer().serializeToString(picture);
  }

  function download(blob, suffix) {
    const link = made("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${data.views[data.root].name}.${suffix}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function pngBlob() {
    return new Promise((resolve, reject) => {
      const picture = new Image();
      picture.onload = () => {
        const scale = Math.min(2, 16000 / Math.max(picture.width, picture.height), Math.sqrt(1.2e8 / (picture.width * picture.height)));
        const canvas = document.createElement("canvas");
        canvas.width = Math.max(1, Math.round(picture.width * scale));
        canvas.height = Math.max(1, Math.round(picture.height * scale));
        canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("the picture is too large"))));
      };
      picture.onerror = () => reject(new Error("the picture cannot be drawn"));
      picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText())}`;
    });
  }

  // --- controls -------------------------------------------------------------------------

  const boxAt = (target) => drawn.boxes.get(target.closest?.(".node")?.dataset.key);
  const pointers = new Map();
  graph.addEventListener("pointerdown", (event) => {
    if (boxAt(event.target) && !boxAt(event.target).inner) return; // texts of nodes can be selected
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    graph.setPointerCapture(event.pointerId);
    graph.classList.add("dragging");
    state.pressed = { target: event.target, moved: 0 };
  });
  graph.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) return;
    const now = [event.clientX, event.clientY];
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const distance = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
      const { left, top } = graph.getBoundingClientRect();
      zoomAt(other[0] - left, other[1] - top, distance(now) / Math.max(1, distance(last)));
    } else {
      state.x += now[0] - last[0];
      state.y += now[1] - last[1];
      move();
    }
    state.pressed.moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
    pointers.set(event.pointerId, now);
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (!pointers.size) graph.classList.remove("dragging");
    if (event.type === "pointerup" && state.pressed.moved < 5) {
      const box = boxAt(state.pressed.target);
      if (state.pressed.target.closest(".toggle")) fold(box.key);
      else select(box ? box.key : null, { keepPanel: true });
    }
  };
  graph.addEventListener("pointerup", release);
  graph.addEventListener("pointercancel", release);
  graph.addEventListener("click", (event) => {
    const box = boxAt(event.target);
    if (box && !box.inner && !String(getSelection())) select(box.key);
  });
  graph.addEventListener("dblclick", (event) => {
    const box = boxAt(event.target);
    if (box && (box.folds || box.inner) && !event.target.closest(".toggle")) { getSelection().removeAllRanges(); fold(box.key); select(box.key); }
  });
  graph.addEventListener("focusin", (event) => {
    const box = boxAt(event.target);
    if (!box) return;
    if (state.selected !== box.key) select(box.key);
    const [width, height] = size();
    const [x, y] = [box.x * state.scale + state.x, box.y * state.scale + state.y];
    if (x < 40 || y < 30 || x > width - 40 || y > height - 30) center(box.key);
  });
  graph.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const { left, top } = graph.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) zoomAt(event.clientX - left, event.clientY - top, Math.exp(-event.deltaY * lines * 0.01));
    else if (event.shiftKey) { state.x -= (event.deltaY + event.deltaX) * lines; move(); }
    else { state.x -= event.deltaX * lines; state.y -= event.deltaY * lines; move(); }
  }, { passive: false });

  // The box that an arrow key leads to: along a line, into and out of frames, or sideways.
  function beside(box, key) {
    if (key === "ArrowDown" || key === "ArrowUp") {
      const [side, back] = key === "ArrowDown" ? ["below", -1] : ["above", 1];
      if (side === "below" && box.inner && box.children.length) return box.children[0];
      for (let at = box; at; at = at.parent) {
        const next = at.joined[side].find((one) => !one.port);
        if (next) {
          let end = next;
          while (end.inner && end.children.length && back > 0) end = end.children[end.children.length - 1];
          return end;
        }
        if (back > 0 && at.parent) return at.parent;
      }
      return null;
    }
    const sign = key === "ArrowRight" ? 1 : -1;
    const others = [...drawn.boxes.values()].filter((one) => (one.x - box.x) * sign > 1 && Math.abs(one.y - box.y) < HEIGHT && !one.inner);
    return others.sort((one, other) => Math.abs(one.x - box.x) - Math.abs(other.x - box.x))[0] || null;
  }

  graph.addEventListener("keydown", (event) => {
    const box = boxAt(event.target);
    if (!box) return;
    const all = drawn.top;
    let next = null;
    if (event.key.startsWith("Arrow")) next = beside(box, event.key);
    else if (event.key === "Home") next = all[0];
    else if (event.key === "End") next = all[all.length - 1];
    else if ((event.key === "Enter" || event.key === " ") && (box.folds || box.inner)) { fold(box.key); select(box.key); drawn.boxes.get(box.key).element.focus({ preventScroll: true }); }
    else if (event.key === "+" || event.key === "-") zoomAt(graph.clientWidth / 2, graph.clientHeight / 2, event.key === "+" ? 1.25 : 0.8);
    else return;
    event.preventDefault();
    if (next) { select(next.key); next.element.focus({ preventScroll: true }); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== element("search")) { event.preventDefault(); element("search").focus(); }
    else if (event.key === "Escape") {
      if (document.activeElement === element("search") && element("search").value) { element("search").value = ""; search(""); }
      else if (state.selected !== null) select(null, { keepPanel: true });
      else element("main").classList.add("closed");
    }
  });
  minimap.addEventListener("pointerdown", (event) => {
    const { left, top } = minimap.getBoundingClientRect();
    const ratio = Number(minimap.dataset.ratio);
    state.x = graph.clientWidth / 2 - (event.clientX - left) / ratio * state.scale;
    state.y = graph.clientHeight / 2 - (event.clientY - top) / ratio * state.scale;
    move();
  });
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && state.hits.length) visit(state.at + (event.shiftKey ? -1 : 1));
  });
  element("in").addEventListener("click", () => zoomAt(graph.clientWidth / 2, graph.clientHeight / 2, 1.25));
  element("out").addEventListener("click", () => zoomAt(graph.clientWidth / 2, graph.clientHeight / 2, 0.8));
  element("fit").addEventListener("click", () => fit(true));
  element("unfold").addEventListener("click", () => { unfoldAll(() => true, MOST); draw(); fit(false); });
  element("fold").addEventListener("click", () => { state.unfolded.clear(); draw(); fit(false); if (!drawn.boxes.has(state.selected)) select(null, { keepPanel: true }); });
  element("svg").addEventListener("click", () => download(new Blob([svgText()], { type: "image/svg+xml" }), "svg"));
  element("png").addEventListener("click", () => pngBlob().then((blob) => download(blob, "png"), (error) => alert(error.message)));
  element("about").addEventListener("click", () => { select(state.selected); element("main").classList.remove("closed"); });
  addEventListener("hashchange", () => followHash());
  new ResizeObserver(move).observe(graph);

  function followHash() {
    let path = "";
    try { path = decodeURIComponent(location.hash.slice(1)); } catch { return false; }
    if (path && path !== state.selected) go(path);
    return path !== "" && path === state.selected;
  }

  function showLegend() {
    const every = data.views.flatMap((view) => view.nodes);
    const entries = [];
    if (data.compared) entries.push("added", "removed", "changed");
    if (every.some((node) => node.shared)) entries.push("shared");
    if (data.views.some((view) => view.edges.some((edge) => edge.masked))) entries.push("masked");
    const shades = data.shades === null ? [] : [made("span", `${data.shades.title}:`), ...data.shades.names.map((name, number) => {
      const entry = made("span");
      const mark = made("i");
      mark.style.background = `var(--step${number + 1})`;
      mark.style.borderColor = "var(--edge)";
      entry.append(mark, name);
      return entry;
    })];
    element("legend").replaceChildren(...shades, ...entries.map((name) => {
      const entry = made("span");
      const mark = made("i");
      mark.style.borderColor = `var(--${name})`;
      if (name === "masked") mark.style.borderStyle = "dashed";
      if (["added", "removed", "changed"].includes(name)) mark.style.background = `var(--${name}-fill)`;
      entry.append(mark, name);
      return entry;
    }));
  }

  element("title").textContent = data.compared && data.names.length === 2 ? `${data.names[0]} → ${data.names[1]}` : data.names[0];
  showLegend();
  if (data.compared) unfoldAll((one) => one.differs, 400);
  draw();
  fit(false);
  if (!followHash()) select(null);
  if (innerWidth <= 760) element("main").classList.add("closed");

  // What tests and the curious may ask.
  window.ramet = {
    data, state, draw, fold, select, go, svgText, pngBlob, boxes: () => [...drawn.boxes.keys()], size: () => [drawn.width, drawn.height],
    /** Where a box is on the page, by its path. */
    placeOf(key) {
      const box = drawn.boxes.get(key);
      const { left, top } = graph.getBoundingClientRect();
      return [left + box.x * state.scale + state.x, top + box.y * state.scale + state.y];
    },
  };
})();
