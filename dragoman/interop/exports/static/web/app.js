// The page: loads the model, translates what is typed, and shows other translations and what each word looked at.

import * as runtime from "./runtime/ort.wasm.min.js";
import { read, readJson } from "./files.js";
import { Model, search } from "./search.js";
import { Tokenizer } from "./tokenizer.js";

const find = (id) => document.getElementById(id);
const RUNTIME = "runtime/ort-wasm-simd-threaded";
runtime.env.wasm.wasmPaths = { mjs: new URL(`${RUNTIME}.js`, import.meta.url).href };
// More threads need a server that isolates the page.
runtime.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency ?? 1) : 1;

export async function load(progress = () => {}) {
  progress("runtime");
  runtime.env.wasm.wasmBinary = await read(`${RUNTIME}.wasm.gz`);
  progress("tokenizer");
  const config = await readJson("model/config.json");
  const files = config.tokenizers.map((name) => readJson(`model/${name}`, config.sums[name]));
  const [source, target = source] = (await Promise.all(files)).map((json) => new Tokenizer(json));
  const model = await Model.load(runtime, config, (name) => read(`model/${name}`, config.sums[name]), progress);
  return async (text, options) => {
    const { max_length: most } = model.config;
    if (text.length > 100 * most) throw new Error("it is too long; give fewer sentences.");
    const ids = source.encode(text.replace(/\s*\n\s*/g, " ")); // one sentence, perhaps wrapped
    if (ids.length === source.begin.length) return [];
    if (ids.length >= most) throw new Error("it is too long; give fewer sentences.");
    const hypotheses = await search(model, ids, options);
    const columns = [...source.pieces(ids), "</s>"];
    return hypotheses.map((hypothesis) => ({
      ...hypothesis,
      text: target.decode(hypothesis.tokens),
      rows: target.pieces(hypothesis.tokens),
      columns,
    }));
  };
}

function showAttention({ rows, columns, attention }) {
  const table = find("attention");
  table.replaceChildren();
  const cell = (row, kind, text = "") => {
    const element = document.createElement(kind);
    element.textContent = text;
    row.append(element);
    return element;
  };
  const head = table.insertRow();
  cell(head, "td");
  columns.forEach((column) => cell(head, "th", column));
  rows.forEach((name, index) => {
    const row = table.insertRow();
    cell(row, "th", name);
    attention[index].forEach((weight, column) => {
      const square = cell(row, "td");
      square.style.opacity = Math.min(1, weight);
      square.title = `${name} looks at ${columns[column]}: ${(100 * weight).toFixed(0)} %`;
    });
  });
}

function show(translations, seconds) {
  const [first] = translations;
  find("translation").textContent = first?.text ?? "";
  find("others").replaceChildren();
  translations.forEach((translation, index) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${translation.text}  (${translation.score.toFixed(2)})`;
    button.setAttribute("aria-pressed", index === 0);
    button.addEventListener("click", () => {
      find("others").querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", other === button));
      showAttention(translation);
    });
    item.append(button);
    find("others").append(item);
  });
  find("details").hidden = !first;
  if (first) showAttention(first);
  const words = first ? first.text.split(/\s+/).length : 0;
  find("status").textContent = first ? `${seconds.toFixed(2)} s, ${(words / Math.max(seconds, 0.01)).toFixed(0)} words a second` : "";
}

async function start() {
  const status = find("status");
  const form = find("form");
  try {
    const translate = await load((part) => { status.textContent = `Loading the ${part} ...`; });
    status.textContent = "Ready. Nothing leaves this page.";
    find("translate").disabled = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      find("translate").disabled = true;
      status.textContent = "Translating ...";
      try {
        const began = performance.now();
        const translations = await translate(find("text").value);
        show(translations, (performance.now() - began) / 1000);
      } catch (error) {
        show([], 0);
        status.textContent = `This could not be translated: ${error.message}`;
      } finally {
        find("translate").disabled = false;
      }
    });
    const text = new URLSearchParams(location.search).get("text");
    if (text) {
      find("text").value = text;
      form.requestSubmit();
    }
  } catch (error) {
    status.textContent = `The page cannot start: ${error.message}. Copy the whole folder to the server again, and reload.`;
  }
}

if (find("form")) start();
