"""The compiled kernels: equal to the formulas in every layout, and not missed where they are not there."""

import ctypes
import math
import platform
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.model.attention import attend, attention, causal_mask
from dragoman.model.dropout import Dropout
from dragoman.model.fast import library
from dragoman.model.fast.attention import LONGEST, MaskedSoftmaxDropout, can_attend, single_pass_attention
from dragoman.model.fast.dropout import Draws
from dragoman.model.fast.logits import exponentiate
from dragoman.model.fast.norms import can_normalise, normalise
from dragoman.model.layers import RotaryPositions, rotate
from dragoman.model.transformer import log_softmax
from tools import build_kernels

NO_DROPOUT = Dropout(0.0)
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 2e-2}
needs_library = pytest.mark.skipif(not library.compiled(), reason="there is no C compiler")
every_precision = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)


def heads(rows: int, length: int, *, width: int, dtype: torch.dtype, layout: str) -> Tensor:
    """(rows, 3, length, width), as `layout` puts it into memory."""
    order, back = {
        "heads first": ((rows, 3, length, width), (0, 1, 2, 3)),
        "heads last": ((rows, length, 3, width), (0, 2, 1, 3)),
        "of a cache": ((length, rows, 3, width), (1, 2, 0, 3)),
        "width scattered": ((width, rows, 3, length), (1, 2, 3, 0)),
    }[layout]
    # Every other number of a larger tensor, so that no stride is what the shape would make it.
    return torch.randn(*order[:-1], 2 * order[-1])[..., : order[-1]].permute(back).to(dtype)


