// The words of the translation: how sure the model is of each, others in their place, and its whole inside.

import { ask, at, listButtons, say } from "./common.js";

const UNSURE = [0.5, 0.2]; // probabilities below which a word is marked, and marked more
let sentences = []; // of the text that is shown
let languages = {}; // source and target
let chosen = 0; // the sentence that is looked into
let clicks = 0; // clicks on words so far: an answer to one before the last comes too late

const percent = (value) => `${Math.round(100 * value)} %`;

/** Nothing is known of the words that are shown now. */
export function forget() {
  sentences = [];
  chosen = 0;
  at("choices").hidden = at("inside").hidden = true;
  at("look").disabled = true;
}

/** Ask how sure the words of the translation are, and let them be clicked. */
export async function explore({ source, target, ...fields }, signal) {
  const told = await ask("explore", { source, target, ...fields }, signal);
  const joined = told.sentences.map((each) => each.translation + each.after).join("");
  if (joined !== at("result").textContent || at("result").isContentEditable) return; // another one is shown by now
  [sentences, languages] = [told.sentences, { source, target }];
  at("look").disabled = false;
  draw();
}

function draw() {
  const words = [];
  const parts = sentences.flatMap(({ translation, words: own, after }, number) => {
    const characters = [...translation]; // positions are those of characters, not of units of UTF-16
    const found = [];
    let end = 0;
    for (const word of own) {
      found.push(characters.slice(end, word.start).join(""), wordOf(number, word));
      words.push(found.at(-1));
      end = word.start + [...word.text].length;
    }
    return [...found, characters.slice(end).join(""), after];
  });
  at("result").replaceChildren(...parts);
  at("result").removeAttribute("tabindex");
  words.forEach((word, index) => {
    word.tabIndex = index ? -1 : 0;
    word.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = words[index + step];
      if (next) {
        event.preventDefault();
        word.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
      }
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        word.click();
      }
    });
  });
}

function wordOf(number, word) {
  const span = document.createElement("span");
  span.className = "word";
  span.role = "button";
  span.textContent = word.text;
  span.title = `${percent(word.probability)} sure; click for other words`;
  span.dataset.unsure = UNSURE.filter((limit) => word.probability < limit).length;
  span.addEventListener("click", () => showOthers(number, word));
  return span;
}

/** Whether the focus is on the translation, on what may replace its words, or nowhere. */
function isHere() {
  const active = document.activeElement;
  return active === document.body || at("result").contains(active) || at("choices").contains(active);
}

async function showOthers(number, word) {
  chosen = number;
  const { source, translation } = sentences[number];
  const prefix = [...translation].slice(0, word.start).join("");
  const [shown, click] = [sentences, ++clicks];
  try {
    const told = await ask("words", { q: source, prefix, ...languages });
    if (sentences !== shown || clicks !== click) return; // another translation is shown by now
    at("choices-title").textContent = `In place of “${word.text}”`;
    listButtons(
      at("options"),
      told.words.map((other) => ({
        text: other.text,
        note: `${percent(other.probability)}: ${other.translation}`,
        act: () => take(number, other, word.start),
      })),
    );
    const goesOn = isHere(); // else somebody types in the text by now
    at("choices").hidden = false;
    if (goesOn) at("options").querySelector("button")?.focus();
  } catch (error) {
    if (sentences === shown) say(error.message, true);
  }
}

async function take(number, other, start) {
  const [shown, click] = [sentences, ++clicks];
  const { source, after } = shown[number];
  try {
    const told = await ask("explore", { q: source, translation: other.translation, ...languages });
    if (sentences !== shown || clicks !== click || at("result").isContentEditable) return;
    at("checks").hidden = true; // they are of the words before
    const taken = { ...told.sentences[0], source, after };
    // A new array: answers about the sentences before come too late.
    sentences = shown.map((each, index) => (index === number ? taken : each));
    const goesOn = isHere();
    at("choices").hidden = true;
    draw();
    if (goesOn) focusOn(number, start);
  } catch (error) {
    if (sentences === shown && clicks === click) say(error.message, true);
  }
}

function focusOn(number, start) {
  const before = sentences.slice(0, number).reduce((sum, each) => sum + each.words.length, 0);
  const index = sentences[number].words.findIndex((word) => word.start >= start);
  at("result").querySelectorAll(".word")[before + Math.max(0, index)]?.focus();
}

/** Open the page of the sentence whose word was clicked last, or of the first one. */
export function lookInside() {
  const form = at("inspection");
  const { source, translation } = sentences[chosen];
  const fields = { q: source.trim(), translation, ...languages, api_key: at("key").value };
  form.replaceChildren(
    ...Object.entries(fields).map(([name, value]) => {
      const input = document.createElement("input");
      Object.assign(input, { type: "hidden", name, value });
      return input;
    }),
  );
  at("inside").hidden = false;
  form.submit();
  at("inside").scrollIntoView({ behavior: "smooth" });
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || at("choices").hidden) return;
  const hadFocus = at("choices").contains(document.activeElement);
  at("choices").hidden = true;
  if (hadFocus) at("result").querySelector('.word[tabindex="0"]')?.focus();
});
