"""Files, settings and documents at random: read, or refused in one sentence; what a translation must keep, it keeps.

Each claim is tried some hundred times, and as often as a stranger might with `make slow`.
"""

import copy
import dataclasses
import json
import os
import random
import re
import resource
import sys
import time
import traceback
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

from dragoman.config.data import DataConfig
from dragoman.config.run import RunConfig, load_config
from dragoman.config.section import section_in
from dragoman.config.settings import parse_settings
from dragoman.data.bitext import Bitext
from dragoman.data.corpora import open_corpora
from dragoman.data.readers.registry import FORMATS
from dragoman.documents.registry import translate_document
from dragoman.errors import DataError, UnverifiedModel, UsageError
from dragoman.interop.imports.weights import read_weights
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage import directory as directory_module
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import Tokenizer
from tests.data.readers.files import PACK
from tests.documents import samples
from tests.documents.engines import SAME, translated
from tests.small import small_directory


def often(quick: int, slow: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("number", [quick, pytest.param(slow, marks=pytest.mark.slow)])


def refusal(read: Callable[[], object]) -> str:
    """The one line that refuses what `read` reads, or nothing."""
    try:
        read()
    except (DataError, UsageError) as error:
        message = str(error)
    else:
        return ""
    assert re.fullmatch(r"[^\0-\x1f\x7f-\x9f\u2028\u2029]{9,2000}", message), message
    return message


# ---- weights with a wrong header -----------------------------------------------------------------

ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    7,
    2**31,
    2**63,
    2**64,
    1e300,
    float("nan"),
    "",
    "F3",
    "\0",
    "x" * 999,
    [],
    [[]],
    {},
]
SHAPES = [[2**60], [2**32, 2**32], [-1], [], [0], [0, 2**62], [1.5], ["3"], [[3]], [1] * 999, [16] * 17]
DTYPES = ["F64", "F16", "BF16", "I8", "U8", "BOOL", "I64", "F8_E4M3", "F8_E8M0", "F4", "C64", "f32", "F32 "]


def damage_entry(dice: random.Random, entries: dict[str, Any], name: str) -> None:
    """Change what a header says of a tensor, or which tensors it has."""
    entry, length = entries[name], 10_000
    match dice.randrange(7):
        case 0:
            entry["shape"] = dice.choice([*SHAPES, *ODD])
        case 1:
            entry["dtype"] = dice.choice([*DTYPES, *ODD])
        case 2:
            edge = dice.choice([0, 4, 64, -4, 2**40, 2**63, 2**64, dice.randrange(length), *ODD])
            entry["data_offsets"][dice.randrange(2)] = edge
        case 3:
            entry["data_offsets"] = dice.choice([entry["data_offsets"][::-1], [0, length], [0], *ODD])
        case 4:
            entries[dice.choice(["nan", "", "\ud800", "a" * 99_999, "__metadata__", "../x"])] = copy.deepcopy(entry)
        case 5:
            entries[name] = dice.choice(ODD)
        case 6:
            del entries[name]


def damaged_header(dice: random.Random, whole: bytes) -> bytes:
    length = int.from_bytes(whole[:8], "little")
    text, weights = whole[8 : 8 + length], whole[8 + length :]
    kind = dice.randrange(8)
    if kind < 4:
        entries = json.loads(text)
        for name in dice.sample([each for each in entries if each != "__metadata__"], dice.randint(1, 3)):
            damage_entry(dice, entries, name)
        text = json.dumps(entries).encode()
    elif kind == 4:
        entries = json.loads(text)
        sums = json.loads(entries["__metadata__"]["checksums"])
        sums[dice.choice([*sums, "x"])] = dice.choice(ODD)
        odd = dice.choice([*ODD, {"checksums": dice.choice(ODD)}])
        entries["__metadata__"] = dice.choice([{"checksums": json.dumps(sums)}, odd])
        text = json.dumps(entries).encode()
    elif kind == 5:
        text = text[:-1] + b"," + dice.choice([text[1:], text[1:-1] + b"," + text[1:]])  # each key twice
    else:
        text = mangled(dice, text)
    size = len(text)
    if kind == 7:
        size = dice.choice([0, 1, size - 1, size + 1, size + 8, 2**31, 2**32, 2**63, 2**64 - 1, dice.randrange(2**64)])
    return size.to_bytes(8, "little") + text + weights


