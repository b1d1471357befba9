// Text to token ids and back, as dragoman.text.tokenizers does it: byte-level BPE, or a unigram model of pieces.

// \s of JavaScript is not that of Unicode.
const SPACE = String.raw`\p{White_Space}`;
const WORDS = new RegExp(
  String.raw`'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])| ?[\p{L}\p{M}]+| ?\p{N}+| ?[^${SPACE}\p{L}\p{M}\p{N}]+` +
    String.raw`|${SPACE}+(?!\P{White_Space})|${SPACE}+`,
  "gu",
);
const AROUND = new RegExp(String.raw`^[${SPACE}\x1C-\x1F\uFEFF]+|[${SPACE}\x1C-\x1F\uFEFF]+$`, "gu");

// A letter for each byte: printable ones are themselves.
const LETTERS = (() => {
  const printable = [[33, 126], [161, 172], [174, 255]];
  const letters = new Array(256);
  let next = 256;
  for (let byte = 0; byte < 256; byte++) {
    const plain = printable.some(([first, last]) => first <= byte && byte <= last);
    letters[byte] = String.fromCodePoint(plain ? byte : next++);
  }
  return letters;
})();
const BYTES = new Map(LETTERS.map((letter, byte) => [letter, byte]));

export class Tokenizer {
  constructor(json) {
    const { model } = json;
    this.special = new Set(json.added_tokens.map((token) => token.id));
    this.split = model.type === "Unigram" ? unigram(model.vocab) : bpe(model);
    this.tokens = model.type === "Unigram" ? model.vocab.map(([token]) => token) : byId(model.vocab);
    for (const token of json.added_tokens) this.tokens[token.id] = token.content;
    this.ids = new Map(this.tokens.map((token, id) => [token, id]));
    // The token of the target language, of a model that has several.
    this.begin = (json.post_processor?.single ?? []).flatMap((part) =>
      part.SpecialToken ? [this.ids.get(part.SpecialToken.id)] : [],
    );
    this.words = new Map();
  }

  encode(text) {
    const ids = [...this.begin];
    const normal = text.replace(AROUND, "").normalize("NFC");
    // With a space before it, the first word is the same token as later; a blank text has no token.
    for (const [word] of (normal && ` ${normal}`).matchAll(WORDS)) {
      if (!this.words.has(word)) this.words.set(word, this.split(spelled(word)).map((token) => this.ids.get(token)));
      ids.push(...this.words.get(word));
    }
    return ids;
  }

  decode(ids) {
    const letters = ids.filter((id) => !this.special.has(id)).map((id) => this.tokens[id]).join("");
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(letters, (letter) => BYTES.get(letter)));
    return text.replace(/^ /, "");
  }

  // What each token adds to the text, for tables; a space is shown.
  pieces(ids) {
    return ids.map((id) => (this.special.has(id) ? this.tokens[id] : this.decode([id]).replaceAll(" ", "▁")));
  }
}

function byId(vocab) {
  const tokens = [];
  for (const [token, id] of Object.entries(vocab)) tokens[id] = token;
  return tokens;
}

function spelled(word) {
  return Array.from(new TextEncoder().encode(word), (byte) => LETTERS[byte]).join("");
}

// Merges the pair that was learned first, again and again.
function bpe(model) {
  const ranks = new Map(model.merges.map((pair, rank) => [Array.isArray(pair) ? pair.join(" ") : pair, rank]));
  return (word) => {
    const parts = Array.from(word);
    for (;;) {
      let best = -1;
      let least = Infinity;
      for (let i = 0; i + 1 < parts.length; i++) {
        const rank = ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
        if (rank < least) [best, least] = [i, rank];
      }
      if (best < 0) return parts;
      parts.splice(best, 2, parts[best] + parts[best + 1]);
    }
  };
}

// The most probable sequence of pieces.
function unigram(vocab) {
  const scores = new Map(vocab);
  const longest = Math.max(...vocab.map(([token]) => token.length));
  return (word) => {
    const best = [{ total: 0, from: 0 }];
    for (let end = 1; end <= word.length; end++) {
      best[end] = { total: -Infinity, from: end - 1 };
      for (let from = Math.max(0, end - longest); from < end; from++) {
        const total = best[from].total + (scores.get(word.slice(from, end)) ?? -Infinity);
        if (total > best[end].total) best[end] = { total, from };
      }
    }
    const parts = [];
    for (let end = word.length; end > 0; end = best[end].from) parts.unshift(word.slice(best[end].from, end));
    return parts;
  };
}
