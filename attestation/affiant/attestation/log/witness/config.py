"""Reads which logs a witness serves: keys on the command line, or a YAML file.

::

    logs:
      - log.example/affiant+1a2b3c4d+AZ...     # several keys of one origin: any of them
    listen: 127.0.0.1:8460                      # optional
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.strict_yaml import (
    PLAIN,
    ListNode,
    MapNode,
    ScalarNode,
    YAMLRefused,
    compose,
)
from affiant.attestation.log.witness.protocol import Logs
from affiant.attestation.tlog.errors import NoteMalformed
from affiant.attestation.tlog.note_keys import LogKey, parse_vkey
from affiant.errors import ConfigurationError

__all__ = ["MAX_CONFIG_BYTES", "WitnessConfig", "logs_of", "parse_config", "parse_listen"]

MAX_CONFIG_BYTES: Final = 1 << 20
_MEMBERS: Final = ("logs", "listen")


@dataclass(frozen=True, slots=True)
class WitnessConfig:
    """A configuration file as read."""

    logs: Logs
    listen: str | None


def parse_config(data: bytes, *, source: str) -> WitnessConfig:
    """The configuration in ``data``; ``source`` names it in errors.

    Raises:
        ``witness.settings``: another form, a key that is no log's, no log.
    """
    try:
        document = compose(data, source=source, dialect=PLAIN)
    except YAMLRefused as error:
        raise ConfigurationError(str(error), code="witness.settings") from error
    if not isinstance(document, MapNode):
        raise ConfigurationError(
            "not a witness's configuration", where=source, expected="logs: [...]", code="witness.settings"
        )
    members = {member.key.text: member.value for member in document.members}
    if not {"logs"} <= members.keys() <= set(_MEMBERS):
        raise ConfigurationError(
            "a witness's configuration has other members",
            where=source,
            expected="logs, and perhaps listen",
            found=", ".join(sorted(ascii(name[:40]) for name in members)),
            code="witness.settings",
        )
    listed, listen = members["logs"], members.get("listen")
    if not isinstance(listed, ListNode) or not all(isinstance(each, ScalarNode) for each in listed.items):
        raise ConfigurationError("`logs` is no list of keys", where=str(listed.mark), code="witness.settings")
    if listen is not None and not isinstance(listen, ScalarNode):
        raise ConfigurationError("`listen` is no address", where=str(listen.mark), code="witness.settings")
    vkeys = [each.text for each in listed.items if isinstance(each, ScalarNode)]
    return WitnessConfig(logs_of(vkeys), None if listen is None else listen.text)


def logs_of(vkeys: Iterable[str]) -> Logs:
    """The keys, by origin.

    Raises:
        ``witness.settings``: none, one twice, or one that is no log's.
    """
    found: dict[str, tuple[LogKey, ...]] = {}
    for text in vkeys:
        try:
            key = parse_vkey(text)
        except NoteMalformed as error:
            raise ConfigurationError(f"not a log's key: {error}", code="witness.settings") from error
        if not isinstance(key, LogKey) or key in found.get(key.name, ()):
            raise ConfigurationError(
                "a key that is no log's, or is there twice",
                expected="Ed25519 (0x01)",
                found=ascii(key.name[:60]),
                code="witness.settings",
            )
        found[key.name] = (*found.get(key.name, ()), key)
    if not found:
        raise ConfigurationError("no log to witness", expected="one key at least", code="witness.settings")
    return found


def parse_listen(text: str) -> tuple[str, int]:
    """Address and port; port 0: any.

    Raises:
        ``witness.settings``: another form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or int(port) > 0xFFFF:
        raise ConfigurationError(
            "not an address to listen on",
            expected="ADDRESS:PORT",
            found=ascii(text[:60]),
            code="witness.settings",
        )
    return host.strip("[]"), int(port)
