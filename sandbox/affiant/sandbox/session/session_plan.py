"""From what a caller asks for to what a session is made of: everything that can be decided before any process.

``plan_session`` reads the profile file and the caller's folders, and refuses here, with a place and a hint,
whatever could not work later: an unknown agent, an input that the profile has no room for, an isolation that
this machine does not have. It starts nothing and writes nothing.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.records.task_label import require_task_label
from affiant.attestation.signatures.profiles.errors import ProfileSignatureOther
from affiant.attestation.statements.gateway_config import is_upstream_url
from affiant.errors import ConfigurationError
from affiant.policy.canonical.hosts import canonical_host
from affiant.policy.loading.policy_file import read_policy_file
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.model.profile import Resources
from affiant.policy.signing.signature_file import read_signature, signature_beside
from affiant.policy.signing.signatures import require_about
from affiant.sandbox.isolation.backends.backend import Availability, choose
from affiant.sandbox.isolation.backends.gvisor import dated_release
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, HostUsr, SandboxPlan
from affiant.sandbox.processes.services import GatewayChoice
from affiant.sandbox.processes.upstream_address import require_encrypted
from affiant.sandbox.runtimes.runtime_check import require_usable
from affiant.sandbox.supervisor.launch.environment import session_sandbox
from affiant.sandbox.workspace.git_changes import require_new_branch
from affiant.sandbox.workspace.git_commit import require_git
from affiant.secrets.store.local_store import StoreKey

__all__ = [
    "SessionPlan",
    "SessionRequest",
    "VaultChoice",
    "parse_input",
    "plan_session",
    "read_profile_signature",
]

_PEM_LIMIT: Final = 1 << 20
_LEASE_S: Final = 12 * 3600
_ENDING_S: Final = 600
"""Seconds from the preparation of a session to its agent's start, and from its end to the last record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultChoice:
    """Where the profile's ``vault:`` references are resolved: ``https://host[:port]``, the authorities of its
    certificate (PEM), and a private file (0600) that holds a token. Nothing is taken from the environment."""

    address: str
    ca: Path
    token_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRequest:
    """What a caller asks for.

    Args:
        profile: the profile file; agent: which profile in it.
        input: a folder to copy in; input_at: where (default: the profile's only listed path).
        input_commit: ``input`` is a git repository; the files of this branch, tag or commit are copied in its place.
        output: a folder to copy changes out to.
        output_diff: a file that gets the changes as a diff for ``git apply``.
        output_branch: a new branch of the repository ``input`` that gets the changes as a commit on ``input_commit``.
        runtime: a prepared environment, shown read-only.
        rootfs: an image in place of the machine's /usr: an unpacked folder, an OCI layout, or a tar archive.
        min_isolation: the minimum isolation; the manifest names it.
        platform: where the session's TD comes from; ``auto``: what this machine is.
        gateway: which gateway.
        hosts: private hosts, name -> the only addresses at which they may be dialled.
        secret_store: the folder of the encrypted local store; None: the state folder's own.
        store_key: what opens it, where that is no key file beside it.
        extra_roots: PEM files of certificate authorities that the proxy trusts beside the system's.
        vault: where ``vault:`` references are resolved; None: they are not, and get no placeholder.
        decisions: a file to which each decision of the profile is appended, for reviewers; made if it is not there.
        lease_s: how long the session may last, seconds; None: as long as the profile's ``wall``, 12 hours without.
        policy_signature: a signature over the profile file; None: the one beside it, if there is one. It is passed on
            to the gateway, which may demand one and knows whose counts; here it must be about this very file.
        floor: the organisation's baseline policy, for a profile file that names none; approvers may come from it.
        resources: bounds of this session, none above the profile's; None: the profile's.
        task: what the session belongs to: ``workflow``, ``task``, ``attempt``, ``parent``. Receipts show it salted.
        name: what the session is called in its state folder. key: what makes a repeated request to create it the same.
        owner: the caller who created it over HTTP; None: this machine's user.
        hosted: whether a session host holds it; the host itself says so.
    """

    profile: Path
    agent: str
    input: Path | None = None
    input_at: str | None = None
    input_commit: str | None = None
    output: Path | None = None
    output_diff: Path | None = None
    output_branch: str | None = None
    runtime: Path | None = None
    rootfs: Path | None = None
    min_isolation: IsolationClass = IsolationClass.USERSPACE_KERNEL
    platform: PlatformName = PlatformName.AUTO
    gateway: GatewayChoice = field(default_factory=GatewayChoice)
    hosts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secret_store: Path | None = None
    extra_roots: tuple[Path, ...] = ()
    vault: VaultChoice | None = None
    decisions: Path | None = None
    lease_s: int | None = None
    policy_signature: Path | None = None
    floor: Path | None = None
    store_key: StoreKey | None = None
    task: Mapping[str, object] | None = None
    resources: Resources | None = None
    name: str | None = None
    key: str | None = None
    owner: str | None = None
    hosted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """What the session will be made of, decided and checked.

    ``place`` is the path inside at which the input lies and from which the output is taken. ``rootfs`` is where
    the root file system is, or where ``image`` must be unpacked first.
    """

    request: SessionRequest
    session: str
    profile: Profile
    profiles: ProfileSet
    """All of the profile's file, as it was read."""
    file_digest: str
    backend: BackendName
    release: str | None
    """Of gVisor, where that isolates."""
    sandbox: SandboxPlan
    place: str | None
    rootfs: Path | None
    image: Path | None
    roots: tuple[bytes, ...]
    """DER certificates."""
    vault_roots: tuple[bytes, ...]
    """DER certificates of Vault's authorities."""
    hosts: Mapping[str, tuple[str, ...]]
    signature: bytes | None
    """Over the profile file, as it goes to the gateway."""

    @property
    def lease_s(self) -> int:
        """Seconds that the session may last: as the starter asked, else somewhat more than the profile's ``wall``."""
        if self.request.lease_s is not None:
            return self.request.lease_s
        wall = self.profile.compiled.limits.wall
        return _LEASE_S if wall is None else wall + _ENDING_S


