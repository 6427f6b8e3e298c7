"""The platform and the gateway of a session: those that run are used, what is missing is started.

``ensure_services`` joins the launchers of the state folder (a shared lock that a service supervisor watches,
``service_supervisor``) and returns what a session is built from: a provisioner, the reference values, and the one
gateway configuration that the session's manifest will name. A gateway of this state folder is accepted if its
configuration is the local one for the upstreams asked for, with or without witnesses; any other must be pinned by its
configuration's digest.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.simulated.served.reference import simulated_reference
from affiant.attestation.statements.gateway_config import (
    DEV_ECHO,
    GatewayConfig,
    UpstreamConfig,
    local_gateway_config,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.verdict.accepted_values import accepted_at
from affiant.attestation.verdict.trust_file import TrustFile, parse_trust_file
from affiant.errors import AffiantError, ConfigurationError, StateError
from affiant.sandbox.base.errors import GatewayNotTheOne
from affiant.sandbox.base.threads import abandonable
from affiant.sandbox.processes.gateway_probe import RunningGateway, fetch_config, read_gateway_file
from affiant.sandbox.processes.home import Home, open_lock
from affiant.sandbox.processes.launch_records import live_launches
from affiant.sandbox.processes.provisioner import Provisioner, SimulatedProvisioner, chosen_provisioner
from affiant.sandbox.processes.service_process import ServiceProcess, start_service
from affiant.sandbox.processes.service_supervisor import (
    launchers_lock,
    service_supervisor_spec,
    service_supervisors_lock,
)
from affiant.sandbox.processes.upstream_address import parse_timeouts, read_root

__all__ = ["GatewayChoice", "Services", "ensure_services"]

_SUPERVISOR_STOPS_WITHIN_S = 15.0
_SERVICES_STOP_WITHIN_S = 5.0
_INTERRUPTED_STOPS_WITHIN_S = 0.7
"""So long an interrupted start waits for what it started; that then ends by itself."""
_STEP_S = 0.02
_TOLD = 600
"""Characters that are shown of what is different of a configuration."""
_SUPERVISOR_STARTS_WITHIN_S = 45.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayChoice:
    """Which gateway a session shall use.

    Args:
        url: an existing gateway; None: the state folder's own.
        config_digests: ``sha256:`` names that the caller accepts for ``url``, beside those of the trust file.
        upstreams: addresses for the state folder's own gateway; empty: the embedded echo.
        upstream_keys: references to their API keys (``local:NAME``), in the same order.
        upstream_roots: PEM files, in the same order: the only certificate to trust for each.
        upstream_timeouts: ``HEAD[,IDLE[,TOTAL]]`` in seconds, in the same order.
        plain_http: whether prompts may leave this machine over plain http.
    """

    url: str | None = None
    config_digests: frozenset[str] = frozenset()
    upstreams: tuple[str, ...] = ()
    upstream_keys: tuple[str, ...] = ()
    upstream_roots: tuple[Path, ...] = ()
    upstream_timeouts: tuple[str, ...] = ()
    plain_http: bool = False

    @property
    def serve_arguments(self) -> tuple[str, ...]:
        """What ``affiant gateway serve`` gets of it."""
        return (
            *(f"--upstream={url}" for url in self.upstreams),
            *(f"--upstream-key-ref={key}" for key in self.upstream_keys),
            *(f"--upstream-ca={path.absolute()}" for path in self.upstream_roots),
            *(f"--upstream-timeout={text}" for text in self.upstream_timeouts),
            *(["--upstream-plain-http"] if self.plain_http else []),
        )


@dataclass(slots=True)
class Services:
    """What a session is built from. :meth:`leave` when its last process has ended."""

    home: Home
    provisioner: Provisioner
    gateway_url: str
    gateway_config: GatewayConfig
    reference: bytes
    """Reference values that the gateway's quote, and this session's, are appraised against."""
    started: tuple[str, ...]
    """What was not running and was started: ``platform``, ``gateway``."""
    gateway_spki: str | None
    """SHA-256 of the TLS key of the state folder's own gateway (43 characters); None: another gateway's, which only
    the supervisor looks at."""
    membership: int = field(repr=False)
    """Holds the launchers' lock. A process that inherits it keeps the services too: the supervisor does, so that it can
    still close its session when its launcher is gone."""
    _supervisor: ServiceProcess | None = field(repr=False, default=None)

    async def leave(self, *, interrupted: bool = False) -> None:
        """Stop using them. The last to leave waits until what was started, by any launcher, has stopped; what
        outlives us then is for the others. Idempotent.

        Args:
            interrupted: a person waits for the end, so what was started is waited for only shortly. It stops all the
                same.
        """
        if self.membership >= 0:
            os.close(self.membership)
            self.membership = -1
        supervisor, self._supervisor = self._supervisor, None
        used = bool(live_launches(self.home)) or _others(self.home)
        await _leave(self.home, supervisor, used=used, interrupted=interrupted)


async def ensure_services(
    home: Home,
    choice: GatewayChoice,
    *,
    platform: PlatformName = PlatformName.AUTO,
    now: datetime,
    random_bytes: Callable[[int], bytes],
    template: bool = False,
    echo: bool = False,
) -> Services:
    """Platform and gateway for one session; what is missing is started, but nothing in a TDX guest.

    Args:
        platform: where the session's TD comes from.
        template: whether a template process is started too, where services are: more sessions will follow.
        echo: show what the services write.

    Raises:
        ReleaseMissingError: a source tree without its release manifest.
        ``session.gateway_pin``: ``choice.url`` without a digest to expect.
        ``session.platform``: the session cannot run in this machine's TD, or no gateway is named for it.
        ``services.other_configuration``: the running gateway of this folder has other upstreams.
        GatewayNotTheOne, GatewayUnreachable, ``service.failed``, ``service.silent``: as named.
    """
    provisioner = chosen_provisioner(platform, home)
    simulated = provisioner.platform is PlatformName.SIMULATED
    if not simulated and choice.url is None:
        raise ConfigurationError(
            "this machine is a TDX guest, and no gateway is named",
            expected="a gateway in a TD of its own",
            hint="Name it with --gateway URL; to use the SIMULATED platform instead: --platform simulated",
            code="session.platform",
        )
    trust = _trust(home)
    accepted = _accepted(choice, trust, now)
    membership = await _join(home)
    supervisor: ServiceProcess | None = None
    try:
        async with _starting(home):
            reference: bytes | None = None
            missing: tuple[str, ...] = ()
            if simulated:
                _, reference = simulated_reference(home.path, now=now, random_bytes=random_bytes)
                missing = await abandonable(lambda: _missing(home, choice))
            if missing:  # what answers may be ending, because its starter was interrupted
                await _until_stopped(home, None, within_s=_SERVICES_STOP_WITHIN_S)
                missing = await abandonable(lambda: _missing(home, choice))
            if missing:
                supervisor = await _start(home, missing, choice, template=template, echo=echo)
            url, config, spki = await abandonable(lambda: _gateway(home, choice, accepted, reference))
        return Services(
            home=home,
            provisioner=provisioner,
            gateway_url=url,
            gateway_config=config,
            reference=_reference_for(config, reference, trust, now),
            started=missing,
            gateway_spki=spki,
            membership=membership,
            _supervisor=supervisor,
        )
    except BaseException as error:  # left whatever happened, and raised again
        os.close(membership)
        if supervisor is not None:
            interrupted = isinstance(error, asyncio.CancelledError)
            await _leave(home, supervisor, used=_others(home), interrupted=interrupted)
        raise


async def _leave(home: Home, supervisor: ServiceProcess | None, *, used: bool, interrupted: bool) -> None:
    """Wait until what was started has stopped, unless another launcher uses it; shortly, if we are interrupted."""
    try:
        if not used:
            limit = _INTERRUPTED_STOPS_WITHIN_S if interrupted else _SUPERVISOR_STOPS_WITHIN_S
            await _until_stopped(home, supervisor, within_s=limit)
    finally:
        if supervisor is not None and not supervisor.ended:
            supervisor.release()


async def _stop(supervisor: ServiceProcess, *, interrupted: bool) -> None:
    """Stop a service supervisor that no launcher uses yet; an interrupted start waits for that only shortly."""
    if not interrupted:
        await supervisor.stop(grace_s=_SUPERVISOR_STOPS_WITHIN_S)
        return
    supervisor.send_signal(signal.SIGTERM)
    ending = asyncio.ensure_future(supervisor.wait())
    await asyncio.wait({ending}, timeout=_INTERRUPTED_STOPS_WITHIN_S)
    if not ending.done():
        ending.cancel()
        await asyncio.wait({ending})
        supervisor.release()


async def _join(home: Home) -> int:
    """A descriptor that holds the launchers' lock shared; waits while a service supervisor is stopping."""
    descriptor = open_lock(launchers_lock(home))
    try:
        await _locked(descriptor, fcntl.LOCK_SH)
    except BaseException:  # closed whatever happened, and raised again
        os.close(descriptor)
        raise
    return descriptor


