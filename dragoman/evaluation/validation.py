"""What is measured while a model is trained: scores of greedy translations, samples of them, accuracies."""

from typing import Any

from dragoman.config.run import RunConfig
from dragoman.data.preparation import PreparedData
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import token_statistics
from dragoman.evaluation.scores import score
from dragoman.metrics import VALIDATED_TEXT_METRICS
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory
from dragoman.system.device import choose_precision
from dragoman.system.resources import release_memory
from dragoman.text.characters import without_label
from dragoman.text.labels import readable

SAMPLES = 3


def evaluate_quickly(model: Transformer, *, data: PreparedData, config: RunConfig) -> dict[str, Any]:
    """Scores of greedy translations of the first validation pairs, `samples` of the translations, and accuracies."""
    release_memory()  # of the steps before
    languages = data.about.source_language, data.about.target_language
    directory = ModelDirectory(model, data.source_tokenizer, data.target_tokenizer, *languages, style=data.style)
    # That of training: eight bits translate on one thread.
    precision = choose_precision(config.training.precision, model.projection.weight.device)
    translator = Translator(directory, precision=str(precision).removeprefix("torch."))
    sources, references = zip(*data.valid_pairs[: config.training.validate_sentences], strict=True)
    texts = [t.text for t in translator.translate(sources, beam_size=1, split=False)]
    shown = [round(i * (len(sources) - 1) / SAMPLES) for i in range(min(SAMPLES, len(sources)))]
    samples = [{"source": readable(sources[i]), "translation": texts[i], "reference": references[i]} for i in shown]
    language = data.about.target_language
    plain = [*map(without_label, sources)]
    scores = score(texts, references, sources=plain, target_language=language, metrics=VALIDATED_TEXT_METRICS)
    valid = list(data.valid.in_order()) if config.training.accuracy else []
    batches = {"train_accuracy": data.train.first(len(valid)), "valid_accuracy": valid} if valid else {}
    given = len(data.target_tokenizer.begin_ids)
    accuracies = {name: token_statistics([model], each, given=given).token_accuracy for name, each in batches.items()}
    return {**{name: each.value for name, each in scores.items()}, **accuracies, "samples": samples}
