"""The runner's command line, as the supervisor writes it and the runner reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from affiant.attestation.release.running import program_command
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, RootFS

__all__ = ["Settings", "runner_command"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the launcher fixes on the runner's command line; no frame can change it."""

    session_dir: Path
    backend: BackendName
    rootfs: RootFS
    runtime: str | None


def runner_command(settings: Settings, *, control_fd: int) -> tuple[str, ...]:
    """The runner's command line; the runner must inherit ``control_fd`` and ``memory_descriptors()``."""
    options = [f"--control-fd={control_fd}", f"--session-dir={settings.session_dir}"]
    options.append(f"--backend={settings.backend.value}")
    if isinstance(settings.rootfs, DirectoryRoot):
        options.append(f"--rootfs={settings.rootfs.path}")
    if settings.runtime is not None:
        options.append(f"--runtime={settings.runtime}")
    return (*program_command("affiant.sandbox.isolation.runner.runner"), *options)
