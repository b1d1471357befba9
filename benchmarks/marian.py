"""Dragoman beside MarianMTModel of `transformers`: training and decoding speed, in one process, step by step in turn.

    make install ARGS=bench
    .venv/bin/python benchmarks/marian.py train  SOURCE TARGET
    .venv/bin/python benchmarks/marian.py decode MODEL SOURCE

`train` gives both the same batches: the tiny size, 8,000 shared BPE tokens, 4,096 target tokens a batch, label
smoothing 0.1, dropout 0.1, Adam. `decode` gives both the same weights and sentences; it needs a model of Marian's
architecture, which `train` of the command line makes with

    model.norm_order=post model.positions=sinusoidal-concatenated model.projection_bias=true

Dragoman decodes as `dragoman translate` does, a process a core; MarianMTModel with as many threads, in batches of
--batch sentences of similar length. Both print a table of medians; with --json the figures.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from transformers import MarianConfig, MarianMTModel

from dragoman.checkpoint import Checkpoints, ModelDirectory
from dragoman.cli import tune_process
from dragoman.config import TrainingConfig, resolve
from dragoman.data.batching import Position, TokenBatches
from dragoman.data.bitext import Bitext
from dragoman.data.preparation import PreparedData, prepare
from dragoman.decoding.translator import Translator
from dragoman.decoding.workers import available_workers
from dragoman.model import Transformer, TransformerConfig
from dragoman.training.trainer import Outside, Trainer

ENCODER = {
    "self_attention.query": "self_attn.q_proj", "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj", "self_attention.output": "self_attn.out_proj",
    "feed_forward.inner": "fc1", "feed_forward.outer": "fc2",
    "residuals.0.norm": "self_attn_layer_norm", "residuals.1.norm": "final_layer_norm",
}  # fmt: skip
DECODER = ENCODER | {
    "cross_attention.query": "encoder_attn.q_proj", "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj", "cross_attention.output": "encoder_attn.out_proj",
    "residuals.1.norm": "encoder_attn_layer_norm", "residuals.2.norm": "final_layer_norm",
}  # fmt: skip


def marian_like(config: TransformerConfig) -> MarianMTModel:
    """A MarianMTModel of the same sizes and special ids, with fresh weights."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=config.target_vocab_size,
            d_model=config.d_model,
            encoder_layers=config.num_encoder_layers,
            decoder_layers=config.num_decoder_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            activation_function=config.activation,
            dropout=config.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            scale_embedding=config.scale_embeddings,
            pad_token_id=config.pad_id,
            eos_token_id=config.eos_id,
            decoder_start_token_id=config.bos_id,
            forced_eos_token_id=None,
        )
    )


def with_weights_of(model: Transformer) -> MarianMTModel:
    """The same function as a MarianMTModel; `model` must have Marian's architecture."""
    config = model.config
    assert (config.norm_order, config.positions) == ("post", "sinusoidal-concatenated"), "not Marian's architecture"
    marian, ours = marian_like(config), model.state_dict()
    named = {"model.shared.weight": ours["decoder.embedding.table.weight"]}
    if config.projection_bias:
        named["final_logits_bias"] = ours["projection.bias"][None]
    for stack, table in (("encoder", ENCODER), ("decoder", DECODER)):
        for layer in range(len(getattr(model, stack).layers)):
            for name, theirs in table.items():
                for part, their_part in (
                    ("weight", "weight"),
                    ("gain", "weight"),
                    ("bias", "bias"),
                ):
                    if (value := ours.get(f"{stack}.layers.{layer}.{name}.{part}")) is not None:
                        named[f"model.{stack}.layers.{layer}.{theirs}.{their_part}"] = value
    missing, unexpected = marian.load_state_dict(named, strict=False)
    assert not unexpected, unexpected
    assert not [n for n in missing if "embed" not in n and n not in ("lm_head.weight", "final_logits_bias")], missing
    marian.tie_weights()
    return marian.eval()


