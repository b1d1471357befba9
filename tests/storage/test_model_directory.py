"""A model directory gives back its model; files that are damaged or of another model are refused, in one sentence."""

import json
import os
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
import safetensors.torch
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.errors import DataError, UnverifiedModel
from dragoman.storage import directory as directory_module
from dragoman.storage import weights_file
from dragoman.storage.model_directory import ModelDirectory, copy_weights
from dragoman.storage.validate import check_files, decoding_defaults
from dragoman.text.preprocessing import SourceStyle
from dragoman.text.tokenizers.tokenizer import Tokenizer
from dragoman.text.truecasing import CaseTable
from tests.small import small_model
from tests.storage.models import IDS, random_model

TEXTS = {"one": "the small red house", "other": "a big green garden"}
VARIANTS = {
    "default": {},
    "untied": {"tie_projection": False},
    "bias": {"projection_bias": True},
    "gate": {"activation": "swiglu"},
    "post": {"norm_order": "post"},
    "rms": {"norm": "rms"},
    "scalar": {"norm_gain": "scalar"},
    "learned": {"positions": "learned", "max_positions": 37},
    "rotary": {"positions": "rotary", "activation": "gelu"},
    "marian": {"positions": "sinusoidal-concatenated", "norm_eps": 1e-6, "scale_embeddings": False},
}
"""Fields of the architecture that differ from the default."""


def save(path: Path, text: str, *, seed: int) -> Path:
    tokenizer = Tokenizer.train([text] * 3, vocab_size=263)
    model = small_model(263, seed=seed, d_model=6, d_ff=5, num_heads=2)
    ModelDirectory(model, tokenizer, tokenizer, decoding=DecodingConfig(beam_size=7, length_penalty=0.3)).save(path)
    return path


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    """Two models of the same shape with vocabularies of the same size."""
    return save(tmp_path / "one", TEXTS["one"], seed=3), save(tmp_path / "other", TEXTS["other"], seed=5)


def test_a_flipped_bit_of_the_weights_is_never_loaded_in_silence(models):
    file = models[0] / "model.safetensors"
    content = file.read_bytes()
    expected = ModelDirectory.load(models[0]).model.state_dict()
    for position in range(0, len(content), 997):
        file.write_bytes(content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :])
        try:
            loaded = ModelDirectory.load(models[0]).model.state_dict()
        except DataError:
            continue
        # Only what no tensor depends on may be damaged: the checksums themselves.
        assert position < 8 + int.from_bytes(content[:8], "little")
        assert all(torch.equal(loaded[name], expected[name]) for name in expected)


def copy_from_other(name: str) -> Callable[[Path, Path], object]:
    return lambda one, other: (one / name).write_bytes((other / name).read_bytes())


def set_id(**ids: int) -> Callable[[Path, Path], object]:
    def change(one: Path, other: Path) -> None:
        config = json.loads((one / "config.json").read_text())
        config["model"] |= ids
        (one / "config.json").write_text(json.dumps(config))

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (copy_from_other("tokenizer.json"), r"tokenizer\.json is damaged or belongs to another model"),
        (copy_from_other("model.safetensors"), r"tokenizer\.json is damaged or belongs to another model"),
        (set_id(eos_id=5), r"config\.json is damaged or belongs to another model"),
        (set_id(norm_eps=1e-3), r"config\.json is damaged or belongs to another model"),
    ],
)
def test_files_of_another_model_are_refused(models, change, words):
    change(*models)
    with pytest.raises(DataError, match=words):
        ModelDirectory.load(models[0])


@pytest.mark.parametrize("moved", range(3))
def test_a_folder_is_no_model_before_all_of_its_files_are_there(tmp_path: Path, moved: int, monkeypatch):
    """The process ends after so many of its files have their names."""
    replace, moves = os.replace, []

    def ending(*paths: Path) -> None:
        if len(moves) == moved:
            raise KeyboardInterrupt
        moves.append(replace(*paths))

    monkeypatch.setattr(os, "replace", ending)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / "new", TEXTS["one"], seed=3)
    assert len(list((tmp_path / "new").iterdir())) == moved
    assert not (tmp_path / "new" / "config.json").exists()


