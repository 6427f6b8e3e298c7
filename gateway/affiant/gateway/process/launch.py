"""Launches the gateway's TD: the half of ``affiant gateway serve`` that talks to the platform.

It builds the configuration, has a TD launched for exactly that, hands the TD's descriptor and the settings to
the server process, and stays: collateral is renewed every hour, signals are passed on, and its exit code is the
server's. It never holds a key of the gateway; the server would refuse a TD or settings that do not fit.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Final, Literal
from urllib.parse import urlsplit

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import JSONError
from affiant.attestation.log.witness.embedded import OwnWitness, own_witness
from affiant.attestation.log_reading.object_store import open_objects
from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import load_release, reference_values
from affiant.attestation.release.running import first_program
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.reference import simulated_reference
from affiant.attestation.statements.gateway_config import (
    DEV_ECHO,
    EVENT_MAX,
    GatewayConfig,
    MCPServerConfig,
    UpstreamConfig,
    is_upstream_url,
    local_gateway_config,
)
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL
from affiant.errors import AffiantError, ConfigurationError
from affiant.folders import make_private
from affiant.gateway.config.collateral_file import COLLATERAL_NAME, write_collateral
from affiant.gateway.config.config import BODIES_MAX, SESSIONS_MAX, Settings, encode_settings
from affiant.gateway.config.trusted_keys import Named, read_named
from affiant.gateway.inference.dialects_served import DIALECTS
from affiant.gateway.log.log_mirror import forget_state, mirrored, shown_by
from affiant.gateway.log.transparency_log import log_folder
from affiant.gateway.process.decision_handover import DecisionHandover
from affiant.gateway.process.own_witness import served_own_witness
from affiant.gateway.tool_gate.path_copies import folder_of_copies
from affiant.gateway.tool_servers.servers_file import ToolServers, read_tool_servers
from affiant.gateway.tool_servers.stdio_host import served_commands
from affiant.gateway.upstream.openai_upstream import Credentials
from affiant.gateway.wire.errors import StoreLocked
from affiant.policy.decision_log.rotation import Rotation
from affiant.policy.loading.policy_file import policy_owners
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.processes.gateway_probe import read_gateway_file
from affiant.sandbox.processes.service_process import as_user
from affiant.sandbox.processes.upstream_address import read_root, require_encrypted
from affiant.secrets.broker.local_source import LocalSource
from affiant.secrets.names.source import parse_reference
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile, passphrase_in
from affiant.secrets.store.secret_service import SecretService

__all__ = [
    "Launch",
    "UpstreamChoice",
    "WitnessChoice",
    "launch_gateway",
    "planned_config",
    "upstream_configs",
]

RENEW_COLLATERAL_S: Final = 3600.0
_STOP_GRACE_S: Final = 30.0
_MAX_WITNESSES: Final = 32768


@dataclass(frozen=True, slots=True)
class UpstreamChoice:
    """An upstream as the operator names it.

    Args:
        key: a secret reference (``local:NAME``).
        root: a PEM file with the only certificate to trust for it.
        concurrent: how many requests it is asked at once; None: the default.
        plain_http: whether prompts for it may leave this machine over plain http.
        timeouts: seconds of :class:`UpstreamConfig` by their names.
    """

    url: str
    key: str | None = None
    root: Path | None = None
    concurrent: int | None = None
    plain_http: bool = False
    timeouts: Mapping[str, int] = field(default_factory=dict)


WitnessChoice = Literal["self", "none"] | Path
"""The gateway's own witness, which is started with it; none; or those of a C2SP tlog-policy file."""


