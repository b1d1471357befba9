"""Measures what takes too long for the pages of the walk; chapters 0, 5, 8, 9 and 11 show the results in evidence/.

    .venv/bin/python docs/walk/evidence.py [variants] [averaging] [heads] [lengths]
    .venv/bin/python docs/walk/evidence.py multi30k

`variants` trains each choice of chapter 9 with five seeds (twenty minutes on two cores), `averaging` does what chapter
5 does once (a minute), `heads` trains the demo and takes its heads out (five minutes), and `lengths` times attention
beside an RNN (a minute, on Linux). `multi30k` reads what the command of chapter 11 left in runs/multi30k.
"""

import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import yaml
from counting import averages, build, counting, solved, train
from PIL import Image
from torch import nn
from transformer import MultiHeadAttention

from dragoman.data.batching import TokenBatches
from dragoman.data.bitext import Bitext
from dragoman.data.builtin.lexicon import TABLES
from dragoman.decoding.translator import Translator
from dragoman.evaluation.likelihood import reference_batches, token_statistics
from dragoman.evaluation.scores import score
from dragoman.model.attention import AttentionMaps
from dragoman.report import inspect_translation
from dragoman.report.attention import word_attention
from dragoman.report.inspection_page import render_inspection
from dragoman.report.pictures import plot_attention
from dragoman.storage.checkpoints import Checkpoints
from dragoman.storage.directory import ArrayDirectory
from dragoman.storage.metrics_log import read_metrics
from dragoman.storage.model_directory import ModelDirectory
from dragoman.storage.run_directory import RunDirectory

HERE = Path(__file__).parent
FOLDER = HERE / "evidence"

# --- variants --------------------------------------------------------------------------------------

SEEDS = range(1, 6)
FEW = 200
"""Numbers of the task on which a model memorises its pairs."""
MARKS = {"many": (100, 300, 600), "few": (300, 900)}
"""Steps after which the models of each task are tested."""
ON_FEW = "dropout and the loss"
"""The group of variants that is trained on few numbers too."""
AS_IT_IS = "as it is"
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "norms": {
        "norm_order=post": {"norm_order": "post"},
        "norm=rms": {"norm": "rms"},
        "norm_gain=scalar": {"norm_gain": "scalar"},
        "norm_eps=0.001": {"norm_eps": 1e-3},
    },
    "positions and embeddings": {
        "positions=sinusoidal-concatenated": {"positions": "sinusoidal-concatenated"},
        "positions=learned": {"positions": "learned", "max_positions": 16},
        "positions=rotary": {"positions": "rotary"},
        "scale_embeddings=False": {"scale_embeddings": False},
        "tie_projection=True": {"tie_projection": True},
        "d_model=64": {"d_model": 64},
        "d_model=64, tie_projection=True": {"d_model": 64, "tie_projection": True},
        "projection_bias=True": {"projection_bias": True},
        "initialisation=pytorch": {"initialisation": "pytorch"},
        "initialisation=xavier-tables": {"initialisation": "xavier-tables"},
        "initialisation=keras": {"initialisation": "keras"},
    },
    "sizes, heads and activations": {
        "num_heads=1": {"num_heads": 1},
        "num_heads=2": {"num_heads": 2},
        "activation=gelu": {"activation": "gelu"},
        "activation=silu": {"activation": "silu"},
        "activation=swiglu": {"activation": "swiglu"},
        "d_ff=128": {"d_ff": 128},
        "d_model=48": {"d_model": 48},
        "num_encoder_layers=2": {"num_encoder_layers": 2},
        "num_decoder_layers=2": {"num_decoder_layers": 2},
    },
    "dropout and the loss": {
        "dropout=0.1": {"dropout": 0.1},
        "dropout=0.3": {"dropout": 0.3},
        "attention_dropout=0.1": {"attention_dropout": 0.1},
        "activation_dropout=0.1": {"activation_dropout": 0.1},
        "projection_dropout=0.5": {"projection_dropout": 0.5},
        "no label smoothing": {"training": {"label_smoothing": 0.0}},
        "label smoothing 0.3": {"training": {"label_smoothing": 0.3}},
        "dropout=0.1, R-Drop": {"dropout": 0.1, "training": {"r_drop": 1.0}},
    },
    "optimizers": {
        "optimizer=adamw, weight decay 0.1": {"training": {"optimizer": "adamw", "weight_decay": 0.1}},
        "optimizer=muon": {"training": {"optimizer": "muon"}},
        "optimizer=rmsprop": {"training": {"optimizer": "rmsprop"}},
        "optimizer=sgd": {"training": {"optimizer": "sgd"}},
        "optimizer=sgd, rate 0.3": {"training": {"optimizer": "sgd", "learning_rate": 0.3}},
    },
    "schedules": {
        "schedule=constant": {"training": {"schedule": "constant"}},
        "schedule=cosine": {"training": {"schedule": "cosine"}},
        "schedule=linear": {"training": {"schedule": "linear"}},
        "schedule=wsd": {"training": {"schedule": "wsd"}},
    },
    "depth and warm-up": {
        f"{order}, four layers, warmup={warmup}": {
            "norm_order": order, "num_encoder_layers": 4, "num_decoder_layers": 4,
            "training": {"schedule": "constant", "warmup": warmup},  # the same rate after the warm-up
        }
        for order in ("pre", "post") for warmup in (30, 1)
    } | {
        "post, four layers, 0.003, warmup=100": {
            "norm_order": "post", "num_encoder_layers": 4, "num_decoder_layers": 4,
            "training": {"schedule": "constant", "warmup": 100, "learning_rate": 3e-3},
        },
    },
    "one table": {
        "two tables": {"shared": True},
        "share_embeddings=True": {"shared": True, "share_embeddings": True},
    },
}  # fmt: skip


