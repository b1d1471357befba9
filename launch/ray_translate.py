"""Translates files on a Ray cluster: text, JSON lines or Parquet, wherever fsspec can read and write.

    python launch/ray_translate.py MODEL 'in/*.txt' out --actors 2
    python launch/ray_translate.py MODEL 's3://bucket/in/*.parquet' s3://bucket/out --column text --actors 8 --gpus 1

Each file becomes one of the same name and format. A line of text is replaced by its translation; to a record of JSON or
a row of Parquet the translation is added. Every actor loads the model once. An output is moved to its place when it is
whole, and files whose output is there are skipped: start a killed run again, and it goes on. The package (with
the extra `ray`) and the model must be on every node, the model under the same path.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import fsspec

from dragoman.bulk.files import packed, translate_file
from dragoman.bulk.jobs import Job
from dragoman.bulk.lines import WINDOW, BulkTranslator, Rejected
from dragoman.cli import tune_process
from dragoman.config.decoding import DecodingConfig
from dragoman.decoding.translator import Translator
from dragoman.errors import DataError, DragomanError, UsageError
from dragoman.formats.text_files import open_input, packing_of, unpacked_name


@dataclass(frozen=True)
class Work:
    """What an actor does to a file."""

    model: str
    column: str = "text"
    """Field of a record that is translated."""
    into: str = "translation"
    """Field that the translation is added as."""
    loading: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of `Translator.load`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `DecodingConfig`; the others are those that the model was scored with."""


