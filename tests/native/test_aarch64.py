"""The engine's C on processors that are not here: emulated ones of AArch64, with and without the dot product.

They compute what the formula in numpy gives, and translate as plain C on this machine does.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.engine import int8
from tests.small import train_run, write_pairs
from tools.emulate import CannotEmulate, emulated_python

PROGRAM = Path(__file__).with_name("emulated.py")
KINDS_OF_CPU = {"max": ["dot", "neon", "any"], "cortex-a72": ["neon", "any"]}
SECONDS = 900
"""Time for what is emulated, which takes about a minute for each processor."""
NOUNS = {"house": "maison", "door": "porte", "table": "table", "flower": "fleur", "car": "voiture"}
ADJECTIVES = {"red": "rouge", "green": "verte", "small": "petite", "white": "blanche", "old": "vieille"}


def pairs() -> list[tuple[str, str]]:
    return [
        (f"the {adjective} {noun} and the {other}", f"la {noun_fr} {adjective_fr} et la {other_fr}")
        for noun, noun_fr in NOUNS.items()
        for adjective, adjective_fr in ADJECTIVES.items()
        for other, other_fr in NOUNS.items()
    ]


@pytest.mark.slow
def test_an_emulated_aarch64_computes_what_the_formula_says_and_translates_as_this_machine(tmp_path: Path) -> None:
    try:
        emulated_python("max")
    except CannotEmulate as error:
        pytest.skip(str(error))
    if int8.compiled("any") is None:
        pytest.skip("there is no C compiler")
    settings = ["training.max_steps=150", "tokenizer.vocab_size=300", "model.d_model=64", "model.d_ff=128"]
    train_run(tmp_path / "run", write_pairs(tmp_path / "pairs.tsv", pairs()), settings=settings)
    texts = tmp_path / "texts"
    texts.write_text("".join(f"{source}\n" for source, _ in pairs()[::7]), encoding="utf-8")
    native = subprocess.run(
        [sys.executable, PROGRAM, tmp_path / "run", texts], capture_output=True, text=True, check=True
    )
    wanted = json.loads(native.stdout)["any"]
    assert len(set(wanted["1"])) > 9, "the model says the same of everything"
    for cpu, kinds in KINDS_OF_CPU.items():
        command, environment = emulated_python(cpu)
        emulated = subprocess.run(
            [*command, PROGRAM, tmp_path / "run", texts],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=SECONDS,
        )
        assert emulated.returncode == 0, emulated.stderr
        found = json.loads(emulated.stdout)
        assert list(found) == kinds
        assert all(translations == wanted for translations in found.values())