@dataclass(frozen=True, slots=True)
class Launch:
    """The options of ``affiant gateway serve``.

    Args:
        home: the state folder that holds ``gateway/`` and ``secrets/``.
        platform: the platform's socket.
        ready: a descriptor that gets one line of JSON; passed on to the server.
        user: the user id that the server runs as, when this half is root; the store becomes that user's, and the server
            reaches it wherever it lies. None: this half's.
        bodies_max: bytes that all request bodies together may hold. sessions_max: open sessions at once.
        body_max: bytes of one body. event_max: bytes of one event of a stream.
        witnesses: who must cosign the log.
        erasure_authorities: files with the public keys of those whose orders to erase and to hold are carried out.
        profile_signers: a file of those one of whom must have signed a session's profile; None: no signature is needed.
        floor: the file of the organisation's baseline policy, which each session's profile must contain.
        decisions: a file to which each decision of a profile is appended; None: nowhere.
        rotation: when that file is set aside, and how many such are kept. Not of the configuration, which is measured.
        log_objects: where the log's copy is kept, ``s3://bucket/prefix`` or ``file:///folder``; None: nowhere.
        mcp_servers: the file of tool servers; None: there is no tool gate.
        model_aliases: model that is asked for -> names under which its upstream answers as that same model.
        allowed_members: dialect -> what it may hold beyond the gateway's own lists.
        secret_passphrase: a private file with the passphrase of the local secret store, where one opens it.
    """

    home: Path
    platform: Path
    host: str
    port: int
    upstreams: tuple[UpstreamChoice, ...]
    ready: int | None
    user: int | None = None
    bodies_max: int = BODIES_MAX
    sessions_max: int = SESSIONS_MAX
    body_max: int = 8 << 20
    event_max: int = EVENT_MAX
    witnesses: WitnessChoice = "self"
    erasure_authorities: tuple[Path, ...] = ()
    profile_signers: Path | None = None
    floor: Path | None = None
    log_objects: str | None = None
    mcp_servers: Path | None = None
    model_aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    allowed_members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    decisions: Path | None = None
    rotation: Rotation = field(default_factory=Rotation)
    secret_passphrase: Path | None = None


def upstream_configs(choices: Sequence[UpstreamChoice]) -> tuple[UpstreamConfig, ...]:
    """The configuration of each upstream; without any, the embedded echo.

    Raises:
        ``gateway.settings``: not an address, plain http to another machine, or a root that cannot be read.
    """
    if not choices:
        return (DEV_ECHO,)
    configs: list[UpstreamConfig] = []
    for choice in choices:
        taken = {config.id for config in configs}
        roots = () if choice.root is None else (sha256_name(_root(choice.root)),)
        configs.append(_upstream_config(choice, roots, taken))
    return tuple(configs)


def _upstream_config(choice: UpstreamChoice, roots: tuple[str, ...], taken: set[str]) -> UpstreamConfig:
    if choice.url == DEV_ECHO.url:
        return DEV_ECHO
    if not is_upstream_url(choice.url):
        raise ConfigurationError(  # the address is not repeated: it may hold a password
            "not an upstream's address",
            expected="http(s)://host[:port]/v1, without user, query and fragment",
            hint="A credential goes into the secret store, and its name into --upstream-key-ref",
            code="gateway.settings",
        )
    if not choice.plain_http:
        require_encrypted(choice.url, code="gateway.settings")
    parts = urlsplit(choice.url)
    name = re.sub("[^a-z0-9]+", "-", parts.netloc.lower()).strip("-")[:48] or "upstream"
    identifier = next(n for n in (name, *(f"{name}-{i}" for i in range(2, 99))) if n not in taken)
    bind = "tls" if parts.scheme == "https" else "none"
    return UpstreamConfig(
        identifier, choice.url, bind, choice.key, roots, choice.concurrent, **choice.timeouts
    )


def _root(path: Path) -> bytes:
    return read_root(path, code="gateway.settings")


def planned_config(
    home: Path,
    choices: Sequence[UpstreamChoice],
    *,
    now: datetime,
    random_bytes: Callable[[int], bytes],
    body_max: int = 8 << 20,
    event_max: int = EVENT_MAX,
    witnesses: WitnessChoice = "self",
    erasure_authorities: Sequence[Path] = (),
    profile_signers: Path | None = None,
    floor: Path | None = None,
    mcp_servers: Path | None = None,
    model_aliases: Mapping[str, Sequence[str]] | None = None,
    allowed_members: Mapping[str, Sequence[str]] | None = None,
) -> GatewayConfig:
    """The configuration that a gateway of this state folder would serve with; nothing is started.

    Raises:
        AffiantError: there is no release manifest, or an upstream or witness is refused.
    """
    _, reference = simulated_reference(home, now=now, random_bytes=random_bytes)
    own = own_witness(home, random_bytes=random_bytes) if witnesses == "self" else None
    named = read_named(erasure_authorities, profile_signers, floor)
    tools = _tool_servers(mcp_servers).configs
    return _config(
        parse_reference_values(reference),
        choices,
        witnesses,
        own,
        named,
        tools=tools,
        model_aliases=model_aliases or {},
        allowed_members=allowed_members or {},
        body_max=body_max,
        event_max=event_max,
    )


def _tool_servers(path: Path | None) -> ToolServers:
    if path is None:
        return ToolServers()
    if importlib.util.find_spec("mcp") is None:
        raise ConfigurationError(
            "tool servers need the MCP SDK",
            where=str(path),
            hint="pip install 'affiant[mcp]'",
            code="gateway.settings",
        )
    return read_tool_servers(path, _root)


