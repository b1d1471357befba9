"""The library of kernels: built where it can be, chosen for the processor, and not missed where it is not there."""

import ctypes
import platform
import re
import shutil
import subprocess

import pytest
import torch

from dragoman.model.attention import attend
from dragoman.model.transformer import log_softmax
from dragoman.native import library
from tests.model.fast.kernels import NO_DROPOUT, exact, heads, needs_library
from tools import build_kernels


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


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the bound is for the kinds of x86-64")
@needs_library
def test_the_library_stays_smaller_than_the_megabyte_that_a_file_of_the_wheel_may_have():
    assert library.LIBRARY.stat().st_size < 960_000


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
        positions = [
            line.index(flag) for flag in ("-O3", "-O2 -DA=b c", "-fno-fast-math", "kernels_any.c", "-Wl,-z,now")
        ]
        assert positions == sorted(positions)

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
