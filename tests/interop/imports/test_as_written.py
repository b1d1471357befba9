"""Notebook B as it is written, its decoder with positions in place of feed-forward networks, is imported by a flag."""

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dragoman import Translator, cli
from dragoman.data.batching import padded
from dragoman.decoding.search import Beams
from dragoman.engine.engine import ArrayEngine
from dragoman.engine.int8 import Int8Engine, can_quantise
from dragoman.engine.log_probs import ArrayLogProbs, LogProbs
from dragoman.errors import DataError, UsageError
from dragoman.interop.exports.proof import search, search_with
from dragoman.interop.imports.notebook_models import NotebookFiles, import_notebook
from dragoman.interop.imports.notebooks import from_notebook
from dragoman.interop.imports.styles import STYLES
from dragoman.storage.directory import ArrayDirectory
from dragoman.storage.model_directory import ModelDirectory
from tests.interop.notebook_models import Sizes, random_weights, sinusoids
from tests.interop.notebooks import PAIRS, SOURCES, TARGETS
from tests.small import train_run, write_pairs

ROOT = Path(__file__).parents[3]

# ---- notebook B's model, written anew from its description, with its names of weights -----------


class Heads(nn.Module):
    """Attention with four linear maps, `heads` times side by side."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        query, key, value = (
            linear(states).unflatten(-1, (self.heads, -1)).movedim(-2, 1)
            for linear, states in ((self.W_q, x), (self.W_k, memory), (self.W_v, memory))
        )
        scores = torch.einsum("bhqw,bhkw->bhqk", query, key) / math.sqrt(query.size(-1))
        shares = torch.where(visible, scores, -1e9).softmax(-1)
        return self.W_o(torch.einsum("bhqk,bhkw->bqhw", shares, value).flatten(2))


class Network(nn.Module):
    """Two linear maps and a ReLU, which only the encoder has."""

    def __init__(self, width: int, inner: int):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))


class Sines(nn.Module):
    """x + positions, from a table of `length` rows that is saved with the weights."""

    def __init__(self, width: int, length: int):
        super().__init__()
        self.register_buffer("pe", sinusoids(length, width)[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class Layer(nn.Module):
    """Norms behind the sums. The decoder's third part is `Sines` of `d_ff` rows, so that norm3 reads x + (x + pe)."""

    def __init__(self, sizes: Sizes, *, is_decoder: bool):
        super().__init__()
        self.self_attn = Heads(sizes.d_model, sizes.heads)
        if is_decoder:
            self.cross_attn = Heads(sizes.d_model, sizes.heads)
        self.feed_forward = (Sines if is_decoder else Network)(sizes.d_model, sizes.d_ff)
        for number in range(1, 4 if is_decoder else 3):
            self.add_module(f"norm{number}", nn.LayerNorm(sizes.d_model))

    def forward(self, x: Tensor, own: Tensor, memory: Tensor | None = None, visible: Tensor | None = None) -> Tensor:
        x = self.norm1(x + self.self_attn(x, x, own))
        if memory is None:
            return self.norm2(x + self.feed_forward(x))
        x = self.norm2(x + self.cross_attn(x, memory, visible))
        return self.norm3(x + self.feed_forward(x))


class NotebookB(nn.Module):
    """The whole model without dropout. Token 0 is padding, which is hidden on both sides."""

    def __init__(self, sizes: Sizes, seed: int = 0):
        super().__init__()
        torch.manual_seed(seed)
        self.encoder_embedding = nn.Embedding(sizes.source_vocab, sizes.d_model)
        self.decoder_embedding = nn.Embedding(sizes.target_vocab, sizes.d_model)
        self.positional_encoding = Sines(sizes.d_model, sizes.positions)
        encoder = [Layer(sizes, is_decoder=False) for _ in range(sizes.encoder_layers)]
        decoder = [Layer(sizes, is_decoder=True) for _ in range(sizes.decoder_layers)]
        self.encoder_layers, self.decoder_layers = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.fc = nn.Linear(sizes.d_model, sizes.target_vocab)
        with torch.no_grad():
            for parameter in self.parameters():  # none at its first value
                parameter += 0.3 * torch.randn_like(parameter)
        self.eval()

    @torch.no_grad()
    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, visible = self.positional_encoding(self.encoder_embedding(source)), (source != 0)[:, None, None]
        for layer in self.encoder_layers:
            memory = layer(memory, visible)
        own = (target != 0)[:, None, None] & torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
        x = self.positional_encoding(self.decoder_embedding(target))
        for layer in self.decoder_layers:
            x = layer(x, own, memory, visible)
        return self.fc(x)


