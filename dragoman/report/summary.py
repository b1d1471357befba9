"""All that there is to say about a run, gathered once for its page and its model card."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.config import RunConfig
from dragoman.config.data import without_folders
from dragoman.model import TransformerConfig
from dragoman.report.attention import WordAttention
from dragoman.terminal.tables import BY_SOURCE

SCORES = {"bleu": "BLEU", "chrf": "chrF++", "ter": "TER"}


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """All that there is to say about a run, at its end or on the way."""

    source_language: str | None
    target_language: str | None
    config: RunConfig
    model: TransformerConfig
    num_weights: int
    machine: str
    """What the training ran on, such as "2 CPU threads"."""
    pairs: dict[str, int]
    """How many sentence pairs are in `train`, `valid` and `test`."""
    metrics: Sequence[dict[str, Any]] = ()
    """The events of the trainer, oldest first."""
    evaluation: dict[str, Any] | None = None
    """`Evaluation.to_dict()` of the test pairs."""
    samples: Sequence[dict[str, str]] = ()
    """Some test pairs with `source`, `reference` and `translation`."""
    attention: WordAttention | None = None
    """Of one sentence."""

    @property
    def source(self) -> str:
        return self.source_language or "the source language"

    @property
    def target(self) -> str:
        return self.target_language or "the target language"

    @property
    def title(self) -> str:
        """Such as "en → fr"."""
        known = self.source_language and self.target_language
        return f"{self.source_language} → {self.target_language}" if known else "A translation model"

    @property
    def data(self) -> str:
        """The files that the pairs came from."""
        return self.config.data.origin or "unnamed data"

    @property
    def config_yaml(self) -> str:
        """The configuration without the folders of the data."""
        tree = self.config.model_dump(mode="json")
        tree["data"] = without_folders(tree["data"])
        tree["tokenizer"]["pairs"] = without_folders(tree["tokenizer"]["pairs"])
        return RunConfig.validate(tree).to_yaml()

    @property
    def test_pairs(self) -> str:
        """How the test pairs came about."""
        if self.config.data.test:
            return f"{self.pairs['test']:,} pairs of a test set of its own"
        how = "by source sentence" if self.config.data.split == "sentence" else "line by line"
        by_source = (self.evaluation or {}).get("by_source", {})
        parts = [
            f"BLEU {by_source[part]['bleu']:.1f} on {by_source[part]['sentences']:,} {words}"
            for part, words in BY_SOURCE.items()
            if part in by_source
        ]
        remark = ", ".join(parts) or "none of their source sentences was trained on"
        return f"{self.pairs['test']:,} pairs held out {how}: {remark}"

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.metrics if event["event"] == kind]

    def facts(self) -> dict[str, str]:
        """Sizes and costs as people read them."""
        last = (self.events("step") or [{}])[-1]
        facts = {
            "Pairs": ", ".join(f"{count:,} {name}" for name, count in self.pairs.items()),
            **sizes(self.model, self.num_weights, kind=self.config.tokenizer.kind),
        }
        if last:
            facts["Training"] = f"{last_step(self.metrics):,} steps in {duration(last['seconds'])}"
            facts["Tokens seen"] = f"{last['tokens']:,}"
        facts["Machine"] = self.machine
        if self.evaluation:
            speed = self.evaluation["sentences_per_second"]
            beam = self.config.decoding.beam_size
            facts["Translation"] = f"{speed:,.1f} sentences per second, beam {beam}"
        return facts

    def figures(self) -> dict[str, str]:
        """The test scores, or the best so far on the validation pairs."""
        if not self.evaluation:
            best = max((e["bleu"] for e in self.events("validation")), default=None)
            return {} if best is None else {"BLEU, best validation": f"{best:.1f}"}
        known = {key: self.evaluation[key] for key in SCORES}
        figures = {SCORES[key]: f"{value:.1f}" for key, value in known.items() if value is not None}
        figures["Perplexity"] = f"{self.evaluation['perplexity']:.2f}"
        figures["Token accuracy"] = f"{100 * self.evaluation['token_accuracy']:.1f} %"
        return figures


def sizes(model: TransformerConfig, num_weights: int, *, kind: str) -> dict[str, str]:
    """How large a model is, as people read it; `kind` is that of its tokenizers."""
    vocabulary = f"{model.source_vocab_size:,}"
    if not model.share_embeddings:
        vocabulary += f" and {model.target_vocab_size:,}"
    return {
        "Weights": f"{num_weights:,}",
        "Layers": f"{model.num_encoder_layers} + {model.num_decoder_layers} of width "
        f"{model.d_model}, {model.num_heads} heads",
        "Vocabulary": f"{vocabulary} ({kind})",
    }


def last_step(metrics: Sequence[dict[str, Any]]) -> int | None:
    """The last step of a run. Not every step is an event, but a validation and the end are."""
    return max((event["step"] for event in metrics if "step" in event), default=None)


def duration(seconds: float) -> str:
    """12 s, 3 min 20 s, 2 h 05 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
