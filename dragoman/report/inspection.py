"""Inspection of one translation: how sure the model was, what it attended to, what else it tried."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from dragoman.config.decoding import BEAM_SEARCH, DecodingConfig
from dragoman.decoding.alignment import by_word
from dragoman.decoding.batch import BatchWork, Sentence
from dragoman.decoding.search import length_normalised
from dragoman.decoding.torch_engine import TorchEngine
from dragoman.errors import UsageError
from dragoman.report.attention import Axis, Heads, Maps, clearest_layer, encoded, forced_decoding
from dragoman.report.removals import Removal, removals
from dragoman.report.search_tree import SearchRecorder, SearchTree
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.characters import normalised
from dragoman.text.tokenizers.tokenizer import Tokenizer

SHOWN_ALTERNATIVES = 5
"""Number of the likeliest pieces that are shown at each position of the target."""
AXES = {"encoder": ("source", "source"), "decoder": ("target", "inputs"), "cross": ("target", "source")}
"""Rows and columns of each attention: the tokens that look, and those that are looked at."""


@dataclass(frozen=True)
class Inspection:
    """Predictions, attention and search of a model for one sentence pair."""

    model: ModelDirectory
    source_text: str
    target_text: str
    given: bool
    """Whether the target was given; if not, it is the model's own translation."""
    source: Axis
    """Tokens of the source, up to and including the end of sentence."""
    inputs: Axis
    """Inputs of the decoder: the begin of sentence, then the target without its last token."""
    target: Axis
    """Tokens of the target. The last one is the end of sentence, unless the translation was truncated at the length
    limit."""
    log_probs: list[float]
    """The log-probability of each target token, given those before it, in nats."""
    alternatives: list[list[tuple[str, float]]]
    """For each target token the likeliest pieces at its position, with their probabilities, best first."""
    attention: dict[str, Heads]
    """For each of `AXES` the weights between pieces, and the vectors that they come from."""
    search: SearchTree
    """The model's own search for a translation."""
    search_config: DecodingConfig
    removals: list[Removal]
    """The translation without each word of the source in turn; empty for a long source."""

    @property
    def log_prob(self) -> float:
        """The log-probability of the complete target, in nats."""
        return sum(self.log_probs)

    @property
    def score(self) -> float:
        """`log_prob` divided by the number of tokens to the power of the length penalty; search ranks by it."""
        search = self.search_config
        return length_normalised(
            self.log_prob, len(self.log_probs), penalty=search.length_penalty, offset=search.length_offset
        )

    def axes(self, kind: str) -> tuple[Axis, Axis]:
        """The rows and the columns of an attention."""
        rows, columns = AXES[kind]
        return getattr(self, rows), getattr(self, columns)

    def word_maps(self, kind: str) -> Maps:
        """The weights of an attention between words, for each layer and head."""
        return by_word(self.attention[kind].weights, *(axis.words for axis in self.axes(kind)))

    def clearest_layer(self, kind: str = "cross") -> int:
        """Index of the layer whose attention distinguishes best between the words that are looked at."""
        return clearest_layer(self.word_maps(kind).mean(1))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the attention, for JSON."""
        numbers = {"score": _rounded(self.score), "log_prob": _rounded(self.log_prob)}
        return {
            "source_language": self.model.source_language,
            "target_language": self.model.target_language,
            "source": {"text": self.source_text, "words": self.source.to_list()},
            "target": {"text": self.target_text, "given": self.given, **numbers, "words": self._target_words()},
            "removals": [self._removal_dict(removal) for removal in self.removals],
            "search": self._search_dict(),
        }

    def attention_dict(self) -> dict[str, list]:
        """The attention between words for JSON: `[layer][head][row][column]` for each kind."""
        return {kind: np.round(self.word_maps(kind).astype(float), 4).tolist() for kind in AXES}

    def _target_words(self) -> list[dict[str, Any]]:
        """Words and pieces of the target with their probabilities, for JSON."""
        words = self.target.to_list()
        for word, indices in zip(words, self.target.words, strict=True):
            word["probability"] = _rounded(np.exp(sum(self.log_probs[index] for index in indices)))
            for piece, index in zip(word["pieces"], indices, strict=True):
                piece["probability"] = _rounded(np.exp(self.log_probs[index]))
                piece["alternatives"] = [
                    {"text": text, "probability": _rounded(probability)}
                    for text, probability in self.alternatives[index]
                ]
        return words

    def _removal_dict(self, removal: Removal) -> dict[str, Any]:
        """A removal for JSON, with the share of the target's probability that is left without the word."""
        kept = min(1.0, float(np.exp(removal.log_prob - self.log_prob)))
        return {
            "word": removal.word,
            "target": removal.target_text,
            "log_prob": _rounded(removal.log_prob),
            "probability_kept": _rounded(kept),
        }

    def _search_dict(self) -> dict[str, Any]:
        """The tree of the search for JSON."""
        tree, tokenizer = self.search, self.model.target_tokenizer
        pieces = tokenizer.pieces([node.token for node in tree.nodes])
        preprocessor = self.model.preprocessor
        prepared = preprocessor(self.source_text)
        return {
            "beam_size": self.search_config.beam_size,
            "length_penalty": self.search_config.length_penalty,
            "length_offset": self.search_config.length_offset,
            "nodes": [
                {
                    "parent": node.parent,
                    "text": piece,
                    "probability": _rounded(np.exp(node.log_prob)),
                    "log_prob": _rounded(node.total),
                    "state": node.state,
                }
                for node, piece in zip(tree.nodes, pieces, strict=True)
            ],
            "hypotheses": [
                {
                    "text": preprocessor.restored(tokenizer.decode(hypothesis.tokens), prepared),
                    "score": _rounded(hypothesis.score),
                    "log_prob": _rounded(hypothesis.log_prob),
                    "finished": hypothesis.finished,
                    "node": leaf,
                }
                for hypothesis, leaf in zip(tree.hypotheses, tree.leaves, strict=True)
            ],
        }


