"""Runs as users start them learn tasks whose answers are known: copying and sorting digits."""

import random
from pathlib import Path

import pytest

from tests.small import train_run, write_pairs

SETTINGS = [
    "model.d_model=64", "model.d_ff=128", "model.num_heads=4", "model.num_encoder_layers=2",
    "model.num_decoder_layers=2", "model.dropout=0", "tokenizer.kind=word", "training.label_smoothing=0",
    "training.max_tokens=1024",
]  # fmt: skip


# The bounds of perplexity and BLEU are those of Sockeye's tests of the same tasks.
@pytest.mark.slow
@pytest.mark.parametrize(("answer", "steps", "perplexity", "bleu"), [(list, 800, 1.02, 98), (sorted, 1000, 1.03, 97)])
def test_digits_are_copied_and_sorted(tmp_path: Path, answer, steps: int, perplexity: float, bleu: float):
    seed = random.SystemRandom().randrange(10_000)
    dice, files = random.Random(seed), {}
    for name, number in (("train", 10_000), ("valid", 300), ("test", 1_000)):
        rows = [dice.choices("0123456789", k=dice.randint(1, 10)) for _ in range(number)]
        files[name] = write_pairs(tmp_path / f"{name}.tsv", [(" ".join(row), " ".join(answer(row))) for row in rows])
    held_out = [f"data.{name}=[{files[name]}]" for name in ("valid", "test")]
    settings = [*SETTINGS, *held_out, f"training.max_steps={steps}", f"seed={seed}"]
    scores = train_run(tmp_path / "run", files["train"], settings=settings, recipe=None).to_dict()
    assert scores["perplexity"] <= perplexity, seed
    assert scores["bleu"] >= bleu, seed


@pytest.mark.slow
def test_one_model_follows_the_token_of_the_target_language(tmp_path: Path):
    """The same digits are copied into one language and sorted into the other; every source is trained on with both."""
    dice, path = random.Random(1), tmp_path / "digits.tsv"
    drawn = [dice.choices("0123456789", k=dice.randint(1, 10)) for _ in range(5_000)]
    texts = [
        (" ".join(row), " ".join(answer(row)), code) for row in drawn for answer, code in ((list, "fr"), (sorted, "de"))
    ]
    path.write_text("".join("\t".join(row) + "\n" for row in texts))
    settings = ["data.language_column=3", "data.columns=[1,2]", "data.held_out=100", "training.max_steps=1200"]
    scores = train_run(tmp_path / "run", path, settings=[*SETTINGS, *settings], recipe=None).to_dict()
    assert {name: part["bleu"] > 95 for name, part in scores["by_languages"].items()} == {"de": True, "fr": True}