def parse_input(value: str) -> tuple[Path, str | None, str | None]:
    """``DIR[:PATH]`` or ``REPO@REF[:PATH]`` as folder, path and REF; a folder of exactly this name comes first."""
    folder, mark, place = value.rpartition(":")
    if not (mark and place.startswith("/") and not Path(value).exists()):
        folder, place = value, ""
    repository, mark, commit = folder.rpartition("@")
    if mark and repository and commit and not Path(folder).exists():
        return Path(repository), place or None, commit
    return Path(folder), place or None, None


def plan_session(
    request: SessionRequest,
    *,
    session: str,
    folder: Path,
    probe: Callable[[], Mapping[BackendName, Availability]],
    owners: frozenset[int],
    parent: SessionPlan | None = None,
) -> SessionPlan:
    """Decide everything that ``request`` leaves open.

    Args:
        session: the session's id.
        folder: the session's folder, which does not exist yet.
        probe: what isolation this machine has; asked last, since it takes the longest.
        owners: users whose profile files may be enforced (``policy_owners``).
        parent: the session whose agent starts this one: the profile file is as it was read for that; None: it is read.

    Raises:
        MalformedError, ConfigurationError: as the module says; each code names the part at fault.
    """
    if parent is None:
        profiles = read_policy_file(request.profile, owners=owners, floor=request.floor).profiles
        signature = read_profile_signature(request.policy_signature, request.profile, profiles)
    else:
        profiles, signature = parent.profiles, parent.signature
    profile = profiles.profile(request.agent)
    for url in request.gateway.upstreams:
        _check_upstream(url, plain=request.gateway.plain_http)
    if request.task is not None:
        require_task_label(request.task)
    roots = tuple(der for path in request.extra_roots for der in _read_roots(path))
    hosts = {canonical_host(name): _addresses(name, given) for name, given in request.hosts.items()}
    folders = ((request.input, "input"), (request.runtime, "runtime"), (request.secret_store, "secret store"))
    for path, what in folders:
        _check_folder(path, what)
    _check_git(request)
    _check_branch(request)
    rootfs, image = _rootfs(request.rootfs, folder)
    if request.runtime is not None and image is None:  # what an image shows is known once it is unpacked
        require_usable(request.runtime, root=Path("/") if rootfs is None else rootfs)
    sandbox = session_sandbox(
        profile.compiled,
        session=session,
        rootfs=HostUsr() if rootfs is None else DirectoryRoot(str(rootfs)),
        runtime=None if request.runtime is None else str(request.runtime.resolve()),
        resources=request.resources,
    )
    place = _place(request, sandbox)
    chosen = choose(request.min_isolation, probe())
    return SessionPlan(
        request=request,
        session=session,
        profile=profile,
        profiles=profiles,
        file_digest=profiles.source_digest,
        backend=chosen.backend,
        release=dated_release(chosen.release) if chosen.backend is BackendName.GVISOR else None,
        sandbox=sandbox,
        place=place,
        rootfs=rootfs,
        image=image,
        roots=roots,
        vault_roots=() if request.vault is None else _read_roots(request.vault.ca),
        hosts=hosts,
        signature=signature,
    )


