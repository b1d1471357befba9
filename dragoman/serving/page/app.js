// The page: translates while somebody types, and documents that are dropped. All texts are set as text, never as HTML.

import { ask, at, get, listButtons, say } from "./common.js";
import { explore, forget, lookInside } from "./words.js";

const [source, target, text, result, others, list, file, key] = [
  "source", "target", "text", "result", "others", "alternatives", "file", "key",
].map(at);
const DELAY = 300; // milliseconds after the last key
let languages = [];
let settings = { charLimit: 5000, keyRequired: false };
let timer = 0;
let running = null;
let from = ""; // the language of the text that was translated last
let to = ""; // the language that it was translated to
let asked = ""; // that text
let unimproved = ""; // its translation before somebody began to improve it

/** Whether the translation that is shown is of the text and the languages that are chosen now. */
function isCurrent() {
  return text.value === asked && target.value === to && (source.value === "auto" || source.value === from);
}

function choices(select, options, chosen) {
  select.replaceChildren(...options.map(({ code, name }) => new Option(name, code, false, code === chosen)));
}

/** The languages that are translated to others. */
function sources() {
  return languages.filter(({ code, targets }) => targets.some((target) => target !== code));
}

function showTargets() {
  const before = target.value;
  const known = source.value === "auto" ? languages : languages.filter(({ code }) => code === source.value);
  const codes = new Set(known.flatMap((each) => each.targets.filter((code) => code !== each.code)));
  const names = new Map(languages.map(({ code, name }) => [code, name]));
  const display = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  choices(target, [...codes].map((code) => ({ code, name: names.get(code) ?? display.of(code) })), before);
}

/** Show a translation, and others: texts with their scores. */
function show(translation, alternatives = []) {
  forget();
  result.textContent = translation.text;
  result.tabIndex = 0;
  at("copy").disabled = at("improve").disabled = !translation.text;
  const entries = alternatives.map((other) => ({
    text: other.text,
    note: other.score === undefined ? "" : `score ${other.score.toFixed(2).replace("-", "−")}`,
    act: () => {
      if (result.isContentEditable) return;
      showChecks([]); // they are of the first one
      show(other, alternatives.map((each) => (each === other ? translation : each)));
      sure(undefined, other.text);
    },
  }));
  listButtons(list, entries);
  others.hidden = !alternatives.length;
}

/** What a person should look at in each sentence: how far it can be trusted, and warnings. */
function showChecks(sentences) {
  const isWorthIt = sentences.some((each) => each.confidence !== undefined || each.warnings.length);
  at("checks").hidden = !isWorthIt;
  at("checked").replaceChildren(
    ...sentences.map(({ text: sentence, confidence, warnings }) => {
      const [item, meter, words, notes] = ["li", "meter", "span", "small"].map((tag) => document.createElement(tag));
      words.dir = "auto";
      words.textContent = sentence;
      if (confidence !== undefined) {
        Object.assign(meter, { min: 0, max: 1, low: 0.4, high: 0.7, optimum: 1, value: confidence });
        meter.ariaLabel = meter.title = `${Math.round(100 * confidence)} % of it would be in a person's translation (expected chrF++)`;
        notes.textContent = `${Math.round(100 * confidence)} %`;
        item.append(meter, " ");
      }
      item.append(words, " ", notes);
      const note = document.createElement("strong");
      note.textContent = warnings.map(({ what, text: words_ }) => (words_ ? `${what}: ${words_}` : what)).join("; ");
      item.append(" ", note);
      return item;
    }),
  );
}

/** How sure the words are of the translation that is shown; one that was chosen is looked at as a whole. */
async function sure(signal, translation) {
  if (!settings.inspection || from === to) return;
  try {
    await explore({ q: asked, source: from, target: to, translation }, signal);
  } catch {
    // The translation is there; that its words cannot be looked into is no reason to alarm anybody.
  }
}

async function translate() {
  if (result.isContentEditable) return; // somebody is improving the translation of the text before
  clearTimeout(timer);
  running?.abort();
  const length = [...text.value].length; // in characters, as the server counts
  const tooLong = length > settings.charLimit;
  at("count").textContent = `${length.toLocaleString()} of ${settings.charLimit.toLocaleString()} characters`;
  at("count").classList.toggle("error", tooLong);
  if (!text.value.trim() || tooLong) {
    asked = "";
    show({ text: "" });
    showChecks([]);
    showSimilar([]);
    result.removeAttribute("aria-busy");
    const more = (length - settings.charLimit).toLocaleString();
    say(tooLong ? `The text has ${more} characters too many: translate it in parts, or as a document.` : "", tooLong);
    return;
  }
  const [text_, source_, target_] = [text.value, source.value, target.value];
  running = new AbortController();
  const { signal } = running;
  result.setAttribute("aria-busy", "true");
  try {
    const fields = { q: text_, source: source_, target: target_, alternatives: 2, similar: 3, checks: true };
    if (settings.confidence) fields.confidence = true;
    const told = await ask("translate", fields, signal);
    if (signal.aborted || result.isContentEditable) return;
    const [best, ...rest] = [told.translatedText, ...(told.alternatives ?? [])].map((each, place) => ({
      text: each,
      score: told.scores?.[place],
    }));
    const found = told.detectedLanguage;
    [asked, from, to] = [text_, found?.language ?? source_, target_];
    [text.lang, result.lang] = [from, to];
    show(best, rest);
    showChecks(told.sentences ?? []);
    showSimilar((told.similar ?? []).filter((each) => each.similarity < 1));
    const name = found && (languages.find(({ code }) => code === found.language)?.name ?? found.language);
    const detected = found ? `From ${name}, ${Math.round(found.confidence)} % sure` : "";
    say(told.fromMemory ? "From the translation memory." : detected);
    if (!told.fromMemory) sure(signal, best.text);
  } catch (error) {
    if (signal.aborted || result.isContentEditable) return;
    asked = "";
    show({ text: "" }); // not the translation of another text beside this one
    showChecks([]);
    showSimilar([]);
    say(error.message, true);
  } finally {
    if (!signal.aborted) result.removeAttribute("aria-busy");
  }
}