def in_turn(contestants: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    """Rates of each contestant, measured one after the other, round by round."""
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            rate = run(number)
            if number:  # the first round warms up
                rates[name].append(rate)
    return rates


def train(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Source and target tokens a second, without padding."""
    settings = [
        "size=tiny",
        "tokenizer.vocab_size=8000",
        "data.held_out=100",
        "training.max_tokens=4096",
    ]
    config = resolve({}, settings)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Bitext.open(arguments.source, arguments.target).cleaned(), config, Path(folder))
        data = PreparedData.open(Path(folder), config)
        size = data.source_tokenizer.vocab_size
        model = Transformer(config.transformer(size, size))
        trainer = Trainer(
            model,
            data.train,
            data.valid,
            config=config.training,
            seed=1,
            outside=_nothing_outside(folder),
        )
        marian = marian_like(model.config).train()
        optimizer = torch.optim.Adam(marian.parameters(), lr=1e-4, fused=True)
        position = Position()

        def ours(_: int) -> float:
            before, started = trainer.progress.tokens, time.perf_counter()
            for _ in range(arguments.steps):
                trainer.train_step()
            return (trainer.progress.tokens - before) / (time.perf_counter() - started)

        def theirs(_: int) -> float:
            tokens, started = 0, time.perf_counter()
            for _ in range(arguments.steps):
                tokens += _marian_step(marian, optimizer, data.train, position, trainer.config)
            return tokens / (time.perf_counter() - started)

        name = f"dragoman {str(trainer.precision)[6:]}"
        return in_turn({name: ours, "MarianMTModel float32": theirs}, arguments.rounds + 1)


def _marian_step(marian, optimizer, batches: TokenBatches, position, config: TrainingConfig) -> int:
    batch = batches.next(position)
    mask, counted = batch.source_ids != 0, batch.labels != 0
    logits = marian(input_ids=batch.source_ids, attention_mask=mask, decoder_input_ids=batch.target_ids).logits
    loss = F.cross_entropy(
        logits.flatten(0, 1),
        batch.labels.flatten(),
        ignore_index=0,
        label_smoothing=config.label_smoothing,
    )
    loss.backward()
    torch.nn.utils.clip_grad_norm_(marian.parameters(), config.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return int(mask.sum() + counted.sum())


def _nothing_outside(folder: str) -> Outside:
    nowhere = Checkpoints(Path(folder), warn=print)
    return Outside(lambda _: {"bleu": 0.0}, lambda _: None, lambda *_: None, nowhere, nowhere)


def decode(arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Sentences a second, greedy and with beam 5."""
    with open(arguments.source, encoding="utf-8") as file:
        sentences = file.read().removesuffix("\n").split("\n")
    directory = ModelDirectory.load(Path(arguments.model))
    marian = with_weights_of(directory.model)
    tokenizers = directory.source_tokenizer, directory.target_tokenizer
    contestants: dict[str, Callable[[int], float]] = {}
    texts: dict[str, list[str]] = {}
    with ExitStack() as opened:
        for beams in (1, 5):
            for precision in ("float32", "bfloat16"):
                made = Translator(directory.model, *tokenizers, precision=precision, workers=available_workers())
                translator = opened.enter_context(made)
                name = f"dragoman {precision}, beam {beams}"
                contestants[name] = lambda _, t=translator, b=beams, n=name: _rate(
                    lambda: texts.__setitem__(n, [x.text for x in t.translate(sentences, beam_size=b)]),
                    len(sentences),
                )
            name = f"MarianMTModel float32, beam {beams}"
            contestants[name] = lambda _, b=beams, n=name: _rate(
                lambda: texts.__setitem__(n, _marian_translate(marian, tokenizers, sentences, b, arguments.batch)),
                len(sentences),
            )
        rates = in_turn(contestants, arguments.rounds + 1)
    for beams in (1, 5):
        same = sum(
            map(
                str.__eq__,
                texts[f"dragoman float32, beam {beams}"],
                texts[f"MarianMTModel float32, beam {beams}"],
            )
        )
        print(f"beam {beams}: {same} of {len(sentences)} translations are the same text in float32")
    return rates


@torch.inference_mode()
def _marian_translate(marian, tokenizers, sentences: list[str], beams: int, batch_size: int) -> list[str]:
    source, target = tokenizers
    encoded = source.encode_batch([s.strip() for s in sentences])
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i]))
    results = [""] * len(sentences)
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        width = len(encoded[rows[0]]) + 1
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        for row, index in zip(ids, rows, strict=True):
            row[: len(encoded[index]) + 1] = torch.tensor([*encoded[index], marian.config.eos_token_id])
        out = marian.generate(
            input_ids=ids, attention_mask=ids != 0, num_beams=beams, do_sample=False,
            max_new_tokens=2 * (width - 1) + 20,
        )  # fmt: skip
        for index, text in zip(rows, target.decode_batch(out.tolist()), strict=True):
            results[index] = text
    return results


def _rate(action: Callable[[], None], count: int) -> float:
    started = time.perf_counter()
    action()
    return count / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("source")
    training.add_argument("target")
    training.add_argument("--steps", type=int, default=10, help="steps of each contestant in a round")
    decoding = commands.add_parser("decode")
    decoding.add_argument("model")
    decoding.add_argument("source")
    decoding.add_argument("--batch", type=int, default=64, help="sentences of a MarianMTModel batch")
    for command in (training, decoding):
        command.add_argument("--rounds", type=int, default=5)
        command.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    tune_process()
    rates = {"train": train, "decode": decode}[arguments.command](arguments)
    unit = "tokens/s" if arguments.command == "train" else "sentences/s"
    medians = {name: statistics.median(values) for name, values in rates.items()}
    if arguments.json:
        print(json.dumps({"unit": unit, "medians": medians, "rounds": rates}))
        return
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {torch.get_num_threads()} threads")
    for name, median in medians.items():
        print(f"{name:36} {median:10,.0f} {unit}   ({min(rates[name]):,.0f} to {max(rates[name]):,.0f})")


if __name__ == "__main__":
    main()
