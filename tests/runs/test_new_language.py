"""A trained model that learns a language which it did not know."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config.run import RunConfig
from dragoman.data.builtin.grammar import generate
from dragoman.decoding.translator import Translator
from dragoman.engine.parameters import OF_SOURCES
from dragoman.errors import DataError, UsageError
from dragoman.interop.imports.pretrained import import_pretrained
from dragoman.runs.new_language import with_language
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory
from dragoman.text.language_codes import plain_code
from dragoman.text.tokenizers.pretrained import load_tokenizer
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.interop import pretrained_models as models
from tests.small import small_directory, train_run

TEXTS = ["The red house is old.", "La maison est vieille."]
SHORT = ["training.max_steps=2", "data.held_out=[5,5]", "training.guided_alignment=0"]


def logits(directory: ModelDirectory, source: str, target: str) -> torch.Tensor:
    """Logits of a translation, each text in the languages that the directory is set to."""
    source_ids, target_ids = directory.source_tokenizer.encode(source), directory.target_tokenizer.encode(target)
    config, end = directory.model.config, directory.source_tokenizer.closing.eos
    with torch.inference_mode():
        return directory.model(torch.tensor([[*source_ids, end]]), torch.tensor([[config.bos_id, *target_ids]]))


@pytest.fixture(scope="module")
def m2m(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("m2m")
    import_pretrained(models.m2m(folder / "theirs"), folder / "model")
    return folder / "model"


def test_what_the_model_knew_stays_the_same_and_the_new_language_begins_like_another(m2m: Path) -> None:
    directory = ModelDirectory.load(m2m)
    grown = with_language(directory, "gn", "es")
    assert grown.source_tokenizer.languages["gn"] == "__gn__"
    assert len(grown.source_tokenizer.languages) == len(directory.source_tokenizer.languages) + 1
    before = logits(directory.speaking("en", "fr"), *TEXTS)
    after = logits(grown.speaking("en", "fr"), *TEXTS)
    torch.testing.assert_close(after[..., :-1], before, rtol=0, atol=1e-5)
    like = logits(directory.speaking("en", "es"), *TEXTS)
    into_new = logits(grown.speaking("en", "gn"), *TEXTS)
    torch.testing.assert_close(into_new[..., :-1], like, rtol=0, atol=1e-5)
    from_new = logits(grown.speaking("gn", "fr"), *TEXTS)
    torch.testing.assert_close(from_new[..., :-1], logits(directory.speaking("es", "fr"), *TEXTS), rtol=0, atol=1e-5)


def test_without_a_similar_language_it_begins_as_the_mean_of_all(m2m: Path) -> None:
    directory = ModelDirectory.load(m2m)
    grown = with_language(directory, "gn")
    table = dict(directory.model.named_parameters())[OF_SOURCES]
    pieces = directory.source_tokenizer.content.pieces
    rows = [pieces.index(token) for token in directory.source_tokenizer.languages.values()]
    grown_table = dict(grown.model.named_parameters())[OF_SOURCES]
    torch.testing.assert_close(grown_table[-1], table[rows].mean(dim=0))


@pytest.mark.parametrize(
    ("make", "code", "like", "token"),
    [
        (models.nllb_pieces, "qqq_Latn", "spa_Latn", "qqq_Latn"),
        (lambda folder: models.marian(folder, tags=(">>fra<<", ">>deu<<")), "grn", "deu", ">>grn<<"),
    ],
    ids=["nllb", "marian"],
)
def test_tokens_are_spelled_as_those_of_other_languages(
    tmp_path: Path, make: Any, code: str, like: str, token: str
) -> None:
    import_pretrained(make(tmp_path / "theirs"), tmp_path / "model")
    grown = with_language(ModelDirectory.load(tmp_path / "model"), code, like)
    grown.save(tmp_path / "grown")
    again = ModelDirectory.load(tmp_path / "grown")
    assert again.source_tokenizer.languages[code] == token
    assert again.source_tokenizer.encode("a")[-1] != again.source_tokenizer.vocab_size - 1
    spoken = again.speaking("fra" if "fra" in again.source_tokenizer.languages else None, code)
    assert again.source_tokenizer.vocab_size - 1 in [
        *spoken.source_tokenizer.encode("a"),
        *spoken.target_tokenizer.encode("a"),
    ]


def test_a_model_trained_here_gets_one_more_target(tmp_path: Path) -> None:
    plain = Tokenizer.train(TEXTS * 3, vocab_size=300).with_targets(["fr", "de"])
    directory = small_directory(plain, share_embeddings=True, tie_projection=True)
    directory.model.eval()
    directory.directions = [("en", "fr"), ("en", "de")]
    grown = with_language(directory, "gn", "de")
    assert list(grown.source_tokenizer.targets) == ["fr", "de", "gn"]
    assert grown.source_tokenizer is grown.target_tokenizer
    assert grown.directions == [("en", "fr"), ("en", "de"), ("en", "gn")]
    like = logits(directory.speaking("en", "de"), "the house", "x")
    torch.testing.assert_close(logits(grown.speaking("en", "gn"), "the house", "x")[..., :-1], like, rtol=0, atol=1e-5)


def test_models_without_tokens_of_languages_and_known_languages_are_refused(m2m: Path) -> None:
    with pytest.raises(UsageError, match="name languages by tokens"):
        with_language(small_directory(Tokenizer.train(TEXTS, vocab_size=300)), "gn")
    with pytest.raises(UsageError, match="knows the language 'fra' already"):
        with_language(ModelDirectory.load(m2m), "fra")
    with pytest.raises(UsageError, match="does not know the language 'xx'"):
        with_language(ModelDirectory.load(m2m), "gn", "xx")
    with pytest.raises(UsageError, match=r"set finetune\.model as well"):
        RunConfig.validate({"finetune": {"add_language": "gn"}})
    with pytest.raises(UsageError, match="add_language"):
        RunConfig.validate({"finetune": {"model": "base", "add_language": "gn:es"}})
    with pytest.raises(UsageError, match="embeddings of the new language"):
        RunConfig.validate({"finetune": {"model": "base", "add_language": "gn", "freeze": ["embeddings"]}})
    for mistake in ("", "gn:like=", "g n"):
        with pytest.raises(UsageError, match="give a code, such as gn"):
            RunConfig.validate({"finetune": {"model": "base", "add_language": mistake}})


@pytest.mark.slow
@pytest.mark.parametrize("lora", [0, 2])
def test_fine_tuning_teaches_the_new_language(
    m2m: Path, tmp_path: Path, lora: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned_from: list[str] = []

    def spied(*arguments: Any, texts: Iterable[str]) -> ModelDirectory:
        learned_from.extend(texts)
        return with_language(*arguments, texts=learned_from)

    monkeypatch.setattr("dragoman.runs.train.with_language", spied)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in generate(60)), encoding="utf-8")
    settings = [
        f"finetune.model={json.dumps(str(m2m))}",
        "finetune.add_language=gn:like=es",
        f"finetune.lora={lora}",
        "data.languages=[en,gn]",
        *SHORT,
    ]
    train_run(tmp_path / "run", pairs, settings=settings)
    kept = ModelDirectory.load(tmp_path / "run")
    assert kept.languages == ("en", "gn")
    base, grown = ModelDirectory.load(m2m), ModelDirectory.load(tmp_path / "run/run/base")
    joined = grown.source_tokenizer.content.joined["__gn__"]
    assert grown.source_tokenizer.vocab_size == base.source_tokenizer.vocab_size + 1 + len(joined)
    before, after = dict(grown.model.named_parameters()), dict(kept.model.named_parameters())
    moved = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    held_out = [text for part in ("valid", "test") for _, text in RunDirectory(tmp_path / "run").pairs(part)]
    assert learned_from
    assert not {*held_out} & {*learned_from}
    assert OF_SOURCES in moved
    assert all(after[name].dim() == 2 for name in moved) or not lora
    with Translator.load(tmp_path / "run") as translator:
        assert translator.translate(["The red house is old."])[0].text is not None


@pytest.mark.slow
def test_a_model_of_several_targets_learns_another_one(tmp_path: Path) -> None:
    lines = list(generate(80))
    for name in ("fr", "de", "gn"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{s}\t{t} {name}\n" for s, t in lines), encoding="utf-8")

    def corpora(*names: str) -> str:
        entries = [{"source": str(tmp_path / f"{name}.tsv"), "languages": ["en", name]} for name in names]
        return f"data.corpora={json.dumps(entries)}"

    sizes = ["model.d_model=24", "model.d_ff=40", "model.num_heads=3", "tokenizer.vocab_size=300"]
    train_run(tmp_path / "base", settings=[corpora("fr", "de"), *sizes, *SHORT])
    base = f"finetune.model={json.dumps(str(tmp_path / 'base'))}"
    train_run(tmp_path / "run", settings=[corpora("gn"), base, "finetune.add_language=gn:like=fr", *SHORT])
    with Translator.load(tmp_path / "run", languages=("en", "gn")) as translator:
        assert translator.translate(["The red house is old."])[0].text is not None
    assert ("en", "gn") in ModelDirectory.load(tmp_path / "run").directions


def test_two_new_languages_share_what_both_join(m2m: Path) -> None:
    directory = ModelDirectory.load(m2m)
    sentences = ["mbojape ojapo mbojape", "che mbojape", "ojapo che"] * 20
    first = with_language(directory, "gn", "es", texts=sentences)
    both = with_language(first, "qu", "gn", texts=[*sentences, *["mbojapekuna"] * 20])
    tokenizer = both.source_tokenizer
    joined = [tokenizer.content.joined[token] for token in ("__gn__", "__qu__")]
    shared = joined[0].keys() & joined[1].keys()
    assert shared
    assert (
        len({*tokenizer.content.pieces}) == tokenizer.vocab_size == len(dict(both.model.named_parameters())[OF_SOURCES])
    )
    own = len(joined[1].keys() - joined[0].keys())
    assert tokenizer.vocab_size == first.source_tokenizer.vocab_size + 1 + own
    for code, known in (("gn", first), ("es", directory)):
        for text in sentences[:3]:
            assert tokenizer.speaking(code).encode(text) == known.source_tokenizer.speaking(code).encode(text)
    for text in sentences[:3]:
        assert tokenizer.speaking("qu").decode(tokenizer.speaking("qu").encode(text)) == text


def test_pieces_are_joined_for_the_new_language_and_old_texts_are_as_before(m2m: Path, tmp_path: Path) -> None:
    directory = ModelDirectory.load(m2m)
    sentences = ["mbojape ojapo mbojape", "che mbojape", "ojapo che"] * 20
    with_language(directory, "gn", "es", texts=sentences).save(tmp_path / "grown")
    grown = ModelDirectory.load(tmp_path / "grown")
    old, new = directory.source_tokenizer, grown.source_tokenizer
    assert new.is_changed
    speaking, before = (tokenizer.speaking(code) for tokenizer, code in ((new, "gn"), (old, "es")))
    for text in sentences[:3]:
        assert len(speaking.encode(text)) < len(before.encode(text))
        assert speaking.decode(speaking.encode(text)) == before.decode(before.encode(text)) == text
        assert new.speaking("es").encode(text) == before.encode(text)  # in all other languages, texts are as before
    before, after = (logits(model.speaking("en", "fr"), *TEXTS) for model in (directory, grown))
    torch.testing.assert_close(after[..., : before.size(-1)], before, rtol=0, atol=1e-5)
    table = dict(grown.model.named_parameters())[OF_SOURCES]
    piece, parts = next(iter(new.content.joined["__gn__"].items()))
    ids = [new.content.pieces.index(part) for part in parts]
    torch.testing.assert_close(table[new.content.pieces.index(piece)], table[ids].mean(dim=0))
    content = json.loads(new.to_json())
    content["joined"]["__gn__"][piece] = [*parts, "x"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match="joined pieces that are not made of others"):
        load_tokenizer(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("code", ["GN", "grn_Latn", "Guarani"])
def test_a_new_language_may_be_spelled_as_elsewhere(code: str) -> None:
    directory = small_directory(Tokenizer.train(TEXTS * 3, vocab_size=300).with_targets(["fr", "de"]))
    directory.directions = [("en", "fr"), ("en", "de")]
    grown = with_language(directory, code, "de")
    assert plain_code(code) in grown.source_tokenizer.targets
    assert grown.directions[-1] == ("en", plain_code(code))
