"""A trained model of several languages with one more, which it can then learn.

The language gets a token, as the others have one. Its embedding is that of a similar language, or the mean of all, so
that the model begins by treating the new one alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dragoman.engine.parameters import OF_SOURCES, OF_TARGETS
from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory, model_of
from dragoman.text.language_codes import find_language, known_language
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer


def with_language(directory: ModelDirectory, code: str, like: str | None = None) -> ModelDirectory:
    """The model with a token for one more language, whose embedding is that of `like`, or the mean of all languages.

    Everything else stays as it is. Raises `UsageError` for a model that names no languages, for a language that it has
    already, and if it does not know `like`.
    """
    source, target = directory.tokenizers
    known = source.targets or source.languages
    if not known:
        raise UsageError(
            "--add-language is for models that name languages by tokens: M2M-100, NLLB-200, Marian's of several "
            "languages, and those that were trained here on several targets."
        )
    if find_language(code, known):
        raise UsageError(f"This model knows the language '{code}' already; leave --add-language out.")
    alike = [known_language(like, known)] if like else list(known)
    both = target.vocab_size == source.vocab_size if directory.model.config.share_embeddings else bool(target.languages)
    grown_source = _with_token(source, code)
    grown_target = target
    if source is target:
        grown_target = grown_source
    elif both:
        grown_target = _with_token(target, code, spelled=grown_source.spelled(grown_source.vocab_size - 1))
    rows = [_ids(source, alike), _ids(source, alike) if both else []]
    return ModelDirectory(
        _with_rows(directory.model, *rows).eval(),
        grown_source,
        grown_target,
        *directory.languages,
        directory.decoding,
        directory.style,
        _with_direction(directory.directions, code),
    )


def _with_direction(directions: Sequence[tuple[str | None, str]], code: str) -> list[tuple[str | None, str]]:
    """The directions of a model that was trained on several, and those from its sources into the new language."""
    return [*directions, *dict.fromkeys((source, code) for source, _ in directions)]


def _with_token(tokenizer: Tokenizer, code: str, *, spelled: str | None = None) -> Tokenizer:
    """The same tokenizer with a last token for a language, `spelled` so, or as those of others are."""
    if not isinstance(tokenizer, PretrainedTokenizer):
        return tokenizer.with_targets([code])
    content = tokenizer.content
    if spelled is None:
        known, token = next(iter(content.languages.items()))
        spelled = token.replace(known, code)
    if spelled in content.pieces:
        raise UsageError(f"The vocabulary of this model has {spelled!r} already; give the language another code.")
    languages = content.languages | ({code: spelled} if content.languages else {})
    return PretrainedTokenizer(replace(content, pieces=[*content.pieces, spelled], languages=languages))


def _ids(tokenizer: Tokenizer, languages: list[str]) -> list[int]:
    """The ids of the tokens of languages."""
    if tokenizer.targets:
        return [tokenizer.targets[language] for language in languages]
    assert isinstance(tokenizer, PretrainedTokenizer)
    ids = {piece: id_ for id_, piece in enumerate(tokenizer.content.pieces)}
    return [ids[tokenizer.languages[language]] for language in languages]


def _with_rows(model: Transformer, source_rows: list[int], target_rows: list[int]) -> Transformer:
    """The model with a last row in its tables that is the mean of these; none where there are no rows."""
    config = model.config
    weights: dict[str, Tensor] = {}
    named: Mapping[str, Tensor] = dict(model.named_parameters())
    for name, weight in named.items():
        rows = source_rows if name == OF_SOURCES else target_rows if name in OF_TARGETS else []
        weight = weight.detach()
        if rows:
            weight = torch.cat([weight, weight[torch.tensor(rows)].mean(dim=0, keepdim=True)])
        weights[name] = weight
    return model_of(
        replace(
            config,
            source_vocab_size=config.source_vocab_size + 1,
            target_vocab_size=config.target_vocab_size + bool(target_rows),
        ),
        weights,
    )
