"""Lists the codes of this package's errors that no program catches by a class of their own.

Each is raised as its family with ``code=``. An error that a program catches has a class; its docstring is its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ERROR_CODES"]

ERROR_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "broker.configuration": ("ConfigurationError", "The broker's configuration does not fit together."),
    "broker.protocol": ("MalformedError", "A frame between supervisor and broker is not what it should be."),
    "broker.request": (
        "NotAllowedError",
        "A request that the broker never sends, whatever the supervisor decided.",
    ),
    "broker.state": ("StateError", "The broker is asked for a step that its present state does not offer."),
    "limit_secret_uses": (
        "NotAllowedError",
        "A secret was put into as many requests of the session as the profile allows.",
    ),
    "secret.grants": (
        "ConfigurationError",
        "The bindings of a session's placeholders contradict each other.",
    ),
    "secret.not_found": ("ConfigurationError", "The store holds no secret of this name."),
    "secret.outside_broker": ("StateError", "``SecretRef.resolve()`` was called outside the broker."),
    "secret.placeholder_hidden": (
        "NotAllowedError",
        "A request body is encoded so that it cannot be searched for placeholders.",
    ),
    "secret.reference": (
        "MalformedError",
        "A reference to a secret's place is not ``local:NAME`` or ``vault:<mount>/<path>#<field>``.",
    ),
    "secret.shape": (
        "ConfigurationError",
        "The shape of a placeholder leaves it guessable, or uses characters that it may not.",
    ),
    "secret.sigv4_authorization": (
        "NotAllowedError",
        "An AWS signature in another algorithm or form than the one that can be made again.",
    ),
    "secret.sigv4_headers": (
        "NotAllowedError",
        "A signed header is duplicated or missing, or would be sent with another value.",
    ),
    "secret.sigv4_key": ("MalformedError", "The value of a signing key is not the JSON object of its parts."),
    "secret.sigv4_payload": (
        "NotAllowedError",
        "A body that was signed in pieces, or is not the body that was signed.",
    ),
    "secret.sigv4_presigned": ("NotAllowedError", "An AWS signature in the query."),
    "secret.sigv4_scope": (
        "NotAllowedError",
        "A request was signed for another region or service than the profile names.",
    ),
    "secret.surface": (
        "ConfigurationError",
        "The broker cannot put a secret into the named place of a request.",
    ),
    "store.authentic": (
        "NotAuthenticError",
        "The local store does not open under this key: another key, or a changed file.",
    ),
    "store.key": (
        "ConfigurationError",
        "The key is not of the kind or the size that the local store asks for.",
    ),
    "store.keyring": (
        "UnreachableError",
        "The system keyring cannot be reached, stays locked, or does not hold the key of this store.",
    ),
    "store.malformed": ("MalformedError", "The bytes are no local store of a known version."),
    "store.permissions": ("ConfigurationError", "Other users can read or change the store or its key file."),
    "upstream.encoding": (
        "MalformedError",
        "The upstream's answer is encoded although it was asked not to be: it cannot be redacted.",
    ),
    "upstream.partial": (
        "MalformedError",
        "The upstream sent a part of an answer (206, 226, a range of bytes), in which a secret could be cut.",
    ),
    "upstream.upgrade": (
        "MalformedError",
        "The connection would change to a protocol that is not inspected.",
    ),
    "vault.address": ("ConfigurationError", "The address is not a plain https origin."),
    "vault.certificate": ("NotAuthenticError", "Vault's certificate does not hold under the given roots."),
    "vault.not_found": ("ConfigurationError", "Vault has no such secret, field or (any longer) version."),
    "vault.path": (
        "ConfigurationError",
        "A mount, path, field or role holds a character or a segment that could lead elsewhere.",
    ),
    "vault.rate_limited": ("UnreachableError", "Vault asks to slow down (429)."),
    "vault.redirected": (
        "NotAllowedError",
        "Vault answered with a redirect; it is never followed, so that no token goes to another host.",
    ),
    "vault.sealed": ("UnreachableError", "Vault is sealed or not initialised (503, 501)."),
    "vault.standby": ("UnreachableError", "The server that was asked is a standby (472, 473)."),
    "vault.unreachable": ("UnreachableError", "Vault did not answer, or its certificate does not hold."),
}
"""Code -> the family that is raised, and its meaning."""
