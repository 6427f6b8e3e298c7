"""From a plan to an admitted supervisor, and back: every resource of a session in the order of making.

1. a launch record, so that whatever follows can be ended by somebody else;
2. platform and gateway, those that run or new ones;
3. the session's folder, with copies of the input and the image, given to the supervisor's user;
4. manifest, activation, and a TD whose MRCONFIGID is the manifest's;
5. the supervisor, which is told everything else and answers when the gateway has admitted it.

Leaving undoes them in reverse. The copies of the agent's files are removed with the session; records and bundle
stay.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from affiant.attestation.encoding import b64u
from affiant.attestation.manifest import Activation, Manifest, mrconfigid
from affiant.attestation.openings import recipient
from affiant.attestation.release import load_release
from affiant.sandbox.descriptors import descriptor_from_thread
from affiant.sandbox.errors import InputRefused, ServiceSilent
from affiant.sandbox.home import Home
from affiant.sandbox.isolation.backend import BackendName, file_owner
from affiant.sandbox.isolation.reconcile import reap_leftovers as reap_isolation
from affiant.sandbox.isolation.record import ProcessName
from affiant.sandbox.launches import Launch
from affiant.sandbox.privileges import SUPERVISOR_USER, is_root
from affiant.sandbox.provisioner import Image
from affiant.sandbox.services import Services, ensure_services
from affiant.sandbox.session_documents import session_activation, session_manifest
from affiant.sandbox.session_plan import SessionPlan
from affiant.sandbox.supervisor_link import Progress, SupervisorLink, start_supervisor
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.image import unpack_image
from affiant.sandbox.workspace.walk import runtime_digest
from affiant.secrets.local_store_file import open_private_file

__all__ = ["LaunchedSession", "keep_files", "launched", "reclaim_folder"]

_ADMITTED_WITHIN_S: Final = 60.0
_ISOLATION: Final = {BackendName.GVISOR: "gvisor", BackendName.BUBBLEWRAP: "bwrap"}
_SECRET_FILES: Final = {"secret_store": "store", "secret_key": "key"}
"""The local store's two files: their names as descriptors of the supervisor, and in the state folder."""


@dataclass(frozen=True, slots=True)
class LaunchedSession:
    """A session whose supervisor was admitted."""

    home: Home
    plan: SessionPlan
    copied: Copied | None
    link: SupervisorLink
    facts: Mapping[str, object]
    """What the supervisor said when it was ready."""


@asynccontextmanager
async def launched(
    home: Home,
    plan: SessionPlan,
    progress: Progress,
    *,
    random_bytes: Callable[[int], bytes],
    echo: bool,
) -> AsyncIterator[LaunchedSession]:
    """Launch ``plan`` for the length of the block.

    Args:
        random_bytes: for the activation's salts and challenge.
        echo: show what the processes behind the session write.

    Raises:
        AffiantError: the step that could not be made; everything before it has been undone.
    """
    async with AsyncExitStack() as stack:
        _make_output(plan.request.output)
        launch = _record_launch(home, plan, stack)
        progress("services" if is_root() else "services-one-user", {})
        services = await ensure_services(
            home, plan.request.gateway, now=datetime.now(UTC), random_bytes=random_bytes, echo=echo
        )
        stack.push_async_callback(services.leave)
        stack.callback(launch.remove, home)  # before leaving the services: the last launcher waits for them
        progress("services-ready", {"gateway": services.gateway_url, "started": list(services.started)})
        stack.callback(_remove_files, home, plan.session)
        stack.callback(reap_isolation, home.sessions)  # a supervisor that was killed has not done it
        copied = await asyncio.to_thread(_fill_folder, home, plan, progress)
        bindings = await _bind(home, plan, services, copied, random_bytes=random_bytes)
        td = await descriptor_from_thread(
            lambda: services.provisioner.create_td(
                image=Image.SESSION, mrconfigid=mrconfigid(bindings.manifest)
            )
        )
        link = start_supervisor(home, plan, td=td, membership=services.membership, echo=echo)
        stack.push_async_callback(link.stop)
        launch.add(home, link.pid)
        await _provision(link, home, plan, services, bindings)
        try:
            async with asyncio.timeout(_ADMITTED_WITHIN_S):
                facts = await link.expect({"ready"}, progress)
        except TimeoutError as error:
            raise ServiceSilent(f"the session was not admitted within {_ADMITTED_WITHIN_S:g} s") from error
        progress("ready", facts)
        yield LaunchedSession(home, plan, copied, link, facts)


def _make_output(path: Path | None) -> None:
    """Make the output's folder now: what could not be written should not be found out after the work is done."""
    if path is not None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputRefused("the output cannot be made", where=str(path), found=error.strerror) from error


def _record_launch(home: Home, plan: SessionPlan, stack: AsyncExitStack) -> Launch:
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    launch = Launch(plan.session, launcher)
    launch.write(home)
    stack.callback(launch.remove, home)
    return launch


@dataclass(frozen=True, slots=True)
class _Bindings:
    """What binds a TD to this session, and what its supervisor needs to show it."""

    manifest: Manifest
    activation: Activation
    salt: bytes
    collateral: bytes