def exact(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return attention(query.double(), key.double(), value.double(), mask, dropout=NO_DROPOUT)


@needs_library
@every_precision
@pytest.mark.parametrize("layout", ["heads first", "heads last", "of a cache", "width scattered"])
@pytest.mark.parametrize("width", [16, 32, 48, 64, 80])
@pytest.mark.parametrize("queries", [1, 2, 4, 11])
@pytest.mark.parametrize("keys", [1, 15, 16, 17, 40])
def test_attention_equals_the_formula(dtype, layout: str, width: int, queries: int, keys: int):
    torch.manual_seed(keys * width + queries)
    options = {"width": width, "dtype": dtype, "layout": layout}
    query, key, value = (heads(3, n, **options) for n in (queries, keys, keys))
    mask = torch.rand(3, 1, 1, keys) > 0.4
    for hidden in (None, mask, mask.expand(3, 3, queries, keys).contiguous(), mask[0, 0].expand(queries, keys)):
        found = single_pass_attention(query, key, value, hidden)
        assert found.dtype == dtype
        torch.testing.assert_close(
            found.double(), exact(query, key, value, hidden), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
        )
        assert found.transpose(1, 2).is_contiguous()


@needs_library
def test_causal_queries_see_exactly_nothing_of_the_future():
    torch.manual_seed(1)
    query, key, value = (heads(2, 9, width=32, dtype=torch.float32, layout="heads last") for _ in range(3))
    before = single_pass_attention(query, key, value, causal_mask(9))
    key[:, :, 5:], value[:, :, 5:] = 7.0, -1e30
    after = single_pass_attention(query, key, value, causal_mask(9))
    assert torch.equal(before[:, :, :5], after[:, :, :5])
    assert not torch.equal(before[:, :, 5:], after[:, :, 5:])


@needs_library
@pytest.mark.parametrize("queries", [1, 6])
def test_large_scores_and_no_numbers(queries: int):
    torch.manual_seed(2)
    query, key, value = (heads(2, n, width=16, dtype=torch.float32, layout="heads last") for n in (queries, 5, 5))
    query *= 300
    torch.testing.assert_close(
        single_pass_attention(query, key, value).double(), exact(query, key, value, None), rtol=1e-4, atol=1e-4
    )
    key[1, 2, 3, 4] = torch.nan
    found = single_pass_attention(query, key, value)
    assert found[1, 2].isnan().all()
    assert found.isnan().sum() == found[1, 2].numel()
    nothing = torch.zeros(queries, 5, dtype=torch.bool)
    mean = value.mean(2, keepdim=True).expand(2, 3, queries, 16)
    torch.testing.assert_close(single_pass_attention(query, key.nan_to_num(), value, nothing), mean)


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_log_softmax_equals_that_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = torch.cat([torch.randn(5, vocab), 200 * torch.randn(3, vocab), 1e4 + torch.randn(2, vocab)]).to(dtype)
    logits[1, : vocab // 2] = -torch.inf
    found = torch.empty(10, vocab)
    log_softmax(logits, found)
    torch.testing.assert_close(found.double(), logits.double().log_softmax(-1), rtol=1e-6, atol=1e-5)
    logits[4, 0] = torch.nan
    log_softmax(logits, found)
    assert found[4].isnan().all()
    assert not found[:4].isnan().any()


@needs_library
def test_nothing_is_written_beside_the_rows():
    guarded = torch.full((9, 35), 7.0)
    log_softmax(torch.randn(7, 35), guarded[1:8])
    assert (guarded[[0, 8]] == 7).all()


def dropped(key: tuple[int, int], indices: np.ndarray, rate: float) -> Tensor:
    """Whether dropout zeroes the elements with these indices: the hash of vectors.h in numpy."""
    x = indices.astype(np.uint32) ^ np.uint32(key[0])
    x ^= x >> np.uint32(16)
    x = (x * np.uint32(0x7FEB352D)) ^ np.uint32(key[1])
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return torch.from_numpy(x < np.uint32(round(rate * 2**32)))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """What the next draws are made of."""
    key, of = (0x9E3779B9, 0x243F6A88), Draws.of

    def fixed(rate: float, generator: torch.Generator | None) -> Draws:
        draws = of(rate, generator)
        draws.key[:] = key
        return draws

    monkeypatch.setattr(Draws, "of", fixed)
    return key


def dropout(x: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    module = Dropout(rate).train()
    module.generator = generator
    return module(x)


@needs_library
@every_precision
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(1,), (16,), (3, 7, 11), (1024, 17)])
def test_dropout_keeps_what_the_key_says_on_both_ways(key, dtype, rate: float, shape: tuple[int, ...]):
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    gone = dropped(key, np.arange(x.numel()), rate).view(shape)
    found = dropout(x, rate)
    exactly = {"rtol": torch.finfo(dtype).eps, "atol": 0}
    torch.testing.assert_close(found, (x.double() / (1 - rate)).masked_fill(gone, 0).to(dtype), **exactly)
    gradient = torch.randn(shape, dtype=dtype)
    found.backward(gradient)
    torch.testing.assert_close(x.grad, (gradient.double() / (1 - rate)).masked_fill(gone, 0).to(dtype), **exactly)


@needs_library
@every_precision
def test_what_dropout_is_added_to_gets_the_whole_gradient(key, dtype):
    x, to = (torch.randn(3, 7, 11, dtype=dtype, requires_grad=True) for _ in range(2))
    scale = ~dropped(key, np.arange(x.numel()), 0.3).view(x.shape) / 0.7
    found = Dropout(0.3).train()(x, add_to=to)
    formula = to.double() + x.double() * scale
    gradients = torch.autograd.grad(found, (x, to), torch.ones_like(found))
    for own, exact in zip((found, *gradients), (formula, scale, torch.ones_like(formula)), strict=True):
        torch.testing.assert_close(own.double(), exact.double(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@needs_library
@every_precision
@pytest.mark.parametrize("width", [16, 80, 128])
@pytest.mark.parametrize("with_bias", [False, True], ids=["rms", "layer"])
def test_norm_and_its_gradients_are_those_of_torch(dtype, width: int, with_bias: bool, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    torch.manual_seed(width)
    given = [(3 + 2 * torch.randn(5, 7, width)).to(dtype), *torch.randn(1 + with_bias, width)]
    given = [each.requires_grad_() for each in given]
    exactly = [each.detach().double().requires_grad_() for each in given]
    assert can_normalise(*given[:2])
    found = normalise(*given[:2], given[2] if with_bias else None, 1e-5)
    norm = F.layer_norm if with_bias else F.rms_norm
    formula = norm(exactly[0], (width,), *exactly[1:], eps=1e-5)
    away = torch.randn_like(found)
    gradients = torch.autograd.grad(found, given, away)
    exact = torch.autograd.grad(formula, exactly, away.double())
    for own, theirs in zip((found, *gradients), (formula, *exact), strict=True):
        torch.testing.assert_close(own.double(), theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@needs_library
def test_another_key_drops_others():
    x = torch.ones(2**20)
    torch.manual_seed(4)
    first, second = (dropout(x, 0.5) == 0 for _ in range(2))
    for shift in (0, 1, 16, 4096):
        alike = (first[shift:] == second[: len(second) - shift]).double().mean()
        assert abs(alike - 0.5) < 6 * 0.5 / 2**10
    generator = torch.Generator().manual_seed(5)
    again = torch.Generator().manual_seed(5)
    assert torch.equal(dropout(x, 0.5, generator), dropout(x, 0.5, again))
    assert not torch.equal(dropout(x, 0.5, generator), dropout(x, 0.5))


@needs_library
@every_precision
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("keys", [1, 5, 16, 17, 40, LONGEST])
def test_weights_and_their_gradient_are_those_of_the_formula(key, dtype, rate: float, keys: int):
    torch.manual_seed(keys)
    scores, gradient = ((4 * torch.randn(2, 3, 5, keys)).to(dtype) for _ in range(2))
    indices = np.arange(2 * 3 * 5 * -(-keys // 16) * 16).reshape(2, 3, 5, -1)[..., :keys]
    scale = ~dropped(key, indices, rate) / (1 - rate)
    seen = torch.rand(2, 1, 1, keys) > 0.4
    seen[0] = False
    for mask in (None, seen, torch.rand(5, keys) > 0.4):
        ours, exactly = scores.clone().requires_grad_(), scores.double().requires_grad_()
        hidden = torch.zeros((), dtype=torch.bool) if mask is None else ~mask
        formula = (exactly / math.sqrt(24)).masked_fill(hidden, -1e30).softmax(-1) * scale
        draws = Draws.of(rate, None) if rate else None
        found = MaskedSoftmaxDropout.apply(ours, mask, 24, draws)
        close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-6 + torch.finfo(dtype).eps / 8}
        torch.testing.assert_close(found.double(), formula, **close)
        found.backward(gradient)
        formula.backward(gradient.double())
        rounding = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 1e-6 + 2 * torch.finfo(dtype).eps}
        torch.testing.assert_close(ours.grad.double(), exactly.grad, **rounding)


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_exponentials_of_logits_are_those_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = torch.cat([torch.randn(5, vocab), 1e4 + torch.randn(2, vocab), -1e4 + torch.randn(2, vocab)]).to(dtype)
    targets = torch.randint(vocab, (9,))
    shift = torch.where(torch.arange(9) < 5, 0.0, logits.amax(1).float())[:, None]
    chosen = logits.gather(1, targets[:, None]).float() - shift
    expected = (logits.double() - shift).exp().scatter(1, targets[:, None], 0.0)
    terms = exponentiate(logits, targets, far=60.0)
    torch.testing.assert_close(logits.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-30)
    expected_terms = [shift, chosen, expected.sum(1, keepdim=True).float(), torch.zeros(9, 1)]
    torch.testing.assert_close(terms, torch.cat(expected_terms, 1))


@needs_library
@every_precision
@pytest.mark.parametrize("vocab", [1, 16, 57, 8000])
def test_predictions_that_are_drawn_together_are_those_of_torch(dtype, vocab: int):
    torch.manual_seed(vocab)
    logits = (3 * torch.randn(8, vocab) + 300 * torch.arange(8)[:, None]).to(dtype)
    targets = torch.randint(vocab, (4,)).repeat_interleave(2)
    log_probs = logits.double().log_softmax(1)
    probs, (p, q) = log_probs.exp(), log_probs.unflatten(0, (-1, 2)).unbind(1)
    divergences = torch.stack([(p.exp() * (p - q)).sum(1), (q.exp() * (q - p)).sum(1)], 1).flatten()[:, None]
    apart, others = torch.stack([p - q, q - p], 1).flatten(0, 1), torch.stack([q, p], 1).flatten(0, 1).exp()
    expected = probs + 3.0 / 2 * (probs * (apart - divergences + 1) - others)
    chosen = log_probs.gather(1, targets[:, None])
    expected.scatter_add_(1, targets[:, None], -chosen.exp())
    shift = logits.double().gather(1, targets[:, None]) - chosen
    terms = exponentiate(logits, targets, far=60.0, alpha=3.0)
    torch.testing.assert_close(logits.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-5)
    torch.testing.assert_close(
        terms.double(), torch.cat([shift, chosen, 1 - chosen.exp(), 1.5 * divergences], 1), rtol=1e-5, atol=1e-4
    )


@needs_library
@pytest.mark.parametrize("alpha", [0.0, 2.0])
def test_training_writes_nothing_beside_its_rows(alpha: float):
    guarded = torch.full((10, 35), 7.0)
    exponentiate(guarded[1:9], torch.arange(8), far=60.0, alpha=alpha)
    assert (guarded[[0, 9]] == 7).all()


def test_gradients_never_come_from_the_kernel():
    query, key, value = (torch.randn(2, 3, 4, 16, requires_grad=True) for _ in range(3))
    assert not can_attend(query, key, value)
    attend(query, key, value, dropout=NO_DROPOUT).sum().backward()
    assert all(x.grad is not None for x in (query, key, value))
    for only in range(3):
        alone = [x.detach().requires_grad_(index == only) for index, x in enumerate((query, key, value))]
        assert not can_attend(*alone)
    with torch.no_grad():
        assert can_attend(query, key, value) == library.compiled()


@pytest.mark.parametrize(
    ("width", "keys", "dtype"), [(24, 5, torch.float32), (16, 513, torch.float32), (16, 5, torch.float64)]
)
def test_what_the_kernel_does_not_know_the_formula_does(width: int, keys: int, dtype: torch.dtype):
    torch.manual_seed(3)
    query, key, value = (heads(2, n, width=width, dtype=dtype, layout="heads last") for n in (4, keys, keys))
    assert not can_attend(query, key, value)
    found = attend(query, key, value, dropout=NO_DROPOUT)
    torch.testing.assert_close(found.double(), exact(query, key, value, None), rtol=1e-5, atol=1e-5)


def test_without_the_library_results_are_the_same(monkeypatch):
    torch.manual_seed(4)
    query, key, value = (heads(2, n, width=32, dtype=torch.float32, layout="heads last") for n in (4, 9, 9))
    logits, found = torch.randn(5, 33), [torch.empty(5, 33), torch.empty(5, 33)]
    with_it = attend(query, key, value, dropout=NO_DROPOUT)
    log_softmax(logits, found[0])
    monkeypatch.setattr(library, "functions", None)
    assert not library.compiled()
    torch.testing.assert_close(attend(query, key, value, dropout=NO_DROPOUT), with_it)
    log_softmax(logits, found[1])
    torch.testing.assert_close(*found)


def test_a_library_of_other_sources_is_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "missing.so")
    assert library.load() is None
    (tmp_path / "damaged.so").write_bytes(b"no library")
    monkeypatch.setattr(library, "LIBRARY", tmp_path / "damaged.so")
    assert library.load() is None
    if library.compiled():
        monkeypatch.undo()
        monkeypatch.setattr(library, "INTERFACE", library.INTERFACE + 1)
        assert library.load() is None


@needs_library
def test_no_memory_is_an_error_that_the_caller_knows(monkeypatch):
    class Full:
        attention = staticmethod(lambda *_: 1)

    monkeypatch.setattr(library, "functions", Full)
    with pytest.raises(MemoryError, match="keys and values"):
        single_pass_attention(*(torch.randn(1, 1, 2, 16) for _ in range(3)))


@pytest.mark.parametrize("kind", library.KINDS)
def test_the_kernels_of_every_kind_of_processor_equal_the_formula_but_for_rounding(kind: str, monkeypatch):
    """Only their bits differ: some processors add a product without rounding it first. The same bits are promised, and
    tested, on one kind of processor only."""
    if (functions := library.kernels(kind)) is None:
        pytest.skip("this processor does not run them, or there is no C compiler")
    monkeypatch.setattr(library, "functions", functions)
    torch.manual_seed(5)
    query, key, value = (heads(2, n, width=32, dtype=torch.float32, layout="heads last") for n in (4, 9, 9))
    torch.testing.assert_close(
        attend(query, key, value, dropout=NO_DROPOUT).double(), exact(query, key, value, None), rtol=1e-5, atol=1e-5
    )
    logits, found = torch.randn(5, 33), torch.empty(5, 33)
    log_softmax(logits, found)
    torch.testing.assert_close(found, logits.log_softmax(1))


@needs_library
@pytest.mark.skipif(platform.machine() != "x86_64", reason="it is about instructions of x86-64")
def test_the_kernels_for_avx2_multiply_and_add_at_once():
    if not shutil.which("objdump"):
        pytest.skip("needs objdump, of the package binutils")
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(library.LIBRARY)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code = dict(re.findall(r"^[0-9a-f]+ <(\w+)>:\n(.*?)(?:\n\n|\Z)", text, re.MULTILINE | re.DOTALL))
    assert "vfmadd" in code["attention_avx2"]
    assert "vfmadd" in code["attention_512"]
    assert "ymm" not in code["attention_any"]


class TestBuild:
    @pytest.mark.slow
    @pytest.mark.parametrize("compiler", ["gcc", "clang"])
    def test_compiles_without_a_warning(self, compiler: str, tmp_path, monkeypatch):
        if not shutil.which(compiler):
            pytest.skip(f"{compiler} is not installed")
        copy_sources(tmp_path)
        monkeypatch.setenv("CC", compiler)
        monkeypatch.setenv("CFLAGS", "-O1 -Wall -Wextra -Werror")
        monkeypatch.setenv("DRAGOMAN_REQUIRE_KERNELS", "1")
        monkeypatch.setattr(library, "LIBRARY", tmp_path / build_kernels.LIBRARY)
        assert build_kernels.compiled(tmp_path)
        monkeypatch.setattr(library, "loaded", library.load())
        assert library.loaded is not None
        for kind in library.KINDS:
            test_the_kernels_of_every_kind_of_processor_equal_the_formula_but_for_rounding(kind, monkeypatch)

    def test_heeds_the_compiler_and_the_flags_of_the_environment(self, tmp_path, monkeypatch):
        copy_sources(tmp_path)
        script = tmp_path / "cc"
        script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/flags\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\n')
        script.chmod(0o755)
        for name, value in (("CC", f"{script} -first"), ("CFLAGS", "-O2 '-DA=b c'"), ("LDFLAGS", "-Wl,-z,now")):
            monkeypatch.setenv(name, value)
        assert build_kernels.compiled(tmp_path)
        (line,) = (tmp_path / "flags").read_text().split("\n")[:-1]
        assert line.startswith("-first ")
        places = [line.index(each) for each in ("-O3", "-O2 -DA=b c", "-fno-fast-math", "kernels_any.c", "-Wl,-z,now")]
        assert places == sorted(places)

    @pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
    def test_fails_without_a_compiler_where_the_kernels_are_required(self, compiler: str, tmp_path, monkeypatch):
        copy_sources(tmp_path)
        monkeypatch.setenv("CC", compiler)
        monkeypatch.setenv("DRAGOMAN_REQUIRE_KERNELS", "1")
        with pytest.raises(SystemExit, match=r"could not be compiled: .*no-such-compiler|`false .* failed"):
            build_kernels.compiled(tmp_path)
        assert not (tmp_path / build_kernels.LIBRARY).exists()

    @pytest.mark.slow
    def test_a_compiler_without_avx_vnni_compiles_all_else(self, tmp_path, monkeypatch):
        pytest.importorskip("hatchling")
        if not library.compiled():
            pytest.skip("there is no C compiler")
        # To optimize, as for the library that all other tests load, takes half a minute.
        monkeypatch.setattr(build_kernels, "FLAGS", [flag for flag in build_kernels.FLAGS if flag != "-O3"])
        copy_sources(tmp_path)
        script = tmp_path / "old-cc"
        script.write_text('#!/bin/sh\ncase "$*" in *NO_AVX_VNNI*) exec cc "$@";; esac\nexit 1\n')
        script.chmod(0o755)
        monkeypatch.setenv("CC", str(script))
        assert build_kernels.compiled(tmp_path)
        built = ctypes.CDLL(str(tmp_path / build_kernels.LIBRARY))
        assert built.interface() == library.INTERFACE
        assert built.multiplies_int8_512() in (0, 1)
        assert not built.multiplies_int8_256()

    @pytest.mark.parametrize("compiler", ["no-such-compiler", "false"])
    def test_goes_on_without_a_compiler(self, compiler: str, tmp_path, monkeypatch, capsys):
        copy_sources(tmp_path)
        (tmp_path / build_kernels.LIBRARY).write_bytes(b"of an earlier build")
        monkeypatch.setenv("CC", compiler)
        assert not build_kernels.compiled(tmp_path)
        assert not (tmp_path / build_kernels.LIBRARY).exists()
        assert "without compiled kernels" in capsys.readouterr().err


def copy_sources(root) -> None:
    (root / build_kernels.FOLDER).mkdir(parents=True)
    for path in (*build_kernels.SOURCES, *build_kernels.HEADERS):
        (root / path).write_bytes(library.LIBRARY.with_name(path.name).read_bytes())


def test_the_exponential_function_is_exact_over_its_whole_range():
    if not library.compiled():
        pytest.skip("there is no C compiler")
    # Of two logits, 0 and x, log softmax gives -log(1 + exp x) for the first.
    x = torch.linspace(-100, 0, 20_001)
    found = torch.empty(len(x), 2)
    log_softmax(torch.stack([torch.zeros_like(x), x], dim=1), found)
    wanted = -torch.log1p(x.double().exp())
    assert (found[:, 0].double() - wanted).abs().max() < 2e-7
    assert math.isclose(found[-1, 0], -math.log(2), rel_tol=1e-6)


@needs_library
@pytest.mark.usefixtures("annotations_unchecked")
@torch.no_grad()
def test_a_mask_of_integers_is_that_of_booleans():
    torch.manual_seed(6)
    query, key, value = (heads(2, n, width=16, dtype=torch.float32, layout="heads last") for n in (4, 9, 9))
    mask = torch.rand(2, 1, 4, 9) < 0.6
    expected = single_pass_attention(query, key, value, mask)
    torch.testing.assert_close(single_pass_attention(query, key, value, mask.int()), expected)
    scores = torch.randn(2, 3, 4, 9)
    weights = [MaskedSoftmaxDropout.apply(scores, each, 16, None) for each in (mask.int(), mask)]
    torch.testing.assert_close(*weights)


@needs_library
@every_precision
@pytest.mark.parametrize("layout", ["heads first", "heads last", "width scattered"])
def test_rotation_equals_the_formula_forward_and_backward(dtype, layout: str, monkeypatch):
    given = heads(2, 5, width=48, dtype=dtype, layout=layout).requires_grad_()
    away = torch.randn(2, 3, 5, 48, dtype=dtype)

    def turned() -> list[Tensor]:
        out = RotaryPositions()(given, offset=7)
        return [out.double(), torch.autograd.grad(out, given, away)[0].double()]

    found = turned()
    monkeypatch.setattr(rotate, "ways", ())
    for ours, formula in zip(found, turned(), strict=True):
        torch.testing.assert_close(ours, formula, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert found[0].is_contiguous()
