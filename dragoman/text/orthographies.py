"""Several spellings of one language in the same texts, and the letters that turn rarer ones into the usual one.

Where no orthography is settled, texts come in several: one writer of Shipibo-Konibo has `jahuequescara` where another
has `jawekeskara`. To a small model these are two languages. Nobody writes both in one sentence, so letters of the one
hardly ever stand in a text with letters of the other. This tells two spellings from all other differences between
words, such as endings, which stand side by side.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations, pairwise

import numpy as np

from dragoman.text.characters import in_same_case
from dragoman.text.scripts import SPELLED_WORD
from dragoman.text.spelling import APOSTROPHES
from dragoman.text.tokenizers.placeholders import verbatim

MOST_WORDS = 20_000
"""Different words by which letters are compared."""
SHARE = 0.03
"""Least share of the texts that have a spelling, and that have letters by which it is known."""
FEWEST = 5
"""Texts whose spelling can be told that are needed for them to say how all are written."""
MOST_LETTERS = 3_000
"""Different letters of all texts: with more of them, words are not spelled."""
MIXED = 0.1
"""Share of the texts that are to be written alike from which on they are in two spellings, so that both are wanted."""
APART, EXPECTED = 0.1, 20
"""Letters belong to two spellings if they hardly share a text: where chance would give at least `EXPECTED` texts, so
small a share of these."""
TWINS, PAIRS = 3, 3
"""Two spellings have so many pairs of letters that belong to the one and the other, and each of these pairs tells apart
so many pairs of words that are equal otherwise."""
AFFIX = 2
"""Prefixes and endings may agree throughout a sentence. So at least `TWINS` pairs of words differ within, with so many
equal letters on both sides."""
RARER = 10
"""Letters are replaced if they are so many times rarer in the usual spelling than in the other one."""
LEARNED = 0.15
"""Replacements make so many of the running words known that the usual spelling lacks, as a share: 46 % in
Shipibo-Konibo, and 17 % into its rarer spelling. With Belarusian among Russian, they make 7 to 9 % known."""
KNOWN, OF_BEST = 6, 0.1
"""A replacement turns so many different words into words of the usual spelling, and so many of those that the best one
turns."""
SEEN = 3
"""Fewest words with a sequence of letters for it to be one of the usual spelling."""
MOST_TRIED = 40
"""Replacements that are tried at a time, those that turn most words one by one."""
LONGEST = 2
"""Most letters that a replacement puts in the place of one or two."""
WORD_LENGTHS = range(4, 31)
"""Numbers of letters of the words that are compared. Shorter ones are alike by chance, and longer ones are rare except
where no spaces are written between words."""


@dataclass(frozen=True)
class Replacement:
    """Letters of the rarer spelling, and those of the usual one in their place; all in lower case."""

    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old} > {self.new or '-'}"


@dataclass(frozen=True)
class Neighbours:
    """What may stand beside new letters."""

    sequences: frozenset[str]
    """Two and three letters that the usual spelling has, and those of the other one that are still to be replaced."""
    passing: frozenset[str]
    """Letters that are still to be replaced wherever they stand, so that anything may stand beside them."""

    def admit(self, before: str, new: str, after: str) -> bool:
        """Whether `new` may stand between two letters; "" is an end of a word."""
        sides = [(before, before + new), (after, new + after)] if new else [(before, before + after)]
        return all(len(side) < 2 or neighbour in self.passing or side in self.sequences for neighbour, side in sides)

    def replace(self, text: str, replacement: Replacement) -> str:
        """The text with the new letters where they may stand, in capitals where the old ones are."""

        def new_letters(match: re.Match[str]) -> str:
            old, new, (start, end) = match.group(), replacement.new, match.span()
            before, after = _letter(text[start - 1 : start]), _letter(text[end : end + 1])
            is_quote = old in APOSTROPHES and not (before and after)
            if is_quote or not self.admit(before.lower(), new, after.lower()):
                return old
            return in_same_case(old, new, before, after)

        return unicodedata.normalize("NFC", _in_any_case(replacement.old).sub(new_letters, text))


@dataclass(frozen=True)
class SpellingStep:
    """Writes texts that are in one spelling in another one, the usual one."""

    replacements: tuple[Replacement, ...]
    """In the order in which they are made."""
    usual: tuple[str, ...]
    """Letters in lower case that no text in the other spelling has."""
    neighbours: Neighbours
    kept: tuple[str, ...] = ()
    """Texts that are never changed; addresses are not, either."""

    def __call__(self, text: str) -> str:
        """The text in the usual spelling. A text that has letters of it stays as it is."""
        parts = verbatim(self.kept).split(text)
        spelled = " ".join(parts[::2]).lower()
        if any(letters in spelled for letters in self.usual):
            return text
        parts[::2] = map(self._respelled, parts[::2])
        return "".join(parts)

    def _respelled(self, text: str) -> str:
        for replacement in self.replacements * 2:  # the later ones may make room for the first
            text = self.neighbours.replace(text, replacement)
        return text

    def __str__(self) -> str:
        return ", ".join(map(str, self.replacements))


def learn_step(texts: Sequence[str], like: Sequence[str], kept: Sequence[str]) -> SpellingStep | None:
    """How to write one of two spellings as the other; None if there are no two."""
    texts_and_spellings = _two_spellings(texts)
    if texts_and_spellings is None:
        return None
    read, spellings = texts_and_spellings
    rarer = rarer_spelling(_numbers(read, spellings), _numbers(_Texts(like), spellings))
    if rarer is None:
        return None
    usual = spellings[1 - rarer]
    with_rarer, with_usual = map(read.with_any, (spellings[rarer], usual))
    rare_texts, usual_texts = with_rarer - with_usual, with_usual - with_rarer
    replacements, neighbours = _replacements(read, rare_texts, usual_texts)
    step = SpellingStep(tuple(replacements), tuple(_least(usual)), neighbours, tuple(kept))
    running, known = read.running_words(rare_texts), {*read.running_words(usual_texts)}
    unknown = [word for word in running if word not in known]
    if sum(step(word) in known for word in unknown) < LEARNED * len(unknown) or not replacements:
        return None
    return step


def rarer_spelling(own: Sequence[int], wanted: Sequence[int]) -> int | None:
    """The index of the spelling to replace: the rarer one of the texts, or of the `wanted` ones if these can be told.

    None if the wanted ones come in both.
    """
    if min(wanted) > MIXED * sum(wanted):
        return None
    counts = wanted if sum(wanted) >= FEWEST else own
    return 0 if counts[0] <= counts[1] else 1


class _Texts:
    """The words of texts in lower case, and which texts have which letters: single ones and pairs, in one word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.words = [SPELLED_WORD.findall(text.lower()) for text in texts]
        self.letters = [frozenset().union(*map(_letters_of, words)) for words in self.words]

    def with_any(self, letters: Collection[str]) -> set[int]:
        """The indices of texts with any of these letters."""
        return {index for index, own in enumerate(self.letters) if not own.isdisjoint(letters)}

    def running_words(self, texts: Iterable[int]) -> list[str]:
        """All words of these texts, one after the other."""
        return [word for index in texts for word in self.words[index]]

    def vocabulary(self, texts: Iterable[int]) -> list[str]:
        """Different words of these texts, of `WORD_LENGTHS`; the most frequent ones."""
        counts = Counter(word for index in texts for word in self.words[index] if len(word) in WORD_LENGTHS)
        return sorted(counts, key=lambda word: (-counts[word], word))[:MOST_WORDS]

    def number_of_texts(self, texts: Collection[int]) -> Counter[str]:
        """In how many of these texts letters occur."""
        return Counter(letters for index in texts for letters in self.letters[index])


