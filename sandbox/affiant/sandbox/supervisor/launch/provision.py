"""What the launcher provides, read strictly: the documents of one session and where its things lie.

A launcher provides a whole session at once (``provision``). A pool provides what every session of one kind has in
common (``warm``); the launcher that takes the supervisor adds what is its session's own (``activate``).

Nothing here is believed for being here: ``launch_check`` compares it with the manifest, and the manifest with the
TD's own register.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u, from_hex
from affiant.errors import MalformedError
from affiant.policy.model.profile import Resources
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, HostUsr, RootFS
from affiant.sandbox.supervisor.launch.control import Message, text_member

__all__ = [
    "Agent",
    "Provision",
    "Template",
    "Vault",
    "new_session_id",
    "parse_activation_message",
    "parse_provision",
    "parse_template",
]

_BACKENDS: Final = {
    "gvisor": BackendName.GVISOR,
    "bwrap": BackendName.BUBBLEWRAP,
    "bwrap-landlock": BackendName.BUBBLEWRAP,
}
_OF_SESSION: Final = frozenset({"activation", "agent", "resources", "signature", "decisions"})


@dataclass(frozen=True, slots=True)
class Agent:
    """Who runs. ``salt``: 16 bytes that hide the name in the activation's commitment."""

    name: str
    salt: bytes
    user: str | None


@dataclass(frozen=True, slots=True)
class Vault:
    """Where Vault is, and the DER certificates of its authorities."""

    address: str
    roots: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What every session of one kind has in common, as provided: exact bytes of its documents."""

    manifest: bytes
    policy: bytes
    """The profile's normal form."""
    reference: bytes
    gateway_config: bytes
    collateral: bytes
    gateway_url: str
    roots: tuple[bytes, ...]
    """DER certificates that the proxy trusts beside the system's."""
    session_dir: Path
    runtime: str | None
    rootfs: RootFS
    backend: BackendName
    vault: Vault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision(Template):
    """One session, as provided: the template, and what is this session's own."""

    activation: bytes
    agent: Agent
    secrets: tuple[int, int] | None
    """Descriptors of the local secret store and of its key."""
    vault_token: int | None = None
    """Descriptor of a file with a token; there is one where there is a Vault."""
    decisions: int | None = None
    """Descriptor of the decision log, if one was asked for."""
    resources: Resources | None = None
    """Bounds that the session's starter asks for, none above the profile's."""
    signature: bytes | None = None
    """A signature over the file that the policy is of; the gateway's to judge."""


def parse_provision(message: Message) -> Provision:
    """The provision in a launcher's first message: template and session at once.

    Raises:
        ``session.control``: a member is missing or of another type. EncodingError: not base64url.
    """
    _require_operation(message, "provision")
    return _provision(_template(message), message)


def parse_template(message: Message) -> Template:
    """The template in a pool's first message. Nothing of a session may come with it.

    Raises:
        As :func:`parse_provision`.
    """
    _require_operation(message, "warm")
    if message.descriptors or message.members.keys() & _OF_SESSION:
        raise MalformedError("a template with parts of a session", code="session.control")
    return _template(message)


def parse_activation_message(template: Template, message: Message) -> Provision:
    """What a launcher sends to a supervisor that waits for its activation.

    Raises:
        As :func:`parse_provision`.
    """
    _require_operation(message, "activate")
    return _provision(template, message)


def _require_operation(message: Message, operation: str) -> None:
    if message.members.get("op") != operation:
        raise MalformedError(
            "the launcher sent another message than was expected",
            expected=f'"op": "{operation}"',
            code="session.control",
        )