def variants() -> None:
    """Losses and whole numbers of every variant on both tasks, five seeds each."""
    named = {AS_IT_IS: {}} | {name: choices for group in VARIANTS.values() for name, choices in group.items()}
    of_task = {"many": list(named), "few": [AS_IT_IS, *VARIANTS[ON_FEW]]}
    work = [(task, name, named[name], seed) for task, names in of_task.items() for name in names for seed in SEEDS]
    found: dict[str, dict[str, Any]] = {task: {} for task in MARKS}
    with get_context("spawn").Pool(2) as pool:
        for number, (task, name, result) in enumerate(pool.imap(_variant, work), start=1):
            kept = found[task].setdefault(name, {"weights": result.pop("weights")})
            for key, value in result.items():
                kept.setdefault(key, []).append(value)
            print(f"{number} of {len(work)}: {task}, {name}", flush=True)
    groups = {group: list(names) for group, names in VARIANTS.items()}
    _write("variants", {"marks": MARKS, "groups": groups, "numbers": {"many": 2000, "few": FEW}, "found": found})


def _variant(work: tuple[str, str, dict[str, Any], int]) -> tuple[str, str, dict[str, Any]]:
    """One model: its weights, and after each mark its losses on training and test numbers, and whole test numbers."""
    name_of_task, name, choices, seed = work
    torch.set_num_threads(1)
    choices = dict(choices)
    training, shared = choices.pop("training", {}), choices.pop("shared", False)
    task = counting(size=2000 if name_of_task == "many" else FEW, shared=shared)
    marks = MARKS[name_of_task]
    # A schedule that ends needs a run of its own for each mark.
    ends = marks if training.get("schedule") in ("cosine", "linear", "wsd") else marks[-1:]
    result: dict[str, Any] = {}
    for end in ends:
        model = build(task, seed=seed, **choices)
        for event in train(model, task.train, steps=end, **training):
            step = event["step"]
            if step in marks and (len(ends) == 1 or step == end):
                result[f"train loss {step}"] = round(loss_of(model, task.train), 4)
                result[f"loss {step}"] = round(loss_of(model, task.test), 4)
                result[f"whole {step}"] = solved(model, task)
    result["weights"] = sum(parameter.numel() for parameter in model.parameters())
    return name_of_task, name, result


