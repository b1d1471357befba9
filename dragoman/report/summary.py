"""Summary of a run, for its page and its model card."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.config.data import without_folders
from dragoman.config.run import RunConfig
from dragoman.metrics import MAIN, TESTED, TEXT_METRICS
from dragoman.model import TransformerConfig
from dragoman.report.attention import WordAttention
from dragoman.system.figures import duration
from dragoman.terminal.tables import BY_SOURCE, BY_TWINS
from dragoman.text.variants import DESCRIPTIONS


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """Everything that the report of a run shows, at its end or before."""

    source_language: str | None
    target_language: str | None
    config: RunConfig
    model: TransformerConfig
    num_weights: int
    machine: str
    """The hardware of the training, such as "2 CPU threads"."""
    pairs: dict[str, int]
    """Number of sentence pairs in `train`, `valid` and `test`."""
    metrics: Sequence[dict[str, Any]] = ()
    """The events of the trainer, oldest first."""
    evaluation: dict[str, Any] | None = None
    """`Evaluation.to_dict()` of the test pairs."""
    samples: Sequence[dict[str, str]] = ()
    """Some test pairs with `source`, `reference` and `translation`."""
    attention: WordAttention | None = None
    """The attention of one sentence."""
    directions: Sequence[tuple[str | None, str]] = ()
    """Source and target languages of a model that was trained on several pairs of them."""

    @property
    def title(self) -> str:
        """Languages of the model, such as "en → fr"."""
        source, target = self.languages
        return f"{source} → {target}" if source and target else "A translation model"

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, with commas between several. None: unknown."""
        pairs = self.directions or [(self.source_language, self.target_language)]
        sources = dict.fromkeys(source for source, _ in pairs if source)
        targets = dict.fromkeys(target for _, target in pairs if target)
        return ", ".join(sources) or None, ", ".join(targets) or None

    @property
    def example_source(self) -> str | None:
        """A source language to name in an example; None if the model needs none."""
        needs_source = self.model.is_pretrained and not self.source_language
        return self.directions[0][0] if self.directions and needs_source else None

    @property
    def example_target(self) -> str | None:
        """A target language to name in an example; None if the model has only one."""
        return None if self.target_language or not self.directions else self.directions[0][1]

    @property
    def data(self) -> str:
        """The files of the training pairs."""
        return self.config.data.origin or "unnamed data"

    @property
    def config_yaml(self) -> str:
        """The configuration as YAML, without the folders of the data."""
        tree = self.config.model_dump(mode="json")
        tree["data"] = without_folders(tree["data"])
        tree["tokenizer"]["pairs"] = without_folders(tree["tokenizer"]["pairs"])
        tree["training"]["mirror"] = None
        for name in ("model", "mix", "test"):
            tree["finetune"][name] = tree["finetune"][name] and without_folders(tree["finetune"][name])
        return RunConfig.validate(tree).to_yaml()

    @property
    def test_pairs(self) -> str:
        """How the test set was made: given, or held out by sentence or by line, and the scores of its parts."""
        if self.config.data.held_out_files("test"):
            return f"{self.pairs['test']:,} pairs of a test set of its own"
        unit = "line by line" if self.config.data.split == "line" else "by source sentence"
        by_source = self._scores_of_parts("by_source", BY_SOURCE)
        untrained = "none of their source sentences was trained on"
        if self.config.data.split == "groups":
            untrained += ", and no pair that is nearly the same"
        if self.config.finetune.model:
            untrained += ", but for what the model that it goes on from was trained on"
        remark = ", ".join(by_source) or untrained
        return f"{self.pairs['test']:,} pairs held out {unit}: {remark}"

    @property
    def twins(self) -> str:
        """The scores of test pairs that are nearly the same as training pairs, and of the others, in a sentence."""
        parts = self._scores_of_parts("by_twins", BY_TWINS)
        return f"{' and '.join(parts)}." if parts else ""

    def _scores_of_parts(self, key: str, descriptions: dict[str, str]) -> list[str]:
        """The main score of each part of the test pairs in words."""
        return [
            f"{MAIN.label} {MAIN.write_with_interval(scores)} on {scores['sentences']:,} {descriptions[part]}"
            for part, scores in (self.evaluation or {}).get(key, {}).items()
        ]

    @property
    def remarks(self) -> list[str]:
        """What the translations of the test pairs show, and what would help, in sentences."""
        evaluation = self.evaluation or {}
        return [*evaluation.get("remarks", []), *evaluation.get("outlook", [])]

    @property
    def finetuning(self) -> list[tuple[str, str, str]]:
        """For a fine-tuned model, rows of a table: kind of test pairs, main score before, main score after."""
        scores = (self.evaluation or {}).get("finetuning", {})
        rows = []
        for part in ("own", "general"):
            if f"{part} before" in scores:
                before, after = scores[f"{part} before"], scores[f"{part} after"]
                rows.append((part, MAIN.write_with_interval(before), MAIN.write_with_interval(after)))
        return rows

    @property
    def by_languages(self) -> list[tuple[str, ...]]:
        """Rows of a table, one for each pair of languages if there are several: its name, the number of test pairs,
        and all scores."""
        by_languages = (self.evaluation or {}).get("by_languages", {})
        return [
            (languages, f"{scores['sentences']:,}", *(metric.write_with_interval(scores) for metric in TEXT_METRICS))
            for languages, scores in by_languages.items()
        ]

    @property
    def variants(self) -> list[tuple[str, ...]]:
        """Rows of a table, one for each way of writing test pairs otherwise: which sentences, their number and main
        score, and what it would be if the model were not disturbed."""
        return [
            (
                DESCRIPTIONS[name],
                f"{scores['sentences']:,}",
                MAIN.write_with_interval(scores),
                MAIN.write(scores["before"]),
            )
            for name, scores in (self.evaluation or {}).get("variants", {}).items()
        ]

    @property
    def origin(self) -> str:
        """How the training began: from another model, or from scratch."""
        base = self.config.finetune.model
        return f"trained on from {without_folders(base)}" if base else "trained from scratch"

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind, oldest first."""
        return [event for event in self.metrics if event["event"] == kind]

    def facts(self) -> dict[str, str]:
        """Sizes and costs as people read them."""
        facts = {
            "Pairs": ", ".join(f"{count:,} {name}" for name, count in self.pairs.items()),
            **sizes(self.model, self.num_weights, kind=self.config.tokenizer.kind),
        }
        if steps := self.events("step"):
            last = steps[-1]
            facts["Training"] = f"{last_step(self.metrics):,} steps in {duration(last['seconds'])}"
            facts["Tokens seen"] = f"{last['tokens']:,}"
        facts["Machine"] = self.machine
        if self.evaluation:
            speed, beam_size = self.evaluation["sentences_per_second"], self.config.decoding.beam_size
            facts["Translation"] = f"{speed:,.1f} sentences per second, beam {beam_size}"
        return facts

    def figures(self) -> dict[str, str]:
        """The test scores, or before the test the best score on the validation pairs."""
        if self.evaluation:
            return {metric.heading: metric.write_with_interval(self.evaluation) for metric in TESTED}
        validations = self.events("validation")
        if not validations:
            return {}
        best = MAIN.best(validations)[MAIN.validation_key]
        return {f"{MAIN.label}, best validation": MAIN.write(best)}


def sizes(model: TransformerConfig, num_weights: int, *, kind: str) -> dict[str, str]:
    """The size of a model as people read it; `kind` is the kind of its tokenizers."""
    vocabulary = f"{model.source_vocab_size:,}"
    if not model.share_embeddings:
        vocabulary += f" and {model.target_vocab_size:,}"
    layers = f"{model.num_encoder_layers} + {model.num_decoder_layers}"
    return {
        "Weights": f"{num_weights:,}",
        "Layers": f"{layers} of width {model.d_model}, {model.num_heads} heads",
        "Vocabulary": f"{vocabulary} ({kind})",
    }


def last_step(metrics: Sequence[dict[str, Any]]) -> int | None:
    """The last step of a run; None before the first. Not every step is an event, but a validation and the end are."""
    return max((event["step"] for event in metrics if "step" in event), default=None)
