"""What a checkpoint knows of a run."""

from dragoman.training.progress import Progress


def test_what_a_checkpoint_does_not_know_starts_anew():
    progress = Progress(step=5, rate_factor=0.5)
    progress.loss_monitor.settled.append("rising")
    progress.load_state_dict({"step": 3, "position": {"epoch": 1, "batch": 2}})
    assert (progress.step, progress.position.batch, progress.rate_factor, progress.loss_monitor.settled) == (
        3,
        2,
        1.0,
        [],
    )


def test_the_score_to_beat_is_known_from_a_checkpoint_of_version_0_1_0():
    progress = Progress()
    progress.load_state_dict({"step": 3, "position": {"epoch": 1, "batch": 2}, "best_bleu": 31.5})
    assert progress.best_scores == {"bleu": 31.5}
    assert progress.is_better({"bleu": 31.6, "loss": -2.0}, "bleu")
    assert not progress.is_better({"bleu": 31.5, "loss": -2.0}, "bleu")
    assert progress.is_better({"bleu": 1.0, "chrf": 2.0, "loss": -2.0}, "chrf")  # which it did not compute
