// The heading, and how sure the model was of each word.

const source = data.source_language ?? "", target = data.target_language ?? "";
const direction = source && target ? `${source} → ${target}` : "Translation";
find("subject").textContent = data.target.given ? `${direction}, a given translation` : direction;
Object.assign(find("source-text"), { textContent: data.source.text, lang: source });
Object.assign(find("target-text"), { textContent: data.target.text || "(an empty translation)", lang: target });
// Which way each text runs, as the browser sees it; the words alone may not tell.
const [sourceDir, targetDir] = ["source-text", "target-text"].map((id) => getComputedStyle(find(id)).direction);
find("target-text").classList.toggle("long", data.target.text.length > 200);
find("score").textContent =
  `Score ${signed(data.target.score)}: log-probability ${signed(data.target.log_prob)} of ` +
  `${data.target.words.flatMap((word) => word.pieces).length} pieces with the end of sentence.`;

/** What the model could have put in the index of a piece; the one that stands there is bold. */
function alternatives(piece) {
  const choices = [...piece.alternatives];
  if (!choices.some((choice) => choice.text === piece.text)) choices.push(piece);
  const rows = choices.map((choice) =>
    make(
      "tr",
      { className: choice.text === piece.text ? "taken" : "" },
      make("td", { lang: target }, make("bdi", { textContent: choice.text })),
      make("td", { className: "number", textContent: percent(choice.probability) }),
    ),
  );
  const caption = make("caption", {}, "At the position of ", make("bdi", { textContent: piece.text, lang: target }));
  return make("table", {}, caption, make("tbody", {}, ...rows));
}

const chips = data.target.words.map((word) => {
  const chip = make(
    "li",
    { lang: target, className: word.probability < 0.5 ? "unsure" : "" },
    make("bdi", { textContent: word.text }),
    make("i"),
    make("small", { className: "number", textContent: percent(word.probability) }),
  );
  chip.style.setProperty("--share", word.probability);
  chip.addEventListener("pointerenter", () => choose(word, chip));
  chip.addEventListener("focus", () => choose(word, chip));
  return chip;
});

function choose(word, chip) {
  for (const other of chips) other.classList.toggle("chosen", other === chip);
  find("alternatives").replaceChildren(...word.pieces.map(alternatives));
}

find("sureness").dir = targetDir;
find("sureness").append(...chips);
rove(find("sureness"), chips);
const sureness = data.target.words.map((word) => word.probability);
const weakest = sureness.indexOf(Math.min(...sureness));
choose(data.target.words[weakest], chips[weakest]);
