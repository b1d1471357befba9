"""Checks of the headers `Host` and `Origin`: which names a server answers to, and which web sites' pages may ask it.

A web site may give its own name the address of this machine (DNS rebinding). Its pages then reach the server and read
its answers, since for the browser both are one site. The name in `Host` tells.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.errors import UsageError
from dragoman.serving.limits import Refusal

ANY = "*"
"""Origin that stands for all web sites."""
PRIVATE = ("/suggest", "/memory", "/metrics", "/explore", "/words", "/inspect")
"""Beginnings of paths that pages may ask for only if their web site is named; `ANY` does not allow it."""
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@\s]+")
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s/?#@:\[\]]+)(?::\d{1,5})?")


@dataclass(frozen=True)
class Hosts:
    """Names that a server answers to, and web sites whose pages may ask it."""

    names: Sequence[str] = ()
    """Names that are answered, besides those that no web site can have."""
    origins: Sequence[str] = ()
    """Web sites as a browser writes them, such as https://example.org, or * for all."""
    local: bool = False
    """Whether the server listens on a loopback address, where only names of loopback addresses are known."""

    def check(self, method: str, path: str, host: str | None, origin: str | None) -> None:
        """Raise `Refusal` for a request to an unknown host name, or from a page that may not ask."""
        if host is not None and not self._is_known(host):
            raise Refusal(
                421, f"This server does not answer to the name {_shown(host)}; --allow-host {_shown(host)} lets it."
            )
        needs_permission = method not in ("GET", "HEAD", "OPTIONS") or path.startswith(PRIVATE)
        if not origin or not needs_permission:
            return
        if origin in self.origins or origin.partition("://")[2] == host:
            return
        # A browser sends a form to any host, and only hides the answer from the page.
        if ANY not in self.origins:
            raise Refusal(403, "Pages of other hosts may not ask here, unless --allow-origin names theirs")
        if path.startswith(PRIVATE):
            raise Refusal(
                403, "Pages of other hosts may not ask for this, unless --allow-origin names theirs; * does not"
            )

    def _is_known(self, host: str) -> bool:
        """Whether the server answers to a host name."""
        match = _HOST.fullmatch(host.lower())
        if not match:
            return False
        name = match["name"].removesuffix(".")
        if name == "localhost" or name.endswith(".localhost") or _is_address(name.strip("[]")):
            return True
        if name in self.names:
            return True
        if self.local:
            return False
        machine = socket.gethostname().lower()
        # No web site has a name without a dot, as containers and machines of a local network have.
        return "." not in name or name in (machine, f"{machine}.local")


def _is_address(name: str) -> bool:
    """Whether a host is an IP address, which no web site can make point elsewhere."""
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _shown(host: str) -> str:
    """A host name from a request, made safe to repeat in a message."""
    return re.sub(r"[^\w.:\[\]-]", "?", host)[:100]


def read_name(text: str) -> str:
    """The host name in the value of --allow-host, without a port. Raises `UsageError`."""
    match = _HOST.fullmatch(text.lower())
    if not match:
        raise UsageError(f"{text!r} is no name of a host; write it as in --allow-host translate.example.org.")
    return match["name"].removesuffix(".")


def read_origin(text: str) -> str:
    """The web site in the value of --allow-origin, as browsers write it. Raises `UsageError`."""
    origin = text.lower().removesuffix("/")
    origin = re.sub(r"^(http://.*):80$|^(https://.*):443$", lambda match: match[1] or match[2], origin)
    if origin in (ANY, "null") or _ORIGIN.fullmatch(origin):
        return origin
    raise UsageError(f"{text!r} is no web site; write it as in --allow-origin https://example.org, without a path.")