SIZES = {
    "as wide as others": Sizes(d_model=24, d_ff=41, heads=3),
    "one layer": Sizes(d_model=14, d_ff=61, heads=1, encoder_layers=1, decoder_layers=1, source_vocab=7),
    "a deep decoder": Sizes(d_model=12, d_ff=29, heads=2, encoder_layers=1, decoder_layers=11, positions=29),
}
ONE_LAYER = SIZES["one layer"]


def random_ids(vocab: int, rows: int, length: int) -> Tensor:
    """Random ids; the second row ends in padding."""
    tokens = torch.randint(1, vocab, (rows, length), generator=torch.Generator().manual_seed(vocab))
    tokens[1, length - 4 :] = 0
    return tokens


def imported_as_written(weights: dict[str, Tensor], heads: int):
    return from_notebook(weights, style="postnorm", num_heads=heads, as_written=True)


@dataclass
class Repeating:
    """A `Stepper` over the notebook's model, which computes whole prefixes anew at every step."""

    model: NotebookB
    source: Tensor
    prefixes: Tensor

    def step(self, tokens: np.ndarray) -> LogProbs:
        self.prefixes = torch.cat([self.prefixes, torch.from_numpy(tokens)[:, None]], dim=1)
        return ArrayLogProbs(self.model(self.source, self.prefixes)[:, -1].log_softmax(-1).numpy())

    def reorder(self, rows: np.ndarray) -> None:
        self.source, self.prefixes = self.source[rows], self.prefixes[rows]


@dataclass(frozen=True)
class Saved:
    """A notebook's model with its files, and the model directory that was made from them."""

    model: NotebookB
    files: NotebookFiles
    directory: Path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """The vocabularies have Dragoman's ids: padding, unknown, begin, end, words."""
    folder = tmp_path_factory.mktemp("notebook")
    vocabularies = []
    for name, texts in (("en.txt", SOURCES), ("fr.txt", TARGETS)):
        words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)})
        vocabularies.append(["<pad>", "<unk>", "<s>", "</s>", *words])
        (folder / name).write_text("\n".join(vocabularies[-1]), encoding="utf-8")
    sizes = Sizes(32, 112, 2, 2, 2, *map(len, vocabularies), positions=112)
    model = NotebookB(sizes, seed=1)
    model.fc.bias.data[0] = -30  # the notebook would hide padding that it predicts
    model.fc.bias.data[3] += 1  # some translations end
    torch.save(model.state_dict(), folder / "model.pt")
    files = NotebookFiles(folder / "model.pt", "postnorm", 2, (folder / "en.txt", folder / "fr.txt"), as_written=True)
    import_notebook(files, folder / "model", note=lambda _: None)
    return Saved(model, files, folder / "model")


# ---- the same numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_logits_are_those_of_the_notebooks_modules(sizes: Sizes):
    theirs = NotebookB(sizes)
    ours = imported_as_written(theirs.state_dict(), sizes.heads)
    assert ours.config.decoder_feed_forward == "positions"
    assert (ours.config.d_ff, ours.config.num_decoder_layers) == (sizes.d_ff, sizes.decoder_layers)
    source, target = random_ids(sizes.source_vocab, 3, 13), random_ids(sizes.target_vocab, 3, 11)
    with torch.no_grad():
        logits = ours(source, target)
    counted = target != 0
    torch.testing.assert_close(logits[counted], theirs(source, target)[counted], rtol=0, atol=1e-5)