def _numbers(texts: _Texts, spellings: Iterable[Collection[str]]) -> list[int]:
    """How many texts are in each of two spellings alone."""
    one, other = map(texts.with_any, spellings)
    return [len(one - other), len(other - one)]


def _letters_apart(texts: Sequence[str]) -> dict[tuple[str, str], float]:
    """Letters, single ones and pairs side by side, that hardly share a text, with the number that would by chance."""
    if not texts:
        return {}
    codes = np.frombuffer("\n".join(texts).lower().encode("utf-32-le", "surrogatepass"), np.uint32)
    least, counts = max(SHARE * len(texts), EXPECTED), np.bincount(codes)
    present = np.flatnonzero(counts >= least).tolist()
    letters = [code for code in present if _letter(chr(code)) or chr(code) in APOSTROPHES]
    if not letters or len(letters) > MOST_LETTERS:
        return {}
    numbers = np.zeros(len(counts), np.int64)
    numbers[letters] = np.arange(1, len(letters) + 1)
    row, number, base = np.cumsum(codes == ord("\n")), numbers[codes], len(letters) + 1
    # A single letter has the number of a pair whose second letter is 0.
    is_pair = (number[:-1] > 0) & (number[1:] > 0)
    rows = np.concatenate([row[number > 0], row[:-1][is_pair]])
    names = np.concatenate([number[number > 0] * base, (number[:-1] * base + number[1:])[is_pair]])
    often = np.flatnonzero(np.bincount(names) >= least)
    columns = np.full(int(names.max(initial=0)) + 1, -1)
    columns[often] = np.arange(len(often))
    kept = columns[names] >= 0
    has = np.zeros((len(texts), len(often)), np.float32)
    has[rows[kept], columns[names[kept]]] = 1
    having = has.sum(0)
    by_chance = np.outer(having, having) / len(texts)
    is_frequent = np.outer(having >= least, having >= least)
    apart = is_frequent & (by_chance >= EXPECTED) & (has.T @ has < APART * by_chance)
    spelled = ["".join(chr(letters[part - 1]) for part in divmod(name, base) if part) for name in often.tolist()]
    pairs = np.argwhere(np.triu(apart)).tolist()
    return {(spelled[one], spelled[other]): float(by_chance[one, other]) for one, other in pairs}