def test_a_model_without_checksums_is_loaded(models):
    """Version 0.1.0 wrote such models."""
    file = models[0] / "model.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(file), file)
    check_files(models[0])
    config = json.loads((models[0] / "config.json").read_text())
    del config["decoding"]
    (models[0] / "config.json").write_text(json.dumps(config))
    with pytest.warns(UnverifiedModel, match="has no checksums, so nobody can say whether it is whole"):
        assert ModelDirectory.load(models[0]).decoding == DecodingConfig()


def test_the_search_that_a_model_was_scored_with_is_kept(models):
    assert ModelDirectory.load(models[0]).decoding == DecodingConfig(beam_size=7, length_penalty=0.3)
    assert decoding_defaults(models[0]).beam_size == 7


STYLE = SourceStyle(case=CaseTable(words=["the", "Tom"], capitals=True, initials=True), translated=["10", "TV"])


def styled(path: Path) -> Path:
    loaded = ModelDirectory.load(path)
    loaded.style = STYLE
    loaded.save(path)
    return path


def test_how_sources_are_written_is_kept_with_the_model(models):
    assert ModelDirectory.load(models[0]).style == SourceStyle()
    assert not (models[0] / "source_style.json").exists()
    assert ModelDirectory.load(styled(models[0])).style == STYLE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.write_text(file.read_text().replace("Tom", "Tim")), "is damaged or belongs to another"),
        (lambda file: file.unlink(), r"source_style\.json is missing"),
    ],
)
def test_a_style_that_is_not_the_model_s_is_refused(models, change, words):
    change(styled(models[0]) / "source_style.json")
    with pytest.raises(DataError, match=words):
        ModelDirectory.load(models[0])


@pytest.mark.parametrize("content", ["", "[]", '{"case": {"words": [7]}}', '{"case": 3}', '{"words": []}', "\xff"])
def test_a_file_without_a_style_is_refused(tmp_path: Path, content: str):
    (tmp_path / "style.json").write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match="does not say how sources are written"):
        SourceStyle.load(tmp_path / "style.json")


@pytest.mark.parametrize("name", ["../style.json", 7, "a/b"])
def test_a_style_outside_the_folder_is_refused(models, name):
    config = json.loads((models[0] / "config.json").read_text())
    (models[0] / "config.json").write_text(json.dumps(config | {"source_style": name}))
    with pytest.raises(DataError, match=r"`source_style` is .* not a file in the same folder"):
        ModelDirectory.load(models[0])


def header_of(file: Path) -> tuple[dict, bytes]:
    whole = file.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    return json.loads(whole[8:begin]), whole[begin:]


def write_header(file: Path, header: dict, tensors: bytes) -> None:
    content = json.dumps(header).encode()
    file.write_bytes(len(content).to_bytes(8, "little") + content + tensors)


def test_two_tensors_of_equal_shape_cannot_change_places(models):
    file = models[0] / "model.safetensors"
    header, tensors = header_of(file)
    shapes = {}
    for name, entry in header.items():
        if name != "__metadata__":
            shapes.setdefault(tuple(entry["shape"]), []).append(name)
    first, second = next(names for names in shapes.values() if len(names) > 1)[:2]
    header[first]["data_offsets"], header[second]["data_offsets"] = (
        header[second]["data_offsets"],
        header[first]["data_offsets"],
    )
    write_header(file, header, tensors)
    with pytest.raises(DataError, match="its header is not what was written"):
        ModelDirectory.load(models[0])


@pytest.mark.slow
def test_another_format_of_a_number_in_eight_bits_is_a_sentence(models, tmp_path):
    ModelDirectory.load(models[0]).save(tmp_path / "int8", int8=True)
    file = tmp_path / "int8" / "model.safetensors"
    whole, tensors = header_of(file)
    of_type = {entry["dtype"]: name for name, entry in whole.items() if name != "__metadata__"}
    scale = next(name for name in whole if name.endswith(".scale"))
    for name, others in ((of_type["F32"], ["I32"]), (scale, ["I32"]), (of_type["I8"], ["U8", "BOOL", "F8_E4M3"])):
        for other in others:
            entry = whole[name]
            header = {**whole, name: entry | {"dtype": other}}
            write_header(file, header, tensors)
            with pytest.raises(DataError, match="its header is not what was written"):
                ModelDirectory.load(tmp_path / "int8")
            del header["__metadata__"]
            write_header(file, header, tensors)
            with pytest.raises(DataError):
                ModelDirectory.load(tmp_path / "int8")