function showSimilar(entries) {
  at("near").hidden = !entries.length;
  at("similar").replaceChildren(
    ...entries.flatMap((each) => {
      const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
      const parts = each.difference.map(([kind, part]) => {
        const shown = document.createElement({ same: "span", removed: "del", added: "ins" }[kind]);
        shown.textContent = part;
        return shown;
      });
      term.append(`${Math.round(100 * each.similarity)} %: `, ...parts);
      term.dir = meaning.dir = "auto";
      meaning.textContent = each.target;
      return [term, meaning];
    }),
  );
}

function endEditing() {
  result.contentEditable = "false";
  at("improve").textContent = "Improve";
}

// The first click makes the translation editable, the second keeps it: for the text and the languages that it belongs
// to, whatever is chosen by then. Escape leaves it as it was.
async function improve() {
  if (!result.isContentEditable) {
    unimproved = result.textContent;
    forget();
    showChecks([]); // they are of the translation before
    result.textContent = unimproved;
    try {
      result.contentEditable = "plaintext-only";
    } catch {
      result.contentEditable = "true"; // of browsers that do not know the other value
    }
    result.focus();
    at("improve").textContent = "Keep";
    say("Escape leaves it as it was.");
    return;
  }
  endEditing();
  const improved = result.textContent;
  let outcome = ["Kept. That text will be translated like this from now on."];
  try {
    await ask("suggest", { q: asked, s: improved, source: from, target: to });
  } catch (error) {
    outcome = [error.message, true];
  }
  if (!isCurrent()) await translate();
  say(...outcome);
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(translate, DELAY);
}

async function translateDocument(document_) {
  if (!document_) return;
  const into = target.value;
  const form = new FormData();
  form.append("file", document_);
  form.append("source", source.value);
  form.append("target", into);
  say(`Translating ${document_.name} …`);
  try {
    const { translatedFileUrl } = await ask("translate_file", form);
    // Behind a proxy, the address of the page is right, and not that which the server believes to have.
    const answer = await fetch(`download_file/${new URL(translatedFileUrl).pathname.split("/").pop()}`);
    if (!answer.ok || answer.headers.get("Content-Type") !== "application/octet-stream") {
      throw new Error(`The translated document cannot be fetched: the server answered ${answer.status}.`);
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = document_.name.replace(/(\.[^.]*)?$/, (ending) => `.${into}${ending}`);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`${link.download} is in your downloads.`);
  } catch (error) {
    say(error.message, true);
  }
}

function swap() {
  if (result.isContentEditable) return;
  const isTranslated = text.value === asked;
  const before = source.value === "auto" ? isTranslated && from : source.value;
  const known = languages.find(({ code }) => code === target.value)?.targets ?? [];
  const back = known.filter((code) => code !== target.value);
  if (!(before ? back.includes(before) : back.length)) return say("No model here translates in that direction.", true);
  source.value = target.value;
  showTargets();
  if (before) target.value = before;
  if (isTranslated && result.textContent) text.value = result.textContent;
  translate();
}

async function start() {
  [languages, settings] = await Promise.all([get("languages"), get("frontend/settings")]);
  const known = sources();
  choices(source, [{ code: "auto", name: "Detect the language" }, ...known], known.length > 1 ? "auto" : known[0].code);
  showTargets();
  file.accept = settings.supportedFilesFormat.join(",");
  at("improve").hidden = !settings.suggestions;
  at("improve").addEventListener("click", improve);
  at("look").hidden = !settings.inspection;
  at("look").addEventListener("click", lookInside);
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
    try {
      await navigator.clipboard.writeText(result.textContent);
      say("Copied.");
    } catch {
      // Over http, browsers lend the clipboard to pages of this machine alone.
      getSelection().selectAllChildren(result);
      say(document.execCommand("copy") ? "Copied." : "The browser does not allow it: copy the selected text.");
    }
  });
  file.addEventListener("change", () => {
    const [chosen] = file.files;
    file.value = ""; // so that the same one can be chosen again
    translateDocument(chosen);
  });
  result.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !result.isContentEditable) return;
    endEditing();
    result.textContent = unimproved;
    if (isCurrent()) sure(undefined, unimproved);
    else translate();
  });
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