def _config(
    reference: ReferenceValues,
    choices: Sequence[UpstreamChoice],
    witnesses: WitnessChoice,
    own: OwnWitness | None,
    named: Named,
    *,
    tools: Sequence[MCPServerConfig],
    model_aliases: Mapping[str, Sequence[str]],
    allowed_members: Mapping[str, Sequence[str]],
    body_max: int,
    event_max: int,
) -> GatewayConfig:
    file = witnesses if isinstance(witnesses, Path) else None
    policy = None if own is None else own.policy
    _require_members(allowed_members)
    try:
        config = local_gateway_config(
            reference,
            upstreams=upstream_configs(choices),
            witnesses=policy if file is None else _witness_text(file),
            erasure_authorities=named.authorities,
            profile_signers=named.signers,
            floor=None if named.floor is None else named.floor.digest,
            mcp_servers=tools,
            model_aliases=model_aliases,
            allowed_members=allowed_members,
            body_max=body_max,
            event_max=event_max,
        )
    except (ShapeMismatch, JSONError) as error:
        raise _entries_error(error, file) or error from error
    if file is not None and config.asks_own_witness:
        raise ConfigurationError(
            "an address that is kept for the gateway's own witness",
            where=str(file),
            found=OWN_WITNESS_URL,
            hint="The gateway's own witness cannot be combined with others: --witnesses self",
            code="gateway.settings",
        )
    return config


def _require_members(allowed: Mapping[str, Sequence[str]]) -> None:
    """Return if each dialect that is named is served, and has the places that are named."""
    dialects = {dialect.name: dialect for dialect in DIALECTS.values()}
    for name, members in allowed.items():
        dialect = dialects.get(name)
        if dialect is None:
            raise ConfigurationError(
                "the gateway serves no such dialect",
                expected=", ".join(dialects),
                found=name[:64],
                where="--allow-member",
                code="gateway.settings",
            )
        if name != "chat":  # whose places the shape of a configuration lists
            dialect.with_names(tuple(members))


def _entries_error(error: AffiantError, witnesses: Path | None) -> ConfigurationError | None:
    """What is wrong with a tool server, an alias, a member or the witnesses' file, in the operator's words; or None."""
    where = str(error.where)
    if witnesses is not None and where.startswith("config.witnesses"):
        where = str(witnesses)
    elif not where.startswith(
        ("config.mcp_servers", "config.model_aliases", "config.chat_members", "config.members")
    ):
        return None
    return ConfigurationError(
        error.message, where=where, expected=error.expected, found=error.found, code="gateway.settings"
    )


def _witness_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_WITNESSES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            "the witness policy cannot be read", where=str(path), code="gateway.settings"
        ) from error


def launch_gateway(launch: Launch) -> int:
    """Serve until the server ends; its exit code.

    Raises:
        AffiantError: the platform, the secrets or the settings refuse before a server exists.
    """
    store = launch.home / "gateway"
    _require_alone(store)
    objects = None if launch.log_objects is None else open_objects(launch.log_objects)
    make_private(store)
    if launch.user is not None:
        for path in (store, *store.iterdir(), *_log_files_of_others(store / "log", launch.user)):
            os.chown(path, launch.user, launch.user, follow_symlinks=False)
    platform = PlatformClient(launch.platform)
    release = load_release()
    reference = parse_reference_values(reference_values(release, platform.root()))
    own = own_witness(launch.home, random_bytes=os.urandom) if launch.witnesses == "self" else None
    owners = policy_owners(os.geteuid(), os.environ)
    named = read_named(launch.erasure_authorities, launch.profile_signers, launch.floor, owners=owners)
    tools = _tool_servers(launch.mcp_servers)
    config = _config(
        reference,
        launch.upstreams,
        launch.witnesses,
        own,
        named,
        tools=tools.configs,
        model_aliases=launch.model_aliases,
        allowed_members=launch.allowed_members,
        body_max=launch.body_max,
        event_max=launch.event_max,
    )
    secrets = _Secrets(launch)
    environments = _environments(config, secrets)
    settings = Settings(
        store=store,
        host=launch.host,
        port=launch.port,
        config=config,
        reference=reference,
        collateral=platform.collateral(),
        boot_log=platform.boot_log(Image.GATEWAY),
        floor=None if named.floor is None else named.floor.policy,
        build=release.images[Image.GATEWAY].digest,
        credentials=_credentials(launch, config, secrets),
        mcp_credentials=_tool_credentials(config, secrets, tools.roots or {}),
        mcp_secrets=tuple(value for each in environments.values() for value in each.values()),
        bodies_max=launch.bodies_max,
        sessions_max=launch.sessions_max,
    )
    with ExitStack() as running:
        decisions = None if launch.decisions is None else DecisionHandover(launch.decisions, launch.rotation)
        if decisions is not None:
            running.callback(decisions.close)
        if own is not None:
            log = log_folder(store, config.origin)
            running.enter_context(served_own_witness(own, store, log, user=launch.user))
        running.enter_context(
            served_commands(
                config.mcp_servers,
                {
                    name: {key: value.reveal().decode("utf-8") for key, value in each.items()}
                    for name, each in environments.items()
                },
                home=launch.home,
                store=store,
                user=launch.user,
            )
        )
        if any(server.folders for server in config.mcp_servers):
            copies = folder_of_copies(user=launch.user, random_bytes=os.urandom)
            settings = replace(settings, path_copies=running.enter_context(copies))
        server = _server(launch, settings, platform, decisions)
        if objects is None:
            forget_state(store)
        else:
            log = log_folder(store, config.origin)
            running.enter_context(mirrored(store, log, objects, newest=shown_by(store)))
        return _stay(server, platform, store / COLLATERAL_NAME)


