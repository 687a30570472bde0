// Draws what was laid out, moves and zooms the view, and folds and unfolds.

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
    const [across, down] = mapRatios();
    const box = { x: -state.x / state.scale * across, y: -state.y / state.scale * down, width: width / state.scale * across, height: Math.max(3, height / state.scale * down) };
    for (const [key, value] of Object.entries(box)) seen.setAttribute(key, round(value));
    const all = state.x >= 0 && state.y >= 0 && state.x + drawn.width * state.scale <= width && state.y + drawn.height * state.scale <= height;
    minimap.style.visibility = all ? "hidden" : "visible";
  }
}

// A long thread is drawn wider in the minimap than it is, so that it can be seen and clicked on.
const LEAST = 48;
function mapRatios() {
  const ratio = Math.min(150 / drawn.width, 190 / drawn.height);
  return [Math.max(ratio, LEAST / drawn.width), Math.max(ratio, LEAST / drawn.height)];
}

function drawMinimap() {
  const [across, down] = mapRatios();
  minimap.setAttribute("width", Math.round(drawn.width * across));
  minimap.setAttribute("height", Math.round(drawn.height * down));
  const dots = [...drawn.boxes.values()].filter((box) => !box.inner).map((box) => shape("rect", {
    class: `dot ${differenceOf(box) === "same" ? "" : differenceOf(box)}`.trim(), x: round((box.x - box.width / 2) * across), y: round((box.y - box.height / 2) * down),
    width: Math.max(1, round(box.width * across)), height: Math.max(1, round(box.height * down)),
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
  state.scale = whole || all > 0.7 ? all : Math.min(1, Math.max(0.75, width / drawn.width));
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
