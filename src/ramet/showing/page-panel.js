// The panel beside the graph, the search, and pictures to save.

// --- the panel -----------------------------------------------------------------------

// What a file with classes that nobody has leaves open, no build will tell.
const UNKNOWN = data.notes.length ? "not known" : "known on build";

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
  const parts = [closer(), made("h2", view.name), ...data.totals.map((line) => made("p", line)), made("h3", "Outputs"), made("p", view.outputs.join(", ")), ...data.notes.map((note) => made("p", note, "note"))];
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
    if (!found.length) continue;
    const list = made("ul", undefined, "changes");
    for (const { key, node } of found) {
      const item = made("li");
      item.append(button("link", key, () => go(key)), ...(node.reasons.length ? [made("p", node.reasons.join("; "))] : []));
      list.append(item);
    }
    parts.push(made("h3", `${difference} (${found.length})`), list);
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
  parts.push(made("h3", "Output"), made("p", node.output || UNKNOWN));
  if (node.parameters === null) parts.push(made("p", `parameters: ${UNKNOWN}`));
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
  if (node.masked === null) shown.push([`mask: ${UNKNOWN}`, "masked"]);
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
  if (layer.variables === null) return [made("h3", "Weights"), made("p", UNKNOWN)];
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
