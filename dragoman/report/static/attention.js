// The pictures of all layers and heads, and the chosen one at large: as lines between words and as a matrix.

const THUMBNAIL = 64; // pixels a side
const LINES_PER_WORD = 4;
const FAINTEST_LINE = 0.04;

const attentions = Object.fromEntries(Object.keys(NAMES).map((kind) => [kind, new Attention(kind)]));

const view = { kind: "cross", layer: data.clearest_layer, head: null, byWord: true };
let map; // the chosen one
let show = {}; // what follows the pointer

const headName = (attention, head) => (head === null ? `mean of ${attention.heads} heads` : `head ${head + 1}`);
const title = (kind, layer, head) => `${NAMES[kind]}, layer ${layer + 1}, ${headName(attentions[kind], head)}`;

const thumbnails = Object.values(attentions).flatMap((attention) => {
  const heads = [...Array(attention.heads).keys(), null];
  const names = heads.map((head) => make("span", { textContent: head === null ? "mean" : head + 1 }));
  const cells = [make("span", { textContent: "head", className: "layer" }), ...names];
  const buttons = [];
  for (let layer = 0; layer < attention.layers; layer++) {
    cells.push(make("span", { textContent: `layer ${layer + 1}`, className: "layer" }));
    for (const head of heads) {
      const button = make("button", { type: "button", title: title(attention.kind, layer, head) }, make("canvas"));
      button.setAttribute("aria-label", button.title);
      button.addEventListener("click", () => {
        choosePicture(attention.kind, layer, head);
        chooseHead(attention.kind, layer, head ?? looking.head);
      });
      buttons.push({ button, kind: attention.kind, layer, head });
      cells.push(button);
    }
  }
  const grid = make("div", { className: "grid" }, ...cells);
  grid.style.gridTemplateColumns = `auto repeat(${heads.length}, auto)`;
  grid.style.setProperty("--size", heads.length > 6 ? "42px" : "60px");
  find("grids").append(make("figure", {}, make("figcaption", { textContent: NAMES[attention.kind] }), grid));
  rove(grid, buttons.map(({ button }) => button), heads.length);
  return buttons;
});

function paintThumbnails() {
  for (const { button, kind, layer, head } of thumbnails) {
    paint(button.firstChild, attentions[kind].map(layer, head, view.byWord), THUMBNAIL);
  }
}

function choosePicture(kind, layer, head) {
  Object.assign(view, { kind, layer, head });
  const attention = attentions[kind];
  for (const thumbnail of thumbnails) {
    const pressed = thumbnail.kind === kind && thumbnail.layer === layer && thumbnail.head === head;
    thumbnail.button.setAttribute("aria-pressed", pressed);
  }
  map = attention.map(layer, head, view.byWord);
  find("map-title").textContent = title(kind, layer, head);
  find("peak").textContent = percent(map.peak) + (kind === "decoder" ? " or more" : "");
  show = { lines: drawLines(attention), matrix: drawMatrix(attention) };
  point(null, null);
}

/** Highlight a row, a column, or a cell, wherever it is shown, and say in words what it holds. */
function point(row, column) {
  show.cursor = { row, column };
  show.lines(row, column);
  show.matrix(row, column);
  find("readout").textContent = sentence(row, column);
}

function sentence(row, column) {
  if (row === null && column === null) return "Point at a word, a line or a cell.";
  // Between isolates (U+2068, U+2069) a word from right to left leaves the rest of the sentence in its order.
  const name = (labels, index) => `“\u2068${labels[index]}\u2069”`;
  const looks = view.kind === "encoder" ? "looked at" : "was predicted from";
  const value = (r, c) => map.values[r * map.columns + c];
  if (row !== null && column !== null) {
    const [one, other] = [name(map.rowLabels, row), name(map.columnLabels, column)];
    if (value(row, column) < 0) return `${one} could not see ${other} yet.`;
    return `${one} ${looks} ${other}: ${percent(value(row, column))}`;
  }
  const [labels, others] = row === null ? [map.columnLabels, map.rowLabels] : [map.rowLabels, map.columnLabels];
  const weight = (index) => (row === null ? value(index, column) : value(row, index));
  const best = others.map((_, index) => index).filter((index) => weight(index) >= 0.0005);
  best.sort((one, other) => weight(other) - weight(one));
  const list = best.slice(0, 5).map((index) => `${name(others, index)} ${percent(weight(index))}`).join(", ");
  const verb = row === null ? "was looked at by" : looks;
  return `${name(labels, row ?? column)} ${verb}: ${list || "nothing"}`;
}

/** The index of the word under the pointer, null beside one. */
function indexAt(event) {
  const word = event.target.closest("[data-index]");
  return word && Number(word.dataset.index);
}

function labelsOf(tag, texts, axis) {
  return texts.map((text, index) => {
    const label = make(tag, { lang: axis === "source" ? source : target }, make("bdi", { textContent: text }));
    label.dataset.index = index;
    return label;
  });
}

