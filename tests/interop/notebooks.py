"""Notebooks as their users have them: weights and tokenizers in files, and the translations that the notebook makes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.bitext import Bitext
from dragoman.interop.imports.notebook_models import NotebookFiles
from dragoman.training.optimizer import eager
from tests.interop.notebook_models import Sizes, greedy, log_probabilities, random_weights
from tests.interop.notebook_tokenizers import keras_vocabulary, keras_words, word_level

PAIRS = sorted(Bitext.open("builtin:grammar:90"), key=lambda pair: len(pair[0]))[:19]
"""Short ones, to be learned by heart."""
SOURCES, TARGETS = [source for source, _ in PAIRS], [target for _, target in PAIRS]


@dataclass(frozen=True)
class NotebookModel:
    """A model with random weights, and what its notebook does with a sentence."""

    style: str
    weights: dict[str, Tensor]
    sizes: Sizes
    files: NotebookFiles
    words: list[str]
    """The target words, in the order of their ids."""
    special: tuple[int, int, int, int]
    """The target ids of padding, unknown, begin and end."""
    encode: Callable[[str], list[int]]
    """The ids that the encoder gets for a sentence."""
    encode_target: Callable[[str], list[int]]
    """The ids of a sentence between begin and end."""

    def translate(self, sentence: str) -> str:
        padding, unknown, begin, end = self.special
        source = self.encode(sentence)
        # As long as Dragoman allows, end of sentence included.
        most = self.sizes.positions if self.style == "keras" else 2 * (len(source) - 1) + 20
        ids = greedy(self.style, self.weights, self.sizes, source, ids=(padding, begin, end), most=most)
        return " ".join("<unk>" if id_ == unknown else self.words[id_] for id_ in ids if id_ not in (padding, begin))

    def log_probabilities(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Of all words after each of the ids of the targets."""
        return log_probabilities(self.style, self.weights, self.sizes, sources, targets, padding=self.special[0])


def make(style: str, folder: Path, *, seed: int = 1, **sizes: int) -> NotebookModel:
    """A notebook of this style with its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = (_keras_parts if style == "keras" else _pytorch_parts)(folder)
    names, source_words, words, special, encode, encode_target = parts
    # In Keras a table has room for more words than a small corpus has.
    room = 7 if style == "keras" else 0
    model_sizes = Sizes(source_vocab=len(source_words) + room, target_vocab=len(words) + room, positions=19, **sizes)
    weights = random_weights(style, model_sizes, seed)
    file = folder / ("model.weights.h5" if style == "keras" else "model.pt")
    save(weights, file)
    files = NotebookFiles(file, style, model_sizes.heads, tuple(folder / name for name in names))
    return NotebookModel(style, weights, model_sizes, files, words, special, encode, encode_target)


def _pytorch_parts(folder: Path) -> tuple:
    """Notebooks A to C with the tokenizers that A's imports announce: [SOS], words, [EOS]."""
    sides, names = [word_level(SOURCES), word_level(TARGETS)], ("tokenizer_en.json", "tokenizer_fr.json")
    for name, side in zip(names, sides, strict=True):
        side.save(str(folder / name))
    words = [sorted(side.get_vocab(), key=side.get_vocab().get) for side in sides]
    encode, encode_target = (lambda text, side=side: [2, *side.encode(text).ids, 3] for side in sides)
    return names, *words, (1, 0, 2, 3), encode, encode_target


def _keras_parts(folder: Path) -> tuple:
    """Notebook D: the first words, filled up with padding that is not hidden."""
    sides, names = (
        [keras_vocabulary(SOURCES), keras_vocabulary(map(marked, TARGETS), kept="[]")],
        ("english.txt", "french.txt"),
    )
    for name, side in zip(names, sides, strict=True):
        (folder / name).write_text("\n".join(side), encoding="utf-8")
    source, target = sides

    def encode(text: str) -> list[int]:
        ids = [source.index(word) if word in source else 1 for word in keras_words(text)]
        # The last position is always padding here; the notebook has a word there in longer sentences.
        return (ids[:18] + [0] * 19)[:19]

    def encode_target(text: str) -> list[int]:
        return [target.index(word) for word in keras_words(marked(text), kept="[]")]

    return names, *sides, (0, 1, target.index("[start]"), target.index("[end]")), encode, encode_target


def marked(text: str) -> str:
    return f"[start] {text} [end]"


def train(notebook: NotebookModel, *, steps: int) -> None:
    """Let the notebook's own formulas learn `PAIRS` by heart, and save what they have learned."""
    padding = notebook.special[0]
    source, target = (
        pad_sequence([torch.tensor(encode(text)) for text in texts], batch_first=True, padding_value=padding)
        for encode, texts in ((notebook.encode, SOURCES), (notebook.encode_target, TARGETS))
    )
    learned = [value.requires_grad_() for name, value in notebook.weights.items() if not name.endswith(".pe")]
    optimizer = eager(torch.optim.Adam)(learned, lr=0.01)
    for _ in range(steps):
        log_probs = notebook.log_probabilities(source, target[:, :-1])
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(log_probs.flatten(0, 1), target[:, 1:].flatten(), ignore_index=padding).backward()
        optimizer.step()
    for value in learned:
        value.requires_grad_(False)
    save(notebook.weights, notebook.files.weights)


def save(weights: dict[str, Tensor], file: Path) -> None:
    """As the notebook saves them."""
    if file.suffix == ".pt":
        torch.save(weights, file)
        return
    import h5py

    with h5py.File(file, "w") as opened:
        for name, value in weights.items():
            opened[name] = value.numpy()


def without_tokenizers(notebook: NotebookModel) -> NotebookFiles:
    return replace(notebook.files, tokenizers=None)
