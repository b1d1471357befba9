"""Notebooks as their users have them: weights and tokenizers in files, and the translations that the notebook makes."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dragoman.data.bitext import Bitext
from dragoman.interop.importing import NotebookFiles
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

    def encode(self, sentence: str) -> list[int]:
        """What the encoder is given."""
        raise NotImplementedError

    def encode_target(self, sentence: str) -> list[int]:
        """The words, between begin and end."""
        raise NotImplementedError

    def most(self, source: list[int]) -> int:
        """How long a translation Dragoman allows, end of sentence included."""
        return 2 * (len(source) - 1) + 20

    def translate(self, sentence: str) -> str:
        padding, unknown, begin, end = self.special
        source = self.encode(sentence)
        ids = (self.source_padding, begin, end)
        found = greedy(self.style, self.weights, self.sizes, source, ids=ids, most=self.most(source))
        return " ".join("<unk>" if id_ == unknown else self.words[id_] for id_ in found if id_ not in (padding, begin))

    @property
    def source_padding(self) -> int:
        return self.special[0]

    def log_probabilities(self, sentence: str, target: list[int]) -> Tensor:
        """Of all words after each of the ids of a target."""
        rows = torch.tensor([self.encode(sentence)]), torch.tensor([target])
        found = log_probabilities(self.style, self.weights, self.sizes, *rows, padding=self.source_padding)
        return found[0]


class OfPyTorch(NotebookModel):
    """Notebooks A to C with the tokenizers that A's imports announce: [SOS], words, [EOS]."""

    def encode(self, sentence: str) -> list[int]:
        words = word_level(SOURCES)
        return [words.token_to_id("[SOS]"), *words.encode(sentence).ids, words.token_to_id("[EOS]")]

    def encode_target(self, sentence: str) -> list[int]:
        words = word_level(TARGETS)
        return [words.token_to_id("[SOS]"), *words.encode(sentence).ids, words.token_to_id("[EOS]")]


class OfKeras(NotebookModel):
    """Notebook D: the first words, filled up with padding that is not hidden."""

    def encode(self, sentence: str) -> list[int]:
        words = keras_vocabulary(SOURCES)
        ids = [words.index(word) if word in words else 1 for word in keras_words(sentence)]
        # The last place is always padding here; the notebook has a word there in longer sentences.
        return (ids[: self.sizes.positions - 1] + [0] * self.sizes.positions)[: self.sizes.positions]

    def encode_target(self, sentence: str) -> list[int]:
        return [self.words.index(word) for word in keras_words(f"[start] {sentence} [end]", kept="[]")]

    def most(self, source: list[int]) -> int:
        return self.sizes.positions


def make(style: str, folder: Path, *, seed: int = 1, **sizes: int) -> NotebookModel:
    """A notebook of this style with its files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    if style == "keras":
        sides = [keras_vocabulary(SOURCES), keras_vocabulary([f"[start] {t} [end]" for t in TARGETS], kept="[]")]
        for name, words in zip(("english.txt", "french.txt"), sides, strict=True):
            (folder / name).write_text("\n".join(words), encoding="utf-8")
        special = (0, 1, sides[1].index("[start]"), sides[1].index("[end]"))
        names = "english.txt", "french.txt"
    else:
        tokenizers = [word_level(SOURCES), word_level(TARGETS)]
        names = "tokenizer_en.json", "tokenizer_fr.json"
        for name, tokenizer in zip(names, tokenizers, strict=True):
            tokenizer.save(str(folder / name))
        sides = [[each.id_to_token(id_) for id_ in range(each.get_vocab_size())] for each in tokenizers]
        special = (1, 0, 2, 3)
    # In Keras a table has room for more words than a small corpus has.
    rows = [len(words) + (7 if style == "keras" else 0) for words in sides]
    made = Sizes(source_vocab=rows[0], target_vocab=rows[1], positions=19, **sizes)
    weights = random_weights(style, made, seed)
    file = folder / ("model.weights.h5" if style == "keras" else "model.pt")
    save(weights, file)
    files = NotebookFiles(file, style, made.heads, tuple(folder / name for name in names))
    kind = OfKeras if style == "keras" else OfPyTorch
    return kind(style, weights, made, files, sides[1], special)


def train(notebook: NotebookModel, *, steps: int) -> None:
    """Let the notebook's own formulas learn `PAIRS` by heart, and save what they have learned."""
    rows = [(torch.tensor(notebook.encode(s)), torch.tensor(notebook.encode_target(t))) for s, t in PAIRS]
    padding = notebook.special[0]
    source, target = (pad_sequence(side, batch_first=True, padding_value=padding) for side in zip(*rows, strict=True))
    learned = [value.requires_grad_() for name, value in notebook.weights.items() if not name.endswith(".pe")]
    optimizer = torch.optim.Adam(learned, lr=0.01)
    for _ in range(steps):
        found = log_probabilities(
            notebook.style, notebook.weights, notebook.sizes, source, target[:, :-1], padding=notebook.source_padding
        )
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(found.flatten(0, 1), target[:, 1:].flatten(), ignore_index=padding).backward()
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