async def _locked(descriptor: int, kind: int) -> None:
    """Wait for a lock, by asking again and again: a wait in flock(2) could not be interrupted."""
    while not _locks(descriptor, kind):  # noqa: ASYNC110 - a lock sends no event
        await asyncio.sleep(_STEP_S)


def _others(home: Home) -> bool:
    """Whether a launcher of this state folder is left; a service supervisor that is stopping is none."""
    descriptor = open_lock(launchers_lock(home))
    try:
        return (
            _locks(descriptor, fcntl.LOCK_SH)
            and not _locks(descriptor, fcntl.LOCK_EX)
            and _locks(
                descriptor, fcntl.LOCK_SH
            )  # again: a service supervisor may have got it between the two
        )
    finally:
        os.close(descriptor)


def _locks(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _until_stopped(home: Home, supervisor: ServiceProcess | None, *, within_s: float) -> None:
    """Wait, not for ever, until no service supervisor is left, and with them what they started."""
    if supervisor is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await supervisor.wait()
    descriptor = open_lock(service_supervisors_lock(home))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(within_s, _SERVICES_STOP_WITHIN_S)):
                await _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


@asynccontextmanager
async def _starting(home: Home) -> AsyncIterator[None]:
    """One launcher at a time looks for services and starts them; the others wait without blocking their loop."""
    descriptor = open_lock(home.path / "services.lock")
    try:
        await _locked(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def _start(
    home: Home, missing: Sequence[str], choice: GatewayChoice, *, template: bool, echo: bool
) -> ServiceProcess:
    supervisor = start_service(
        service_supervisor_spec(
            home,
            platform="platform" in missing,
            gateway="gateway" in missing,
            serve=choice.serve_arguments,
            template=template,
        ),
        echo=echo,
    )
    try:
        facts = json.loads(await supervisor.ready(timeout_s=_SUPERVISOR_STARTS_WITHIN_S))
        match facts:
            case {"refused": {"code": str() as code, "message": str() as message, **rest}}:
                found, hint = rest.get("found"), rest.get("hint")
                raise StateError(message, code=code, found=found, hint=None if hint is None else str(hint))
    except BaseException as error:  # stopped whatever happened, and raised again
        await _stop(supervisor, interrupted=isinstance(error, asyncio.CancelledError))
        raise
    return supervisor


def _missing(home: Home, choice: GatewayChoice) -> tuple[str, ...]:
    """What does not answer. Blocks for at most some seconds."""
    missing = []
    try:
        SimulatedProvisioner(home.path).root()
    except AffiantError:
        missing.append("platform")
    if choice.url is None and _own_gateway(home) is None:
        missing.append("gateway")
    return tuple(missing)


def _own_gateway(home: Home) -> tuple[RunningGateway, GatewayConfig] | None:
    """The gateway of this state folder and its configuration, if it answers under the key that its file names."""
    named = read_gateway_file(home.gateway / "gateway.json")
    if named is None:
        return None
    try:
        config = fetch_config(named.url, spki=named.spki)
    except AffiantError:
        return None
    return (named, config) if config.digest == named.config else None


def _gateway(
    home: Home, choice: GatewayChoice, accepted: frozenset[str], reference: bytes | None
) -> tuple[str, GatewayConfig, str | None]:
    """The gateway's address, its configuration, and its key if it is our own. Blocks for at most some seconds."""
    if choice.url is not None:
        config = fetch_config(choice.url, spki=None)
        if config.digest not in accepted:
            raise GatewayNotTheOne(
                "the gateway shows another configuration than was pinned",
                where=choice.url,
                expected=" or ".join(sorted(accepted)),
                found=config.digest,
            )
        return choice.url, config, None
    own = _own_gateway(home)
    assert reference is not None, "a gateway of the state folder is on the simulated platform"
    if own is None:
        raise GatewayNotTheOne("the gateway became ready, but does not answer as its file says")
    named, config = own
    wanted = set(_wanted(choice)) or {DEV_ECHO.url}
    urls = set(map(_named, config.upstreams))
    local = local_gateway_config(parse_reference_values(reference))
    if (
        urls != wanted
        or config.reference != local.reference
        or (not choice.upstreams and config.unwitnessed != local)
    ):
        asked = _shown(local, wanted, urls, whole=not choice.upstreams)
        found = _shown(config, urls, wanted, whole=not choice.upstreams)
        raise ConfigurationError(
            "a gateway with another configuration serves from this state folder",
            expected=_told(asked, found),
            found=_told(found, asked),
            hint=f"To use it as it is: --gateway {named.url} --gateway-config {config.digest}. "
            "Else wait until it has ended, or give --home another folder",
            code="services.other_configuration",
        )
    return named.url, config, named.spki


def _wanted(choice: GatewayChoice) -> Iterator[str]:
    given = choice.upstream_keys, choice.upstream_roots, choice.upstream_timeouts
    for url, key, root, text in zip_longest(choice.upstreams, *given):
        roots = () if root is None else (sha256_name(read_root(root, code="session.upstream")),)
        timeouts = {} if text is None else parse_timeouts(text, code="session.upstream")
        yield _named(UpstreamConfig("", url, "tls", key, roots, None, **timeouts))


def _named(upstream: UpstreamConfig) -> str:
    """An upstream as errors name it; two that are reached in different ways have different names."""
    key = "" if upstream.key is None else f" with {upstream.key}"
    trusting = "".join(f" trusting {root}" for root in upstream.roots)
    timeouts = ("head_s", "idle_s", "total_s")
    other = [name for name in timeouts if getattr(upstream, name) != getattr(DEV_ECHO, name)]
    return upstream.url + key + trusting + "".join(f" {name} {getattr(upstream, name)}" for name in other)


def _shown(config: GatewayConfig, urls: set[str], others: set[str], *, whole: bool) -> Mapping[str, str]:
    """What counts of a configuration, by its place; what decides comes first.

    Args:
        others: the other configuration's upstreams. whole: all of it counts, not only upstreams and reference values.
    """
    shown = {"upstreams": ", ".join(sorted(urls)), "reference": config.reference}
    if whole:
        document = json.loads(config.unwitnessed.raw)
        if urls != others:
            del document["upstreams"]  # shown already, by their addresses
        shown |= dict(_members(document))
    return shown


def _members(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Each member of a document by its place, as text; a list of texts is one."""
    match value:
        case dict():
            for name, each in value.items():
                yield from _members(each, f"{place}.{name}" if place else name)
        case [*items] if any(isinstance(item, (dict, list)) for item in items):
            for number, each in enumerate(items):
                yield from _members(each, f"{place}[{number}]")
        case [*items]:
            yield place, ", ".join(map(str, items))
        case _:
            yield place, str(value)


def _told(members: Mapping[str, str], others: Mapping[str, str]) -> str:
    """What is different of ``members`` and ``others``, as ``members`` has it."""
    names = [name for name in {**members, **others} if members.get(name) != others.get(name)]
    return "; ".join(f"{name}: {members.get(name, 'none')}" for name in names)[:_TOLD]


def _trust(home: Home) -> TrustFile | None:
    try:
        return parse_trust_file(home.trust_file.read_bytes())
    except FileNotFoundError:
        return None


def _accepted(choice: GatewayChoice, trust: TrustFile | None, now: datetime) -> frozenset[str]:
    """The configuration digests under which ``choice.url`` may be used."""
    if choice.url is None:
        return frozenset()
    named = {
        entry.value
        for entry in (trust.gateway_configs or () if trust is not None else ())
        if accepted_at((entry,), entry.value, now)
    }
    if not named | choice.config_digests:
        raise ConfigurationError(
            "a gateway is named, but not which configuration it must prove",
            hint="Name it with --gateway-config sha256:..., or list it in trust.json under gateway_configs",
            code="session.gateway_pin",
        )
    return frozenset(named | choice.config_digests)


def _reference_for(
    config: GatewayConfig, reference: bytes | None, trust: TrustFile | None, now: datetime
) -> bytes:
    """The reference values that ``config`` names: ``reference``, this build's on its own platform, or the trust file's.

    Raises:
        ``session.gateway_pin``: neither this build's nor any of the trust file's.
    """
    if reference is not None and sha256_name(reference) == config.reference:
        return reference
    known = None if trust is None else trust.reference_at(config.reference, now)
    if known is None:
        raise ConfigurationError(
            "the gateway was measured against reference values that are not known here",
            expected=None if reference is None else sha256_name(reference),
            found=config.reference,
            hint="Another build or another platform; list its reference values in trust.json",
            code="session.gateway_pin",
        )
    return known.raw
