// The page of `show`: its data, the widths of texts, and where everything stands. All files share one scope.

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
