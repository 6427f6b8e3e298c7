"""Policy, configuration and isolation: bound to the evidence, and accepted by the trust file (trust rules, 11)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import mrconfigid, reaches_floor, release_order
from affiant.attestation.verdict.accepted_values import Entry, accepted_at
from affiant.attestation.verdict.errors import EvidenceUnbound, NotAccepted, NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party, Session
from affiant.attestation.verifier.case.epochs import PolicyUnbound, demand_epochs, epochs_of, narrowings_of
from affiant.attestation.verifier.case.statement_verifiers import NobodySigned
from affiant.attestation.verifier.checks.evidence_checks import config_of

__all__ = [
    "check_config_accepted",
    "check_config_bound",
    "check_isolation",
    "check_policy_accepted",
    "check_policy_bound",
    "check_private",
    "check_rootfs",
    "profile_digest_of",
    "profiles_in",
]

_DOMAIN: Final = b"affiant.policy/1\n"
"""A profile's digest is SHA-384 over this and its normal form (policy specification, "Canonical digest")."""


class ConfigUnbound(EvidenceUnbound):
    """The gateway's MRCONFIGID is not its configuration's digest."""

    code = "conf.unbound"


class ConfigNotAccepted(NotAccepted):
    """The gateway runs a configuration that the trust file does not accept."""

    code = "conf.not_accepted"


class PolicyNotAccepted(NotAccepted):
    """A session ran under a profile that the trust file does not accept."""

    code = "pol.not_accepted"


class IsolationTooWeak(NotAccepted):
    """The agent was isolated less than the manifest or the trust file demands, or not at all."""

    code = "iso.too_weak"


class RootfsNotAccepted(NotAccepted):
    """The agent ran on a root file system that the trust file does not accept."""

    code = "rfs.not_accepted"


def check_config_bound(case: Case) -> Finding:
    """``conf.bound``: each gateway's MRCONFIGID is SHA-384 of the configuration that its keyset names, and keyset and
    records keep to it: issuer, class, cadence, log, upstreams."""
    case.need("key.evidence")
    for party in case.gateways:
        config = config_of(case, party)
        if case.verifiers.quotes.parse(party.quoted[0].evidence.quote).body.mrconfigid != config.mrconfigid:
            raise ConfigUnbound("the quote binds another configuration", expected=config.mrconfigid.hex())
        log = party.statement.log
        said = (party.statement.iss, party.statement.cls, party.statement.epoch_s)
        if said != (config.iss, config.cls, config.epoch_s):
            raise ConfigUnbound("configuration and keyset disagree on issuer, class or cadence")
        if log is None or config.origin != log.origin:
            raise ConfigUnbound(
                "configuration and keyset name different logs",
                expected=config.origin,
                found=None if log is None else log.origin,
            )
        _upstreams_bound(party, config)
    return Finding("the gateway's configuration is the one bound in MRCONFIGID")


def _upstreams_bound(party: Party, config: GatewayConfig) -> None:
    """A gateway asks the upstreams of its configuration, as they are bound there, and no other."""
    known = {(each.id, urlsplit(each.url).netloc, each.bind) for each in config.upstreams}
    for record in party.records:
        attempts = record.member("up") or ()
        assert isinstance(attempts, (list, tuple))
        for attempt in attempts:
            if (attempt["id"], attempt["host"], attempt["bind"]) not in known:
                raise ConfigUnbound("an upstream that the configuration does not have", where=record.jti)


def check_policy_bound(case: Case) -> Finding:
    """``pol.bound``: profile -> manifest -> initdata -> MRCONFIGID; every record names that profile, or after a
    narrowing the one that the supervisor's record of it names."""
    case.need("key.evidence", "session.start")
    if not case.sessions:
        raise NotMade("no session in focus")
    for session in case.sessions:
        manifest, activation = session.manifest, session.activation
        assert manifest is not None
        assert activation is not None
        statement = session.supervisor.statement
        for quoted in session.supervisor.quoted:
            if case.verifiers.quotes.parse(quoted.evidence.quote).body.mrconfigid != mrconfigid(manifest):
                raise PolicyUnbound("the quote binds another manifest", expected=mrconfigid(manifest).hex())
        if (statement.man, statement.act) != (
            manifest.digest,
            activation.digest,
        ) or activation.session != session.id:
            raise PolicyUnbound("the keyset names another manifest, activation or session", where=session.id)
        session.narrowings = narrowings_of(session)
        demand_epochs(session)
    _profiles_here(case)
    return _bound(case.sessions)


