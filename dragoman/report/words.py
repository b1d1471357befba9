"""Words of a translation: how sure the model was of each, and how a translation could go on."""

import math
import re
from typing import NamedTuple

from dragoman.report.attention import Axis, encoded, forced_decoding
from dragoman.storage.model_directory import ModelDirectory

_RUN = re.compile(r"\S+")  # of characters without white space


class WordProbability(NamedTuple):
    """A word of a translation."""

    text: str
    start: int
    """Index of the first character of the word."""
    probability: float
    """Probability of the word, given the source and the words before it."""


def word_probabilities(model: ModelDirectory, text: str, target: str) -> list[WordProbability]:
    """The probability of each word of the translation `target` of `text`; in scripts without spaces, of each character.

    Raises `DataError` for a text that is too long.
    """
    source, translation = model.preprocessor.pair(text, target)
    source_ids = encoded(model, model.source_tokenizer, source)
    target_ids = encoded(model, model.target_tokenizer, translation)
    log_probs, _ = forced_decoding(model.model, source_ids, target_ids, given=model.target_tokenizer.num_given)
    chosen = log_probs[range(len(target_ids)), target_ids]
    axis = Axis.of(model.target_tokenizer, target_ids)
    probabilities = []
    end = 0  # of the last word, in the characters of `target`
    for word, label, following in zip(axis.words, axis.labels, [*axis.labels[1:], ""], strict=True):
        run = _RUN.search(target, end)
        if not run:
            break
        end = _word_end(run, label, following)
        probability = float(chosen[word].sum().exp())
        probabilities.append(WordProbability(target[run.start() : end], run.start(), probability))
    return probabilities


def _word_end(run: re.Match[str], label: str, following: str) -> int:
    """Index of the character behind the word `label`, which begins a run of characters without white space.

    The text differs from the label where something was copied from the source; the word then ends where the label
    `following` begins, or with the run.
    """
    if run[0].startswith(label):
        return run.start() + len(label)
    begin = run[0].find(following, 1) if following else -1
    return run.end() if begin < 0 else run.start() + begin


def likely_next(model: ModelDirectory, text: str, prefix: str, number: int) -> list[tuple[str, float]]:
    """The `number` likeliest ways to continue `prefix`, the beginning of a translation of `text`, by one piece: texts,
    and the probabilities of the pieces, best first.

    Raises `DataError` for a text that is too long.
    """
    prepared, tokenizer = model.preprocessor(text), model.target_tokenizer
    source_ids = encoded(model, model.source_tokenizer, prepared.text)
    prefix_ids = encoded(model, tokenizer, model.preprocessor.prefix(prefix, prepared))[:-1]
    log_probs, _ = forced_decoding(model.model, source_ids, [*prefix_ids, model.model.config.eos_id])
    # More than `number`, since some are special tokens, parts of a character, or white space.
    best = log_probs[-1].topk(min(4 * number, log_probs.size(1)))
    continuations = []
    for token, log_prob in zip(best.indices.tolist(), best.values.tolist(), strict=True):
        continued = model.preprocessor.restored(tokenizer.decode([*prefix_ids, token]), prepared)
        is_text = token not in tokenizer.special_ids and "\N{REPLACEMENT CHARACTER}" not in continued
        if is_text and continued.strip() != prefix.strip():
            continuations.append((continued, math.exp(log_prob)))
    return continuations[:number]
