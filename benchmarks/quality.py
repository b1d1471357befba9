"""How good a translator is after how many minutes of training, beside MarianMTModel in the loop of most people.

    .venv/bin/python benchmarks/quality.py --train SOURCE TARGET --valid SOURCE TARGET --test SOURCE TARGET
        [--languages en de] [--minutes 8] [--marian-minutes 44] [--protocol papers] [--rounds 1] [key=value ...]

Dragoman is `dragoman train --max-minutes N` with the settings given, a fresh run for each N; MarianMTModel of the same
size sees the same tokens in batches of 4,096 with Adam, label smoothing 0.1, dropout 0.1, a learning rate that rises
for --marian-warmup steps to --marian-rate and then falls with the root of the steps, in the quicker precision, and is
scored every --marian-every minutes, which its clock does not count. Beam 5. BLEU is sacrebleu's; "tokenised" is the one
of papers on Multi30k (protocol.py). With --protocol papers all is trained as theirs, on small letters cut by the Moses
tokenizer, and sacrebleu's BLEU is that of small letters. Rounds are seeds.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import environment
from table import add_options, show


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value, for `dragoman train`")
    for part in ("train", "valid", "test"):
        parser.add_argument(f"--{part}", type=Path, nargs=2, required=True, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    parser.add_argument("--minutes", type=float, action="append", help="of a run of Dragoman; repeatable; default 8")
    parser.add_argument("--marian-minutes", type=float, default=44.0, help="of MarianMTModel (default 44); 0: none")
    parser.add_argument("--marian-every", type=float, default=4.0, help="minutes between scores (default 4)")
    parser.add_argument("--marian-rate", type=float, default=1e-3, help="highest learning rate (default 1e-3)")
    parser.add_argument("--marian-warmup", type=int, default=1000, help="steps (default 1,000)")
    parser.add_argument("--size", default="tiny", choices=("tiny", "small", "base"))
    parser.add_argument("--protocol", choices=("raw", "papers"), default="raw")
    add_options(parser, rounds=1)
    arguments = parser.parse_intermixed_args()
    arguments.minutes = arguments.minutes or [8.0]
    environment.enter("peers")
    from dragoman.cli import tune_process

    tune_process()
    from courses import compare
    from protocol import Protocol

    with TemporaryDirectory() as folder:
        protocol = Protocol(*arguments.languages, arguments.protocol == "papers")
        show([compare(arguments, protocol, Path(folder))], arguments)


if __name__ == "__main__":
    main()