def test_a_model_that_is_overwritten_while_it_loads_is_whole_or_refused(models, monkeypatch):
    """`cp` and `rsync --inplace` write into the file that another process has opened."""
    file = models[0] / "model.safetensors"
    own, other = file.read_bytes(), (models[1] / "model.safetensors").read_bytes()
    wanted = ModelDirectory.load(models[0]).model.state_dict()
    opened = weights_file.opened
    monkeypatch.setattr(directory_module, "REPLACING", 0.0)
    for content in (other, own[: len(own) // 2], own[:9], b""):

        @contextmanager
        def overwritten(path, content=content):
            with opened(path) as file_and_header:
                if file.read_bytes() != content:  # a loading begins again where files have changed
                    file.write_bytes(content)
                yield file_and_header

        file.write_bytes(own)
        with monkeypatch.context() as patch:
            patch.setattr(weights_file, "opened", overwritten)
            with pytest.raises(DataError):
                ModelDirectory.load(models[0])
    file.write_bytes(own)
    loaded = ModelDirectory.load(models[0]).model.state_dict()
    file.write_bytes(other)  # what is loaded does not depend on the file any more
    assert all(torch.equal(loaded[name], wanted[name]) for name in wanted)


@pytest.mark.slow
def test_a_model_that_is_replaced_while_it_is_read_is_read_whole(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path
) -> None:
    source, target = tokenizers
    directories = [ModelDirectory(random_model(*sides), *sides) for sides in ((source, target), (target, source))]
    wanted = [directory.model(*IDS) for directory in directories]
    directories[0].save(tmp_path)
    ended = threading.Event()

    def replace() -> None:
        while not ended.is_set():
            for directory in directories[::-1]:
                directory.save(tmp_path)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(5):
            logits = ModelDirectory.load(tmp_path).model(*IDS)
            assert any(logits.shape == whole.shape and torch.equal(logits, whole) for whole in wanted)
    finally:
        ended.set()
        writer.join()


@pytest.mark.first_is_quick
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_directory_gives_back_the_model(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path, variant: str
) -> None:
    source, target = tokenizers
    model = random_model(source, target, **VARIANTS[variant])
    ModelDirectory(model, source, target, "en", "fr").save(tmp_path / "a" / "model")
    loaded = ModelDirectory.load(tmp_path / "a" / "model")
    assert torch.equal(loaded.model(*IDS), model(*IDS))
    assert loaded.model.config == model.config
    assert not loaded.model.training
    assert loaded.source_tokenizer.to_json() == source.to_json()
    assert loaded.target_tokenizer.to_json() == target.to_json()
    assert (loaded.source_language, loaded.target_language) == ("en", "fr")


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("choices", "tables"),
    [
        ({"share_embeddings": True}, 1),
        ({"share_embeddings": True, "tie_projection": False}, 2),
        ({"tie_projection": True}, 2),
        ({"tie_projection": False}, 3),
    ],
)
def test_shared_things_are_stored_once_and_shared_again(
    tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path, choices: dict[str, bool], tables: int
) -> None:
    shared = tokenizers[0]
    model = random_model(shared, shared, **choices)
    ModelDirectory(model, shared, shared).save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    }
    stored = safetensors.torch.load_file(tmp_path / "model.safetensors")
    assert sum(263 in tensor.shape for tensor in stored.values()) == tables
    loaded = ModelDirectory.load(tmp_path)
    assert torch.equal(loaded.model(*IDS), model(*IDS))
    assert loaded.source_tokenizer is loaded.target_tokenizer
    assert loaded.source_language is None
    assert len(list(loaded.model.parameters())) == len(list(model.parameters()))


def test_a_model_directory_is_replaced(tokenizers: tuple[Tokenizer, Tokenizer], tmp_path: Path) -> None:
    source, target = tokenizers
    ModelDirectory(random_model(source, target), source, target).save(tmp_path)
    other = random_model(target, target, norm="rms")
    ModelDirectory(other, target, target).save(tmp_path)
    assert torch.equal(ModelDirectory.load(tmp_path).model(*IDS), other(*IDS))
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_refused_weights_change_nothing(tokenizers: tuple[Tokenizer, Tokenizer]) -> None:
    model = random_model(*tokenizers)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    wrong = {name: parameter + 1 for name, parameter in before.items()}
    wrong["decoder.norm.gain"] = torch.ones(23)
    with pytest.raises(DataError, match=r"here.* 'decoder.norm.gain' of shape \(23,\)"):
        copy_weights(wrong, model, origin=Path("here"))
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
