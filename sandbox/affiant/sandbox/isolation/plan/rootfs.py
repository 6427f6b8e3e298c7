"""The root file system: a skeleton of our own in which the read-only root, and then the session, are shown.

This file talks to the file system: :func:`build_root` writes the skeleton (mount points, links, ``/etc``) and
returns the table of what to mount where. Nothing of the machine is in it but its ``/usr``, or the unpacked
image the operator named. A directory of the image in which a mount point is missing is rebuilt in the
skeleton, one level, with its children shown one by one; so no image is ever written to. In ``/etc``, no resolver is
configured (names are the proxy's business), and no user of the machine is named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.errors import ConfigurationError
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.plan import (
    AGENT_GID,
    AGENT_UID,
    RUNTIME_AT,
    DirectoryRoot,
    HostUsr,
    Mask,
    SandboxPlan,
    Scratch,
    covers,
    outer_first,
)

__all__ = ["CA_BUNDLE_AT", "Shown", "build_root", "check_runtime", "etc_files", "etc_links", "mount_order"]

_SYSTEM: Final = ("dev", "etc", "proc", "sys", "tmp")
"""Top-level directories that are never the image's own."""

_MAX_ALTERNATIVES: Final = 4096

_NODE_PACKAGES: Final = "lib/node_modules"
"""Of a runtime. Node looks for packages in each directory above a program, up to ``/node_modules``, and for ``import``
in no other place."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A directory or file of this machine, shown at ``target`` inside."""

    target: str
    source: str
    writable: bool = False


def mount_order(plan: SandboxPlan, shown: Sequence[Shown]) -> list[Shown | Scratch | Mask]:
    """All that is mounted inside, in the order of mounting: outer targets first."""
    items: list[Shown | Scratch | Mask] = [*shown, *plan.scratch, *plan.masks]
    return sorted(items, key=lambda item: outer_first(item.target))


def build_root(
    plan: SandboxPlan, *, at: Path, ca_bundle: bytes, hosts: Mapping[str, str]
) -> tuple[Shown, ...]:
    """Write the skeleton of ``plan`` at ``at`` (an empty directory); return what has to be shown read-only.

    Args:
        ca_bundle: PEM certificates that programs inside trust.
        hosts: name -> address, for ``/etc/hosts``.

    Raises:
        ``isolation.plan``: the root or the runtime is not what it has to be.
        SandboxFailed: the skeleton could not be written.
    """
    try:
        match plan.rootfs:
            case HostUsr():
                shown = _host_usr(at)
            case DirectoryRoot(path):
                shown = _image(Path(path), at, tuple(_mount_points(plan)))
        if plan.runtime is not None:
            runtime = check_runtime(plan.runtime)
            shown = (*shown, Shown(RUNTIME_AT, runtime))
            if (Path(runtime) / _NODE_PACKAGES).is_dir() and not os.path.lexists(at / "node_modules"):
                (at / "node_modules").symlink_to(f"{RUNTIME_AT}/{_NODE_PACKAGES}")
        files = etc_files(hostname=plan.hostname, ca_bundle=ca_bundle, hosts=hosts)
        _write_etc(at / "etc", files, alternatives=_alternatives_of(plan))
        for name in ("dev", "proc", "tmp"):
            (at / name).mkdir(mode=0o755, exist_ok=True)
        for point in _mount_points(plan):
            _make_mount_point(at, point, shown)
    except OSError as error:
        raise SandboxFailed("the sandbox's root could not be prepared", found=_reason(error)) from error
    return shown


def check_runtime(path: str) -> str:
    """``path`` with links resolved, if it is a prepared environment (``bin`` or ``lib`` in a directory).

    Raises:
        ``isolation.plan``: it is none, or it is a directory that holds much more than an environment.
    """
    real = Path(path).resolve()
    if not real.is_dir() or not ((real / "bin").is_dir() or (real / "lib").is_dir()):
        raise ConfigurationError(
            "not a prepared environment",
            where="--runtime",
            expected="a directory with bin/ or lib/",
            code="isolation.plan",
        )
    if real in {Path("/"), Path("/usr"), Path("/usr/local")} or (real / "proc").is_dir():
        raise ConfigurationError(
            "a whole system is no prepared environment; use --rootfs",
            where="--runtime",
            code="isolation.plan",
        )
    return str(real)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _mount_points(plan: SandboxPlan) -> list[str]:
    """Targets that need a directory in the root itself: whatever is not inside another of them."""
    points = [item.target for item in plan.scratch]
    points += [item.target for item in plan.binds]
    points += [item.target for item in plan.masks]
    if plan.runtime is not None:
        points.append(RUNTIME_AT)
    return [point for point in points if not any(point != top and covers(top, point) for top in points)]


