"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const [WIDTH, HEIGHT] = data.size;
  const element = (id) => document.getElementById(id);
  const canvas = element("graph");
  const context = canvas.getContext("2d");
  const state = { view: data.root, trail: [], x: 0, y: 0, scale: 1, selected: null, hits: new Map(), order: [], at: -1 };
  let colours = {};
  let fonts = 0; // grows when text has to be measured again

  // --- what is drawn -------------------------------------------------------------------

  for (const view of data.views) {
    for (const edge of view.edges) {
      const from = view.nodes[edge.from];
      const to = view.nodes[edge.to];
      const points = [[from.x, from.y + HEIGHT / 2], ...edge.bends, [to.x, to.y - HEIGHT / 2]];
      edge.path = new Path2D();
      edge.path.moveTo(...points[0]);
      for (let i = 1; i < points.length; i++) {
        const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
        const middle = (y1 + y2) / 2;
        edge.path.bezierCurveTo(x1, middle, x2, middle, x2, y2);
      }
      const last = points[points.length - 1];
      edge.head = new Path2D();
      edge.head.moveTo(last[0] - 4, last[1] - 7);
      edge.head.lineTo(last[0], last[1]);
      edge.head.lineTo(last[0] + 4, last[1] - 7);
      edge.head.closePath();
      const xs = points.map((p) => p[0]);
      const ys = points.map((p) => p[1]);
      edge.box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    }
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "paper", "ink", "soft", "line", "edge", "accent", "hit", "shared", "masked", "added", "removed", "changed", "added-fill", "removed-fill", "changed-fill", "strip"];
    colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  // Kinds in the order of their number: the commonest have the colours that differ most.
  const kinds = new Map();
  for (const node of data.views.flatMap((view) => view.nodes)) kinds.set(node.kind, (kinds.get(node.kind) || 0) + 1);
  const ranks = new Map([...kinds].sort((one, other) => other[1] - one[1]).map(([kind], rank) => [kind, rank]));
  const hue = (kind) => `hsl(${(210 + ranks.get(kind) * 137.5) % 360} 55% ${colours.strip})`;

  // Frames are asked for, and drawn once however often they are asked for.
  let waiting = false;
  function redraw() {
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    }
  }

  function draw() {
    const view = data.views[state.view];
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    const scale = state.scale * ratio;
    context.setTransform(scale, 0, 0, scale, state.x * ratio, state.y * ratio);
    const seen = [-state.x / state.scale, -state.y / state.scale, (width - state.x) / state.scale, (height - state.y) / state.scale];
    const shows = ([left, top, right, bottom]) => right >= seen[0] - 20 && left <= seen[2] + 20 && bottom >= seen[1] - 20 && top <= seen[3] + 20;
    for (const edge of view.edges) if (shows(edge.box)) drawEdge(edge);
    for (const [index, node] of view.nodes.entries()) {
      if (shows([node.x - WIDTH / 2, node.y - HEIGHT / 2, node.x + WIDTH / 2, node.y + HEIGHT / 2])) drawNode(node, index);
    }
  }

  function drawEdge(edge) {
    const near = state.selected === edge.from || state.selected === edge.to;
    let colour = edge.masked ? colours.masked : colours.edge;
    if (edge.difference !== "same") colour = colours[edge.difference];
    else if (near) colour = colours.accent;
    context.strokeStyle = context.fillStyle = colour;
    const wide = (near ? 1 : 0) + (edge.difference === "same" ? 1.5 : 2);
    context.lineWidth = Math.max(wide, 0.8 / state.scale);
    context.setLineDash(edge.masked ? [6, 4] : []);
    context.stroke(edge.path);
    context.setLineDash([]);
    if (state.scale > 0.25) context.fill(edge.head);
  }

  function drawNode(node, index) {
    const x = node.x - WIDTH / 2;
    const y = node.y - HEIGHT / 2;
    const differs = node.difference !== "same";
    const fill = differs ? colours[`${node.difference}-fill`] : colours.paper;
    const hit = state.hits.get(state.view)?.has(index);
    const selected = state.selected === index;
    if (node.inside !== null) box(x + 5, y + 5, fill, differs ? colours[node.difference] : colours.line, 1);
    if (hit) { context.shadowColor = colours.hit; context.shadowBlur = 14; }
    const line = selected ? colours.accent : hit ? colours.hit : differs ? colours[node.difference] : colours.line;
    box(x, y, fill, line, selected || hit ? 3 : 1.2);
    context.shadowBlur = 0;
    context.fillStyle = hue(node.kind);
    context.beginPath();
    context.roundRect(x + 5, y + 8, 4, HEIGHT - 16, 2);
    context.fill();
    if (state.scale < 0.32) return;
    label(node);
    context.textBaseline = "alphabetic";
    context.fillStyle = colours.ink;
    context.font = "600 13px system-ui, sans-serif";
    context.fillText(node.lines[0], x + 16, y + 20);
    context.fillStyle = colours.soft;
    context.font = "11.5px system-ui, sans-serif";
    context.fillText(node.lines[1], x + 16, y + 37);
    context.fillText(node.lines[2], x + 16, y + 53);
    let right = x + WIDTH - 5;
    if (node.masked) right = badge("mask", colours.masked, right, y);
    if (node.shared) right = badge("shared", colours.shared, right, y);
    if (node.inside !== null) badge("open ▸", colours.accent, x + WIDTH - 5, y + HEIGHT);
  }

  function box(x, y, fill, line, width) {
    context.fillStyle = fill;
    context.strokeStyle = line;
    context.lineWidth = width;
    context.beginPath();
    context.roundRect(x, y, WIDTH, HEIGHT, 8);
    context.fill();
    context.stroke();
  }

  function badge(text, colour, right, y) {
    context.font = "600 10px system-ui, sans-serif";
    const width = context.measureText(text).width + 10;
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(right - width, y - 8, width, 14, 7);
    context.fill();
    context.fillStyle = colours.paper;
    context.fillText(text, right - width + 5, y + 3);
    return right - width - 3;
  }

  // A text is measured and shortened once, not in every frame.
  function label(node) {
    if (node.measured === fonts) return;
    node.measured = fonts;
    context.font = "600 13px system-ui, sans-serif";
    const name = shortened(node.name, true);
    context.font = "11.5px system-ui, sans-serif";
    node.lines = [name, shortened(node.label, false), shortened(node.output, false)];
  }

  function shortened(text, middle) {
    const room = WIDTH - 26;
    if (context.measureText(text).width <= room) return text;
    const signs = [...text];
    let [low, high] = [0, signs.length];
    const cut = (n) => {
      const tail = middle ? Math.floor(n / 2) : 0;
      return signs.slice(0, n - tail).join("") + "…" + (tail ? signs.slice(-tail).join("") : "");
    };
    while (low < high) {
      const half = Math.ceil((low + high) / 2);
      if (context.measureText(cut(half)).width <= room) low = half; else high = half - 1;
    }
    return cut(low);
  }

  // --- where we look -------------------------------------------------------------------

  function zoomAt(x, y, factor) {
    const scale = Math.min(3, Math.max(0.01, state.scale * factor));
    state.x = x - (x - state.x) * (scale / state.scale);
    state.y = y - (y - state.y) * (scale / state.scale);
    state.scale = scale;
    redraw();
  }

  function fit(whole) {
    const view = data.views[state.view];
    const { clientWidth: width, clientHeight: height } = canvas;
    const all = Math.min(width / view.width, height / view.height, 1);
    // A deep model as a whole is a thread: begin at its top, and readable.
    state.scale = whole || all > 0.55 ? all : Math.min(1, Math.max(0.6, width / view.width));
    state.x = (width - view.width * state.scale) / 2;
    state.y = view.height * state.scale < height ? (height - view.height * state.scale) / 2 : 0;
    if (!whole && view.width * state.scale > width && view.nodes.length) state.x = width / 2 - view.nodes[0].x * state.scale;
    redraw();
  }

  function center(index) {
    const node = data.views[state.view].nodes[index];
    if (state.scale < 0.5) state.scale = 0.9;
    state.x = canvas.clientWidth / 2 - node.x * state.scale;
    state.y = canvas.clientHeight / 2 - node.y * state.scale;
    redraw();
  }

  function enter(index) {
    const node = data.views[state.view].nodes[index];
    if (node.inside === null) return;
    const { view, x, y, scale } = state;
    state.trail.push({ view, x, y, scale, node: index });
    state.view = node.inside;
    select(null);
    showPath();
    fit(false);
  }

  function leave(depth) {
    const place = state.trail[depth];
    state.trail.length = depth;
    Object.assign(state, { view: place.view, x: place.x, y: place.y, scale: place.scale });
    showPath();
    select(place.node);
  }

  function showPath() {
    const nodes = [];
    const names = [data.views[data.root].name, ...state.trail.map((place) => data.views[place.view].nodes[place.node].name)];
    names.forEach((name, depth) => {
      if (depth) nodes.push(made("span", "/"));
      if (depth === names.length - 1) nodes.push(made("span", name));
      else nodes.push(button("", name, () => leave(depth)));
    });
    element("path").replaceChildren(...nodes);
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

  function select(index) {
    state.selected = index;
    const view = data.views[state.view];
    element("panel").replaceChildren(...(index === null ? summary(view) : describe(view, index)));
    element("panel").scrollTop = 0;
    redraw();
  }

  function summary(view) {
    const parts = [made("h2", view.name)];
    if (state.view === data.root) parts.push(...data.totals.map((line) => made("p", line)));
    parts.push(made("h3", "Gives"), made("p", view.outputs.join(", ")));
    if (data.compared) parts.push(...differences(view));
    const table = made("table");
    const counts = new Map();
    for (const node of view.nodes) counts.set(node.kind, (counts.get(node.kind) || 0) + 1);
    for (const [kind, number] of [...counts].sort((one, other) => other[1] - one[1])) {
      const row = table.insertRow();
      const mark = made("i", undefined, "kind");
      mark.style.background = hue(kind);
      const cell = row.insertCell();
      cell.append(mark, button("link", kind, () => { element("search").value = kind; search(kind); }));
      row.append(made("td", String(number), "number"));
    }
    parts.push(made("h3", "Kinds"), table, made("h3", "Controls"));
    parts.push(made("p", "Drag or scroll to move, Ctrl and scroll to zoom. Click a node to see more of it; double click a model to open it, Escape to leave. / to search, Enter for the next hit."));
    return parts;
  }

  function differences(view) {
    const parts = [];
    for (const difference of ["added", "removed", "changed"]) {
      const found = [...view.nodes.keys()].filter((index) => view.nodes[index].difference === difference);
      parts.push(...neighbours(view, difference, found.map((index) => [index, view.nodes[index].name])));
    }
    return parts.length ? parts : [made("h3", "Differences"), made("p", "none in what is compared")];
  }

  function describe(view, index) {
    const node = view.nodes[index];
    const parts = [button("close", "×", () => select(null)), made("h2", node.name), made("p", node.label)];
    parts.push(...badges(node));
    if (node.inside !== null) parts.push(button("open", "Open the model inside", () => enter(index)));
    if (node.difference === "changed") parts.push(made("h3", "Difference"), ...node.reasons.map((reason) => made("p", reason)));
    parts.push(made("h3", "Output"), made("p", node.output || "known on build"));
    if (node.parameters === null) parts.push(made("p", "parameters: known on build"));
    else parts.push(made("p", `${node.parameters.toLocaleString("en")} parameters`));
    const above = view.edges.filter((edge) => edge.to === index);
    const below = view.edges.filter((edge) => edge.from === index);
    parts.push(...neighbours(view, "Takes", above.map((edge) => [edge.from, taken(view, node, edge)])));
    parts.push(...neighbours(view, "Read by", below.map((edge) => [edge.to, view.nodes[edge.to].name + was(edge)])));
    const layer = node.layer === null ? null : data.layers[node.layer];
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

  function neighbours(view, title, found) {
    if (!found.length) return [];
    const line = made("p");
    found.forEach(([index, text], number) => {
      if (number) line.append(", ");
      line.append(button("link", text, () => { select(index); center(index); }));
    });
    return [made("h3", title), line];
  }

  // An object in a config as it would be written: GlorotUniform(seed=3).
  function text(value) {
    if (typeof value === "string") return value;
    if (Array.isArray(value)) return `[${value.map(text).join(", ")}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    const made = "class_name" in value && "config" in value;
    if (made && value.class_name === "DTypePolicy") return text(value.config.name);
    if (made && (value.config === null || typeof value.config !== "object")) return text(value.class_name === "function" ? value.config : value.class_name);
    const pairs = Object.entries(made ? value.config : value).filter(([, item]) => !made || item !== null);
    return made
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
      parts.push(statistics(variable, old));
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

  // --- search --------------------------------------------------------------------------

  // Where each view was first met on the way down: that is where a hit leads.
  const trails = new Map([[data.root, []]]);
  for (const [view, trail] of trails) {
    data.views[view].nodes.forEach((node, index) => {
      if (node.inside !== null && !trails.has(node.inside)) trails.set(node.inside, [...trail, [view, index]]);
    });
  }

  function search(query) {
    const wanted = query.trim().toLowerCase();
    state.hits = new Map();
    state.order = [];
    state.at = -1;
    if (wanted) {
      for (const view of trails.keys()) {
        data.views[view].nodes.forEach((node, index) => {
          if (node.name.toLowerCase().includes(wanted) || node.kind.toLowerCase().includes(wanted)) {
            if (!state.hits.has(view)) state.hits.set(view, new Set());
            state.hits.get(view).add(index);
            state.order.push([view, index]);
          }
        });
      }
      const here = state.order.findIndex(([view]) => view === state.view);
      if (state.order.length) visit(here < 0 ? 0 : here);
    }
    count();
    redraw();
  }

  function count() {
    const { order, at } = state;
    element("count").textContent = element("search").value.trim() ? `${order.length ? at + 1 : 0} of ${order.length}` : "";
  }

  function visit(at) {
    state.at = (at + state.order.length) % state.order.length;
    const [view, index] = state.order[state.at];
    if (view !== state.view) {
      state.view = view;
      state.trail = trails.get(view).map(([place, node]) => ({ view: place, node, ...overview(place, node) }));
      showPath();
    }
    select(index);
    center(index);
    count();
  }

  function overview(view, index) {
    const node = data.views[view].nodes[index];
    return { scale: 1, x: canvas.clientWidth / 2 - node.x, y: canvas.clientHeight / 2 - node.y };
  }

  // --- controls -------------------------------------------------------------------------

  function nodeAt(x, y) {
    const [left, top] = [(x - state.x) / state.scale, (y - state.y) / state.scale];
    return data.views[state.view].nodes.findIndex((node) => Math.abs(left - node.x) <= WIDTH / 2 && Math.abs(top - node.y) <= HEIGHT / 2 + 4);
  }

  const pointers = new Map();
  let moved = 0;
  canvas.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (pointers.size === 1) moved = 0;
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) {
      const index = nodeAt(event.offsetX, event.offsetY);
      canvas.style.cursor = index < 0 ? "" : "pointer";
      canvas.title = index < 0 ? "" : data.views[state.view].nodes[index].name;
      return;
    }
    const now = [event.offsetX, event.offsetY];
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const distance = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]);
      zoomAt(other[0], other[1], distance(now) / Math.max(1, distance(last)));
    } else {
      state.x += now[0] - last[0];
      state.y += now[1] - last[1];
    }
    moved += Math.abs(now[0] - last[0]) + Math.abs(now[1] - last[1]);
    pointers.set(event.pointerId, now);
    redraw();
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (!pointers.size) canvas.classList.remove("dragging");
    if (event.type === "pointerup" && moved < 5) {
      const index = nodeAt(event.offsetX, event.offsetY);
      select(index < 0 ? null : index);
    }
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("dblclick", (event) => {
    const index = nodeAt(event.offsetX, event.offsetY);
    if (index >= 0) enter(index);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.ctrlKey || event.metaKey) zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * lines * 0.01));
    else if (event.shiftKey) { state.x -= (event.deltaY + event.deltaX) * lines; redraw(); }
    else { state.x -= event.deltaX * lines; state.y -= event.deltaY * lines; redraw(); }
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60], PageUp: [0, 500], PageDown: [0, -500] };
    if (steps[event.key]) { state.x += steps[event.key][0]; state.y += steps[event.key][1]; redraw(); }
    else if (event.key === "+" || event.key === "-") zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, event.key === "+" ? 1.25 : 0.8);
    else if (event.key === "Enter" && state.selected !== null) enter(state.selected);
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== element("search")) { event.preventDefault(); element("search").focus(); }
    else if (event.key === "Escape") {
      if (document.activeElement === element("search") && element("search").value) { element("search").value = ""; search(""); }
      else if (state.selected !== null) select(null);
      else if (state.trail.length) leave(state.trail.length - 1);
    }
  });
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && state.order.length) visit(state.at + (event.shiftKey ? -1 : 1));
  });
  element("in").addEventListener("click", () => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 1.25));
  element("out").addEventListener("click", () => zoomAt(canvas.clientWidth / 2, canvas.clientHeight / 2, 0.8));
  element("fit").addEventListener("click", () => fit(true));

  function showLegend() {
    const every = data.views.flatMap((view) => view.nodes);
    const entries = [];
    if (data.compared) entries.push(["added"], ["removed"], ["changed"]);
    if (every.some((node) => node.shared)) entries.push(["shared"]);
    if (data.views.some((view) => view.edges.some((edge) => edge.masked))) entries.push(["masked"]);
    element("legend").replaceChildren(...entries.map(([name]) => {
      const entry = made("span");
      const mark = made("i");
      mark.style.borderColor = `var(--${name})`;
      if (name === "masked") mark.style.borderStyle = "dashed";
      if (data.compared && ["added", "removed", "changed"].includes(name)) mark.style.background = `var(--${name}-fill)`;
      entry.append(mark, name);
      return entry;
    }));
  }

  const theme = matchMedia("(prefers-color-scheme: dark)");
  theme.addEventListener("change", () => { readColours(); redraw(); });
  new ResizeObserver(redraw).observe(canvas);
  document.fonts?.ready.then(() => { fonts += 1; redraw(); });

  readColours();
  showLegend();
  showPath();
  select(null);
  fit(false);

  // What tests and the curious may ask.
  window.ramet = {
    data, state, draw, enter, leave, select, center,
    /** Where a node of the view is on the page, by name. */
    placeOf(name) {
      const node = data.views[state.view].nodes.find((one) => one.name === name);
      const { left, top } = canvas.getBoundingClientRect();
      return [left + node.x * state.scale + state.x, top + node.y * state.scale + state.y];
    },
  };
})();