def test_logits_are_those_of_the_notebooks_own_code(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from peers.notebooks import POSTNORM, definitions

    if not POSTNORM.is_file():
        pytest.skip("no notebooks beside the checkout")
    torch.manual_seed(1)
    theirs = definitions(POSTNORM, feed_forward=False)["Transformer"](53, 47, 24, 3, 2, 41, 19, 0.1).eval()
    ours = imported_as_written(theirs.state_dict(), 3)
    source, target = random_ids(53, 3, 13), random_ids(47, 3, 11)
    with torch.no_grad():
        logits, expected = ours(source, target), theirs(source, target)
    torch.testing.assert_close(logits[target != 0], expected[target != 0], rtol=0, atol=1e-5)


def test_sines_of_the_decoder_may_be_missing_but_not_others():
    weights, table = NotebookB(ONE_LAYER).state_dict(), "decoder_layers.0.feed_forward.pe"
    assert weights[table].shape == (1, ONE_LAYER.d_ff, ONE_LAYER.d_model)
    whole = imported_as_written(weights, 1).state_dict()
    bare = imported_as_written({name: weight for name, weight in weights.items() if name != table}, 1).state_dict()
    assert all(torch.equal(weight, bare[name]) for name, weight in whole.items())
    with pytest.raises(DataError, match=f"`{table}` does not hold the sines of the post-norm"):
        imported_as_written(weights | {table: weights[table].flip(-1)}, 1)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_engine_without_torch_translates_as_the_notebook(saved: Saved, beam_size: int):
    directory = ArrayDirectory.load(saved.directory)
    sources = directory.source_tokenizer.encode_batch(SOURCES[:9])
    rows = padded(sources, directory.source_tokenizer.closing)
    assert (rows == 0).any()
    assert (rows[:, 0] == 2).all()
    ours = search(directory, sources, beam_size=beam_size, length_penalty=1.0)
    stepper = Repeating(saved.model, rows, torch.empty(len(rows), 0, dtype=torch.long))
    theirs = search_with(stepper, directory, sources, beam_size=beam_size, length_penalty=1.0, beams=Beams)
    assert [translation.tokens for translation in ours] == [translation.tokens for translation in theirs]
    scores = [[translation.score for translation in translations] for translations in (ours, theirs)]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-4)
    lengths = [len(translation.tokens) for translation in ours]
    assert len({*lengths}) > 1
    assert max(lengths) > 9


def test_texts_are_translated_by_the_engine_without_torch(saved: Saved):
    translator = Translator.load(saved.directory, precision="float32")
    assert type(translator.engines[0]) is ArrayEngine
    words = saved.files.tokenizers[1].read_text(encoding="utf-8").split("\n")
    translations = translator.translate(SOURCES[:3], beam_size=1, max_copies=0, min_ratio=0)
    directory = ArrayDirectory.load(saved.directory)
    for text, translation in zip(SOURCES[:3], translations, strict=True):
        source = directory.source_tokenizer.encode(text)
        stepper = Repeating(saved.model, torch.tensor([[*source, 3]]), torch.empty(1, 0, dtype=torch.long))
        (their,) = search_with(stepper, directory, [source], beam_size=1, length_penalty=1.0, beams=Beams)
        assert translation.text == " ".join(words[id_] for id_ in their.tokens)


def test_it_translates_in_eight_bits(saved: Saved):
    if not can_quantise(ArrayDirectory.load(saved.directory).model.config):
        pytest.skip("needs a C compiler")
    translator = Translator.load(saved.directory, precision="int8")
    assert isinstance(translator.engines[0], Int8Engine)
    plain = Translator.load(saved.directory, precision="float32")
    pairs = [*zip(SOURCES[:5], TARGETS[:5], strict=True)]
    scores, exact = ([score.log_prob for score in one.score(pairs)] for one in (translator, plain))
    np.testing.assert_allclose(scores, exact, rtol=0.05)
    assert all(translation.tokens for translation in translator.translate(SOURCES[:5], beam_size=3))


# ---- what other commands do with it --------------------------------------------------------------