MARKS = [
    b"<", b">", b"&", b"]]>", b"<!--", b"-->", b'"', b"'", b"\\", b"\0", b"\r", b"\n\n", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\xe2\x80\xa8", b"&#x0;", b"&#1114112;", b"&lol;",
    b"<?xml version='1.0' encoding='utf-7'?>", b"<seg>", b"</tu>", b"<g id='1'>", b"</g>", b"<target/>",
    b"msgid ", b"msgstr[9] ", b"#, fuzzy", b"charset=idna\\n", b"-->\n", b"00:00:01,000 ", b"{", b"}", b"[",
    b"]", b"*a", b"&a ", b"|", b"```", b"**", b"](", b"$", b"\t", b"\xef\xbb\xbf", b"\xff\xfe", b"9" * 99,
]  # fmt: skip


def mangled(dice: random.Random, content: bytes) -> bytes:
    """Content with some bytes changed, cut out, put in or repeated."""
    found = bytearray(content)
    for _ in range(dice.randint(1, 5)):
        place = dice.randrange(len(found) + 1)
        end = place + dice.randrange(1, 40)
        match dice.randrange(6):
            case 0:
                found[place : place + 1] = dice.randbytes(1)
            case 1:
                del found[place:end]
            case 2:
                found[place:place] = dice.choice(MARKS) * dice.choice([1, 1, 1, 2, 30])
            case 3:
                found[place:end] = dice.choice(MARKS)
            case 4:
                found[place:place] = found[dice.randrange(len(found) + 1) :][: end - place]
            case 5 if dice.random() < 0.2:
                del found[place:]
    return bytes(found)