# --- averaging -------------------------------------------------------------------------------------


def averaging() -> None:
    """Losses and whole numbers of five models with a rate that stays and one that falls, before and after averaging."""
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    task, kept = counting(), {}
    for schedule in ("constant", "wsd"):
        found = kept[schedule] = defaultdict(lambda: {"loss": [], "whole": []})
        for seed in SEEDS:
            for name, model in averages(task, seed=seed, steps=400, schedule=schedule, learning_rate=2e-2):
                found[name]["loss"].append(round(loss_of(model, task.test), 4))
                found[name]["whole"].append(solved(model, task))
            print(schedule, seed, dict(found), flush=True)
    _write("averaging", kept)


def loss_of(model: nn.Module, batches: TokenBatches) -> float:
    """The loss, in nats for each token."""
    return math.log(token_statistics([model], batches.in_order()).perplexity)


# --- heads -----------------------------------------------------------------------------------------

SENTENCE = "The old woman does not see the three little black cats."
SEEN = 200
"""Test sentences on which heads are watched."""
STEPS, EVERY = 600, 40
"""Number of training steps, and of steps between two frames of the film."""
WORD = re.compile(r"\w+")
CLASSES = {
    name: frozenset(
        form.lower().strip("*=-").split("_")[0]
        for row in TABLES[table]
        for cell in row[at : at + 2]
        for form in cell.split()
    )
    for name, table, at in (("noun", "nouns", 1), ("adjective", "adjectives", 2), ("verb", "verbs", 3))
}
"""The word forms of the grammar, English and French."""
Head = tuple[str, int, int]
"""Kind of attention, number of the layer, number of the head."""
Sides = list[list[tuple[str, list[int]]]]
"""For source and target the words, each with the positions of its pieces."""


