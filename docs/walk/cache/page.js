// Shows the recorded steps in DATA. A frame is a phase of a step of the decoder; frame 0 is the encoder.

const find = (id) => document.getElementById(id);
const make = (kind, text = "", attributes = {}) => {
  const element = document.createElement(kind);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

const PHASES = ["read", "project", "self", "cross", "choose"];
const PAUSE = 1800; // milliseconds a frame
const steps = DATA.candidates.length;
const last = steps * PHASES.length;
const inputs = DATA.target.slice(0, steps); // what each step reads
let playing;

function moment(frame) {
  if (frame === 0) return { step: -1, phase: -1 };
  return { step: Math.floor((frame - 1) / PHASES.length), phase: (frame - 1) % PHASES.length };
}

// What the caption says.
function told({ step, phase }) {
  const piece = inputs[step];
  const old = step === 1 ? "the key and the value of the earlier piece" : `the keys and values of the ${step} earlier pieces`;
  switch (PHASES[phase]) {
    case undefined:
      return `The encoder reads all ${DATA.source.length} pieces of the source at once and gives a vector for each: the memory. It does not run again.`;
    case "read":
      return step === 0
        ? "The decoder reads “begin”. There is nothing before it."
        : `The decoder reads “${piece}”, and no other piece: the cache has ${old}.`;
    case "project":
      return `Three matrices make a query, a key and a value from the state of “${piece}”. The key and the value are a new column of the cache; the query is needed only now.`;
    case "self":
      return step === 0
        ? "Self-attention: the query can look only at its own key, so its weight is 100 %."
        : `Self-attention: the query is multiplied with every key, and the products are divided by √${DATA.width}. A softmax turns them into weights, and the values are summed with these weights. ${step === 1 ? "One column was" : `${step} columns were`} read from the cache.`;
    case "cross":
      return step === 0
        ? `Cross-attention: keys and values of the ${DATA.source.length} source pieces are computed from the memory now, once for all steps. The query, a new one, looks at all of them.`
        : `Cross-attention: a second query looks at the source. Its ${DATA.source.length} keys and values come from the cache; none is computed.`;
    default: {
      const [[word, share]] = DATA.candidates[step];
      const rest = step === steps - 1 ? "The search is over." : "The next step reads it.";
      return `The most probable piece is “${word}” with ${percent(share)}. Greedy search takes it. ${rest}`;
    }
  }
}

const percent = (thousandths) => (thousandths < 1 ? "<0.1 %" : `${(thousandths / 10).toFixed(thousandths < 100 ? 1 : 0)} %`);

// A column of numbers, in hundredths, as colours.
function strip(numbers, name, classes = "") {
  if (!numbers) return make("span", "", { class: "strip none", role: "img", "aria-label": `${name}: not computed yet` });
  const shade = (number) => {
    const share = Math.min(100, Math.abs(number) / 2);
    return `color-mix(in srgb, var(${number < 0 ? "--minus" : "--plus"}) ${share}%, var(--ground))`;
  };
  const stops = numbers.map((number, i) => `${shade(number)} ${(100 * i) / numbers.length}% ${(100 * (i + 1)) / numbers.length}%`);
  const listed = numbers.map((number) => (number / 100).toFixed(2)).join(" ");
  const element = make("span", "", { class: `strip ${classes}`, role: "img", "aria-label": `${name}: ${listed}`, title: `${name}\n${listed}` });
  element.style.background = `linear-gradient(to bottom, ${stops.join(", ")})`;
  return element;
}

// A table of one attention. `columns` are { name, known, now }; `query` and `weights` are those of the newest position.
function showAttention(id, head, columns, query, weights) {
  const table = find(id).querySelector("table");
  const sum = weights && head.value[0].map((_, i) => weights.reduce((total, weight, at) => total + (weight * head.value[at][i]) / 1000, 0));
  const row = (title, first, cell) => {
    const line = make("tr");
    line.append(make("th", title, { scope: "row" }), first, ...columns.map(cell));
    return line;
  };
  const holding = (...parts) => {
    const cell = make("td");
    cell.append(...parts);
    return cell;
  };
  const column = ({ name, known, now }, at, kind) => {
    const cell = holding(strip(known ? head[kind][at] : undefined, `${kind} of ${name}`, known && !now && !weights ? "away" : ""));
    if (now) cell.className = "now";
    return cell;
  };
  const top = make("tr");
  const heading = (name) => {
    const cell = make("th", "", { class: "column", scope: "col" });
    cell.append(make("span", name));
    return cell;
  };
  top.append(make("td"), heading("query, sum"), ...columns.map(({ name }) => heading(name)));
  table.replaceChildren(
    top,
    row("key", holding(strip(query, "query")), (each, at) => column(each, at, "key")),
    row("weight, %", make("td"), (_, at) => {
      const weight = weights?.[at];
      const cell = make("td", weight === undefined ? "" : (weight / 10).toFixed(0), { class: "weight" });
      if (weight !== undefined) cell.style.background = `color-mix(in srgb, var(--accent) ${weight / 20}%, var(--ground))`;
      return cell;
    }),
    row("value", holding(strip(sum, "sum of the values")), (each, at) => column(each, at, "value")),
    row("from", make("td"), ({ known, now }) => {
      const cell = holding(make("span", known ? (now ? "now" : "cache") : "", { class: "from" }));
      if (now) cell.className = "now";
      return cell;
    }),
  );
}

function showCandidates(step, phase) {
  // Until a step has chosen, those of the step before it stay.
  const chosen = phase === PHASES.indexOf("choose");
  const shown = chosen ? step : step - 1;
  const list = DATA.candidates[shown] ?? DATA.candidates[0].map(() => ["", 0]);
  find("whose").textContent = shown < 0 ? "" : `: step ${shown + 1}`;
  find("candidates").classList.toggle("before", !chosen);
  find("candidates").replaceChildren(
    ...list.map(([piece, share], rank) => {
      const item = make("li", "", { class: rank === 0 && piece ? "chosen" : "" });
      const bar = make("i");
      bar.style.width = `${share / 10}%`;
      item.append(bar, make("span", piece && `${piece}  ${percent(share)}`));
      return item;
    }),
  );
}

// Row by row which positions of the translation a step computed, and which it read.
function showGrid(id, done, computed) {
  const size = 13;
  const picture = find(id);
  picture.replaceChildren();
  picture.setAttribute("width", size * steps + 2);
  picture.setAttribute("height", size * steps + 2);
  let total = 0;
  for (let step = 0; step < steps; step++) {
    for (let position = 0; position <= step; position++) {
      const cell = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const fresh = position > step - computed(step);
      for (const [name, value] of Object.entries({ x: 1 + size * position, y: 1 + size * step, width: size - 2, height: size - 2 })) {
        cell.setAttribute(name, value);
      }
      if (step < done) cell.setAttribute("class", fresh ? "computed" : "read");
      total += step < done && fresh;
      picture.append(cell);
    }
  }
  picture.setAttribute("aria-label", `${total} positions were computed in ${done} steps`);
}

function showWork(step, phase) {
  const projected = Math.max(0, phase >= PHASES.indexOf("project") ? step + 1 : step);
  const crossed = Math.max(0, phase >= PHASES.indexOf("cross") ? step + 1 : step);
  const sum = (way, side, end) => DATA.counts.slice(0, end).reduce((total, count) => total + count[way][side], 0);
  for (const way of ["with", "without"]) showGrid(way, projected, (at) => DATA.counts[at][way].target);
  const rows = [
    ["positions of the translation", ...["with", "without"].map((way) => sum(way, "target", projected))],
    ["positions of the source", ...["with", "without"].map((way) => sum(way, "source", crossed))],
  ];
  find("counts").replaceChildren(
    ...rows.map(([name, ...numbers]) => {
      const line = make("tr");
      line.append(make("th", name, { scope: "row" }), ...numbers.map((number) => make("td", number)));
      return line;
    }),
  );
}

function show() {
  const frame = Number(find("frame").value);
  const { step, phase } = moment(frame);
  const [layer, number] = find("head").value.split(".").map(Number);
  const head = DATA.heads[layer][number];
  const from = (name) => phase >= PHASES.indexOf(name);
  find("number").textContent = step < 0 ? "Before the first step." : `Step ${step + 1} of ${steps}.`;
  find("text").textContent = told({ step, phase });
  find("frame").setAttribute("aria-valuetext", `${find("number").textContent} ${PHASES[phase] ?? "encoder"}`);
  const said = DATA.target.slice(0, Math.max(1, step + 1 + from("choose")));
  find("written").replaceChildren(
    ...said.map((piece, at) => make("span", piece, { class: at === (from("choose") ? step + 1 : step) ? "piece now" : "piece" })),
  );
  const own = inputs.map((name, at) => ({
    name: at <= step ? name : "",
    known: at < step || (at === step && from("project")),
    now: at === step && from("project"),
  }));
  const first = step === 0 && from("cross");
  const memory = DATA.source.map((name) => ({ name, known: step > 0 || first, now: first }));
  showAttention("self", head.self, own, from("project") ? head.self.query[step] : undefined, from("self") ? head.self.weights[step] : undefined);
  showAttention("cross", head.cross, memory, from("cross") ? head.cross.query[step] : undefined, from("cross") ? head.cross.weights[step] : undefined);
  showCandidates(step, phase);
  showWork(step, phase);
  const lit = { read: "self", project: "self", self: "self", cross: "cross", choose: "choice" }[PHASES[phase]];
  document.querySelectorAll("section").forEach((section) => section.classList.toggle("lit", section.id === lit));
}

function stop() {
  clearInterval(playing);
  playing = undefined;
  find("play").textContent = "Play";
  find("text").setAttribute("aria-live", "polite");
}

function play() {
  if (playing) return stop();
  const slider = find("frame");
  if (Number(slider.value) === last) slider.value = 0;
  else slider.value = Number(slider.value) + 1;
  show();
  find("play").textContent = "Pause";
  find("text").setAttribute("aria-live", "off"); // each frame read aloud would take longer than it is shown
  playing = setInterval(() => {
    if (Number(slider.value) === last) return stop();
    slider.value = Number(slider.value) + 1;
    show();
  }, PAUSE);
}

function go(frame) {
  stop();
  find("frame").value = frame;
  show();
}

const now = () => Number(find("frame").value);
const KEYS = { ArrowLeft: () => go(now() - 1), ArrowRight: () => go(now() + 1), Home: () => go(0), End: () => go(last), " ": play };

find("frame").max = last;
DATA.heads.forEach((layer, number) =>
  layer.forEach((_, head) => find("head").append(make("option", `layer ${number + 1}, head ${head + 1}`, { value: `${number}.${head}` }))),
);
find("play").addEventListener("click", play);
find("back").addEventListener("click", () => go(now() - 1));
find("on").addEventListener("click", () => go(now() + 1));
find("frame").addEventListener("input", () => go(now()));
find("head").addEventListener("change", show);
document.addEventListener("keydown", (event) => {
  const { tagName } = event.target;
  // What has keys of its own keeps them.
  if (tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && tagName === "BUTTON") return;
  if (!KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});
const options = new URLSearchParams(location.search);
find("head").value = options.get("head") ?? "1.0"; // the second layer looks at the word to translate most clearly
go(Number(options.get("frame") ?? 0));