// What is looked at stands above, what looks below. Returns what highlights words.
function drawLines({ rows, columns }) {
  const above = labelsOf("li", map.columnLabels, columns), below = labelsOf("li", map.rowLabels, rows);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [all, lit] = ["all", "lit"].map((name) => {
    const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
    group.setAttribute("class", name);
    return group;
  });
  svg.append(all, lit);
  const dir = (axis) => (axis === "source" ? sourceDir : targetDir);
  const lists = [make("ol", { dir: dir(columns) }, ...above), make("ol", { dir: dir(rows) }, ...below)];
  find("lines").replaceChildren(lists[0], svg, lists[1]);
  lists[0].onpointerover = (event) => point(null, indexAt(event));
  lists[1].onpointerover = (event) => point(indexAt(event), null);
  find("lines").onpointerleave = () => point(null, null);
  const middle = (label) => label.offsetLeft + label.offsetWidth / 2;
  const [tops, bottoms] = [above.map(middle), below.map(middle)], height = svg.clientHeight;
  const line = (row, column, weight) => {
    const [from, to] = [tops[column], bottoms[row]];
    const curve = path("", `M${from} 0C${from} ${height / 2} ${to} ${height / 2} ${to} ${height}`);
    curve.setAttribute("stroke-width", 1 + 6 * weight);
    curve.setAttribute("stroke-opacity", 0.15 + 0.85 * weight);
    return curve;
  };
  for (let row = 0; row < map.rows; row++) {
    const weights = map.values.subarray(row * map.columns, (row + 1) * map.columns);
    const least = Math.max(FAINTEST_LINE, [...weights].sort((a, b) => b - a)[LINES_PER_WORD] ?? 0);
    weights.forEach((weight, column) => weight > least && all.append(line(row, column, weight)));
  }
  return (row, column) => {
    lit.replaceChildren();
    const pointed = row !== null || column !== null;
    find("lines").classList.toggle("pointed", pointed);
    const mark = (labels, chosen, opposite, weight) =>
      labels.forEach((label, index) => {
        const share = opposite === null || chosen !== null ? 0 : Math.max(0, weight(index));
        label.classList.toggle("chosen", index === chosen);
        label.style.setProperty("--share", share);
        label.dataset.share = share >= 0.005 ? percent(share) : "";
      });
    mark(above, column, row, (index) => map.values[row * map.columns + index]);
    mark(below, row, column, (index) => map.values[index * map.columns + column]);
    map.values.forEach((weight, at) => {
      const [r, c] = [Math.floor(at / map.columns), at % map.columns];
      const within = (row === null || r === row) && (column === null || c === column);
      if (pointed && within && weight >= 0.005) lit.append(line(r, c, weight));
    });
  };
}

// Returns what highlights a row and a column.
function drawMatrix({ rows, columns }) {
  const cell = Math.max(16, Math.min(32, Math.floor(960 / map.columns))), dense = cell < 22; // pixels
  const top = make("div", { className: "top" }, ...labelsOf("span", map.columnLabels, columns));
  const left = make("div", { className: "left" }, ...labelsOf("span", map.rowLabels, rows));
  const canvas = make("canvas"), bands = [make("div", { className: "band" }), make("div", { className: "band" })];
  const cells = make("div", { className: "cells" }, canvas, ...bands);
  const names = ["looked at →", "looks ↓"].map((text) => make("span", { textContent: text }));
  find("matrix").replaceChildren(make("div", { className: "corner" }, ...names), top, left, cells);
  find("matrix").classList.toggle("dense", dense);
  find("matrix").style.setProperty("--cell", `${cell}px`);
  const widest = Math.max(...Array.from(top.querySelectorAll("bdi"), (label) => label.offsetWidth));
  top.style.height = `${(dense ? 1 : Math.sin((50 * Math.PI) / 180)) * widest + 22}px`;
  paint(canvas, map);
  Object.assign(canvas.style, { width: `${cell * map.columns}px`, height: `${cell * map.rows}px` });
  top.onpointerover = (event) => point(null, indexAt(event));
  left.onpointerover = (event) => point(indexAt(event), null);
  cells.onpointermove = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = (value, most) => Math.max(0, Math.min(most - 1, Math.floor(value)));
    const [row, column] = [(event.clientY - box.top) / cell, (event.clientX - box.left) / cell];
    point(at(row, map.rows), at(column, map.columns));
  };
  find("matrix").onpointerleave = () => point(null, null);
  const pixels = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `${value}px`]));
  const [width, height] = [cell * map.columns, cell * map.rows];
  return (row, column) => {
    [...left.children].forEach((label, index) => label.classList.toggle("chosen", index === row));
    [...top.children].forEach((label, index) => label.classList.toggle("chosen", index === column));
    bands[0].hidden = row === null;
    bands[1].hidden = column === null;
    Object.assign(bands[0].style, pixels({ left: 0, width, top: row * cell, height: cell }));
    Object.assign(bands[1].style, pixels({ left: column * cell, width: cell, top: 0, height }));
  };
}

find("matrix").addEventListener("keydown", (event) => {
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  if (!steps[event.key]) return;
  event.preventDefault();
  const [down, right] = steps[event.key], { row, column } = show.cursor;
  const started = row !== null && column !== null; // the first key only shows where the cursor is
  const at = (value, step, most) => Math.max(0, Math.min(most - 1, (value ?? 0) + (started ? step : 0)));
  point(at(row, down, map.rows), at(column, right, map.columns));
  const labels = find("matrix").querySelectorAll("span.chosen");
  for (const label of labels) label.scrollIntoView({ block: "nearest", inline: "nearest" });
});

find("pieces").addEventListener("change", (event) => {
  view.byWord = !event.target.checked;
  paintThumbnails();
  choosePicture(view.kind, view.layer, view.head);
});

paint(find("legend"), { rows: 1, columns: 256, values: Float32Array.from({ length: 256 }, (_, i) => i), peak: 255 });
paintThumbnails();
choosePicture(view.kind, view.layer, view.head);
chooseHead(view.kind, view.layer, looking.head);