def heads() -> None:
    """Train the demo; what each of its heads looks at, and what becomes of the model without it."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "demo"
        command = [sys.executable, "-m", "dragoman", "train", "builtin:grammar", "--recipe", "demo", "--quiet"]
        limits = [f"training.max_steps={STEPS}", "training.max_minutes=", f"training.validate_every={EVERY}"]
        # Snapshots are kept for an average, which is not what is looked at here.
        limits.append(f"training.average={STEPS // EVERY}")
        on_one_core = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "--output", run, *limits], check=True, env=on_one_core)
        directory = ModelDirectory.load(run)
        events = list(read_metrics(RunDirectory(run).metrics))
        assert not any(event["event"] == "average" and event["better"] for event in events)
        pairs = RunDirectory(run).pairs("test")[:SEEN]
        looks = _looks(directory, pairs, translations_of(list(Bitext.open("builtin:grammar:8000"))))
        found = []
        for head, places in looks.items():
            kind, layer, number = head
            taken = _quality(directory, pairs, without=[head])
            found.append({"kind": kind, "layer": layer + 1, "head": number + 1, "looks": places, **taken})
            print(found[-1], flush=True)
        without = {
            kind: _quality(directory, pairs, without=[head for head in looks if head[0] == kind])
            for kind in ("encoder", "decoder", "cross")
        }
        steps = [event for event in events if event["event"] == "step"]
        took = {
            "weights": sum(parameter.numel() for parameter in directory.model.parameters()),
            "tokens": steps[-1]["tokens"],
            "seconds": round(steps[-1]["seconds"]),
        }
        whole = _quality(directory, pairs)
        kept = {"sentences": len(pairs), "whole": whole, "heads": found, "without": without, "training": took}
        _write("heads", kept)
        page = render_inspection(inspect_translation(directory, SENTENCE))
        (HERE / "inspection.html").write_text(page, encoding="utf-8")
        _animate(directory, Checkpoints(RunDirectory(run).snapshots, warn=print))


def _quality(
    directory: ModelDirectory, pairs: Sequence[tuple[str, str]], without: Sequence[Head] = ()
) -> dict[str, float]:
    """Loss and BLEU of a model, `without` some heads: what they give to their layers is then zero."""
    own = {name: weight.clone() for name, weight in directory.model.state_dict().items()}
    for head in without:
        weight, columns = _output_of(directory, head)
        weight[:, columns] = 0
    sources, references = zip(*pairs, strict=True)
    found = Translator(directory).translate(sources, beam_size=1)
    batches = reference_batches(pairs, directory.preprocessor, *directory.tokenizers)
    loss = math.log(token_statistics([directory.model], batches).perplexity)
    directory.model.load_state_dict(own)
    return {"loss": round(loss, 4), "bleu": round(score([each.text for each in found], references)["bleu"].value, 1)}


def _output_of(directory: ModelDirectory, head: Head) -> tuple[torch.Tensor, slice]:
    """The projection behind the heads of one attention, and the columns of one head."""
    (kind, layer, number), model = head, directory.model
    part = (model.encoder if kind == "encoder" else model.decoder).layers[layer]
    attention = part.cross_attention if kind == "cross" else part.self_attention
    width = attention.output.weight.size(1) // attention.num_heads
    return attention.output.weight.data, slice(number * width, (number + 1) * width)


def translations_of(pairs: Sequence[tuple[str, str]], rounds: int = 6) -> dict[str, dict[str, float]]:
    """How probably each word is the translation of each other: IBM model 1 (Brown et al., 1993), by
    expectation-maximisation, with an empty source word for what comes from none."""
    words = [(["", *WORD.findall(source.lower())], WORD.findall(target.lower())) for source, target in pairs]
    table: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        counts: dict[str, Counter] = defaultdict(Counter)
        for source, target in words:
            for word in target:
                shares = [table[each][word] if table else 1.0 for each in source]
                total = sum(shares)
                for each, share in zip(source, shares, strict=True):
                    counts[each][word] += share / total
        table = {each: {word: n / found.total() for word, n in found.items()} for each, found in counts.items()}
    return table


@torch.inference_mode()
def _looks(
    directory: ModelDirectory, pairs: Sequence[tuple[str, str]], table: dict[str, dict[str, float]]
) -> dict[Head, dict[str, list[float]]]:
    """For each head and kind of place the mean share of weight that falls on it, and that of equal weights.

    Means are over the rows that have such a place, and more than one column to choose from.
    """
    sums: dict[Head, dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0, 0.0]))
    config = directory.model.config
    for source, target in pairs:
        texts = zip(directory.tokenizers, directory.preprocessor.pair(source, target), strict=True)
        ids = [[*tokenizer.encode(text), config.eos_id] for tokenizer, text in texts]
        pieces = [tokenizer.pieces(each) for tokenizer, each in zip(directory.tokenizers, ids, strict=True)]
        maps = AttentionMaps()
        directory.model.states(torch.tensor([ids[0]]), torch.tensor([[config.bos_id, *ids[1][:-1]]]), maps=maps)
        sides = [_words(each) for each in pieces]
        for kind, layers in vars(maps).items():
            places = list(_cross_places(sides, table) if kind == "cross" else _own_places(kind, sides))
            for layer, record in enumerate(layers):
                for head, weights in enumerate(record.weights[0].tolist()):
                    for row, (seen, kinds) in zip(weights, places, strict=True):
                        for name, columns in kinds.items() if seen > 1 else ():
                            if columns:
                                found = sums[kind, layer, head][name]
                                found[0] += sum(row[column] for column in columns)
                                found[1] += len(columns) / seen
                                found[2] += 1
    return {
        head: {name: [round(weight / rows, 3), round(equal / rows, 3)] for name, (weight, equal, rows) in found.items()}
        for head, found in sums.items()
    }


def _words(pieces: Sequence[str]) -> list[tuple[str, list[int]]]:
    """The words of a sentence and the positions of their pieces; the end of sentence is one."""
    found: list[tuple[str, list[int]]] = []
    for position, piece in enumerate(pieces):
        if piece.startswith(("▁", "</s>")) or not found:
            found.append(("", []))
        found[-1] = (found[-1][0] + piece.removeprefix("▁").lower(), [*found[-1][1], position])
    return found


Places = Iterator[tuple[int, dict[str, list[int]]]]
"""For each row of an attention how many columns it sees, and the columns of each kind of place; kinds may overlap."""


def _cross_places(sides: Sides, table: dict[str, dict[str, float]]) -> Places:
    source, target = sides
    length, words = sum(len(at) for _, at in source), [WORD.findall(text) for text, _ in source[:-1]]
    for text, positions in target:
        shares = [
            max((table.get(q, {}).get(p, 0.0) for q in word for p in WORD.findall(text)), default=0.0) for word in words
        ]
        kinds = {"the end": source[-1][1]}
        if text != "</s>" and max(shares) > 0.1:
            at = shares.index(max(shares))
            kinds["the word to translate"] = source[at][1]
            kinds["the word before it"] = source[at - 1][1] if at else []
            kinds["the word after it"] = source[at + 1][1] if at + 2 < len(source) else []
        for _ in positions:
            yield length, kinds


def _own_places(kind: str, sides: Sides) -> Places:
    # The decoder reads the begin of sentence and then what it has said; a row sees the columns up to itself.
    source, target = sides
    own = source if kind == "encoder" else [("", [0]), *((text, [p + 1 for p in at]) for text, at in target[:-1])]
    of_word = [index for index, (_, positions) in enumerate(own) for _ in positions]
    for row, word in enumerate(of_word):
        seen = len(of_word) if kind == "encoder" else row + 1
        yield (
            seen,
            {
                "the end" if kind == "encoder" else "the beginning": [seen - 1 if kind == "encoder" else 0],
                "itself": [row],
                "the piece before": [row - 1] if row else [],
                "the piece after": [row + 1] if row + 1 < seen else [],
                **{f"the nearest {name}": _nearest(own, word, seen, forms) for name, forms in CLASSES.items()},
            },
        )


def _nearest(own: list[tuple[str, list[int]]], word: int, seen: int, forms: frozenset[str]) -> list[int]:
    """The positions of the word of a class that is nearest to another word, among the first `seen` positions."""
    found = [
        index
        for index, (text, at) in enumerate(own)
        if index != word and at[0] < seen and not forms.isdisjoint(WORD.findall(text))
    ]
    nearest = min(found, key=lambda index: abs(index - word), default=None)
    return [] if nearest is None else [at for at in own[nearest][1] if at < seen]


def _animate(directory: ModelDirectory, snapshots: Checkpoints) -> None:
    """Cross-attention of one sentence in the course of the training, as a GIF."""
    target = inspect_translation(directory, SENTENCE).target_text
    layer = word_attention(directory, SENTENCE, target).clearest_layer()
    frames = []
    for step in snapshots.steps():
        with torch.no_grad():
            for name, weight in snapshots.load(step)[0]["model"].items():
                directory.model.get_parameter(name).copy_(weight)
        seen = word_attention(directory, SENTENCE, target)
        picture = plot_attention(seen.layers[layer], seen.source_words, seen.target_words)
        picture.suptitle(f"step {step}", fontsize=10)
        file = io.BytesIO()
        picture.savefig(file, format="png", dpi=80)
        frames.append(Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=64))
    last = {"duration": [600] * (len(frames) - 1) + [2500], "loop": 0}  # milliseconds
    frames[0].save(HERE / "pictures/attention-in-training.gif", save_all=True, append_images=frames[1:], **last)


# --- lengths ---------------------------------------------------------------------------------------

WIDTH, RNN_WIDTH = 512, 388
"""Width at which both layers have 1.05 million weights."""
TOKENS = 4096
"""Tokens of a batch, whatever the length of its sentences."""
LENGTHS = (16, 64, 256, 1024, 4096)


def lengths() -> None:
    """Time and memory of a layer, forward and backward, by the length of its sentences."""
    found = []
    for name in ("attention", "GRU"):
        for length in LENGTHS:
            with get_context("spawn").Pool(1) as pool:  # a process of its own, whose largest memory counts
                found.append({"layer": name, "length": length} | pool.apply(_layer, (name, length)))
            print(found[-1], flush=True)
    _write("lengths", {"tokens": TOKENS, "threads": torch.get_num_threads(), "found": found})


def _layer(name: str, length: int) -> dict[str, float]:
    x, mask = torch.randn(TOKENS // length, length, WIDTH, requires_grad=True), torch.ones(length, length).bool()
    layer = nn.GRU(WIDTH, RNN_WIDTH, batch_first=True) if name == "GRU" else MultiHeadAttention(WIDTH, 8)

    def step(x: torch.Tensor) -> None:
        seen = mask[: x.size(1), : x.size(1)]
        (layer(x)[0] if name == "GRU" else layer(x, x, seen)).sum().backward()

    step(x[:1, :16])  # loads what it needs
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest memory so far
    before, times = _memory("VmRSS"), []
    for _ in range(4):
        start = time.perf_counter()
        step(x)
        times.append(time.perf_counter() - start)
    weights = sum(parameter.numel() for parameter in layer.parameters())
    return {"weights": weights, "ms": round(1000 * min(times), 1), "MB": round(_memory("VmHWM") - before)}


def _memory(name: str) -> float:
    """A size of this process in MB, as Linux tells it."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024 / 1e6


