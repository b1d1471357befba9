"""How fast a corpus is prepared for training, and with how much memory.

    .venv/bin/python benchmarks/preparation.py unpack tatoeba-test-v2021-08-07.tar.xz FOLDER
    .venv/bin/python benchmarks/resources.py memory \
        .venv/bin/python benchmarks/preparation.py prepare FOLDER/all.source FOLDER/all.target [key=value ...]

`unpack` joins the language pairs of an archive of test sets, `aaa-bbb/NAME.aaa` and `.bbb`, into two files with a
sentence a line. `prepare` does what `dragoman train` does before the first step, with its defaults: reads and cleans,
splits, trains the tokenizer, encodes; and prints the seconds of the whole, of reading, and of all processors. It uses
the cores that it is bound to: `taskset -c 1` before the command measures one.
"""

import os
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from dragoman.config.settings import parse_settings


def unpack(archive: Path, folder: Path) -> None:
    """Write all.source and all.target; the language whose code comes first is the source."""
    folder.mkdir(parents=True, exist_ok=True)
    halves: dict[str, tuple[str, bytes]] = {}
    with (
        tarfile.open(archive) as tar,
        open(folder / "all.source", "wb") as source_file,
        open(folder / "all.target", "wb") as target_file,
    ):
        for member in filter(tarfile.TarInfo.isfile, tar):
            path = Path(member.name)
            half = path.suffix, tar.extractfile(member).read()
            if path.parent.name not in halves:
                halves[path.parent.name] = half
                continue
            (_, source), (_, target) = sorted([half, halves.pop(path.parent.name)])
            source_file.write(source)
            target_file.write(target)


def prepare(arguments: list[str]) -> None:
    """Prepare one file or two into a folder that is deleted afterwards."""
    from dragoman.data.preparation import PreparedData
    from dragoman.data.preparation import prepare as prepare_corpus
    from dragoman.runs.plan import plan_run

    settings = [argument for argument in arguments if "=" in argument]
    paths = [argument for argument in arguments if argument not in settings]
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        config, pairs = plan_run(paths, recipe=None, settings=parse_settings(settings), near=Path(folder))
        read = time.perf_counter()
        prepare_corpus(pairs, config, Path(folder))
        seconds, processor = time.perf_counter() - started, sum(os.times()[:4])  # those of worker processes included
        data = PreparedData.open(Path(folder), config)
    number_read = pairs.report.read
    for reason, number in data.about.dropped.items():
        print(f"{number:>10,} pairs left out: {reason}")
    print(f"{data.about.train_pairs:>10,} pairs to train on, a vocabulary of {data.source_tokenizer.vocab_size:,}")
    rate, of_processor = number_read / seconds, number_read / processor
    print(f"{number_read:,} pairs in {seconds:.1f} s ({read - started:.1f} s reading them): {rate:,.0f} pairs/s")
    print(f"{processor:.1f} s of processor time, imports included: {of_processor:,.0f} pairs per second of it")


if __name__ == "__main__":
    if sys.argv[1:2] == ["unpack"] and len(sys.argv) == 4:
        unpack(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1:2] == ["prepare"] and len(sys.argv) > 2:
        prepare(sys.argv[2:])
    else:
        sys.exit(__doc__)
