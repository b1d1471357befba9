// The page: translates while somebody types, and documents that are dropped. All texts are set as text, never as HTML.

const at = (id) => document.getElementById(id);
const [source, target, text, result, status, others, list, file, key] = [
  "source", "target", "text", "result", "status", "others", "alternatives", "file", "key",
].map(at);
const DELAY = 300; // milliseconds after the last key
let languages = [];
let settings = { charLimit: 5000, keyRequired: false };
let timer = 0;
let running = null;
let from = ""; // the language of the text that was translated last

async function ask(path, body, signal) {
  const isForm = body instanceof FormData;
  const headers = isForm ? {} : { "Content-Type": "application/json" };
  if (key.value) headers.Authorization = `Bearer ${key.value}`;
  const answer = await fetch(path, { method: "POST", headers, body: isForm ? body : JSON.stringify(body), signal });
  const told = await answer.json().catch(() => ({ error: `The server answered ${answer.status}.` }));
  if (!answer.ok) throw new Error(told.error ?? `The server answered ${answer.status}.`);
  return told;
}

function say(message, isError = false) {
  status.textContent = message;
  status.classList.toggle("error", isError);
}

function choices(select, options, chosen) {
  select.replaceChildren(...options.map(({ code, name }) => new Option(name, code, false, code === chosen)));
}

function showTargets() {
  const before = target.value;
  const known = source.value === "auto" ? languages : languages.filter(({ code }) => code === source.value);
  const codes = new Set(known.flatMap((each) => each.targets.filter((code) => code !== each.code)));
  const names = new Map(languages.map(({ code, name }) => [code, name]));
  const display = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  choices(target, [...codes].map((code) => ({ code, name: names.get(code) ?? display.of(code) })), before);
}

function show(translation, alternatives = []) {
  result.textContent = translation;
  at("copy").disabled = at("improve").disabled = !translation;
  list.replaceChildren(
    ...alternatives.map((other) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = other;
      button.addEventListener("click", () => show(other, alternatives.map((each) => (each === other ? translation : each))));
      item.append(button);
      return item;
    }),
  );
  others.hidden = !alternatives.length;
}

async function translate() {
  running?.abort();
  const asked = text.value;
  at("count").textContent = `${asked.length.toLocaleString()} of ${settings.charLimit.toLocaleString()} characters`;
  if (!asked.trim()) {
    show("");
    say("");
    return;
  }
  running = new AbortController();
  const { signal } = running;
  result.setAttribute("aria-busy", "true");
  try {
    const fields = { q: asked, source: source.value, target: target.value, alternatives: 2, similar: 3 };
    const told = await ask("translate", fields, signal);
    show(told.translatedText, told.alternatives ?? []);
    showSimilar((told.similar ?? []).filter((each) => each.similarity < 1));
    const found = told.detectedLanguage;
    from = found?.language ?? source.value;
    const name = found && (languages.find(({ code }) => code === found.language)?.name ?? found.language);
    const detected = found ? `From ${name}, ${Math.round(found.confidence)} % sure` : "";
    say(told.fromMemory ? "Somebody corrected this text before." : detected);
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  } finally {
    if (!signal.aborted) result.removeAttribute("aria-busy");
  }
}

function showSimilar(entries) {
  at("near").hidden = !entries.length;
  at("similar").replaceChildren(
    ...entries.flatMap((each) => {
      const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = `${Math.round(100 * each.similarity)} %: ${each.source}`;
      meaning.textContent = each.target;
      return [term, meaning];
    }),
  );
}

// The first click makes the translation editable, the second keeps it.
async function improve() {
  const button = at("improve");
  if (!result.isContentEditable) {
    result.contentEditable = "plaintext-only";
    result.focus();
    button.textContent = "Keep";
    return;
  }
  result.contentEditable = "false";
  button.textContent = "Improve";
  try {
    await ask("suggest", { q: text.value, s: result.textContent, source: from, target: target.value });
    say("Kept. This text will be translated like this from now on.");
  } catch (error) {
    say(error.message, true);
  }
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, DELAY);
}

async function translateDocument(document_) {
  const form = new FormData();
  form.append("file", document_);
  form.append("source", source.value);
  form.append("target", target.value);
  say(`Translating ${document_.name} …`);
  try {
    const { translatedFileUrl } = await ask("translate_file", form);
    const answer = await fetch(new URL(translatedFileUrl).pathname);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = document_.name.replace(/(\.[^.]*)?$/, (ending) => `.${target.value}${ending}`);
    link.click();
    say(`${link.download} is in your downloads.`);
  } catch (error) {
    say(error.message, true);
  }
}

function swap() {
  const [from, to] = [source.value, target.value];
  if (!languages.some(({ code }) => code === to)) return say("Nothing translates in that direction.", true);
  source.value = to;
  showTargets();
  if (from !== "auto") target.value = from;
  if (result.textContent) text.value = result.textContent;
  translate();
}

async function start() {
  languages = await (await fetch("languages")).json();
  settings = await (await fetch("frontend/settings")).json();
  choices(source, [{ code: "auto", name: "Detect the language" }, ...languages], languages.length > 1 ? "auto" : languages[0].code);
  showTargets();
  text.maxLength = settings.charLimit;
  file.accept = settings.supportedFilesFormat.join(",");
  at("improve").hidden = !settings.suggestions;
  at("improve").addEventListener("click", improve);
  at("key-line").hidden = !settings.keyRequired;
  text.addEventListener("input", soon);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
  });
  source.addEventListener("change", () => { showTargets(); translate(); });
  target.addEventListener("change", translate);
  key.addEventListener("change", translate);
  at("swap").addEventListener("click", swap);
  at("form").addEventListener("submit", (event) => event.preventDefault());
  at("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(result.textContent);
    say("Copied.");
  });
  file.addEventListener("change", () => file.files.length && translateDocument(file.files[0]));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      document.body.classList.toggle("dropping", kind === "dragover");
      if (kind === "drop") translateDocument(event.dataTransfer.files[0]);
    });
  }
  translate();
}

start().catch(() => say("The server does not answer; load the page again.", true));