class FileTranslator:
    """Translates a batch of rows that name a source and an output; Ray makes one for each actor."""

    def __init__(self, work: Work):
        tune_process()
        self.work, translator = work, Translator.load(work.model, **work.loading)
        config = DecodingConfig.validate(translator.decoding.model_dump() | dict(work.options))
        self.bulk = BulkTranslator(translator, config)

    def __call__(self, batch: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
        """Source, lines, rejected lines and error ("" for none) of each row."""
        rows = [self.translate(*map(str, row)) for row in zip(batch["source"], batch["output"], strict=True)]
        return {name: [row[name] for row in rows] for name in ("source", "lines", "rejected", "error")}

    def translate(self, source: str, output: str) -> dict[str, Any]:
        """Translate one file, on the disk of this machine, and move it to its place."""
        found: dict[str, Any] = {"source": source, "lines": 0, "rejected": 0, "error": ""}
        from_files, path = fsspec.core.url_to_fs(source)
        with tempfile.TemporaryDirectory() as folder:
            name = path.rpartition("/")[2]
            job = Job(Path(folder, name), Path(folder, "out", name))
            job.output.parent.mkdir()
            from_files.get_file(path, str(job.source))
            try:
                found["lines"], found["rejected"] = self._translate(job)
            except DataError as error:
                return found | {"error": str(error).replace(str(job.source), source)}
            put(job.rejected, f"{output}.rejected.tsv")
            put(job.output, output)
        return found

    def _translate(self, job: Job) -> tuple[int, int]:
        """Number of lines or rows, and of those among them that are rejected."""
        end = Path(unpacked_name(job.source)).suffix.lower()
        if end == ".parquet":
            return self._parquet(job)
        if end in (".jsonl", ".ndjson"):
            return self._json_lines(job)
        done = translate_file(job, self.bulk)
        return done.lines, done.rejected

    def _texts(self, texts: Sequence[str | None]) -> list[str | None]:
        """The translation of each text, or None for what cannot be translated."""
        good = [None if text is None or self.bulk.refused(text) else text for text in texts]
        windows = self.bulk.windows(text or "" for text in good)
        rows = [line.item for window in windows for line in window]
        return [None if text is None else row for text, row in zip(good, rows, strict=True)]

    def _parquet(self, job: Job) -> tuple[int, int]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        lines = rejected = 0
        with ExitStack() as opened:
            try:
                file = opened.enter_context(pq.ParquetFile(job.source))
            except pa.ArrowInvalid as error:
                raise DataError(f"{job.source} is no whole Parquet file ({error}); write it again.") from None
            if self.work.column not in (names := file.schema_arrow.names):
                raise DataError(f"{job.source} has no column '{self.work.column}'; choose --column among {names}.")
            schema = file.schema_arrow.append(pa.field(self.work.into, pa.string()))
            writer = opened.enter_context(pq.ParquetWriter(job.output, schema))
            for batch in file.iter_batches(WINDOW):
                texts = batch.column(self.work.column).to_pylist()
                found = self._texts(texts)
                columns = [*batch.columns, pa.array(found, pa.string())]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                lines += len(texts)
                rejected += sum(text is not None and row is None for text, row in zip(texts, found, strict=True))
        return lines, rejected

    def _json_lines(self, job: Job) -> tuple[int, int]:
        """Records get a field; lines that are no record with a text are empty, and listed as rejected."""
        rejects: list[Rejected] = []
        lines = 0
        with ExitStack() as opened:
            stream = opened.enter_context(open_input(job.source))
            out = opened.enter_context(packed(opened.enter_context(open(job.output, "wb")), packing_of(job.source)))
            read = self.bulk.read(stream, str(job.source), rejects.append)
            while window := list(islice(read, WINDOW)):
                records = [self._record(line) for line in window]
                found = self._texts([record.get(self.work.column) for record in records])
                for record, line, translation in zip(records, window, found, strict=True):
                    lines += 1
                    if translation is None and line.strip():
                        reason = f"no JSON object with a text '{self.work.column}' that can be translated"
                        rejects.append(Rejected(lines, reason, line[:200]))
                    row = record | {self.work.into: translation}
                    out.write(b"\n" if translation is None else f"{json.dumps(row, ensure_ascii=False)}\n".encode())
        if rejects:
            rows = sorted(rejects)
            job.rejected.write_text("".join(f"{each.to_row()}\n" for each in rows), encoding="utf-8")
        return lines, len(rejects)

    def _record(self, line: str) -> dict[str, Any]:
        """The object of a line if it has a text to translate, else an empty one."""
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and isinstance(found.get(self.work.column), str) else {}


def put(file: Path, url: str) -> None:
    """Copy a file, if there is one, to where it is not seen yet, and move it to its place."""
    if file.exists():
        files, path = fsspec.core.url_to_fs(url)
        folder, _, name = path.rpartition("/")
        files.makedirs(folder, exist_ok=True)
        files.put_file(str(file), f"{folder}/.{name}.tmp")
        files.mv(f"{folder}/.{name}.tmp", path)


def plan(pattern: str, output: str) -> tuple[list[dict[str, str]], int]:
    """Source and output of each file that is not done, and the number of those that are."""
    files, path = fsspec.core.url_to_fs(pattern)
    sources = sorted(files.glob(path)) if fsspec.core.has_magic(path) else [path]
    if not sources:
        raise DataError(f"No file matches '{pattern}'; check the pattern.")
    names = Counter(source.rpartition("/")[2] for source in sources)
    if len(names) < len(sources):
        raise UsageError(f"More than one file is called {names.most_common(1)[0][0]}; translate them one folder a run.")
    to_files, folder = fsspec.core.url_to_fs(output)
    if any(source.rpartition("/")[0] == folder.rstrip("/") for source in sources):
        raise UsageError(f"{output} is the folder that is read; choose another one.")
    there = (
        {each.rpartition("/")[2] for each in to_files.ls(folder, detail=False)} if to_files.exists(folder) else set()
    )
    todo = [
        {"source": files.unstrip_protocol(source), "output": f"{output.rstrip('/')}/{source.rpartition('/')[2]}"}
        for source in sources
        if source.rpartition("/")[2] not in there
    ]
    return todo, len(sources) - len(todo)


def translate(todo: list[dict[str, str]], work: Work, *, actors: int, cpus: float, gpus: float) -> Counter[str]:
    """Run the pipeline, and print a line for each file when it is done. Returns what was counted."""
    import ray

    total: Counter[str] = Counter()
    pool = {"compute": ray.data.ActorPoolStrategy(size=min(actors, len(todo))), "num_cpus": cpus, "num_gpus": gpus}
    files = ray.data.from_items(todo, override_num_blocks=len(todo))
    done = files.map_batches(FileTranslator, fn_constructor_args=(work,), batch_size=1, **pool)
    for row in done.iter_rows():
        print(row["error"] or f"{row['source']}: {row['lines']:,} lines", file=sys.stderr)
        total.update({"failed" if row["error"] else "files": 1, "lines": row["lines"], "rejected": row["rejected"]})
    return total


def main() -> None:
    """Read the arguments, run the pipeline and print a summary as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("input", help="a file, or a pattern in quotes")
    parser.add_argument("output", help="a folder")
    parser.add_argument("--column", default="text", help="field of JSON or Parquet that is translated")
    parser.add_argument("--into", default="translation", help="field for the translation")
    parser.add_argument("--actors", type=int, default=1, help="processes with a model")
    parser.add_argument("--cpus", type=float, default=1, help="cores of an actor")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs of an actor, or a part of one")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--from", dest="source", help="source language of a model that knows many")
    parser.add_argument("--to", dest="target", help="target language of a model that knows many")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="such as beam_size=1")
    given = parser.parse_args()
    loading = {"precision": given.precision, "languages": (given.source, given.target)}
    options = dict(each.split("=", 1) for each in given.set)
    started = time.monotonic()
    try:
        todo, skipped = plan(given.input, given.output)
        work = Work(str(Path(given.model).resolve()), given.column, given.into, loading, options)
        sizes = {"actors": given.actors, "cpus": given.cpus, "gpus": given.gpus}
        total = translate(todo, work, **sizes) if todo else Counter()
    except DragomanError as error:
        sys.exit(f"Error: {error}")
    counts = {name: total[name] for name in ("files", "failed", "lines", "rejected")}
    print(json.dumps(counts | {"skipped": skipped, "seconds": round(time.monotonic() - started, 1)}))
    sys.exit(DataError.exit_code if total["failed"] else 0)


if __name__ == "__main__":
    main()