def _template(message: Message) -> Template:
    rootfs = message.text("rootfs")
    return Template(
        manifest=from_b64u(message.text("manifest")),
        policy=from_b64u(message.text("policy")),
        reference=from_b64u(message.text("reference")),
        gateway_config=from_b64u(message.text("gateway_config")),
        collateral=from_b64u(message.text("collateral")),
        gateway_url=message.text("gateway_url"),
        roots=_roots(message.members.get("roots"), "roots"),
        session_dir=Path(message.text("session_dir")),
        runtime=_optional(message.members.get("runtime"), "runtime"),
        rootfs=HostUsr() if rootfs == "host-usr" else DirectoryRoot(rootfs),
        backend=_backend(message.text("isolation")),
        vault=_vault(message.members.get("vault")),
    )


def _provision(template: Template, message: Message) -> Provision:
    signature = _optional(message.members.get("signature"), "signature")
    return Provision(
        **{each.name: getattr(template, each.name) for each in fields(Template)},
        activation=from_b64u(message.text("activation")),
        agent=_agent(message.members.get("agent")),
        secrets=_secrets(message.descriptors),
        vault_token=_vault_token(template.vault, message.descriptors.get("vault_token")),
        decisions=_decisions(message),
        resources=_resources(message.members.get("resources")),
        signature=None if signature is None else from_b64u(signature),
    )


def _agent(value: object) -> Agent:
    if not isinstance(value, Mapping):
        raise MalformedError("a member is missing, or no object", where="agent", code="session.control")
    return Agent(
        name=text_member(value.get("name"), "agent.name"),
        salt=from_hex(text_member(value.get("salt"), "agent.salt")),
        user=_optional(value.get("user"), "agent.user"),
    )


def _resources(value: object) -> Resources | None:
    if value is None:
        return None
    names = {"cpus", "memory", "disk", "pids"}
    if (
        not isinstance(value, Mapping)
        or set(value) != names
        or any(not isinstance(each, (int, type(None))) or isinstance(each, bool) for each in value.values())
    ):
        raise MalformedError("`resources` is malformed", where="resources", code="session.control")
    return Resources(**value)


def _backend(text: str) -> BackendName:
    if text not in _BACKENDS:
        raise MalformedError(
            "unknown isolation", expected=" or ".join(_BACKENDS), where="isolation", code="session.control"
        )
    return _BACKENDS[text]


def _secrets(descriptors: Mapping[str, int]) -> tuple[int, int] | None:
    store, key = descriptors.get("secret_store"), descriptors.get("secret_key")
    if (store is None) != (key is None):
        raise MalformedError(
            "a secret store without its key, or a key without its store", where="fds", code="session.control"
        )
    return None if store is None or key is None else (store, key)


def _vault(value: object) -> Vault | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise MalformedError("a member is no object", where="vault", code="session.control")
    return Vault(
        text_member(value.get("address"), "vault.address"), _roots(value.get("roots"), "vault.roots")
    )


def _vault_token(vault: Vault | None, token: int | None) -> int | None:
    if (vault is None) != (token is None):
        raise MalformedError(
            "Vault's address without a token, or a token without an address",
            where="vault",
            code="session.control",
        )
    return token


def _decisions(message: Message) -> int | None:
    """The log's descriptor. One that was asked for and did not come must not become a session without a log."""
    asked, descriptor = message.members.get("decisions", False), message.descriptors.get("decisions")
    if not isinstance(asked, bool) or asked != (descriptor is not None):
        raise MalformedError(
            "a decision log without its descriptor, or a descriptor without it",
            where="fds",
            code="session.control",
        )
    return descriptor


def _optional(value: object, where: str) -> str | None:
    return None if value is None else text_member(value, where)


def _roots(value: object, where: str) -> tuple[bytes, ...]:
    if not isinstance(value, list):
        raise MalformedError("a member is missing, or is not a list", where=where, code="session.control")
    return tuple(from_b64u(text_member(root, where)) for root in value)


def new_session_id(random_bytes: Callable[[int], bytes]) -> str:
    """22 characters of base64url, the first a letter or digit: it never reads like an option."""
    while True:
        session = b64u(random_bytes(16))
        if session[0].isalnum():
            return session
