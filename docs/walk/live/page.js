// The page: translates what is typed, and shows the probabilities, the beam and the attention of every head.

const find = (id) => document.getElementById(id);
const make = (kind, text = "", attributes = {}) => {
  const element = document.createElement(kind);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const percent = (logProb) => {
  const share = 100 * Math.exp(logProb);
  return share < 0.1 ? "<0.1 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
};

const [reader, writer = reader] = MODEL.tokenizers.map((json) => new Tokenizer(json)); // of sources and of targets
const model = new Transformer(MODEL.config, unpack(MODEL.shapes, MODEL.weights));
const shown = (id, tokenizer = writer) => {
  if (id === MODEL.config.eos_id) return "end";
  return id === MODEL.config.bos_id ? "begin" : tokenizer.pieces([id])[0] || "␣";
};
let search; // of the sentence that is shown
let playing;

function translate(text) {
  stop();
  const source = reader.encode(text);
  find("result").hidden = !source.length;
  if (!source.length) return;
  if (source.length > 60) {
    find("status").textContent = "This is longer than 60 pieces; give a shorter sentence.";
    find("result").hidden = true;
    return;
  }
  const began = performance.now();
  search = beamSearch(model, source, 5);
  find("status").textContent = `${source.length} pieces, ${((performance.now() - began) / 1000).toFixed(2)} s in this browser`;
  find("source").replaceChildren(...source.map((id) => make("span", shown(id, reader), { class: "piece" })));
  showTranslations(source);
  const slider = find("step");
  slider.max = search.steps.length;
  slider.value = search.steps.length;
  showStep();
}

function showTranslations(source) {
  const list = find("translations");
  list.replaceChildren();
  search.translations.forEach((translation, rank) => {
    const button = make("button", `${writer.decode(translation.tokens)}  (${translation.score.toFixed(2)})`, {
      type: "button",
      "aria-pressed": rank === 0,
    });
    button.addEventListener("click", () => {
      list.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
      showInside(source, translation);
    });
    const item = make("li");
    item.append(button);
    list.append(item);
  });
  showInside(source, search.translations[0]);
}

// One pass over the whole translation: the probability of each piece, and what every head looked at.
function showInside(source, { tokens }) {
  const { bos_id: bos, eos_id: eos } = MODEL.config;
  find("translation").textContent = writer.decode(tokens);
  const encoder = [];
  const maps = { self: [], cross: [] };
  const memory = model.encode([...source, eos], encoder);
  const logProbs = model.decode([bos, ...tokens], model.newCache(memory), maps);
  const targets = [...tokens, eos];
  const pieces = find("pieces");
  pieces.replaceChildren();
  targets.forEach((id, position) => {
    const button = make("button", "", { type: "button", class: "piece" });
    button.append(make("b", shown(id)), make("small", percent(logProbs[position][id])));
    button.addEventListener("click", () => showCandidates(pieces, button, logProbs[position], id));
    pieces.append(button);
  });
  pieces.firstChild.click();
  const from = [...source, eos].map((id) => shown(id, reader));
  const inputs = [bos, ...tokens].map((id) => shown(id));
  find("heads").replaceChildren(
    ...family("Encoder: each source piece looks at the source", encoder, from, from),
    ...family("Decoder: each target piece looks at those before it", maps.self, inputs, inputs),
    ...family("Decoder: each target piece looks at the source", maps.cross, inputs, from),
  );
  find("heads").querySelector("button").click();
}

function showCandidates(pieces, button, logProbs, id) {
  pieces.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
  const best = Array.from(logProbs.keys()).sort((a, b) => logProbs[b] - logProbs[a]).slice(0, 6);
  find("candidates").replaceChildren(
    ...best.map((token) => {
      const item = make("li", "", { class: token === id ? "chosen" : "" });
      const bar = make("i");
      bar.style.width = `${100 * Math.exp(logProbs[token])}%`;
      item.append(bar, make("span", `${shown(token)}  ${percent(logProbs[token])}`));
      return item;
    }),
  );
}

// A title, and a button with a small picture for each head of each layer.
function family(title, layers, rows, columns) {
  const grid = make("div", "", { class: "grid" });
  layers.forEach((layer, number) =>
    layer.forEach((map, head) => {
      const button = make("button", "", { type: "button", "aria-label": `${title}, layer ${number + 1}, head ${head + 1}` });
      button.append(picture(map, columns.length, 72), make("small", `${number + 1}.${head + 1}`));
      button.addEventListener("click", () => {
        find("heads").querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
        showHead(`${title}. Layer ${number + 1}, head ${head + 1}.`, map, rows, columns);
      });
      grid.append(button);
    }),
  );
  return [make("h3", title), grid];
}

function picture(map, columns, size) {
  const canvas = make("canvas");
  canvas.width = columns;
  canvas.height = map.length;
  canvas.style.cssText = `width:${size}px;height:${size}px`;
  const pen = canvas.getContext("2d");
  map.forEach((weights, row) =>
    weights.forEach((weight, column) => {
      pen.fillStyle = `rgba(0,98,155,${weight})`;
      pen.fillRect(column, row, 1, 1);
    }),
  );
  return canvas;
}

function showHead(title, map, rows, columns) {
  const table = make("table");
  table.append(make("caption", title));
  const top = table.insertRow();
  top.append(make("td"), ...columns.map((name) => make("th", name, { class: "column" })));
  map.forEach((weights, row) => {
    const line = table.insertRow();
    line.append(make("th", rows[row]));
    columns.forEach((column, number) => {
      const weight = weights[number] ?? 0;
      const cell = make("td", weight >= 0.1 ? (100 * weight).toFixed(0) : "", {
        title: `${rows[row]} looks at ${column}: ${(100 * weight).toFixed(1)} %`,
        class: weight > 0.5 ? "strong" : "",
      });
      cell.style.background = `rgba(0,98,155,${weight})`;
      line.append(cell);
    });
  });
  find("head").replaceChildren(table);
}

// The beam after some steps: the candidates of the last one, and what became of each.
function showStep() {
  const number = Number(find("step").value);
  const words = (tokens) => writer.decode(tokens) || "(nothing yet)";
  find("number").textContent = `Step ${number} of ${search.steps.length}`;
  find("beam").replaceChildren(
    ...search.steps[number - 1].map((candidate) => {
      const row = make("tr", "", { class: candidate.fate });
      row.append(
        make("td", words(candidate.before)),
        make("td", shown(candidate.token)),
        make("td", percent(candidate.logProb)),
        make("td", candidate.total.toFixed(2)),
        make("td", candidate.fate),
      );
      return row;
    }),
  );
}

function stop() {
  clearInterval(playing);
  playing = undefined;
  find("play").textContent = "Play";
}

function play() {
  if (playing) return stop();
  const slider = find("step");
  if (slider.value === slider.max) slider.value = 1;
  else slider.value = Number(slider.value) + 1;
  showStep();
  find("play").textContent = "Pause";
  playing = setInterval(() => {
    if (slider.value === slider.max) return stop();
    slider.value = Number(slider.value) + 1;
    showStep();
  }, 900);
}

function move(by) {
  stop();
  const slider = find("step");
  slider.value = Number(slider.value) + by;
  showStep();
}

find("form").addEventListener("submit", (event) => {
  event.preventDefault();
  translate(find("text").value);
});
for (const sentence of MODEL.examples) {
  const button = make("button", sentence, { type: "button" });
  button.addEventListener("click", () => {
    find("text").value = sentence;
    translate(sentence);
  });
  find("examples").append(button);
}
find("play").addEventListener("click", play);
find("back").addEventListener("click", () => move(-1));
find("on").addEventListener("click", () => move(1));
find("step").addEventListener("input", () => {
  stop();
  showStep();
});
const KEYS = {
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
  Home: () => move(-search.steps.length),
  End: () => move(search.steps.length),
  " ": play,
};
find("search").addEventListener("keydown", (event) => {
  const { tagName } = event.target;
  // What has keys of its own keeps them: the slider, and a button its space bar.
  if (tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  if (event.key === " " && tagName === "BUTTON") return;
  if (!KEYS[event.key] || !search) return;
  event.preventDefault();
  KEYS[event.key]();
});
const asked = new URLSearchParams(location.search).get("text");
if (asked) find("text").value = asked;
translate(find("text").value);