def _two_spellings(texts: Sequence[str]) -> tuple[_Texts, tuple[set[str], set[str]]] | None:
    """The texts, read, with the letters by which the one spelling is known, and the other; None if there are no two."""
    by_chance = _letters_apart(texts)
    if len(by_chance) < PAIRS:
        return None
    read = _Texts(texts)
    words = read.vocabulary(range(len(texts)))
    twins = _twins(words, by_chance)
    pairs = {pair for pair in by_chance if twins[pair] >= TWINS}
    if len(pairs) < PAIRS or _twins(words, pairs, within=AFFIX).total() < TWINS:
        return None
    one, other = max(sorted(pairs), key=lambda pair: by_chance[pair])
    spellings = {one}, {other}
    for letters in sorted({letters for pair in pairs for letters in pair} - {one, other}):
        own = read.with_any({letters})
        with_spellings = [read.with_any(spelling) for spelling in spellings]
        shared = [len(own & with_spelling) / len(with_spelling) for with_spelling in with_spellings]
        lower = min(shared)
        if lower < APART * len(own) / len(texts):
            spellings[shared[0] == lower].add(letters)
    with_one, with_other = map(read.with_any, spellings)
    fewer = min(len(with_one), len(with_other))
    if fewer < SHARE * len(texts) or len(with_one & with_other) > APART * fewer:
        return None
    return read, spellings


def _twins(words: Iterable[str], pairs: Collection[tuple[str, str]], *, within: int = 0) -> Counter[tuple[str, str]]:
    """How many words differ in nothing but these pairs of letters, with so many letters on both sides."""
    compared = {letters for pair in pairs for letters in pair}
    places: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for word in words:
        for start, letters in _places(word, compared):
            before, after = word[:start], word[start + len(letters) :]
            if min(len(before), len(after)) >= within:
                places[before, after].add(letters)
    twins: Counter[tuple[str, str]] = Counter()
    for alternatives in places.values():
        twins.update(pair for pair in combinations(sorted(alternatives), 2) if pair in pairs)
    return twins


