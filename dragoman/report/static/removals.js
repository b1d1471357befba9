// What the translation becomes without each word of the source.

/** The words of a text, and whether each is outside of the longest common subsequence with another text. */
function changedWords(text, other) {
  const [words, others] = [text, other].map((text) => text.split(/(?<=\s)/u));
  const longest = words.map(() => new Uint16Array(others.length + 1)).concat([new Uint16Array(others.length + 1)]);
  const equal = (i, j) => words[i].trim() === others[j].trim();
  for (let i = words.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      longest[i][j] = equal(i, j) ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  const marked = [];
  for (let i = 0, j = 0; i < words.length; ) {
    if (j < others.length && equal(i, j)) {
      marked.push({ text: words[i], changed: false });
      [i, j] = [i + 1, j + 1];
    } else if (j < others.length && longest[i][j + 1] >= longest[i + 1][j]) {
      j++;
    } else {
      marked.push({ text: words[i++], changed: true });
    }
  }
  return marked;
}

const removed = data.removals ?? [];
const removable = removed.map((removal, index) => {
  const chip = make(
    "li",
    { lang: source },
    make("bdi", { textContent: removal.word }),
    make("i"),
    make("small", { className: "number", textContent: `keeps ${percent(removal.probability_kept)}` }),
  );
  chip.style.setProperty("--share", 1 - removal.probability_kept);
  chip.addEventListener("pointerenter", () => chooseRemoved(index));
  chip.addEventListener("focus", () => chooseRemoved(index));
  return chip;
});

function chooseRemoved(index) {
  removable.forEach((chip, other) => chip.classList.toggle("chosen", other === index));
  const words = changedWords(removed[index].target, data.target.text);
  const text = make(
    "bdi",
    { lang: target },
    ...words.map(({ text, changed }) => (changed ? make("mark", { textContent: text }) : text)),
  );
  find("without").replaceChildren(`Without “\u2068${removed[index].word}\u2069”: `, text);
}

if (removable.length) {
  find("removals").hidden = false;
  find("removed").dir = sourceDir;
  find("removed").append(...removable);
  rove(find("removed"), removable);
  const kept = removed.map((removal) => removal.probability_kept);
  chooseRemoved(kept.indexOf(Math.min(...kept)));
}