def _profiles_here(case: Case) -> None:
    for session in case.sessions:
        if not {epoch.profile_digest for epoch in epochs_of(session)} <= profiles_in(case):
            raise NotMade("the bundle does not carry the profile's normal form, of every epoch")


def profiles_in(case: Case) -> frozenset[str]:
    """Digests of the normal forms that the bundle holds: of whatever lies among its policies."""
    if case.profiles is None:
        case.profiles = frozenset(profile_digest_of(raw) for raw in case.bundle.policies.values())
    return case.profiles


def profile_digest_of(normal_form: bytes) -> str:
    """The digest of a profile, as records name it."""
    return "sha384:" + hashlib.sha384(_DOMAIN + normal_form).hexdigest()


def _bound(sessions: Sequence[Session]) -> Finding:
    text = "profile digest bound in MRCONFIGID, and named by every decision"
    if count := sum(len(session.narrowings) for session in sessions):
        times = "once" if count == 1 else f"{count} times"
        text = f"{text}; restricted {times}, bound in RTMR3 and named by every decision from there on"
    without = [session for session in sessions if not session.supervisor.quoted[-1].recorded]
    if not without:
        return Finding(text)
    text = f"{text}; of {len(without)} sessions the supervisor did not come to record the last one"
    return Finding(text, Tier.WARNING, tuple(session.gateway[0].jti for session in without))


def check_config_accepted(case: Case) -> Finding:
    """``conf.accepted``: the trust file accepts the gateway's configuration and its reference values."""
    case.need("conf.bound")
    for config in {
        config.digest: config for config in (config_of(case, party) for party in case.gateways)
    }.values():
        if case.trust.reference_at(config.reference, case.at) is None:
            raise ConfigNotAccepted(
                "the gateway judges sessions by reference values that are not accepted",
                found=config.reference,
            )
        for session in case.sessions:
            assert session.manifest is not None
            wanted = session.manifest.gateway
            made_for = (wanted.config, wanted.reference, wanted.origin)
            if made_for != (config.digest, config.reference, config.origin):
                raise ConfigNotAccepted("the session was made for another gateway", where=session.id)
    return _pinned(
        case,
        case.trust.gateway_configs,
        {config_of(case, party).digest for party in case.gateways},
        ConfigNotAccepted("the trust file does not accept this gateway configuration"),
        "gateway configuration",
    )


def check_policy_accepted(case: Case) -> Finding:
    """``pol.accepted``: the trust file accepts every session's profile, by its digest or by one who signed it.

    A narrowed profile is accepted with the one that it was narrowed from: the measured supervisor and the measured
    gateway each compared the two and go on with nothing wider. Profiles are not compared here; the finding says so.
    """
    case.need("pol.bound")
    finding = _profiles_accepted(case)
    count = sum(len(session.narrowings) for session in case.sessions)
    if not count:
        return finding
    times = "once" if count == 1 else f"{count} times"
    text = f"restricted {times} since, as supervisor and gateway compared the profiles; they are not compared here"
    return replace(finding, detail=f"{finding.detail}; {text}")


def _profiles_accepted(case: Case) -> Finding:
    manifests = [session.manifest for session in case.sessions if session.manifest is not None]
    signers = case.trust.profile_signers
    if signers is None:
        return _pinned(
            case,
            case.trust.profiles,
            {manifest.profile_digest for manifest in manifests},
            PolicyNotAccepted("the trust file does not accept this profile"),
            "profile",
        )
    listed = case.trust.profiles or ()
    others = {
        (manifest.profile_digest, manifest.file_digest): manifest
        for manifest in manifests
        if not accepted_at(listed, manifest.profile_digest, case.at)
    }
    for manifest in others.values():
        try:
            case.verifiers.profiles.require_signed(
                case.bundle.policies.values(), manifest, signers, at=case.at
            )
        except NobodySigned as error:
            raise PolicyNotAccepted(
                "the trust file accepts neither this profile nor anybody who signed it",
                found=f"{manifest.profile_digest}: {error}",
            ) from error
    if others:
        return Finding("profile signed by one whom the trust file accepts")
    return Finding("profile accepted by the trust file")


