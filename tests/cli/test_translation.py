"""`translate` and `score` as a user meets them, with a random model."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from dragoman.config.decoding import DecodingConfig
from dragoman.data.bitext import Bitext
from dragoman.decoding.translator import Translator
from dragoman.model import Transformer, TransformerConfig
from dragoman.storage.memory import Memory
from dragoman.storage.model_directory import ModelDirectory
from dragoman.text.tokenizers.tokenizer import EOS_ID, Tokenizer
from tests.decoding.legible import legible
from tests.small import write_pairs

PAIRS = list(Bitext.open("builtin:grammar:31"))
LINES = [source for source, _ in PAIRS[:3]]


@cache
def learned_tokenizer() -> Tokenizer:
    return Tokenizer.train([text for pair in PAIRS for text in pair], vocab_size=307)


def save_model(path: Path, *, seed: int = 5, **own: object) -> Path:
    """A random model with translations of several lengths."""
    tokenizer = learned_tokenizer()
    size = tokenizer.vocab_size
    torch.manual_seed(seed)
    options = {"d_model": 24, "num_heads": 3, "d_ff": 31, "source_vocab_size": size, "target_vocab_size": size}
    options |= {"num_encoder_layers": 1, "num_decoder_layers": 1, "projection_bias": True, **own}
    model = legible(Transformer(TransformerConfig.preset("tiny", **options)), tokenizer)
    with torch.no_grad():
        model.projection.bias[EOS_ID] = 2.0
    ModelDirectory(model, tokenizer, tokenizer).save(path)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return save_model(tmp_path_factory.mktemp("model") / "random")


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Path:
    """Another model with the same vocabulary."""
    return save_model(tmp_path_factory.mktemp("model") / "other", seed=11)


@pytest.mark.slow
def test_a_model_translates_and_scores_with_the_search_that_it_was_scored_with(model, dragoman, tmp_path):
    scored, data = tmp_path / "scored", tmp_path / "pairs.tsv"
    write_pairs(data, PAIRS[:5])
    search = DecodingConfig(beam_size=1, length_penalty=0.25)
    replace(ModelDirectory.load(model), decoding=search).save(scored)
    same, usual = ["--beam-size", 1, "--length-penalty", 0.25], ["--beam-size", 5, "--length-penalty", 1]
    translations = {}
    for command, path in (("translate", LINES[0]), ("evaluate", data), ("score", data)):
        cut = 2 if command == "score" else 0
        answers = [
            [json.loads(line) for line in dragoman(command, *words, "--json")[1].split("\n")[:-1]]
            for words in (
                (scored, path),
                (model, path, *same[cut:]),
                (scored, path, *usual[cut:]),
                (model, path),
            )
        ]
        for answer in answers:
            for figures in answer:
                figures.pop("seconds", None)
                figures.pop("sentences_per_second", None)
        assert answers[0] == answers[1]
        assert answers[2] == answers[3]
        translations[command] = answers
    assert translations["translate"][0] != translations["translate"][2]
    assert translations["score"][0] != translations["score"][2]


def test_a_text_that_names_a_file_is_warned_of_with_a_command_to_copy(model, dragoman, tmp_path):
    path = tmp_path / "my lines.txt"
    path.write_text("Hello.\n", encoding="utf-8")
    _, _, err = dragoman("translate", model, path)
    assert err.startswith(f"Warning: {path} is translated as a text; ")
    command = shlex.split(err.strip().partition("file: ")[2])
    assert command[-4:] == ["translate", str(model), "--input", str(path)]
    code, out, err = dragoman("translate", model, path, "--json", "--quiet")
    assert (code, out.count("\n"), json.loads(err)["warning"].startswith(str(path))) == (0, 1, True)


def test_n_best_lines_tell_their_input_line_and_score(model, dragoman):
    code, out, _ = dragoman("translate", model, "--n-best", 3, *LINES)
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert code == 0
    assert [row[0] for row in rows] == [str(n) for n in range(1, 4) for _ in range(3)]
    scores = [float(row[1]) for row in rows]
    assert all(scores[i] >= scores[i + 1] for i in range(9) if i % 3 < 2)
    _, plain, _ = dragoman("translate", model, *LINES)
    assert [row[2] for row in rows[::3]] == plain.split("\n")[:-1]
    _, out, _ = dragoman("translate", model, "--n-best", 3, "--json", *LINES)
    lines = [json.loads(line) for line in out.split("\n")[:-1]]
    assert [[t["text"] for t in (line, *line["alternatives"])] for line in lines] == [
        [row[2] for row in rows[start : start + 3]] for start in range(0, 9, 3)
    ]


def test_alignments_are_a_column_of_links(model, dragoman):
    code, out, _ = dragoman("translate", model, "--alignments", "--n-best", 2, *LINES)
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert code == 0
    linked = 0
    for number, _, text, alignment in rows:
        for link in alignment.split():
            source, target = map(int, link.split("-"))
            assert source < len(LINES[int(number) - 1].split())
            assert target < len([word for word in text.split(" ") if word])
            linked += 1
    assert linked
    _, out, _ = dragoman("translate", model, "--alignments", "--json", LINES[0])
    assert [f"{s}-{t}" for s, t in json.loads(out)["alignment"]] == rows[0][3].split()


def test_a_glossary_a_prefix_and_forbidden_terms_are_kept_to(model, dragoman, tmp_path):
    _, out, _ = dragoman("translate", model, *LINES)
    word = max(out.split(), key=len)
    (tmp_path / "glossary.tsv").write_text("the\tvoiture bleue\n", encoding="utf-8")
    (tmp_path / "forbidden.txt").write_text(word + "\n", encoding="utf-8")
    options = ["--glossary", tmp_path / "glossary.tsv", "--forbid", tmp_path / "forbidden.txt", "--prefix", "Oui, le"]
    code, out, err = dragoman("translate", model, *options, *LINES)
    assert code == 0, err
    for source, target in zip(LINES, out.split("\n")[:-1], strict=True):
        assert target.startswith("Oui, le")
        assert ("voiture bleue" in target) >= ("the" in source.lower().split())
        assert word not in target.split()


def test_a_line_of_several_sentences_is_a_line_of_their_translations(model, dragoman, tmp_path):
    (tmp_path / "text.txt").write_text(f"{' '.join(LINES)}\n\n{LINES[0]}\n", encoding="utf-8")
    _, alone, _ = dragoman("translate", model, *LINES)
    alone = alone.split("\n")[:-1]
    code, out, err = dragoman("translate", model, "--input", tmp_path / "text.txt")
    assert (code, err) == (0, "")
    assert out == f"{' '.join(filter(None, alone))}\n\n{alone[0]}\n"
    _, whole, _ = dragoman("translate", model, "--input", tmp_path / "text.txt", "--no-split")
    assert whole.count("\n") == 3
    assert whole != out
    # A model's scores are those of lines as they are.
    (tmp_path / "ref.txt").write_text("Oui.\nNon.\n", encoding="utf-8")
    (tmp_path / "src.txt").write_text(f"{' '.join(LINES)}\n{LINES[0]}\n", encoding="utf-8")
    dragoman("evaluate", model, tmp_path / "src.txt", tmp_path / "ref.txt", "-o", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")[0] == whole.split("\n")[0]


@pytest.mark.slow
def test_a_line_that_is_too_long_is_cut_and_named(model, dragoman, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("Yes.\n" + "man " * 10_000 + "\n", encoding="utf-8")
    brief = ModelDirectory.load(model)
    with torch.no_grad():
        brief.model.projection.bias[EOS_ID] = 100.0  # each translation ends at once
    brief.save(tmp_path / "brief")
    code, out, err = dragoman("translate", tmp_path / "brief", "--input", path, "--beam-size", 1)
    assert (code, out.count("\n")) == (0, 2)
    assert err.startswith(f"Warning: {path}, line 2: a sentence of more than 256 tokens")
    assert "raise --max-source-length" in err


@pytest.mark.first_is_quick
@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("1\n00:00:01,000 --> 00:00:02,500\nHello.\n", "subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:04.000\nHello.\n", "subtitles"),
        ("<!DOCTYPE html>\n<html>\n<p>Hello.</p>\n", "a web page"),
        ('<?xml version="1.0"?>\n<xliff version="1.2">\n', "XML, such as XLIFF"),
        ("Use <b>this</b> --> now.\n12:30 is late.\n1\n", None),
    ],
)
def test_input_that_is_no_text_is_noticed_once_with_the_remedy(lines, kind, model, dragoman, tmp_path):
    path = tmp_path / "input"
    path.write_text(lines, encoding="utf-8")
    for options, name in ((["--input", path], path), ([], "stdin")):
        code, out, err = dragoman("translate", model, *options, "--beam-size", 1, stdin=lines)
        assert (code, out.count("\n")) == (0, lines.count("\n"))
        assert err.count("Warning: ") == bool(kind)
        assert kind is None or (err.startswith(f"Warning: {name} looks like {kind}") and "--document" in err)


@pytest.mark.slow
def test_samples_follow_from_the_seed(model, dragoman):
    def sampled(*options: object) -> str:
        code, out, _ = dragoman("translate", model, "--sample", *options, *LINES)
        assert code == 0
        return out

    assert sampled() == sampled("--seed", 1) != sampled("--seed", 2)
    assert sampled("--top-k", 1, "--seed", 5) == sampled("--top-k", 1)


def test_scores_of_given_pairs_come_in_their_order(model, dragoman, tmp_path):
    pairs = [*PAIRS[:7], ("Yes.", "")]
    for name, side in (("s.txt", 0), ("t.txt", 1)):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    expected = Translator.load(model, device="cpu", precision="float32").score(pairs)
    code, out, _ = dragoman("score", model, tmp_path / "s.txt", tmp_path / "t.txt", "--json")
    scored = [json.loads(line) for line in out.split("\n")[:-1]]
    assert code == 0
    assert [score["tokens"] for score in scored] == [score.tokens for score in expected]
    assert [score["log_prob"] for score in scored] == pytest.approx([score.log_prob for score in expected], abs=1e-4)
    assert scored[7]["log_prob"] == pytest.approx(scored[7]["token_log_probs"][0])
    code, out, _ = dragoman("score", model, tmp_path / "s.txt", tmp_path / "t.txt", "--length-penalty", 0)
    rows = [line.split("\t") for line in out.split("\n")[:-1]]
    assert [float(row[1]) for row in rows] == pytest.approx([score.log_prob for score in expected], abs=1e-3)
    assert [row[0] for row in rows] == [row[1] for row in rows]
    assert [int(row[2]) for row in rows] == [len(score.tokens) + 1 for score in expected]


def test_an_ensemble_is_evaluated_as_it_translates_and_scores(model, other, dragoman, tmp_path):
    pairs, out_file = PAIRS[:7], tmp_path / "out.txt"
    data = tmp_path / "pairs.tsv"
    data.write_text("".join("\t".join(pair) + "\n" for pair in pairs), encoding="utf-8")
    options = ["--ensemble", other, "--beam-size", 2, "--precision", "float32"]
    code, out, err = dragoman("evaluate", model, data, *options, "--json", "-o", out_file)
    figures = json.loads(out)
    assert code == 0, err
    _, out, _ = dragoman("translate", model, *options, *(source for source, _ in pairs))
    assert out_file.read_text(encoding="utf-8") == out
    translators = [Translator.load(path, device="cpu", precision="float32") for path in (model, other)]
    single = [translator.score(pairs) for translator in translators]
    tokens = [torch.tensor([p for score in scores for p in score.token_log_probs]).exp() for scores in single]
    perplexity = ((tokens[0] + tokens[1]) / 2).log().mean().neg().exp()
    assert figures["perplexity"] == pytest.approx(float(perplexity), rel=1e-4)
    assert all(abs(figures["perplexity"] - float(p.log().mean().neg().exp())) > 0.1 for p in tokens)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--n-best", "7"], 2, ["--n-best is 7", "raise --beam-size"]),
        (["--temperature", "0.5"], 2, ["--temperature is for sampling; add --sample"]),
        (["--sample", "--top-p", "1.5"], 2, ["--top-p is 1.5; it must be a number above 0 to 1"]),
        (["--diversity", "0.5"], 2, ["--diversity", "--n-best"]),
        (["--diversity", "0.5", "--n-best", "2"], 2, ["--beam-size", "multiple"]),
        (["--max-copies", "1"], 2, ["--max-copies", "very very"]),
        (["--glossary", "nowhere.tsv"], 3, ["nowhere.tsv"]),
        (["--glossary", "GLOSSARY", "--forbid", "FORBIDDEN"], 2, ["un chat noir", "'chat' is forbidden"]),
        (["--ensemble", "nowhere"], 3, ["nowhere"]),
    ],
)
def test_options_that_make_no_sense_are_refused_in_a_sentence(options, code, words, model, dragoman, tmp_path):
    (tmp_path / "GLOSSARY").write_text("cat\tun chat noir\n", encoding="utf-8")
    (tmp_path / "FORBIDDEN").write_text("chat\n", encoding="utf-8")
    files = [tmp_path / option if option.isupper() else option for option in options]
    exit_code, out, err = dragoman("translate", model, *files, "Hello.")
    assert (exit_code, out) == (code, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words), err


@pytest.mark.slow
def test_each_line_is_answered_before_the_next_is_written(model):
    command = [sys.executable, "-m", "dragoman", "translate", str(model), "--workers", "1", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        answers = []
        for line in LINES:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answers.append(process.stdout.readline())  # waits forever if it is only given at the end
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert all(answer.endswith("\n") for answer in answers)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes with names")
def test_an_input_that_can_be_read_only_once_is_read_once(model, dragoman, tmp_path):
    _, expected, _ = dragoman("translate", model, *LINES)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = "".join(f"{line}\n" for line in LINES)
    threading.Thread(target=pipe.write_text, args=(text,), daemon=True).start()
    code, out, err = dragoman("translate", model, "--input", pipe)
    assert (code, out) == (0, expected), err


def test_a_translation_that_fills_all_positions_is_aligned(tmp_path, dragoman):
    directory = ModelDirectory.load(save_model(tmp_path / "any"))
    config = replace(directory.model.config, positions="learned", max_positions=90)
    torch.manual_seed(3)
    endless = Transformer(config)
    with torch.no_grad():
        endless.projection.bias[EOS_ID] = -100.0
    replace(directory, model=endless).save(tmp_path / "endless")
    options = ["--alignments", "--json", "--max-copies", 0, "--beam-size", 2]
    code, out, err = dragoman("translate", tmp_path / "endless", *options, *LINES)
    assert code == 0, err
    assert max(len(json.loads(line)["tokens"]) for line in out.splitlines()) == 90


def test_a_glossary_whose_spelling_is_forbidden_is_refused(model, dragoman, tmp_path):
    tokenizer = ModelDirectory.load(model).target_tokenizer
    words = [word for _, target in PAIRS for word in target.strip(".").split() if word.isalpha()]
    # A word that is spelled with another word and an ending.
    spelled = {word: [piece.strip("▁") for piece in tokenizer.pieces(tokenizer.encode(word))] for word in words}
    term, begin = next((w, s[0]) for w, s in spelled.items() if len(s) > 1 and len(s[0]) > 1 and w.startswith(s[0]))
    (tmp_path / "glossary.tsv").write_text(f"the\t{term}\n", encoding="utf-8")
    (tmp_path / "forbidden.txt").write_text(f"{begin}\n", encoding="utf-8")
    options = ["--glossary", tmp_path / "glossary.tsv", "--forbid", tmp_path / "forbidden.txt"]
    code, out, err = dragoman("translate", model, *options, *LINES)
    assert (code, out) == (2, "")
    assert f"'{term}'" in err
    assert f"'{begin}'" in err


def test_a_document_keeps_its_form(model, dragoman, tmp_path):
    page, output = tmp_path / "page.html", tmp_path / "out.html"
    page.write_text('<h1 class="x">The <b>red</b> house is old.</h1>\n<p>{name} sees a cat.</p>\n', encoding="utf-8")
    code, out, err = dragoman("translate", model, "--document", page, "--output", output, "--beam-size", 1)
    assert (code, out, err.count("is " + str(page))) == (0, "", 1)
    translation = output.read_text(encoding="utf-8")
    assert re.fullmatch(r'<h1 class="x">.*<b>.*</b>.*</h1>\n<p>.*\{name\}.*</p>\n', translation)
    assert "house" not in translation


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--document", "page.pdf", "--output", "out"], "no document that can be translated; these are: .txt"),
        (["--document", "page.html"], "Say where the translation of page.html goes, such as --output translated.html"),
        (
            ["--document", "page.html", "--output", "out.docx"],
            "The translation of page.html has the format of page.html, so out.docx would be called what it is not; "
            "write --output out.html.",
        ),
        (["--document", "page.html", "--output", "page.html"], "is read and cannot be written"),
        (["--document", "page.html", "--output", "out", "Hello."], "--document is translated alone"),
        (["--document", "*.html", "--output", "out/", "Hello."], "A folder as --output is for the files of --document"),
        (["--document", "page.*", "--output", "out/"], "no document that can be translated; these are: .txt"),
        (["--document", "*.html", "--output", "page.pdf"], "Many files are translated into a folder"),
    ],
)
def test_a_document_needs_a_format_and_an_output(model, dragoman, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    for name in ("page.pdf", "page.html"):
        (tmp_path / name).write_text("<p>Hello.</p>", encoding="utf-8")
    code, _, err = dragoman("translate", model, *arguments)
    assert (code, words in err) == (2, True), err


def test_several_documents_are_translated_into_a_folder(model, dragoman, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in ("a.html", "b.html"):
        Path("in", name).write_text("<p>The <b>red</b> house.</p>", encoding="utf-8")
    Path("in", "c.xlf").write_text("<xliff", encoding="utf-8")
    Path("in", "d.md").write_bytes(gzip.compress(b"# The red house")[:-9])
    command = ["translate", model, "--document", "in/*", "--output", "out/", "--beam-size", 1]
    code, out, err = dragoman(*command, "--json")
    assert code == 3
    assert [json.loads(line)["output"] for line in out.splitlines()] == ["out/a.html", "out/b.html"]
    assert "2 of 4 documents were not translated. The first: in/c.xlf" in err
    assert "in/d.md cannot be read: " in err
    Path("in/d.md").unlink()
    assert Path("out/a.html").read_bytes() == Path("out/b.html").read_bytes() != Path("in/a.html").read_bytes()
    Path("in/c.xlf").unlink()
    Path("out/b.html").unlink()
    code, _, err = dragoman(*command, "--resume")
    assert (code, sorted(os.listdir("out"))) == (0, ["a.html", "b.html"])
    assert "1 document translated, 1 done before" in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_results_are_on_stdout_although_the_progress_is_on_a_terminal(model, tmp_path):
    (tmp_path / "page.html").write_text("<p>Hello.</p>", encoding="utf-8")
    terminal, its_end = os.openpty()
    command = ["translate", model, "--document", tmp_path / "page.html", "--output", tmp_path / "out.html", "--json"]
    with os.fdopen(terminal, "rb"):
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", *map(str, command)], stdout=subprocess.PIPE, stderr=its_end, check=True
        )
        os.close(its_end)
    assert json.loads(done.stdout)["output"] == str(tmp_path / "out.html")


def test_a_document_that_is_taken_for_lines_gets_the_command_for_documents(model, dragoman, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.docx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    code, _, err = dragoman("translate", model, "--input", "a.docx")
    assert code == 2
    assert "a.docx has no lines of text; translate it as a document:  " in err
    assert "--document a.docx --output translated.docx" in err
    Path("page.html").write_text("<p>Hello.</p>", encoding="utf-8")
    code, _, err = dragoman("translate", model, "page.html", "--beam-size", 1)
    assert code == 0
    assert "to translate the document: " in err
    assert "--document page.html --output translated.html" in err


def test_a_memory_gives_its_translations_and_says_so(model, dragoman, tmp_path):
    memory = Memory(tmp_path / "memory.db")
    memory.add_all(("en", "fr"), [(source, target.upper()) for source, target in PAIRS[:3]])
    memory.close()
    (source, target), other = PAIRS[0], PAIRS[5][0]
    given = ["--memory", tmp_path / "memory.db"]
    code, out, err = dragoman("translate", model, source, other, *given)
    assert code == 0
    assert out.splitlines()[0] == target.upper()
    assert "was trained without --fuzzy: it reuses what the memory has of the same texts" in err
    code, out, _ = dragoman("translate", model, source, *given, "--json")
    assert json.loads(out)["memory"] == [{"source": source, "target": target.upper(), "similarity": 1.0}]
    (tmp_path / "page.md").write_text(f"{source}\n\n{other}\n", encoding="utf-8")
    output = tmp_path / "page.fr.md"
    code, _, err = dragoman("translate", model, "--document", tmp_path / "page.md", "--output", output, *given)
    assert code == 0
    assert output.read_text(encoding="utf-8").startswith(target.upper())
    assert "in the other language, 1 text from the translation memory" in err
    write_pairs(tmp_path / "pairs.tsv", PAIRS[:5])
    code, out, _ = dragoman("evaluate", model, tmp_path / "pairs.tsv", *given, "--json")
    assert code == 0
    bands = json.loads(out)["memory"]
    assert bands["same"]["sentences"] == 3
    assert bands["none"]["sentences"] == 2


def test_what_is_no_adapter_is_refused_before_anything_is_loaded(model, dragoman, tmp_path):
    for adapter in ("missing.safetensors", model, model / "model.safetensors"):
        for command in (["translate", model, "A text."], ["evaluate", model, "builtin:grammar:20"], ["serve", model]):
            code, _, err = dragoman(*command, "--adapter", adapter)
            assert code == 3
            assert f"{adapter}" in err
            assert "is no adapter" in err
    code, _, err = dragoman("serve", model, model, "--adapter", model)
    assert code == 2
    assert "--adapter belongs to a single model" in err


@pytest.mark.parametrize(
    ("content", "arguments", "code", "words"),
    [
        ("a\tb\n", ["--memory", "pairs.tsv"], 3, "is no translation memory; make one of your pairs"),
        (None, ["--memory", "missing.db"], 2, "missing.db"),
    ],
)
def test_what_is_no_memory_is_refused_before_anything_is_loaded(
    model, dragoman, tmp_path, monkeypatch, content, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    if content:
        (tmp_path / "pairs.tsv").write_text(content, encoding="utf-8")
    for command in (["translate", model, "A text."], ["evaluate", model, "builtin:grammar:20"]):
        found, _, err = dragoman(*command, *arguments)
        assert found in (2, 3)
        assert words in err