def in_a_process_of_its_own(action: Callable[[], object]) -> float:
    """Megabytes that a forked process needs for `action` above its start."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # others do not survive a fork
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            action()
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            os.write(writing, json.dumps((after - before) / 1e3).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    os.close(writing)
    with open(reading) as told:
        answer = told.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(answer)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="measures a forked process")
@often(500, 10_000)
def test_a_wrong_header_of_weights_is_refused_with_little_time_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    monkeypatch.setattr(directory_module, "REPLACING", 0.0)  # no wait for a model that is being replaced
    tokenizer = Tokenizer.train((source for source, _ in Bitext.open("builtin:grammar:50")), vocab_size=300)
    small_directory(tokenizer).save(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()

    def attack() -> None:
        warnings.simplefilter("ignore", UnverifiedModel)
        dice, found = random.Random(8), Counter[str]()
        for count in range(number):
            file.write_bytes(damaged_header(dice, whole))
            started = time.process_time()
            for read in (partial(ModelDirectory.load, tmp_path), partial(read_weights, file)):
                message = refusal(read)
                assert not message or file.name in message
                found["refused" if message else "read"] += 1
            assert time.process_time() - started < 1, count
        assert found["refused"] > found["read"] > 0

    assert in_a_process_of_its_own(attack) < 300


# ---- settings ------------------------------------------------------------------------------------

VALUES = [
    "0", "1", "2", "3", "7", "8", "16", "64", "512", "1e9", "1e308", "1e-300", "-1", "-0.5", "0.1", "0.5",
    "1.0", "nan", "inf", "true", "false", "null", "", "x", "''", "'7'", "2020-01-01", "[]", "[1, 2]",
    "[0.9, 0.98]", "[en, fr]", "[[1]]", "{}", "{a: 1}", "{8: 9}", "*a", "&a 1", "!!python/none", "9" * 400,
    "1" * 5000, "a.b", "\0", "\ud800", "é", "- 1",
]  # fmt: skip


def choices_of(kind: Any) -> list[str]:
    """The words that a type of settings takes."""
    if get_origin(kind) is Literal:
        return [str(each) for each in get_args(kind)]
    return [word for each in get_args(kind) for word in choices_of(each)]


def settings_of(section: Any, prefix: str = "") -> dict[str, list[str]]:
    """Every setting of a run and the words that it takes."""
    found = {}
    for name, field in section.model_fields.items():
        found[prefix + name] = choices_of(field.annotation)
        if inner := section_in(field.annotation):
            found |= settings_of(inner, f"{prefix}{name}.")
    return found


@pytest.mark.slow
@often(150, 20_000)
def test_settings_at_random_describe_a_model_or_are_refused_by_name(number: int):
    known = settings_of(RunConfig) | {f"model.{each.name}": [] for each in dataclasses.fields(TransformerConfig)}
    dice, found = random.Random(10), Counter[str]()
    for _ in range(number):
        keys = dice.choices(list(known), k=dice.randint(1, 3))
        if dice.random() < 0.05:
            keys[0] += dice.choice(["_too", ".below", "."])
        usual = [[*known.get(key, []), "1", "2", "16", "0.1", "true"] for key in keys]
        overrides = [f"{key}={dice.choice(dice.choice([VALUES, each]))}" for key, each in zip(keys, usual, strict=True)]
        message = refusal(lambda: load_config({}, parse_settings(overrides)))  # noqa: B023
        found["refused" if message else "taken"] += 1
        if message:
            assert any(part in message for key in keys for part in key.split(".")[-2:] if part), overrides
        else:
            with torch.device("meta"):
                Transformer(load_config({}, parse_settings(overrides)).transformer(1000, 1000))
    assert min(found["refused"], found["taken"]) > number / 20


# ---- pairs and documents -------------------------------------------------------------------------

PAIRS = {
    "a.tmx": samples.TMX, "a.xlf": samples.XLIFF, "a.sdlxliff": samples.XLIFF2, "a.po": samples.PO,
    "a.jsonl": '{"en": "One dog", "fr": "Un chien"}\n{"en": "Two\\u2028cats \\ud83d", "fr": "Deux chats"}\n' * 3,
    "a.csv": 'en,fr\n"One, two",Un\nThree,"Trois\n""x"""\n' * 3, "a.tsv": "One\tUn\nTwo\tDeux\tx\n" * 3,
}  # fmt: skip
DOCUMENTS = {
    "a.srt": samples.SRT, "a.vtt": samples.VTT, "a.po": samples.PO, "a.xlf": samples.XLIFF, "a.xliff": samples.XLIFF2,
    "a.tmx": samples.TMX, "a.md": samples.MARKDOWN, "a.html": samples.HTML, "a.json": samples.JSON,
    "a.yaml": samples.YAML, "a.txt": samples.TXT,
}  # fmt: skip


@often(40, 6_000)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_damaged_document_is_translated_or_refused(name: str, number: int):
    dice, whole = random.Random(12), DOCUMENTS[name].encode()
    for _ in range(number):
        message = refusal(partial(translate_document, mangled(dice, whole), name, ("en", "fr"), SAME))
        assert not message or name in message


@pytest.mark.first_is_quick
@often(40, 6_000)
@pytest.mark.parametrize("name", PAIRS)
def test_a_damaged_file_of_pairs_is_read_or_refused(tmp_path: Path, name: str, number: int):
    dice, whole, file = random.Random(12), PAIRS[name].encode(), tmp_path / name
    for _ in range(number):
        file.write_bytes(mangled(dice, whole))
        message = refusal(lambda: list(Bitext.open(file)))
        assert not message or name in message


BEGINNINGS = (
    b"",
    b"",
    b"[",
    b"{",
    b"<tmx>",
    b"<xliff>",
    b"msgid ",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b'"',
    b"a\tb\n",
    b"\x1f\x8b",
)