def _pinned(
    case: Case, entries: tuple[Entry, ...] | None, values: set[str], refusal: NotAccepted, what: str
) -> Finding:
    if entries is None:
        return Finding(f"no {what} is pinned in the trust file", Tier.WARNING)
    for value in sorted(values):
        if not accepted_at(entries, value, case.at):
            refusal.found = value
            raise refusal
    return Finding(f"{what} accepted by the trust file")


def check_private(case: Case) -> Finding:
    """``pol.private``: what a manifest adds to the world that its profile speaks of is a warning: names that mean
    private addresses, and certificate authorities beside the system's."""
    case.need("pol.bound")
    names = sorted({name for s in case.sessions if s.manifest is not None for name in s.manifest.hosts})
    roots = {root for s in case.sessions if s.manifest is not None for root in s.manifest.upstream_roots}
    if names or roots:
        shown = ", ".join(names[:8]) or "none"
        return Finding(f"private hosts: {shown}; certificate authorities added: {len(roots)}", Tier.WARNING)
    return Finding("no private host, no certificate authority added")


def check_isolation(case: Case) -> Finding:
    """``iso.floor``: every session's isolation is its manifest's floor or better, and the trust file's."""
    case.need("pol.bound")
    kinds, releases = set(), set()
    for session in case.sessions:
        assert session.manifest is not None
        start = session.the("session-start")
        assert start is not None
        floors = [session.manifest.isolation_floor, case.trust.isolation_floor or "namespace"]
        isolation = str(start.member("iso"))
        one_or_none = (None, isolation)
        for record in session.records:
            if record.member("agt", "iso") not in one_or_none or record.member("iso") not in one_or_none:
                raise IsolationTooWeak("a record names another isolation than the start", where=record.jti)
        if session.activation is None or isolation != session.activation.isolation:
            raise IsolationTooWeak("the start names another isolation than the activation", where=start.jti)
        if not all(reaches_floor(isolation, floor) for floor in floors):
            raise IsolationTooWeak(
                "isolated less than demanded", expected=" and ".join(floors), found=isolation, where=start.jti
            )
        release = start.member("rel")
        if release != session.activation.release:
            raise IsolationTooWeak(
                "the start names another release than the activation",
                expected=session.activation.release,
                found=release,
                where=start.jti,
            )
        kinds.add(isolation)
        if isolation == "gvisor":
            releases.add("" if release is None else str(release))
    shown = f"agent isolated by {', '.join(sorted(kinds))}"
    if named := sorted(releases - {""}, key=release_order):
        shown += f" (gVisor {', '.join(named)})"
    least = case.trust.isolation_releases.get("gvisor")
    if least is not None and any(not each or release_order(each) < release_order(least) for each in releases):
        text = f"{shown}; the trust file knows escapes from releases before {least}"
        return Finding(
            text + (", and not every session names its release" if "" in releases else ""), Tier.WARNING
        )
    return Finding(shown, Tier.WARNING if "bwrap-landlock" in kinds else Tier.AFFIRMING)


def check_rootfs(case: Case) -> Finding:
    """``rfs.accepted``: the trust file accepts the agent's root file system; ``host-usr`` is a warning."""
    case.need("pol.bound")
    kinds = set()
    for session in case.sessions:
        assert session.manifest is not None
        start = session.the("session-start")
        assert start is not None
        if start.member("rfs") != session.manifest.rootfs:
            raise RootfsNotAccepted(
                "the start names another root file system than the manifest", where=start.jti
            )
        kinds.add(session.manifest.rootfs)
    finding = _pinned(
        case,
        case.trust.rootfs,
        kinds,
        RootfsNotAccepted("the trust file does not accept this root file system"),
        "root file system",
    )
    if "host-usr" in kinds:
        return Finding("the agent ran on the host's /usr (host-usr)", Tier.WARNING)
    return finding