def test_the_command_imports_it_and_the_card_says_so(saved: Saved, tmp_path: Path, monkeypatch, capfd):
    weights = str(saved.files.weights)
    source, target = map(str, saved.files.tokenizers)

    def run(*options: str) -> tuple[int, str, str]:
        command = ["dragoman", "import", weights, str(tmp_path / "model"), "--num-heads", "2", *options]
        monkeypatch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code, *capfd.readouterr()

    code, _, err = run("--style", "postnorm")
    assert code == 3
    assert "has no feed-forward network" in err
    assert "give --as-written to import the model as it is" in err
    tokenizers = "--source-tokenizer", source, "--target-tokenizer", target
    code, out, _ = run("--style", "postnorm", "--as-written", *tokenizers, "--json")
    assert code == 0
    assert json.loads(out)["architecture"]["decoder_feed_forward"] == "positions"
    card = " ".join((tmp_path / "model/README.md").read_text(encoding="utf-8").split())
    assert "Its decoder has no feed-forward networks. It adds the positions once more in their place" in card
    monkeypatch.setattr(sys, "argv", ["dragoman", "inspect", str(tmp_path / "model"), SOURCES[0], "--json"])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == 0
    assert json.loads(capfd.readouterr().out)["source"]["words"][-1]["text"] == "</s>"


@pytest.mark.slow
def test_a_run_goes_on_from_its_weights(saved: Saved, tmp_path: Path):
    pairs = write_pairs(tmp_path / "pairs.tsv", PAIRS)
    settings = [
        f"finetune.model={json.dumps(str(saved.directory))}", "training.max_steps=3", "data.held_out=3",
        "training.learning_rate=0.001", "training.optimizer=adam",
    ]  # fmt: skip
    train_run(tmp_path / "run", pairs, settings=settings, recipe=None)
    before, after = (ModelDirectory.load(path).model for path in (saved.directory, tmp_path / "run"))
    assert after.config.decoder_feed_forward == "positions"
    changed = [not torch.equal(*pair) for pair in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(changed)


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", sorted(STYLES.keys() - {"postnorm"}))
def test_the_flag_is_for_this_notebook_alone(style: str):
    with pytest.raises(UsageError, match=f"--as-written is for the style postnorm, .* leave it out for '{style}'"):
        from_notebook(random_weights(style, Sizes()), style=style, num_heads=3, as_written=True)


def test_weights_of_another_notebook_are_named_with_the_flag_too():
    with pytest.raises(DataError, match="is not of the style 'postnorm' but 'prenorm'"):
        imported_as_written(random_weights("prenorm", Sizes()), 3)


def test_weights_of_the_repaired_notebook_are_refused_with_the_flag():
    repaired = random_weights("postnorm", Sizes())
    network = "`decoder_layers.0.feed_forward.fc1.weight`, so its notebook was repaired; leave out --as-written"
    with pytest.raises(DataError, match=re.escape(network)):
        imported_as_written(repaired, 3)


def test_without_the_flag_weights_as_written_are_refused_and_the_flag_is_named():
    with pytest.raises(DataError, match=r"has no feed-forward network.* give --as-written"):
        from_notebook(NotebookB(ONE_LAYER).state_dict(), style="postnorm", num_heads=1)


def test_a_decoder_that_is_repaired_in_part_is_refused_either_way():
    weights = NotebookB(Sizes(d_model=24)).state_dict()
    network = {f"feed_forward.{name}": weight for name, weight in Network(24, 37).state_dict().items()}
    mixed = weights | {f"decoder_layers.1.{name}": weight for name, weight in network.items()}
    with pytest.raises(DataError, match=r"unknown `decoder_layers.1.feed_forward.fc1.bias`"):
        imported_as_written(mixed, 3)
    with pytest.raises(DataError, match="give --as-written"):
        from_notebook(mixed, style="postnorm", num_heads=3)


def test_missing_tensors_are_named():
    weights = NotebookB(ONE_LAYER).state_dict()
    for name in [name for name in weights if not name.endswith(".pe")][::5]:
        with pytest.raises(DataError, match=f"lacks `{re.escape(name)}`"):
            imported_as_written({key: value for key, value in weights.items() if key != name}, 1)