def inspect_translation(
    model: ModelDirectory,
    text: str,
    *,
    target: str | None = None,
    **search_options: Any,
) -> Inspection:
    """Inspect the model's translation of `text`, or the translation `target` if it is given.

    The search is that of the model but for `search_options`, such as `beam_size=2`, without glossaries and forbidden
    terms. Raises `UsageError` for an empty text and `DataError` for one of more than `MOST_TOKENS` tokens.
    """
    config, preprocessor = model.model.config, model.preprocessor
    source_tokenizer, target_tokenizer = model.tokenizers
    given = target is not None
    text = _clean(text, "text")
    target = _clean(target, "target") if given else None
    source_ids, target_ids = _token_ids(model, text, target)
    prepared = preprocessor(text)
    prefix = target_tokenizer.encode(preprocessor.prefix("", prepared))
    search_config = DecodingConfig.validate(model.decoding.model_dump(include={*BEAM_SEARCH}) | search_options)
    search = _search(model, Sentence(source_ids[:-1], prefix), search_config)
    if not given:
        best = search.hypotheses[0]
        # A translation that was truncated at the length limit has no end of sentence.
        target_ids = [*best.tokens, config.eos_id] if best.finished else best.tokens
        target = preprocessor.restored(target_tokenizer.decode(target_ids), prepared)
    log_probs, attention = forced_decoding(model.model, source_ids, target_ids, given=target_tokenizer.num_given)
    source = Axis.of(source_tokenizer, source_ids)
    return Inspection(
        model=model,
        source_text=text,
        target_text=target,
        given=given,
        source=source,
        inputs=Axis.of(target_tokenizer, [config.bos_id, *target_ids[:-1]]),
        target=Axis.of(target_tokenizer, target_ids),
        log_probs=log_probs[range(len(target_ids)), target_ids].tolist(),
        alternatives=_alternatives(target_tokenizer, log_probs),
        attention=attention,
        search=search,
        search_config=search_config,
        removals=removals(model, source, target_ids, prepared, search_config),
    )


class _RecordedWork(BatchWork):
    """A search whose steps a `SearchRecorder` records."""

    def _stepper(self, sentences: list[Sentence], config: DecodingConfig, times: int = 1) -> SearchRecorder:
        stepper = super()._stepper(sentences, config, times)
        self.recorder = SearchRecorder(stepper, bos_id=self.config.bos_id, eos_id=self.config.eos_id)
        return self.recorder


def _search(model: ModelDirectory, sentence: Sentence, config: DecodingConfig) -> SearchTree:
    """The recorded search for a translation of a sentence."""
    work = _RecordedWork([TorchEngine(model.model.eval())], model.source_tokenizer, model.target_tokenizer)
    (hypotheses,) = work.search([sentence], config)
    return work.recorder.tree(hypotheses)


def _clean(text: str, name: str) -> str:
    """The text, normalised and without lone surrogates. Raises `UsageError`, which says `name`, for an empty one."""
    # A lone surrogate, which the shell makes of bytes that are no UTF-8, can be neither printed nor saved.
    text = normalised(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if not text:
        raise UsageError(f"The {name} to inspect is empty; give a sentence in quotes.")
    return text


def _token_ids(model: ModelDirectory, text: str, target: str | None) -> tuple[list[int], list[int]]:
    """Token ids of both texts with their ends of sentence; an empty list without a target."""
    if target is None:
        return encoded(model, model.source_tokenizer, model.preprocessor(text).text), []
    text, target = model.preprocessor.pair(text, target)
    target_ids = encoded(model, model.target_tokenizer, target)
    return encoded(model, model.source_tokenizer, text), target_ids


def _alternatives(tokenizer: Tokenizer, log_probs: Float[Tensor, "target vocab"]) -> list[list[tuple[str, float]]]:
    """The likeliest pieces at each position with their probabilities, best first; none that is impossible."""
    best = log_probs.topk(min(SHOWN_ALTERNATIVES, log_probs.size(1)))
    counts = best.values.isfinite().sum(1).tolist()
    alternatives = []
    for ids, probabilities, count in zip(best.indices.tolist(), best.values.exp().tolist(), counts, strict=True):
        alternatives.append(list(zip(tokenizer.pieces(ids), probabilities, strict=True))[:count])
    return alternatives


def _rounded(value: float) -> float:
    """The value with five significant digits."""
    return float(f"{value:.5g}")
