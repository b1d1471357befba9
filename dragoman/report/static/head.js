// One head for one position, step by step: from its query and all keys to what it gives.

const STEPS = [
  ["Query and keys", "The position that looks has a query. Each position that it looks at has a key. Both are vectors of this head; rotary positions have turned them already."],
  ["Scores", "The score of a key is its dot product with the query (feature by feature, summed), divided by √d."],
  ["Mask", "The decoder must not see later positions, so their scores become −∞. Elsewhere nothing is hidden."],
  ["Softmax", "Softmax turns the scores into weights, which are positive and sum to 1. A high temperature evens them out."],
  ["Values", "Each position that it looks at also has a value: what it passes on."],
  ["Sum", "The sum of the values times their weights is what this head passes to the position. The heads lie side by side."],
];
const looking = { kind: "cross", layer: data.clearest_layer, head: 0, row: 0, step: STEPS.length - 1 };

const total = (values) => values.reduce((sum, value) => sum + value, 0);
const largestOf = (...lists) => Math.max(1e-9, ...lists.map((list) => Math.max(...list.map(Math.abs))));
const piecesOf = (axis) => data.axes[axis].flatMap((word) => word.pieces.map((piece) => piece.text));

/** The vectors of all positions for one head: `query`, `key` or `value`. */
function vectorsOf(name, { kind, layer, head }) {
  const { width, [name]: part } = data.vectors[kind], { heads } = data.attention[kind];
  const all = (part.decoded ??= new Int16Array(bytesOf(part.numbers).buffer));
  const positions = all.length / width / heads / data.attention[kind].layers;
  const start = (layer * heads + head) * positions * width;
  return Array.from({ length: positions }, (_, position) =>
    Array.from(all.subarray(start + position * width, start + (position + 1) * width), (n) => (n / 32767) * part.largest),
  );
}

/** A vector as a row of colours: blue above 0, orange below, stronger the further away. */
function strip(values, largest) {
  const canvas = make("canvas", { className: "strip", width: values.length, height: 1 });
  canvas.title = values.map(signed).join("  ");
  canvas.style.setProperty("--features", values.length);
  const context = canvas.getContext("2d");
  values.forEach((value, index) => {
    context.fillStyle = `rgba(${value < 0 ? "213, 94, 0" : "0, 114, 178"}, ${Math.abs(value) / largest})`;
    context.fillRect(index, 0, 1, 1);
  });
  return canvas;
}

function drawHead() {
  const { kind, row, step } = looking, names = piecesOf(data.attention[kind].columns);
  const query = vectorsOf("query", looking)[row], keys = vectorsOf("key", looking), values = vectorsOf("value", looking);
  const hidden = names.map((_, column) => kind === "decoder" && column > row);
  const products = keys.map((key) => key.map((number, feature) => number * query[feature]));
  const scores = products.map((product) => total(product) / Math.sqrt(query.length));
  const temperature = 10 ** Number(find("temperature").value);
  const highest = Math.max(...scores.filter((_, column) => !hidden[column]));
  const powers = scores.map((score, column) => (hidden[column] ? 0 : Math.exp((score - highest) / temperature)));
  const weights = powers.map((power) => power / total(powers));
  const given = values.map((value, column) => value.map((number) => number * weights[column]));
  const result = query.map((_, feature) => total(given.map((vector) => vector[feature])));
  const [keySize, productSize, valueSize] = [largestOf(query, ...keys), largestOf(...products), largestOf(...values)];

  const number = (text) => make("td", { className: "number", textContent: text });
  const bar = (weight) => {
    const cell = make("td", { className: "number bar", textContent: percent(weight) });
    cell.style.setProperty("--share", weight);
    return cell;
  };
  // For each step its columns: a title, the cell of a position, the cell of the last row.
  const columns = [
    [0, "key", (at) => make("td", {}, strip(keys[at], keySize)), () => make("td", {}, strip(query, keySize), " its query")],
    [1, "query × key", (at) => make("td", {}, strip(products[at], productSize))],
    [1, "score", (at) => number(signed(scores[at]))],
    [2, "masked", (at) => number(hidden[at] ? "−∞" : signed(scores[at]))],
    [3, "weight", (at) => bar(weights[at]), () => number("100 %")],
    [4, "value", (at) => make("td", {}, strip(values[at], valueSize))],
    [5, "weight × value", (at) => make("td", {}, strip(given[at], valueSize)), () => make("td", {}, strip(result, valueSize), " the sum")],
  ].filter(([from]) => from <= step);
  const heading = make("tr", {}, make("th", { textContent: "looked at" }),
    ...columns.map(([, title]) => make("th", { textContent: title })));
  const body = names.map((name, at) => make("tr", { className: hidden[at] && step >= 2 ? "hidden" : "" },
    make("th", {}, make("bdi", { textContent: name })), ...columns.map(([, , cell]) => cell(at))));
  const last = make("tr", { className: "last" }, make("th", {}, make("bdi", { textContent: piecesOf(data.attention[kind].rows)[row] })),
    ...columns.map(([, , , cell]) => (cell ? cell() : make("td"))));
  find("head").replaceChildren(make("thead", {}, heading), make("tbody", {}, ...body), make("tfoot", {}, last));
  find("step-text").textContent = STEPS[step][1];
  find("temperature-value").textContent = temperature.toFixed(temperature < 1 ? 2 : 1);
  find("steps").querySelectorAll("button").forEach((button, index) => button.setAttribute("aria-pressed", index === step));
}

/** Show this head in the section, and nothing else. */
function chooseHead(kind, layer, head) {
  if (!data.vectors) return;
  const { rows, layers, heads } = data.attention[kind], count = piecesOf(rows).length;
  Object.assign(looking, { kind, layer, head, row: Math.min(looking.row, count - 1) });
  const counted = (length) => Array.from({ length }, (_, index) => `${index + 1}`);
  const choices = { layer: counted(layers), head: counted(heads), row: piecesOf(rows) };
  for (const [name, texts] of Object.entries(choices)) {
    find(`head-${name}`).replaceChildren(...texts.map((textContent, value) => make("option", { textContent, value })));
    find(`head-${name}`).value = looking[name];
  }
  find("head-kind").value = kind;
  drawHead();
}

if (data.vectors) {
  find("head-kind").append(...Object.entries(NAMES).map(([value, textContent]) => make("option", { value, textContent })));
  for (const name of ["kind", "layer", "head", "row"]) {
    find(`head-${name}`).addEventListener("change", (event) => {
      looking[name] = name === "kind" ? event.target.value : Number(event.target.value);
      const { layers, heads } = data.attention[looking.kind];
      chooseHead(looking.kind, Math.min(looking.layer, layers - 1), Math.min(looking.head, heads - 1));
    });
  }
  const buttons = STEPS.map(([title], step) => {
    const button = make("button", { type: "button", textContent: `${step + 1}. ${title}` });
    button.addEventListener("click", () => {
      looking.step = step;
      drawHead();
    });
    return button;
  });
  find("steps").append(...buttons);
  rove(find("steps"), buttons);
  find("temperature").addEventListener("input", drawHead);
  find("one-head").hidden = false;
}
