"""The model card: what somebody who finds a model directory has to know, in Markdown."""

import json
import shlex
from collections.abc import Mapping

from dragoman.report.summary import SCORES, RunSummary

_USE = """\
## Use

```sh
dragoman translate path/to/this/folder {shell_example}
```

```python
from dragoman import Translator
translator = Translator.load("path/to/this/folder")
for t in translator.translate([{python_example}], beam_size=5): print(t.text, t.score)
```
"""
_CAUTION = """\
- It translates each sentence alone and does not know what was said before.
- It can leave out or invent words, numbers, names and negations, in fluent sentences and with a
  good score. Have somebody who reads both languages check whatever matters. There is no guarantee.

## Licence

The licence of the training data applies to this model as well. Dragoman does not know it: find out
before you pass the model on, and write it here.
"""

CARD = """\
# {title}

Translates sentences from {source} to {target}. A Transformer, trained from scratch with Dragoman on
{train} sentence pairs of {data}.

## Scores

{scores}

## Size and cost

| | |
| --- | --- |
{facts}

{use}
Text goes in and comes out as people write it. `report.html` shows the training, sample translations
and what the model attends to.

## Limits

- It knows the kind of sentences it was trained on. Other subjects, styles and spellings come out
  worse than the scores say; all it knows it learned from {train} pairs.
{caution}"""

IMPORTED = """\
# {title}

A Transformer from a notebook, {notebook}, made a model directory by `dragoman import` from
{files}. What it was trained on, and for how long, is not in these files.

## Scores

It has not been scored. `dragoman evaluate path/to/this/folder SOURCE REFERENCE` does that.

## Size

| | |
| --- | --- |
{facts}

## Text

{text}

{use}
## Limits

- It knows what its notebook taught it. What is not in its vocabulary is unknown to it, `<unk>`.
{caution}"""


def model_card(summary: RunSummary) -> str:
    """The README.md of a model directory."""
    facts = (f"| {name} | {_plain(value)} |" for name, value in summary.facts().items())
    return CARD.format(
        title=_plain(summary.title),
        source=_plain(summary.source),
        target=_plain(summary.target),
        train=f"{summary.pairs['train']:,}",
        data=_plain(summary.data),
        scores=_scores(summary),
        facts="\n".join(facts),
        use=_use(_example(summary)),
        caution=_CAUTION,
    )


def imported_card(*, title: str, notebook: str, files: str, facts: Mapping[str, str], text: str, example: str) -> str:
    """The README.md of a model directory that was made of a notebook's files."""
    rows = "\n".join(f"| {name} | {_plain(value)} |" for name, value in facts.items())
    plain = {"title": _plain(title), "notebook": notebook, "files": _plain(files), "facts": rows, "text": text}
    return IMPORTED.format(**plain, use=_use(example), caution=_CAUTION)


def _use(example: str) -> str:
    return _USE.format(shell_example=shlex.quote(example), python_example=json.dumps(example, ensure_ascii=False))


def _scores(summary: RunSummary) -> str:
    if not summary.evaluation:
        return "It has not been scored on test pairs yet."
    signatures = summary.evaluation["signatures"].items()
    rows = "\n".join(f"| {name} | {value} |" for name, value in summary.figures().items())
    # Not in the table: there a "|" ends a cell even inside a code span.
    lines = "\n".join(f"- {SCORES[key]} `{signature}`" for key, signature in signatures)
    return (
        f"On {summary.test_pairs}. Beam size {summary.config.decoding.beam_size}.\n\n"
        f"| score | value |\n| --- | --- |\n{rows}\n\nSignatures of sacrebleu:\n\n{lines}"
    )


def _example(summary: RunSummary) -> str:
    """The shortest of the sample sentences that cannot be mistaken for Markdown."""
    sources = [s["source"] for s in summary.samples if s["source"].isprintable()]
    return min((s for s in sources if s and "`" not in s), key=len, default="Hello.")


def _plain(text: str) -> str:
    """Text that stays text between Markdown and HTML signs, on one line."""
    return "".join(f"\\{c}" if c in "\\`*_|<>[]#" else c if c.isprintable() else " " for c in text)