def read_profile_signature(given: Path | None, file: Path, profiles: ProfileSet) -> bytes | None:
    """The signature over the profile ``file``: ``given``, else the one beside it, if there is one.

    The gateway knows whose counts. One that is about another file would be rejected there, or mislead a reader.

    Raises:
        AffiantError: it is no signature, or is not about this file.
    """
    place = given or signature_beside(file)
    if place is None:
        return None
    signature = read_signature(place)
    try:
        require_about(signature.claimed, profiles)
    except ProfileSignatureOther as error:
        error.hint = f"Have the file signed again, or move {place.name} away"
        raise
    return signature.raw


def _read_roots(path: Path) -> tuple[bytes, ...]:
    try:
        with open(path, "rb") as file:
            found = x509.load_pem_x509_certificates(file.read(_PEM_LIMIT))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            "not a file of certificates",
            where=str(path),
            expected="one or more certificates in PEM",
            code="session.extra_ca",
        ) from error
    return tuple(certificate.public_bytes(Encoding.DER) for certificate in found)


def _check_upstream(url: str, *, plain: bool) -> None:
    """Return if ``url`` can be a model server's address: what the gateway would find out after everything started."""
    if not is_upstream_url(url):
        raise ConfigurationError(  # the address is not repeated: it may hold a password
            "not a model server's address",
            where="--upstream",
            expected="http(s)://host[:port]/path, without user, query and fragment",
            hint="An API key goes into the secret store, and its name into --upstream-key-ref",
            code="session.upstream",
        )
    if not plain:
        require_encrypted(url, code="session.upstream")


def _addresses(name: str, given: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(
            str(ipaddress.ip_network(address) if "/" in address else ipaddress.ip_address(address))
            for address in given
        )
    except ValueError as error:
        raise ConfigurationError(
            "not an address for a host",
            where=name,
            expected="NAME=ADDRESS",
            found=", ".join(given)[:120],
            code="session.host",
        ) from error


def _check_folder(path: Path | None, what: str) -> None:
    if path is None:
        return
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise ConfigurationError(
            f"the {what} cannot be read", where=str(path), found=error.strerror, code="session.input"
        ) from error
    if not stat.S_ISDIR(mode):
        raise ConfigurationError(f"the {what} is no folder", where=str(path), code="session.input")


def _check_git(request: SessionRequest) -> None:
    """Return if git is here, or not needed: what could not be written is not found out after the work is done."""
    needed = (
        (request.input_commit, "--input"),
        (request.output_diff, "--output-diff"),
        (request.output_branch, "--output-branch"),
    )
    for asked, option in needed:
        if asked is not None:
            require_git(option)


def _check_branch(request: SessionRequest) -> None:
    if request.output_branch is None:
        return
    if request.input is None or request.input_commit is None:
        raise ConfigurationError(
            "a branch for the output needs an input from a repository",
            where="--output-branch",
            expected="--input REPO@REF",
            code="session.output_branch",
        )
    require_new_branch(request.input, request.output_branch)


def _rootfs(given: Path | None, folder: Path) -> tuple[Path | None, Path | None]:
    """Where the root file system is or will be, and the image to unpack there, if it is one."""
    if given is None:
        return None, None
    if given.is_file():
        return folder / "rootfs", given.resolve()
    _check_folder(given, "rootfs")
    if (given / "oci-layout").is_file():
        return folder / "rootfs", given.resolve()
    return given.resolve(), None


def _place(request: SessionRequest, sandbox: SandboxPlan) -> str | None:
    """Where the input lies inside, and where the output is taken from.

    Raises:
        ``session.input``: there is no such place, or more than one.
    """
    listed = tuple(bind.target for bind in sandbox.workspaces)
    results = (request.output, request.output_diff, request.output_branch)
    gives = any(result is not None for result in results)
    wanted = request.input is not None or gives
    if request.input_at is not None:
        sandbox.source_of(request.input_at)
        place: str | None = request.input_at
    elif len(listed) == 1:
        place = listed[0]
    elif not wanted:
        return None
    else:
        raise ConfigurationError(
            "the profile does not say where the files belong",
            where=request.profile.name,
            expected="one path under filesystem_access",
            found=", ".join(listed) or "none",
            hint="Name one: --input DIR:PATH" if listed else "List a path, such as read-write:/workspace",
            code="session.input",
        )
    if gives and not any(
        bind.writable
        and place is not None
        and (
            bind.target == place or bind.target.startswith(place + "/") or place.startswith(bind.target + "/")
        )
        for bind in sandbox.binds
    ):
        raise ConfigurationError(
            "the profile lets the agent change nothing there",
            where=str(place),
            expected="read-write",
            hint="Leave --output, --output-diff and --output-branch out, or let the profile grant read-write",
            code="session.input",
        )
    return place
