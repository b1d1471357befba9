"""Word alignment: which target word comes from which source word, by the attention of the decoder.

Words are what spaces of any kind separate (`word_spans`). A target word is linked to the source word that its tokens
attend to most, and to none if they attend to the end of sentence twice as much as to any word.
"""

import re
from codecs import getincrementaldecoder

import numpy as np

from dragoman.engine.shapes import Float
from dragoman.text.characters import INVISIBLE
from dragoman.text.tokenizers.placeholders import Prepared, spaced, unmask
from dragoman.text.tokenizers.tokenizer import Tokenizer

OUTSIDE = 0.5
"""What attention to the end of sentence counts: a doubtful link serves a tag better than none."""
Alignment = list[tuple[int, int]]
"""Pairs of a source word and a target word, counted from 0, in the order of the target."""
_RUNS = re.compile(r"\s+|\S+")
_INVISIBLE_RUN = re.compile(f"[{INVISIBLE}]+")


def links(weights: Float[np.ndarray, "tgt_len src_len"], source: list[list[int]], target: list[list[int]]) -> Alignment:
    """The links of one sentence; `source` and `target` hold the positions of each word's tokens.

    Other rows and columns are those of the end of sentence and of tokens that belong to no word.
    """
    if not source or not target:
        return []
    in_words = {position for word in source for position in word}
    outside = [position for position in range(weights.shape[1]) if position not in in_words]
    between_words = by_word(weights, target, [*source, outside])
    between_words[:, -1] *= OUTSIDE
    best_words = between_words.argmax(1).tolist()
    return [(best, index) for index, best in enumerate(best_words) if best < len(source)]


def by_word(
    weights: Float[np.ndarray, "*maps queries keys"], rows: list[list[int]], columns: list[list[int]]
) -> Float[np.ndarray, "*maps query_words key_words"]:
    """Weights between words, given the positions of the tokens of each word.

    The weights are summed over the tokens of a key word, and averaged over the tokens of a query word.
    """
    summed = np.stack([weights[..., word].sum(-1) for word in columns], axis=-1)
    return np.stack([summed[..., word, :].mean(-2) for word in rows], axis=-2)


def words(tokenizer: Tokenizer, ids: list[int], prepared: Prepared | None = None) -> list[list[int]]:
    """The positions of the tokens of each word. Spaces separate words, also around slots and in their values.

    A token that adds several words to the text, as a tag may, is in each.
    """
    positions: list[list[int]] = []
    before: list[int] = []  # tokens of spaces and the like, which belong to the word after them
    begun: list[int] = []  # tokens that are the beginning of a character, which a later token ends
    decoder = getincrementaldecoder("utf-8")("surrogateescape")
    prepared = prepared or Prepared("")
    is_in_word, last = False, ""
    for position, content in enumerate(tokenizer.token_bytes(ids)):
        text = decoder.decode(content)
        if content and not text:
            begun.append(position)
            continue
        runs = _RUNS.findall(unmask(spaced(last + text, prepared.joined)[len(last) :], prepared))
        last = text[-1:] or last
        for run in runs:
            if run[0].isspace():
                is_in_word = False
                before += begun
            elif is_in_word:
                if positions[-1][-1] != position:
                    positions[-1] += [*begun, position]
            elif _INVISIBLE_RUN.fullmatch(run):
                before += begun  # no word, nor the beginning of one
            else:
                positions.append([*before, *begun, position])
                is_in_word, before = True, []
            begun = []
        if runs and not is_in_word and (not positions or positions[-1][-1] != position):
            before.append(position)  # the space before a word is a part of it
    if begun and is_in_word:
        positions[-1] += begun
    elif begun:
        positions.append([*before, *begun])
    return positions


def word_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each word: what stands between spaces, no-break and other wide ones included.

    A run of invisible characters alone, such as a zero-width space, is no word.
    """
    runs = re.finditer(r"\S+", text)
    return [run.span() for run in runs if not _INVISIBLE_RUN.fullmatch(run[0])]


def pharaoh(alignment: Alignment) -> str:
    """The links as text: `0-0 1-2` links the first words, and the second source word with the third target word."""
    return " ".join(f"{source}-{target}" for source, target in alignment)
