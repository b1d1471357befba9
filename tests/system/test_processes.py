"""Worker processes: the same results in the same order, and a clear word when one dies."""

import gc
import os
import signal
import sys
from gc import unfreeze  # the real one, for which there is another while tests run

import pytest
import torch
from threadpoolctl import threadpool_info

from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.errors import ResourceError
from dragoman.system.processes import PARALLEL_TOKENIZERS, Workers, map_on_cores, one_blas_thread
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.small import small_directory

SENTENCES = [source for source, _ in Bitext.open("builtin:grammar:23")] + ["", "Yes."]


@pytest.fixture
def parts():
    """A random model and its tokenizer, whose translations are at least long and different."""
    tokenizer = Tokenizer.train(SENTENCES, vocab_size=300)
    return small_directory(tokenizer, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_workers_translate_as_one_process_does(parts, beam_size):
    options = {"beam_size": beam_size, "max_tokens": 97}  # small batches: every worker gets several
    alone = Translator(parts).translate(SENTENCES, **options)
    with Translator(parts, workers=2) as translator:
        together = translator.translate(SENTENCES, **options)
    assert [t.tokens for t in together] == [t.tokens for t in alone]
    assert [t.log_prob for t in together] == pytest.approx([t.log_prob for t in alone], abs=1e-4)


def test_results_come_in_the_order_of_the_jobs():
    workers = Workers(lambda number: (number, os.getpid()), 2, remedy="")
    results = list(workers.map((number,) for number in range(31)))
    workers.close()
    assert [number for number, _ in results] == list(range(31))
    assert os.getpid() not in {pid for _, pid in results}


def test_a_worker_computes_on_one_thread():
    workers = Workers(lambda _: torch.get_num_threads(), 2, remedy="")
    assert set(workers.map((i,) for i in range(5))) == {1}
    workers.close()


def test_objects_that_workers_share_are_not_searched_for_garbage(monkeypatch):
    monkeypatch.setattr(gc, "unfreeze", unfreeze)
    workers = Workers(gc.get_freeze_count, 2, remedy="")
    workers.start()
    assert min(workers.result(workers.submit()), gc.get_freeze_count()) > 10_000
    workers.close()
    assert gc.get_freeze_count() == 0


def test_an_error_in_a_worker_reaches_the_caller():
    workers = Workers(lambda number: 1 / number, 2, remedy="")
    with pytest.raises(ZeroDivisionError):
        list(workers.map([(1,), (0,)]))
    workers.close()


def test_a_killed_worker_is_no_endless_wait():
    workers = Workers(lambda _: os.kill(os.getpid(), signal.SIGKILL), 2, remedy="use one")
    with pytest.raises(ResourceError, match="for want of memory; use one"):
        list(workers.map([(1,), (2,)]))
    workers.close()


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
@pytest.mark.parametrize("before", [None, "true"])
def test_tokenizers_uses_no_threads_in_a_process_that_was_forked(monkeypatch, before):
    monkeypatch.delenv(PARALLEL_TOKENIZERS, raising=False)
    if before:
        monkeypatch.setenv(PARALLEL_TOKENIZERS, before)
    assert list(map_on_cores(_parallel, [(0,), (1,), (2,)])) == ["false"] * 3
    assert os.environ.get(PARALLEL_TOKENIZERS) == before


def _parallel(number):
    return os.environ.get(PARALLEL_TOKENIZERS)


def test_matrix_products_have_one_thread_as_long_as_anybody_wants_that():
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    before, first, second = threads(), one_blas_thread(), one_blas_thread()
    assert threads() == {1}
    first.__exit__(None, None, None)
    assert threads() == {1}
    second.__exit__(None, None, None)
    assert threads() == before
