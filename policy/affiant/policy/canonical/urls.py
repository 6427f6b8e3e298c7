"""Reads a URL that another program will fetch into the origin and target that rules are compared with.

What is judged is passed on as it is written, so a URL is rejected wherever two readers could disagree about it: a user
name, a fragment, a backslash, an address in place of a host name, and what :mod:`.hosts` and :mod:`.targets` reject.

>>> canonical_url("https://API.example.com/v1/a.png?x=1")
URL(scheme='https', host='api.example.com', port=443, target='/v1/a.png?x=1')
>>> canonical_url("https://api.example.com/#a")
Traceback (most recent call last):
    ...
affiant.policy.canonical.errors.TargetRefused: path is not canonical; found '/#a'
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from affiant.policy.canonical.errors import TargetRefused, excerpt
from affiant.policy.canonical.hosts import canonical_host
from affiant.policy.canonical.targets import canonical_target

__all__ = ["MAX_URL", "URL", "canonical_url"]

MAX_URL: Final = 2000
"""Characters."""
_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"(https?)://([^/?#@\\:]+)(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)\Z", re.DOTALL)


class URL(NamedTuple):
    """One address in canonical form."""

    scheme: str
    host: str
    port: int
    target: str
    """In origin form."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.target}"


def canonical_url(text: str) -> URL:
    """The address that every reader finds in ``text``.

    Raises:
        HostRefused: no host name; addresses are none. TargetRefused: any other form.
    """
    match = _URL.match(text)
    if match is None or len(text) > MAX_URL:
        raise TargetRefused(
            "not a URL that every program reads alike",
            expected=f"https://host[:port]/path of at most {MAX_URL} characters",
            found=excerpt(text),
        )
    scheme, host, port, target = match.groups()
    number = int(port) if port else _PORTS[scheme]
    if number > 65535:
        raise TargetRefused("not a port", expected="1 to 65535", found=number)
    canonical = canonical_target(target if target.startswith("/") else "/" + target)
    return URL(scheme, canonical_host(host), number, canonical)