def _host_usr(at: Path) -> tuple[Shown, ...]:
    """``/usr``, and the links into it that a merged-/usr system has in its root."""
    (at / "usr").mkdir(mode=0o755)
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        entry = Path("/", name)
        if entry.is_symlink():
            target = entry.readlink()
            if target.parts[:1] == ("usr",) or target.parts[:2] == ("/", "usr"):
                (at / name).symlink_to(target)
        elif entry.exists():
            raise ConfigurationError(
                f"/{name} is not a link into /usr on this machine",
                where="host-usr",
                hint="give an unpacked image with --rootfs DIR",
                code="isolation.plan",
            )
    return (Shown("/usr", "/usr"),)


def _image(image: Path, at: Path, points: tuple[str, ...]) -> tuple[Shown, ...]:
    """The image's top-level entries, except those that are the system's (``/proc``, ``/etc`` ...)."""
    if not image.is_absolute() or not (image / "usr").is_dir() or image == Path("/"):
        raise ConfigurationError(
            "not an unpacked root file system",
            where="--rootfs",
            expected="a directory with usr/ in it",
            code="isolation.plan",
        )
    shown: list[Shown] = []
    for entry in sorted(os.scandir(image), key=lambda item: item.name):
        if entry.name not in _SYSTEM:
            shown.extend(_show(Path(entry.path), at / entry.name, "/" + entry.name, points))
    return tuple(shown)


def _show(source: Path, at: Path, target: str, points: tuple[str, ...]) -> list[Shown]:
    """Show ``source`` whole, or, where a mount point below it is missing, rebuilt with its children."""
    if target in points:  # covered whatever it is; the caller makes the mount point
        return []
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        at.symlink_to(source.readlink())
        return []
    if stat.S_ISREG(mode):
        at.touch(mode=0o644)
        return [Shown(target, str(source))]
    if not stat.S_ISDIR(mode):
        return []
    at.mkdir(mode=0o755)
    below = [point for point in points if covers(target, point) and point != target]
    if all(_is_plain_directory(source, point[len(target) + 1 :]) for point in below):
        return [Shown(target, str(source))]
    shown: list[Shown] = []
    for child in sorted(source.iterdir()):
        shown.extend(_show(child, at / child.name, f"{target}/{child.name}", points))
    return shown


def _is_plain_directory(base: Path, relative: str) -> bool:
    """Whether ``relative`` exists below ``base`` as a directory, with no link on the way."""
    path = base
    for segment in relative.split("/"):
        path /= segment
        if path.is_symlink() or not path.is_dir():
            return False
    return True


def _make_mount_point(at: Path, point: str, shown: tuple[Shown, ...]) -> None:
    """A directory for ``point`` in the skeleton, unless what is shown there has it already."""
    if any(covers(item.target, point) and item.target != point for item in shown):
        return
    path = at
    for segment in point.strip("/").split("/"):
        path /= segment
        if path.is_symlink():
            raise ConfigurationError(
                "a link of the root is where the profile lists a path", where=point, code="isolation.plan"
            )
        path.mkdir(mode=0o755, exist_ok=True)


def _write_etc(etc: Path, files: Mapping[str, bytes], *, alternatives: Path) -> None:
    etc.mkdir(mode=0o755)
    for name, content in files.items():
        path = etc / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    for name, target in etc_links().items():
        path = etc / name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.symlink_to(target)
    _copy_alternatives(alternatives, etc / "alternatives")


def _alternatives_of(plan: SandboxPlan) -> Path:
    root = Path(plan.rootfs.path) if isinstance(plan.rootfs, DirectoryRoot) else Path("/")
    return root / "etc" / "alternatives"


def _copy_alternatives(source: Path, target: Path) -> None:
    """Debian's ``/usr/bin/awk`` is a link through ``/etc/alternatives``; only links into /usr are made anew."""
    target.mkdir(mode=0o755)
    if not source.is_dir():
        return
    for entry in sorted(source.iterdir())[:_MAX_ALTERNATIVES]:
        if entry.is_symlink() and entry.readlink().is_relative_to("/usr"):
            (target / entry.name).symlink_to(entry.readlink())


CA_BUNDLE_AT: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where programs inside find the certificates to trust: what SSL_CERT_FILE and its kin should name."""


def etc_files(*, hostname: str, ca_bundle: bytes, hosts: Mapping[str, str]) -> Mapping[str, bytes]:
    """Path below ``/etc`` -> content.

    Args:
        ca_bundle: PEM; it may be empty.
        hosts: name -> address, beside the sandbox's own.
    """
    others = "".join(f"{address} {name}\n" for name, address in hosts.items())
    return {
        "group": f"root:x:0:\nagent:x:{AGENT_GID}:\nnogroup:x:65534:\n".encode(),
        "hostname": f"{hostname}\n".encode(),
        "hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost\n{others}".encode(),
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "passwd": (
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
            f"agent:x:{AGENT_UID}:{AGENT_GID}:agent:/tmp:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ).encode(),
        "resolv.conf": b"",
        "ssl/certs/ca-certificates.crt": ca_bundle,
    }


def etc_links() -> Mapping[str, str]:
    """Path below ``/etc`` -> target of a link: other systems' names for the one trust bundle."""
    return {"pki/tls/certs/ca-bundle.crt": CA_BUNDLE_AT, "ssl/cert.pem": CA_BUNDLE_AT}