def _require_alone(store: Path) -> None:
    """Return if no gateway serves from ``store``. The server takes the lock; this finds it out before anything starts.

    Raises:
        StoreLocked: one does; which one.
        ``gateway.settings``: the folder is another user's, or its lock is no file of its own.
    """
    try:
        descriptor = os.open(store / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        owner = _owner(store)
        raise ConfigurationError(
            "the gateway's lock cannot be opened",
            where=str(store / "lock"),
            expected=f"a file of user {os.geteuid()}",
            found=error.strerror if owner is None else f"{error.strerror}; the folder is of user {owner}",
            hint="Run as that user, or give --home another folder",
            code="gateway.settings",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        running = read_gateway_file(store / "gateway.json")
        pid = _holder(os.fstat(descriptor))
        known = [*([] if pid is None else [f"pid {pid}"]), *([] if running is None else [running.url])]
        raise StoreLocked(
            "a gateway already serves from this folder",
            where=str(store),
            found=", ".join(known) or None,
            hint="Stop it, or give --home another folder",
        ) from error
    finally:
        os.close(descriptor)


def _owner(path: Path) -> int | None:
    """The user id of what owns ``path``, or the nearest folder above it that can be seen."""
    for each in (path, *path.parents):
        with suppress(OSError):
            return each.lstat().st_uid
    return None


def _holder(file: os.stat_result, locks: Path = Path("/proc/locks")) -> int | None:
    """The process that holds a lock of this file, as far as the kernel shows it (proc(5), /proc/locks)."""
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError):
        for line in locks.read_text(encoding="ascii").splitlines():
            match line.split():
                case [_, "FLOCK", _, "WRITE", pid, found, *_] if found == place:
                    return int(pid) if int(pid) > 0 else None
    return None


def _server(
    launch: Launch, settings: Settings, platform: PlatformClient, decisions: DecisionHandover | None
) -> subprocess.Popen[bytes]:
    """The server's process, in a TD of its own."""
    with ExitStack() as stack:
        td = platform.create_td(image=Image.GATEWAY, mrconfigid=settings.config.mrconfigid)
        stack.callback(os.close, td)
        document = stack.enter_context(_descriptor_with(encode_settings(settings)))
        return _start(td, document, launch, decisions, copies=settings.path_copies)


def _log_files_of_others(folder: Path, user: int) -> Iterator[Path]:
    """The files of the logs, if they were written by another user: a gateway that was started otherwise before."""
    if folder.is_dir() and any(log.lstat().st_uid != user for log in folder.iterdir()):
        yield from folder.rglob("*")


def _credentials(launch: Launch, config: GatewayConfig, secrets: _Secrets) -> Mapping[str, Credentials]:
    """API keys, resolved once, here; and the roots' bytes."""
    credentials = {}
    for choice, upstream in zip(launch.upstreams, config.upstreams, strict=False):
        key = None if choice.key is None else secrets.value(choice.key)
        roots = () if choice.root is None else (read_root(choice.root, code="gateway.settings"),)
        credentials[upstream.id] = Credentials(key, roots)
    return credentials


class _Secrets:
    """The local store, opened once, when the first value of it is needed."""

    def __init__(self, launch: Launch) -> None:
        self._file = launch.secret_passphrase
        self._store = LocalStoreFile(
            launch.home / "secrets",
            random_bytes=os.urandom,
            ask_passphrase=None if self._file is None else self._passphrase,
            keyring=SecretService(os.environ.get("DBUS_SESSION_BUS_ADDRESS")),
        )
        self._source: LocalSource | None = None

    def value(self, reference: str) -> SecretValue:
        """The value that ``local:NAME`` names."""
        if self._source is None:
            self._source = LocalSource(self._store.read())
        return self._source.resolve(parse_reference(reference)).value

    def _passphrase(self, _new: bool) -> bytes:  # noqa: FBT001 - the store's own question
        assert self._file is not None
        return passphrase_in(self._file)


def _tool_credentials(
    config: GatewayConfig, secrets: _Secrets, roots: Mapping[str, bytes]
) -> Mapping[str, Credentials]:
    """As :func:`_credentials`, for the tool servers with a url."""
    return {
        server.id: Credentials(
            None if server.key is None else secrets.value(server.key),
            (roots[server.id],) if server.id in roots else (),
        )
        for server in config.mcp_servers
        if server.url is not None
    }


def _environments(config: GatewayConfig, secrets: _Secrets) -> Mapping[str, Mapping[str, SecretValue]]:
    """The secrets of the tool servers that are commands, by server and variable."""
    return {
        server.id: {name: secrets.value(reference) for name, reference in server.env}
        for server in config.mcp_servers
        if server.env
    }


@contextmanager
def _descriptor_with(data: bytes) -> Iterator[int]:
    """A memory file that holds ``data``, at its beginning."""
    descriptor = os.memfd_create("affiant-gateway-settings", os.MFD_CLOEXEC)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _start(
    td: int, document: int, launch: Launch, decisions: DecisionHandover | None, *, copies: Path | None
) -> subprocess.Popen[bytes]:
    ready = launch.ready
    log = () if decisions is None else decisions.descriptors
    passed = tuple(each for each in (td, document, ready, *log) if each is not None)
    arguments = [*first_program(Image.GATEWAY, td), "affiant.gateway.process.server"]
    arguments += ["--td-fd", str(td), "--settings-fd", str(document)]
    if ready is not None:
        arguments += ["--ready-fd", str(ready)]
    if log:
        arguments += ["--decisions-fd", str(log[0]), "--decisions-link-fd", str(log[1])]
    try:
        with _as_its_user(arguments, launch, copies) as (command, more):
            server = subprocess.Popen(
                command, pass_fds=(*passed, *more), stdin=subprocess.DEVNULL, env=_environment()
            )
    finally:
        if ready is not None:
            os.close(ready)
    if decisions is not None:
        decisions.served()
    return server


@contextmanager
def _as_its_user(
    arguments: Sequence[str], launch: Launch, copies: Path | None
) -> Iterator[tuple[Sequence[str], tuple[int, ...]]]:
    """The command that runs the server as the user that the launch names, and the descriptors it needs for that."""
    if launch.user is None:
        yield arguments, ()
        return
    shown = [path for path in (launch.home / "gateway", copies) if path is not None]
    with as_user(arguments, launch.user, [Need(str(path), writable=True) for path in shown]) as command:
        yield command


def _environment() -> Mapping[str, str]:
    """Nothing that changes what the server trusts (such as SSL_CERT_FILE) or runs reaches it."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}


def _stay(server: subprocess.Popen[bytes], platform: PlatformClient, collateral: Path) -> int:
    """Pass signals on and renew collateral until the server ends."""
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(platform, collateral, ended), daemon=True)
    renewing.start()
    with _signals_to(server):
        code = server.wait()
    ended.set()
    renewing.join(_STOP_GRACE_S)
    if code < 0:
        sys.stderr.write(
            f"affiant gateway: the server was ended by signal {-code}. Its sessions are lost; its records are kept, "
            "and the next start discloses the gap\n"
        )
    return code if code >= 0 else 128 - code


@contextmanager
def _signals_to(server: subprocess.Popen[bytes]) -> Iterator[None]:
    def forward(number: int, _frame: FrameType | None) -> None:
        server.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _renew(platform: PlatformClient, path: Path, ended: threading.Event) -> None:
    while not ended.wait(RENEW_COLLATERAL_S):
        try:
            write_collateral(path, platform.collateral())
        except (AffiantError, OSError) as error:
            sys.stderr.write(f"affiant gateway: collateral was not renewed: {error}\n")