def _replacements(
    texts: _Texts, rare_texts: Collection[int], usual_texts: Collection[int]
) -> tuple[list[Replacement], Neighbours]:
    """What to replace in the rarer spelling: always what turns most words into words of the usual one. And where."""
    marks = _marks(texts, rare_texts, usual_texts)
    words, known = texts.vocabulary(rare_texts), frozenset(texts.vocabulary(usual_texts))
    between = surroundings(known)
    neighbours = Neighbours(_sequences(known) | marks, frozenset(letters for letters in marks if len(letters) == 1))
    replacements: list[Replacement] = []
    best = 0
    while True:
        tried = _candidates({*words}.difference(known), between, marks)
        gains = [_gain(replacement, words, known, neighbours) for replacement in tried]
        gain = max(gains, default=0)
        if gain < max(KNOWN, OF_BEST * best):
            return replacements, neighbours
        best = max(best, gain)
        replacements.append(tried[gains.index(gain)])
        words = [neighbours.replace(word, replacements[-1]) for word in words]


def _marks(texts: _Texts, rare_texts: Collection[int], usual_texts: Collection[int]) -> frozenset[str]:
    """Letters that are much rarer in the usual texts than in the others."""
    own, others = texts.number_of_texts(rare_texts), texts.number_of_texts(usual_texts)
    return frozenset(
        letters
        for letters, count in own.items()
        if count >= KNOWN and count / len(rare_texts) > RARER * (others[letters] + 1) / len(usual_texts)
    )


def _sequences(words: Iterable[str]) -> frozenset[str]:
    """Two and three letters that stand side by side in some of the words."""
    counts = Counter(
        sequence
        for word in words
        for length in (2, 3)
        for sequence in {word[start : start + length] for start in range(len(word) - length + 1)}
    )
    return frozenset(sequence for sequence, count in counts.items() if count >= SEEN)


def surroundings(words: Iterable[str]) -> dict[tuple[str, str], set[str]]:
    """The letters, `LONGEST` at most, that stand between any beginning and end of these words."""
    between: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for word in words:
        for length in range(LONGEST + 1):
            for start in range(len(word) - length + 1):
                between[word[:start], word[start + length :]].add(word[start : start + length])
    return between


def _candidates(
    words: Iterable[str], between: Mapping[tuple[str, str], set[str]], marks: Collection[str]
) -> list[Replacement]:
    """What turns most words into those that `between` was made of, if it is replaced at one place."""
    counts: Counter[Replacement] = Counter()
    for word in words:
        for start, old in _places(word, marks):
            news = between.get((word[:start], word[start + len(old) :]), ())
            # Only marks, such as an apostrophe, may go with no letters in their place.
            counts.update(Replacement(old, new) for new in news if new or not _letter(old[0]))
    return sorted(counts, key=lambda tried: (-counts[tried], tried.old, tried.new))[:MOST_TRIED]


def _gain(replacement: Replacement, words: Iterable[str], known: Collection[str], neighbours: Neighbours) -> int:
    """How many more of the words are known after a replacement."""
    changed = [word for word in words if replacement.old in word]
    return sum((neighbours.replace(word, replacement) in known) - (word in known) for word in changed)


def _least(letters: Iterable[str]) -> list[str]:
    """The letters that contain none of the other ones."""
    letters = sorted(letters, key=lambda text: (len(text), text))
    return [text for number, text in enumerate(letters) if not any(part in text for part in letters[:number])]


def _places(word: str, letters: Collection[str]) -> Iterator[tuple[int, str]]:
    """The places of these letters, single ones or two, in a word: where they begin, and which they are."""
    for start in range(len(word)):
        for length in (1, 2):
            if word[start : start + length] in letters and start + length <= len(word):
                yield start, word[start : start + length]


@lru_cache(maxsize=MOST_WORDS)
def _letters_of(word: str) -> frozenset[str]:
    """All single letters of a word, and all pairs of letters side by side."""
    return frozenset((*word, *map("".join, pairwise(word))))


def _letter(character: str) -> str:
    """The character if it is a letter or the mark of one, else ""."""
    return character if character.isalpha() or unicodedata.category(character or " ").startswith("M") else ""


@cache
def _in_any_case(letters: str) -> re.Pattern[str]:
    """Pattern of letters in small letters and in capitals. (Python ignores case so that ı is i, and ſ is s.)"""
    return re.compile("|".join(map(re.escape, dict.fromkeys([letters, letters.capitalize(), letters.upper()]))))
