"""A trained model of several languages with one more, which it can then learn.

The language gets a token, as the others have one. Its embedding is that of a similar language, or the mean of all, so
that the model begins by treating the new one alike. A pretrained model also gets pieces for it, joined from those that
it has, whose embeddings are the means of those of their parts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dragoman.engine.parameters import OF_SOURCES, OF_TARGETS
from dragoman.errors import UsageError
from dragoman.model import Transformer
from dragoman.storage.model_directory import ModelDirectory, model_of
from dragoman.text.language_codes import find_language, known_language, plain_code
from dragoman.text.tokenizers.joined import learn_joined
from dragoman.text.tokenizers.pretrained import PretrainedTokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer


def with_language(
    directory: ModelDirectory, code: str, like: str | None = None, *, texts: Iterable[str] = ()
) -> ModelDirectory:
    """The model with a token for one more language, and pieces for its `texts`.

    The embedding of the token is that of `like`, or the mean of all languages. Pieces are added to a model like
    M2M-100, which has one vocabulary for both sides and names the languages of both, and are used for the new language
    alone. Everything else stays as it is. Raises `UsageError` for a model that names no languages, for a language that
    it has already, and if it does not know `like`.
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
    is_shared = directory.model.config.share_embeddings
    joined: dict[str, tuple[str, ...]] = {}
    if is_shared and isinstance(source, PretrainedTokenizer) and target.languages:
        joined = _joined_pieces(source, texts)
    if not isinstance(source, PretrainedTokenizer):
        code = plain_code(code)  # as the labels of pairs have it
        grown_source = source.with_targets([code])
        token = grown_source.spelled(grown_source.vocab_size - 1)
    else:
        token = _token_of(source, code)
        grown_source = _grown(source, token, code, joined)
    grown_target, target_grows = target, is_shared or bool(target.languages)
    if source is target:
        grown_target = grown_source
    elif target_grows and isinstance(target, PretrainedTokenizer):
        grown_target = _grown(target, token, code, joined)
    ids = {source.spelled(id_): id_ for id_ in range(source.vocab_size)}
    new = [parts for piece, parts in joined.items() if piece not in ids]
    rows = [_ids(source, alike), *([ids[part] for part in parts] for parts in new)]
    return ModelDirectory(
        _with_rows(directory.model, rows, rows if target_grows else []).eval(),
        grown_source,
        grown_target,
        *directory.languages,
        directory.decoding,
        directory.style,
        _with_direction(directory.directions, code),
    )


def _joined_pieces(tokenizer: PretrainedTokenizer, texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Pieces for texts, and the pieces of the vocabulary of which each is made; other new languages may have some."""
    of_others = {piece for joined in tokenizer.content.joined.values() for piece in joined}
    known = set(tokenizer.content.pieces) - of_others
    joined = learn_joined(tokenizer.split(texts), known)
    return {piece: parts for piece, parts in joined.items() if known.issuperset(parts)}


def _with_direction(directions: Sequence[tuple[str | None, str]], code: str) -> list[tuple[str | None, str]]:
    """The directions of a model that was trained on several, and those from its sources into the new language."""
    return [*directions, *dict.fromkeys((source, code) for source, _ in directions)]


def _token_of(tokenizer: PretrainedTokenizer, code: str) -> str:
    """The token of a new language, spelled as those of others are. Raises `UsageError` if it is there already."""
    known, token = next(iter(tokenizer.content.languages.items()))
    spelled = token.replace(known, code)
    if spelled in tokenizer.content.pieces:
        raise UsageError(f"The vocabulary of this model has {spelled!r} already; give the language another code.")
    return spelled


def _grown(
    tokenizer: PretrainedTokenizer, token: str, code: str, joined: Mapping[str, Sequence[str]]
) -> PretrainedTokenizer:
    """The same tokenizer with a token for a language, and the joined pieces that it lacks, as the last ones."""
    content = tokenizer.content
    known = {*content.pieces}
    return PretrainedTokenizer(
        replace(
            content,
            pieces=[*content.pieces, token, *(piece for piece in joined if piece not in known)],
            languages=content.languages | ({code: token} if content.languages else {}),
            joined=content.joined | ({token: {piece: [*parts] for piece, parts in joined.items()}} if joined else {}),
        )
    )


def _ids(tokenizer: Tokenizer, languages: list[str]) -> list[int]:
    """The ids of the tokens of languages."""
    if tokenizer.targets:
        return [tokenizer.targets[language] for language in languages]
    assert isinstance(tokenizer, PretrainedTokenizer)
    ids = {piece: id_ for id_, piece in enumerate(tokenizer.content.pieces)}
    return [ids[tokenizer.languages[language]] for language in languages]


def _with_rows(model: Transformer, source_rows: list[list[int]], target_rows: list[list[int]]) -> Transformer:
    """The model with more rows at the end of its tables, each of them the mean of some that it has."""
    config = model.config
    weights: dict[str, Tensor] = {}
    named: Mapping[str, Tensor] = dict(model.named_parameters())
    for name, weight in named.items():
        new_rows = source_rows if name == OF_SOURCES else target_rows if name in OF_TARGETS else []
        weight = weight.detach()
        means = [weight[torch.tensor(rows)].mean(dim=0, keepdim=True) for rows in new_rows]
        weights[name] = torch.cat([weight, *means])
    return model_of(
        replace(
            config,
            source_vocab_size=config.source_vocab_size + len(source_rows),
            target_vocab_size=config.target_vocab_size + len(target_rows),
        ),
        weights,
    )
