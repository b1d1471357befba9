"""The command serve: models over HTTP."""

import ipaddress
import os
import re
import socket
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dragoman.cli import options
from dragoman.cli.checks import check_adapter, check_decoding, check_model
from dragoman.cli.notices import mention_exact_memory, mention_missing_kernels
from dragoman.cli.options import Argument, Context, File, Option, app, beam_search
from dragoman.errors import ResourceError, UsageError

if TYPE_CHECKING:
    from dragoman.config.decoding import DecodingConfig
    from dragoman.decoding.translator import Translator
    from dragoman.serving.queue import TranslationQueue
    from dragoman.serving.server import Server
    from dragoman.terminal import Display

_MODEL_WITH_LANGUAGES = re.compile(r"(?P<path>.+):(?P<source>[A-Za-z][\w-]+),(?P<target>[A-Za-z][\w-]+)")


@app.command(
    settings=lambda: beam_search("mbr", "inflect", "max_source_length"),
    epilog="dragoman serve runs/en-fr\ndragoman serve runs/en-fr runs/fr-en --port 8080\n"
    "dragoman serve opus-mt:en,fr --host 0.0.0.0 --keys keys.txt",
)
def serve(
    context: Context,
    models: Annotated[
        list[str],
        Argument(metavar="MODEL ...", help="Model directories; MODEL:en,fr says the languages of one."),
    ],
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Address to listen on; 127.0.0.1 is reached from this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(metavar="N", min=0, max=65_535, help="Port; 0 is any free one.")] = 5000,
    keys: Annotated[Path | None, File(help="API keys, one on each line; requests need one of them.")] = None,
    memory: Annotated[
        Path | None, File(help="Keep corrected translations in this file, and answer with them. Default: keep nothing.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="A name that the server answers to, such as mt.example.org; may be repeated."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        Option(
            metavar="URL",
            help="A web site whose pages may ask, such as https://example.org; may be repeated. Pages of * may "
            "translate, but not correct.",
        ),
    ] = None,
    glossary: options.Glossary = None,
    forbid: options.Forbidden = None,
    adapter: options.Adapter = None,
    precision: options.Precision = "auto",
    workers: options.Workers = None,
) -> None:
    """Translate over HTTP, for software that speaks to LibreTranslate, DeepL or Google.

    Requests of all clients are gathered into batches. /docs describes the API. Nothing is kept without --memory, and
    nothing is logged but errors.
    """
    named = [_path_and_languages(model) for model in models]
    for path, _ in named:
        check_model(path)
    for option, file in (("--adapter", adapter), ("--glossary", glossary), ("--forbid", forbid)):
        if file and len(named) > 1:
            raise UsageError(f"{option} belongs to a single model; serve it alone.")
    check_adapter(adapter)
    from dragoman.cli.files import read_search_terms
    from dragoman.serving.keys import ApiKeys, KeysInFile

    api_keys = KeysInFile(keys, _read_keys) if keys else ApiKeys()
    terms = read_search_terms(glossary, forbid)
    configs = [check_decoding(path, context.settings | terms) for path, _ in named]
    from dragoman.system.optional import load

    for module in ("fastapi", "httptools", "uvicorn", "prometheus_client", "python_multipart"):
        load(module, extra="serve", purpose="Serving")
    from dragoman.serving.app import run
    from dragoman.serving.background import Background
    from dragoman.serving.hosts import Hosts, read_name, read_origin
    from dragoman.serving.inspection import InspectedModel, InspectionWorker, model_state
    from dragoman.serving.queue import TranslationQueue
    from dragoman.serving.server import Server, languages_of
    from dragoman.storage.memory import Memory
    from dragoman.system.processes import available_workers

    names, origins = map(read_name, allow_host or ()), map(read_origin, allow_origin or ())
    hosts = Hosts([*names], [*origins], local=_is_local(host))
    display = context.display()
    if not hosts.local and not api_keys:
        display.warn(f"Everybody who reaches {host} can translate here; --keys FILE asks them for a key.")
    with ExitStack() as opened:
        listener = opened.enter_context(_bound(host, port))
        translators: list[Translator] = []
        inspected: dict[tuple[str, str], InspectedModel] = {}
        queue = TranslationQueue(lanes=workers or available_workers())
        background = opened.enter_context(closing(Background(queue)))
        inspector = opened.enter_context(closing(InspectionWorker(inspected)))
        # These two fork processes later, from one that is forked now: before there are models, whose memory they would
        # share, and connections.
        background.start()
        inspector.start()
        with display.status("Loading"):
            for (path, languages), config in zip(named, configs, strict=True):
                state = model_state(path, adapter)  # as it is before the model is read
                keywords = {
                    "precision": precision,
                    "workers": workers or available_workers(),
                    "languages": languages,
                    "adapter": adapter,
                }
                translator = opened.enter_context(queue.call_first(partial(_load, queue, path, config, **keywords)))
                if memory:
                    mention_exact_memory(display.note, path, translator)
                for direction in translator.in_each_direction():
                    translators.append(direction)
                    inspected[languages_of(direction)] = InspectedModel(
                        path, direction.languages, state, adapter, config
                    )
        if terms and len(translators) > 1:
            raise UsageError("Terms belong to one pair of languages; name those of the model as MODEL:en,fr.")
        remembered = opened.enter_context(closing(Memory(memory))) if memory else None
        server = Server(
            translators,
            keys=api_keys,
            memory=remembered,
            inspector=inspector,
            queue=queue,
            background=background,
        )
        mention_missing_kernels(context)
        _announce(display, server, host, listener.getsockname()[1], needs_key=bool(api_keys))
        run(server, listener, hosts)


