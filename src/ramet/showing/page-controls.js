// Mouse, keyboard, buttons and links; the end shows the page.

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
  const [across, down] = mapRatios();
  state.x = graph.clientWidth / 2 - (event.clientX - left) / across * state.scale;
  state.y = graph.clientHeight / 2 - (event.clientY - top) / down * state.scale;
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
