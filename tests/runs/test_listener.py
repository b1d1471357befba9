"""A program hears what a run does, and may stop it as a limit would."""

import warnings

import pytest

from dragoman.data.bitext import Bitext
from dragoman.runs.plan import plan_resume
from dragoman.runs.train import resume_run, start_run
from dragoman.system.listener import Listener
from tests.small import MODEL_SETTINGS, plan, write_pairs

SMALL = [
    *MODEL_SETTINGS, "tokenizer.vocab_size=300", "data.held_out=10", "decoding.beam_size=1",
    "training.validate_every=3",
]  # fmt: skip


class Hearing(Listener):
    """Writes down what it hears, and stops after so many steps."""

    def __init__(self, most: int | None = None):
        self.most = most
        self.events: list[tuple[str, dict]] = []
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)

    def event(self, name, values):
        self.events.append((name, values))

    def wants_to_stop(self):
        return self.steps == self.most  # once is enough

    @property
    def steps(self):
        return sum(name == "step" for name, _ in self.events)


@pytest.fixture
def trained(tmp_path):
    """A function that trains a small run, which ends after seven steps."""

    def train(listener: Listener):
        file = write_pairs(tmp_path / "pairs.tsv", Bitext.open("builtin:grammar:200"))
        config, pairs = plan(file, settings=[*SMALL, "training.max_steps=7"])
        return start_run(pairs, config, tmp_path / "run", listener=listener)

    return train


@pytest.mark.slow
def test_all_events_come_between_the_begin_and_the_end_of_the_training(trained):
    listener = Hearing()
    evaluation = trained(listener)
    names = [name for name, _ in listener.events]
    assert (names[0], names[-1], names.count("begin"), names.count("end")) == ("begin", "end", 1, 1)
    assert [values["step"] for name, values in listener.events if name == "step"] == [1, 2, 3, 4, 5, 6, 7]
    assert [values["step"] for name, values in listener.events if name == "validation"] == [3, 6, 7]
    begin = listener.events[0][1]
    assert (begin["config"].max_steps, begin["past"], begin["last_step"]) == (7, [], 7)
    assert any("A tiny Transformer" in note for note in listener.notes)
    assert any("too few" in warning for warning in listener.warnings)
    assert 0 <= evaluation.scores["bleu"].value <= 100


def test_a_run_that_a_listener_stops_is_validated_and_scored_and_can_go_on(trained, tmp_path):
    listener = Hearing(most=4)
    assert trained(listener).translations
    assert listener.steps == 4
    assert listener.events[-2][0] == "validation"
    assert listener.events[-2][1]["step"] == 4
    assert "Stopped after a request to stop; the best model is of step" in "\n".join(listener.notes)
    again = Hearing()
    resume_run(tmp_path / "run", plan_resume(tmp_path / "run", {}), listener=again)
    assert [values["step"] for name, values in again.events if name == "step"] == [5, 6, 7]
    assert [event["step"] for event in again.events[0][1]["past"] if event["event"] == "validation"] == [3, 4]


@pytest.mark.slow
def test_by_itself_a_listener_shows_nothing_but_warnings(trained, capfd):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained(Listener())
    assert any("too few" in str(warning.message) for warning in caught)
    assert capfd.readouterr().out == ""
