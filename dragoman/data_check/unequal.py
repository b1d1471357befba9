"""Finds the line to look at in two files of which one has more lines than the other."""

from dragoman.config.data import CleaningConfig
from dragoman.data.bitext import Bitext
from dragoman.data.filtering import reason_to_drop
from dragoman.data.readers.two_files import UnequalFiles
from dragoman.data_check.alignment import FEWEST, AlignmentCheck
from dragoman.data_check.locations import Block
from dragoman.data_check.result import PartResult, Side
from dragoman.errors import DataError
from dragoman.formats.text_files import read_file


def with_place(error: UnequalFiles) -> DataError:
    """The error with the line from which on the check of alignment finds the sides out of step.

    The check needs some hundreds of lines. For fewer, it is the first line whose sides do not look like one sentence.
    """
    both = Bitext(
        lambda: zip(read_file(error.source, replace=True), read_file(error.target, replace=True), strict=False), name=""
    )
    both.unit = "line"
    result = PartResult("train", both.name, Side(None), Side(None))
    check, rules = AlignmentCheck(result), CleaningConfig(max_copied=None, drop_repeated=False)
    odd_line: int | None = None
    for block in result.locations.blocks([both]):
        check.add(block)
        result.pairs += len(block)
        if odd_line is None:
            odd_line = _first_odd_line(block, rules)
    if finding := next(check.findings(), None):
        place = finding.advice
    elif result.pairs > FEWEST:
        place = "no line was found from which on they are out of step, so look at the end of the longer file first"
    elif odd_line:
        place = f"look at line {odd_line} first, where the sides do not look like one sentence"
    else:
        return error
    return DataError(f"{error.message.removesuffix('.')}; {place}.")


def _first_odd_line(block: Block, rules: CleaningConfig) -> int | None:
    """The first line that breaks the rules."""
    for number, source, target in block:
        if reason_to_drop(source, target, rules):
            return number
    return None