@often(200, 5_000)
def test_a_corpus_of_random_bytes_is_refused_or_has_no_damaged_text(tmp_path: Path, number: int):
    dice, found = random.Random(24), Counter[str]()
    names = [f"a{end}{packed}" for end in (*FORMATS, ".tsv", ".txt", ".tab", "") for packed in ("", *PACK)]
    for count in range(number):
        file = tmp_path / names[count % len(names)]
        content = dice.choice(BEGINNINGS) + dice.randbytes(dice.randrange(2_000))
        content = bytes(each & 127 for each in content) if dice.random() < 0.3 else content
        file.write_bytes(PACK.get(file.suffix, bytes)(content) if dice.random() < 0.8 else content)
        config, pairs = DataConfig(source=str(file), replace_bad_bytes=dice.random() < 0.5), []
        message = refusal(lambda: pairs.extend(open_corpora(config)))  # noqa: B023
        assert not message or file.name in message
        found["refused" if message else "read"] += 1
        text = "".join(side for pair in pairs for side in pair).translate(dict.fromkeys(map(ord, "\t\r\n\v\f")))
        assert not any(unicodedata.category(each) in ("Cc", "Cs") or each == "\ufffd" for each in text)
    assert min(found["refused"], found["read"]) > number / 99, found


# ---- what a translation keeps --------------------------------------------------------------------

WORDS = [
    "The", "red", "house", "dog.", "Who?", "sees,", "it's", "50%", "naïve", "日本", "😀", "👩‍👩‍👧", "🏳️‍🌈!",
    "e\u0301t\u00e9", "{name}", "{0}", "%s", "%(count)d", "{{user}}", "${HOME}", "me@example.org",
    "https://example.org/a_(b)?c=1", "3.14", "(so)", "«x»", "—",
]  # fmt: skip
AROUND = {
    "a.md": ["**{}**", "*{}*", "`{}`", "[{}](https://example.org/x)", "~~{}~~", "<b>{}</b>", "![{}](a.png)"],
    "a.html": [
        "<b>{}</b>", '<a href="x?a=1">{}</a>', '<span class="y">{}</span>', "<code>{}</code>", "<em><i>{}</i></em>",
        "{}<br>so", "<!-- c -->{}", '<img src="a.png"> {}',
    ],
    "a.txt": ["{}"],
}  # fmt: skip
BLOCKS = {
    "a.md": [
        "{}", "# {}", "- {}", "1. {}", "> {}", "| {} | {} |\n| --- | --- |\n| {} | {} |", "```\n{}\n```", "- [ ] {}",
    ],
    "a.html": ["<p>{}</p>", "<h1>{}</h1>", "<ul><li>{}</li><li>{}</li></ul>", "<div>\n  {}\n</div>", "<td>{}</td>"],
    "a.txt": ["{}", "- {}", "    {}", "1. {}", "{}\n\n\n{}"],
}  # fmt: skip


def sentence(dice: random.Random, name: str) -> str:
    words = dice.choices(WORDS, k=dice.randint(1, 8))
    return " ".join(dice.choice(AROUND[name]).format(word) if dice.random() < 0.2 else word for word in words)


@often(50, 4_000)
@pytest.mark.parametrize("name", AROUND)
def test_the_same_words_are_the_same_document(name: str, number: int):
    """With an engine that translates each word as itself, all that a document is made of comes back."""
    dice = random.Random(26)
    for _ in range(number):
        blocks = []
        for block in dice.choices(BLOCKS[name], k=dice.randint(1, 5)):
            blocks.append(block.format(*(sentence(dice, name) for _ in range(block.count("{}")))))
        whole = dice.choice(["\n\n", "\n\n\n", "\r\n\r\n"]).join(blocks) + dice.choice(["", "\n"])
        assert translated(whole, name, SAME) == whole