# --- multi30k --------------------------------------------------------------------------------------

RUN = Path("runs/multi30k")
SENTENCES = [
    "A man in a blue jacket is repairing a bicycle in front of a small shop.",
    "Two girls are eating ice cream on a bench.",
    "A dog with a red ball runs through the snow.",
    "The parliament adopted the budget with a large majority.",
    "I have not slept well since you left.",
]
"""Three captions and two sentences of other kinds, none of which is in the data."""


def multi30k() -> None:
    """The course and the results of the run in `RUN`, and its translations of `SENTENCES`."""
    config = yaml.safe_load((RUN / "run/config.yaml").read_text(encoding="utf-8"))
    events = read_metrics(RUN / "run/metrics.jsonl")
    steps = [event for event in events if event["event"] == "step"]
    evaluation = json.loads((RUN / "run/evaluation.json").read_text(encoding="utf-8"))
    model = ArrayDirectory.load(RUN).model
    with Translator.load(RUN) as translator:
        translations = [translation.to_dict() for translation in translator.translate(SENTENCES, n_best=3)]
    found = {
        "weights": sum(weight.size for weight in model.weights.values()),
        "layers": [model.config.num_encoder_layers, model.config.num_decoder_layers],
        "width": model.config.d_model,
        "vocabulary": model.config.target_vocab_size,
        "dropout": config["model"]["dropout"],
        "r_drop": config["training"]["r_drop"],
        "batch": config["training"]["max_tokens"],
        "rate": config["training"]["learning_rate"],
        "steps": [[event["step"], event["epoch"], round(event["loss"], 3), round(event["seconds"])] for event in steps],
        "validations": [
            {
                "step": event["step"],
                "loss": round(event["valid_loss"], 3),
                "bleu": round(event["bleu"], 1),
                "interval": [round(end, 1) for end in event["intervals"]["bleu"]],
            }
            for event in events
            if event["event"] == "validation"
        ],
        "test": {
            name: {"score": round(evaluation[name], 1), "interval": [round(end, 1) for end in ends]}
            for name, ends in evaluation["intervals"].items()
        },
        "twins": {name: [part["sentences"], round(part["bleu"], 1)] for name, part in evaluation["by_twins"].items()},
        "variants": {
            name: [round(variant["bleu"], 1), round(variant["before"], 1)]
            for name, variant in evaluation["variants"].items()
        },
        "translations": [
            [source, [[best["text"], round(best["score"], 2)] for best in [translation, *translation["alternatives"]]]]
            for source, translation in zip(SENTENCES, translations, strict=True)
        ],
    }
    _write("multi30k", found)


def _write(name: str, content: dict[str, Any]) -> None:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parts = {"variants": variants, "averaging": averaging, "heads": heads, "lengths": lengths}
    for name in sys.argv[1:] or parts:
        (parts | {"multi30k": multi30k})[name]()
