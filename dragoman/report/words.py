"""The words of one translation: how sure the model was of each, and what it could go on with."""

import math
import re
from typing import NamedTuple

from dragoman.report.attention import Axis, encoded, forced_decoding
from dragoman.storage.model_directory import ModelDirectory

_RUN = re.compile(r"\S+")


class WordProbability(NamedTuple):
    """A word of a translation."""

    text: str
    start: int
    """The index of its first character."""
    probability: float
    """Given the source and the words before it."""


def word_probabilities(model: ModelDirectory, text: str, target: str) -> list[WordProbability]:
    """Each word of the translation `target` of `text`; in scripts without spaces, each character.

    Raises `DataError` for a text that is too long.
    """
    source, translation = model.preprocessor.pair(text, target)
    source_ids = encoded(model, model.source_tokenizer, source)
    target_ids = encoded(model, model.target_tokenizer, translation)
    given = len(model.target_tokenizer.begin_ids)
    log_probs, _ = forced_decoding(model.model, source_ids, target_ids, given=given)
    chosen = log_probs[range(len(target_ids)), target_ids]
    axis = Axis.of(model.target_tokenizer, target_ids)
    found, end = [], 0
    for word, label, following in zip(axis.words, axis.labels, [*axis.labels[1:], ""], strict=True):
        run = _RUN.search(target, end)
        if not run:
            break
        end = _end(run, label, following)
        probability = float(chosen[word].sum().exp())
        found.append(WordProbability(target[run.start() : end], run.start(), probability))
    return found


def _end(run: re.Match[str], label: str, following: str) -> int:
    """Where a word ends that begins what no space divides; its label differs where something was copied to it."""
    if run[0].startswith(label):
        return run.start() + len(label)
    place = run[0].find(following, 1) if following else -1
    return run.end() if place < 0 else run.start() + place


def likely_next(model: ModelDirectory, text: str, prefix: str, number: int) -> list[tuple[str, float]]:
    """The likeliest ways to go on from the beginning of a translation by one piece: texts, and the probabilities of
    the piece, best first.

    Raises `DataError` for a text that is too long.
    """
    prepared, tokenizer, end = model.preprocessor(text), model.target_tokenizer, model.model.config.eos_id
    source_ids = encoded(model, model.source_tokenizer, prepared.text)
    ids = encoded(model, tokenizer, model.preprocessor.prefix(prefix, prepared))[:-1]
    log_probs, _ = forced_decoding(model.model, source_ids, [*ids, end])
    best = log_probs[-1].topk(min(4 * number, log_probs.size(1)))
    found = []
    for token, log_prob in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        begun = model.preprocessor.restored(tokenizer.decode([*ids, token]), prepared)
        whole = token not in tokenizer.special_ids and "\N{REPLACEMENT CHARACTER}" not in begun
        if whole and begun.strip() != prefix.strip():
            found.append((begun, math.exp(log_prob)))
    return found[:number]
