"""One sentence looked at from the inside: how sure the model was, what it attended to, what else it tried."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from dragoman.config import DecodingConfig
from dragoman.data.text import normalised
from dragoman.data.tokenizers.placeholders import mask, mask_pair, restored
from dragoman.data.tokenizers.tokenizer import Tokenizer
from dragoman.decoding.alignment import by_word
from dragoman.decoding.batch import BatchWork, Sentence
from dragoman.errors import DataError, UsageError
from dragoman.report.attention import Axis, Maps, WordAttention, read
from dragoman.report.search_tree import SearchRecorder, SearchTree
from dragoman.storage.model_directory import ModelDirectory

MOST_TOKENS = 512
"""Of a text, end of sentence included: all maps of a base model then take 150 MB."""
SHOWN_ALTERNATIVES = 5
AXES = {"encoder": ("source", "source"), "decoder": ("target", "inputs"), "cross": ("target", "source")}
"""What the rows and the columns of each attention are: what looks, and what is looked at."""


@dataclass(frozen=True)
class Inspection:
    """All there is to see of a model and one sentence pair."""

    languages: tuple[str | None, str | None]
    """Of source and target."""
    source_text: str
    target_text: str
    given: bool
    """Whether the target was given; if not, it is the model's own translation."""
    source: Axis
    """Ends with the end of sentence."""
    inputs: Axis
    """What the decoder reads: the begin of sentence, then the target without its last token."""
    target: Axis
    """Ends with the end of sentence, unless it is a translation that was cut at the length limit."""
    log_probs: list[float]
    """Of each target token, given what stands before it."""
    alternatives: list[list[tuple[str, float]]]
    """For each target token the likeliest pieces in its place, with their probabilities, best first."""
    attention: dict[str, Maps]
    """For each of `AXES` the weights between pieces."""
    search: SearchTree
    """The model's own search for a translation."""
    beam_size: int
    length_penalty: float
    tokenizer: Tokenizer
    """That of the target."""

    @property
    def log_prob(self) -> float:
        """Of the whole target."""
        return sum(self.log_probs)

    @property
    def score(self) -> float:
        """`log_prob` divided by its length to the power of the length penalty, what search ranks by."""
        return self.log_prob / len(self.log_probs) ** self.length_penalty

    def axes(self, kind: str) -> tuple[Axis, Axis]:
        """The rows and the columns of an attention."""
        rows, columns = AXES[kind]
        return getattr(self, rows), getattr(self, columns)

    def word_maps(self, kind: str) -> Maps:
        """The weights of an attention between words, for each layer and head."""
        return by_word(self.attention[kind], *(axis.words for axis in self.axes(kind)))

    def clearest_layer(self) -> int:
        """The decoder layer whose cross-attention tells the source words apart best."""
        layers = list(self.word_maps("cross").mean(1))
        return WordAttention(self.source.labels, self.target.labels, layers).clearest_layer()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the attention, for JSON."""
        return {
            "source_language": self.languages[0],
            "target_language": self.languages[1],
            "source": {"text": self.source_text, "words": words_dict(self.source)},
            "target": {
                "text": self.target_text,
                "given": self.given,
                "score": _figure(self.score),
                "log_prob": _figure(self.log_prob),
                "words": self._target_words(),
            },
            "search": self._search(),
        }

    def attention_dict(self) -> dict[str, list]:
        """The attention between words for JSON: `[layer][head][row][column]` for each kind."""
        return {kind: np.round(self.word_maps(kind).astype(float), 4).tolist() for kind in AXES}

    def _target_words(self) -> list[dict[str, Any]]:
        words = words_dict(self.target)
        for word, places in zip(words, self.target.words, strict=True):
            word["probability"] = _figure(np.exp(sum(self.log_probs[place] for place in places)))
            for piece, place in zip(word["pieces"], places, strict=True):
                piece["probability"] = _figure(np.exp(self.log_probs[place]))
                piece["alternatives"] = [
                    {"text": text, "probability": _figure(value)} for text, value in self.alternatives[place]
                ]
        return words

    def _search(self) -> dict[str, Any]:
        tree = self.search
        pieces = self.tokenizer.pieces([node.token for node in tree.nodes])
        return {
            "beam_size": self.beam_size,
            "length_penalty": self.length_penalty,
            "nodes": [
                {
                    "parent": node.parent,
                    "text": piece,
                    "probability": _figure(np.exp(node.log_prob)),
                    "log_prob": _figure(node.total),
                    "state": node.state,
                }
                for node, piece in zip(tree.nodes, pieces, strict=True)
            ],
            "hypotheses": [
                {
                    "text": self.tokenizer.decode(each.tokens),
                    "score": _figure(each.score),
                    "log_prob": _figure(each.log_prob),
                    "finished": each.finished,
                    "node": leaf,
                }
                for each, leaf in zip(tree.hypotheses, tree.leaves, strict=True)
            ],
        }


def inspect_translation(
    model: ModelDirectory,
    text: str,
    *,
    target: str | None = None,
    beam_size: int = 5,
    length_penalty: float = 1.0,
) -> Inspection:
    """Translate `text` and look inside, or at the translation `target`, if one is given.

    Raises `UsageError` for an empty text and `DataError` for one of more than `MOST_TOKENS` tokens.
    """
    bos, eos, tokenizer = model.model.config.bos_id, model.model.config.eos_id, model.target_tokenizer
    text, target = _clean(text, "text"), target if target is None else _clean(target, "target")
    source_ids, given_ids = _token_ids(model, text, target)
    config = DecodingConfig.validate({"beam_size": beam_size, "length_penalty": length_penalty})
    search = _search(model, source_ids[:-1], config)
    best = search.hypotheses[0]
    # A translation that was cut at the length limit has no end to look at.
    target_ids = given_ids or [*best.tokens, eos][: len(best.tokens) + best.finished]
    reading = read(model.model, source_ids, target_ids)
    return Inspection(
        languages=(model.source_language, model.target_language),
        source_text=text,
        target_text=_as_written(model.source_tokenizer, tokenizer.decode(target_ids), text)
        if target is None
        else target,
        given=target is not None,
        source=Axis.of(model.source_tokenizer, source_ids),
        inputs=Axis.of(tokenizer, [bos, *target_ids[:-1]]),
        target=Axis.of(tokenizer, target_ids),
        log_probs=reading.log_probs[range(len(target_ids)), target_ids].tolist(),
        alternatives=_alternatives(tokenizer, reading.log_probs),
        attention=reading.maps,
        search=search,
        beam_size=beam_size,
        length_penalty=length_penalty,
        tokenizer=tokenizer,
    )


class _WatchedWork(BatchWork):
    """A search that remembers its steps."""

    def _stepper(self, *sentences_and_options: Any) -> SearchRecorder:
        ids = {"bos_id": self.config.bos_id, "eos_id": self.config.eos_id}
        self.recorder = SearchRecorder(super()._stepper(*sentences_and_options), **ids)
        return self.recorder


def _search(model: ModelDirectory, source_ids: list[int], config: DecodingConfig) -> SearchTree:
    work = _WatchedWork([model.model.eval()], model.source_tokenizer, model.target_tokenizer)
    (hypotheses,) = work.search([Sentence(source_ids)], config)
    return work.recorder.tree(hypotheses)


def _clean(text: str, what: str) -> str:
    # A lone surrogate, what the shell makes of bytes that are no UTF-8, can be neither printed nor saved.
    text = normalised(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if not text:
        raise UsageError(f"The {what} to inspect is empty; give a sentence in quotes.")
    return text


def _token_ids(model: ModelDirectory, text: str, target: str | None) -> tuple[list[int], list[int] | None]:
    """Both texts as the model reads them."""
    symbols = model.source_tokenizer.symbols
    if model.source_tokenizer.placeholders:
        text, target = (mask(text, symbols)[0], None) if target is None else mask_pair(text, target, symbols)
    return _encoded(model, model.source_tokenizer, text), target and _encoded(model, model.target_tokenizer, target)


def _as_written(tokenizer: Tokenizer, translation: str, text: str) -> str:
    return restored(translation, text, tokenizer.symbols) if tokenizer.placeholders else translation


def _encoded(model: ModelDirectory, tokenizer: Tokenizer, text: str) -> list[int]:
    config = model.model.config
    ids = [*tokenizer.encode(text), config.eos_id]
    most = min(MOST_TOKENS, config.max_positions) if config.positions == "learned" else MOST_TOKENS
    if len(ids) > most:
        raise DataError(f"A text has {len(ids)} tokens, and at most {most} can be shown; give one sentence at a time.")
    return ids


def _alternatives(tokenizer: Tokenizer, log_probs: Float[Tensor, "target vocab"]) -> list[list[tuple[str, float]]]:
    best = log_probs.topk(min(SHOWN_ALTERNATIVES, log_probs.size(1)))
    pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return [list(zip(tokenizer.pieces(ids), values, strict=True)) for ids, values in pairs]


def words_dict(axis: Axis) -> list[dict[str, Any]]:
    """Words and their pieces, for JSON."""
    return [
        {"text": label, "pieces": [{"text": axis.pieces[place]} for place in places]}
        for label, places in zip(axis.labels, axis.words, strict=True)
    ]


def _figure(value: float) -> float:
    return float(f"{value:.5g}")