async def _bind(
    home: Home,
    plan: SessionPlan,
    services: Services,
    copied: Copied | None,
    *,
    random_bytes: Callable[[int], bytes],
) -> _Bindings:
    rootfs, runtime = await asyncio.to_thread(_digests, plan)
    manifest = session_manifest(
        plan,
        supervisor=load_release().build_digest,
        rootfs=rootfs,
        runtime=runtime,
        gateway=services.gateway_config,
    )
    salt = random_bytes(16)
    activation = session_activation(
        plan,
        salt=salt,
        starter=str(os.getuid()),
        input_digest=None if copied is None else copied.digest,
        expires=int(datetime.now(UTC).timestamp()) + plan.request.lease_s,
        openings=recipient(home.openings_key(random_bytes=random_bytes)),
        random_bytes=random_bytes,
    )
    collateral = await asyncio.to_thread(services.provisioner.collateral)
    return _Bindings(manifest, activation, salt, collateral.to_bytes())


async def _provision(
    link: SupervisorLink, home: Home, plan: SessionPlan, services: Services, bindings: _Bindings
) -> None:
    with ExitStack() as files:
        descriptors = {
            **_secret_files(plan.request.secret_store or home.secrets, files),
            **_vault_token(plan, files),
        }
        message = _provision_message(home, plan, services, bindings)
        await link.tell({**message, "secret_fds": list(descriptors)}, descriptors)


def _provision_message(
    home: Home, plan: SessionPlan, services: Services, bindings: _Bindings
) -> Mapping[str, object]:
    folder = home.session(plan.session)
    runtime = plan.request.runtime
    return {
        "op": "provision",
        "manifest": b64u(bindings.manifest.raw),
        "activation": b64u(bindings.activation.raw),
        "policy": b64u(plan.profile.normal_form),
        "reference": b64u(services.reference),
        "gateway_config": b64u(services.gateway_config.raw),
        "collateral": b64u(bindings.collateral),
        "gateway_url": services.gateway_url,
        "agent": {
            "name": plan.request.agent,
            "salt": bindings.salt.hex(),
            "user": _user_name(),
            "rules_source": plan.request.profile.name,
        },
        "roots": [b64u(der) for der in plan.roots],
        "session_dir": str(folder),
        "workspace": [
            {"path": bind.target, "host_dir": str(folder / bind.source)} for bind in plan.sandbox.workspaces
        ],
        "runtime": None if runtime is None else str(runtime.resolve()),
        "rootfs": "host-usr" if plan.rootfs is None else str(plan.rootfs),
        "isolation": _ISOLATION[plan.backend],
        "vault": None
        if plan.request.vault is None
        else {"address": plan.request.vault.address, "roots": [b64u(der) for der in plan.vault_roots]},
        "openings": None,
    }


def _secret_files(folder: Path, stack: ExitStack) -> Mapping[str, int]:
    """The local store and its key as descriptors, because the broker's user cannot open them; none, or both."""
    found: dict[str, int] = {}
    for name, file in _SECRET_FILES.items():
        try:
            found[name] = open_private_file(folder / file)
        except FileNotFoundError:
            return {}
        stack.callback(os.close, found[name])
    return found


def _vault_token(plan: SessionPlan, stack: ExitStack) -> Mapping[str, int]:
    """Vault's token as a descriptor: it is in no argument, no variable and no message."""
    vault = plan.request.vault
    if vault is None:
        return {}
    try:
        descriptor = open_private_file(vault.token_file)
    except FileNotFoundError as error:
        raise InputRefused("there is no such file of a Vault token", where=str(vault.token_file)) from error
    stack.callback(os.close, descriptor)
    return {"vault_token": descriptor}


def _digests(plan: SessionPlan) -> tuple[str | None, str | None]:
    """The digests of root file system and runtime, as the manifest names them."""
    rootfs, runtime = plan.rootfs, plan.request.runtime
    return (
        None if rootfs is None else runtime_digest(rootfs),
        None if runtime is None else runtime_digest(runtime),
    )


def _fill_folder(home: Home, plan: SessionPlan, progress: Progress) -> Copied | None:
    """Make the session's folder, with the input in its place."""
    folder = home.session(plan.session)
    folder.mkdir(mode=0o700)
    copied = None
    if plan.request.input is not None and plan.place is not None:
        copied = copy_in(
            plan.request.input,
            folder / plan.sandbox.source_of(plan.place),
            exclude=frozenset(plan.sandbox.carved_out(plan.place)),
            owner=file_owner(plan.backend, plan.session) if is_root() else None,
        )
        progress("input", {"digest": copied.digest, "entries": len(copied.entries)})
    if plan.image is not None and plan.rootfs is not None:
        digest = unpack_image(plan.image, plan.rootfs)
        progress("rootfs", {"digest": digest})
    if is_root():
        os.chown(folder, SUPERVISOR_USER, SUPERVISOR_USER)
    return copied


def reclaim_folder(folder: Path) -> None:
    """Take a session's folder back from the supervisor's user, once that is gone. Idempotent."""
    if is_root():
        os.chown(folder, os.getuid(), os.getgid(), follow_symlinks=False)


def keep_files(home: Home, session: str) -> Path:
    """Keep what the agent left, because it could not be copied out; where it is now."""
    kept = home.session(session) / "files.kept"
    (home.session(session) / "files").rename(kept)
    return kept


def _remove_files(home: Home, session: str) -> None:
    """Remove the copies that the agent worked on and in.

    By rm(1): it follows no link and has no limit of depth, and the agent may have nested folders as deep as it
    liked.
    """
    with suppress(FileNotFoundError):
        reclaim_folder(home.session(session))
    copies = [str(home.session(session) / name) for name in ("files", "rootfs")]
    subprocess.run(["rm", "-rf", "--one-file-system", "--", *copies], check=False, stderr=subprocess.DEVNULL)
    with suppress(OSError):  # a session that never came to be leaves an empty folder
        home.session(session).rmdir()


def _user_name() -> str:
    """Who starts the session, as text: what receipts hide as ``user``."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid:{os.getuid()}"
