"""Documents from a program: a file in, the same file in the other language out."""

from os import PathLike
from pathlib import Path
from typing import Unpack

from dragoman.config.decoding import DecodingConfig, DecodingOptions
from dragoman.decoding.translator import Translator
from dragoman.documents.registry import TranslatedDocument, format_of, read_document
from dragoman.documents.registry import translate_document as translate_content
from dragoman.documents.translate import engine_of
from dragoman.system.atomic import check_output, write_output


def translate_document(
    translator: Translator,
    document: str | PathLike[str],
    output: str | PathLike[str] | None = None,
    *,
    config: DecodingConfig | None = None,
    **options: Unpack[DecodingOptions],
) -> TranslatedDocument:
    """Translate a document of any format that docs/documents.md lists; with `output`, also into that file.

        translated = dragoman.translate_document(translator, "page.html", "page.fr.html")
        print(translated.report.notes())

    Markup, formatting and file structure are kept. Options are those of `Translator.translate`. The result has the
    bytes of the translated document as `content`, and as `report` what became of its texts. The output is written
    whole or not at all.

    Raises `UsageError` for an output that cannot be written or is the document itself, and for an `n_best` above 1, and
    `DataError` for a document that cannot be read.
    """
    source = Path(document)
    format_of(source.name)
    target = None if output is None else Path(output)
    check_output(target, read=[source], remedy="name another output")
    content = read_document(source)
    search = translator.search_options(config, options)
    search = search.for_one("A document", is_explicit=config is not None or "n_best" in options)
    translated = translate_content(content, str(document), translator.languages, engine_of(translator, search))
    if target is not None:
        write_output(target, translated.content)
    return translated