def _path_and_languages(model: str) -> tuple[Path, tuple[str | None, str | None]]:
    """The folder and the languages of MODEL:en,fr; a MODEL without languages knows its own."""
    match = _MODEL_WITH_LANGUAGES.fullmatch(model)
    if match:
        return Path(match["path"]), (match["source"], match["target"])
    folder, colon, languages = model.partition(":")
    if colon and not os.path.isdir(model) and os.path.isdir(folder):
        raise UsageError(f"'{languages}' names no two languages; write them as {folder}:en,fr.")
    return Path(model), (None, None)


def _load(queue: "TranslationQueue", path: Path, config: "DecodingConfig", **keywords: Any) -> "Translator":
    """Load a translator and start its workers: before there are connections, which they would keep open."""
    from dragoman.decoding.translator import Translator

    translator = Translator.load(path, **keywords)
    translator.check_terms(config)
    translator.decoding = config
    queue.watch(translator)
    if translator.workers:
        translator.workers.start()
    return translator


def _announce(display: "Display", server: "Server", host: str, port: int, *, needs_key: bool) -> None:
    """Say what is translated where, with a command to try it on this machine."""
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    pairs = ", ".join(f"{source} to {target}" for source, target in server.models)
    display.note(f"Translating {pairs} at {address}; Ctrl-C ends.")
    source, target = next(iter(server.models))
    here = {"0.0.0.0": f"http://127.0.0.1:{port}", "::": f"http://[::1]:{port}"}.get(host, address)
    key = " -d api_key=KEY" * needs_key
    display.note(f"Try it:  curl {here}/translate -d q=Hello. -d source={source} -d target={target}{key}")


def _is_local(host: str) -> bool:
    """Whether the address of a server can be reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_keys(path: Path) -> list[str]:
    """The API keys in a file. Raises `UsageError` if there are none, which would let everybody in."""
    from dragoman.cli.files import read_terms

    keys = [key for key in read_terms(path) if key]
    if not keys:
        raise UsageError(f"{path} has no keys; write one on each line.")
    return keys


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens, so that clients may connect from now on. Raises `ResourceError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
        # A worker that kept it open would let clients connect to nobody after the server has ended.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=listener.close)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ResourceError(
            f"{host}:{port} cannot be served: {error.strerror or error}; give another --port."
        ) from None
    return listener
