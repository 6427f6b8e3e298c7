"""From the compiled profile to the sandbox's plan: what the agent will see of files, and how much it may use."""

from __future__ import annotations

from typing import Final

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.model.profile import PathMode
from affiant.sandbox.isolation.plan.plan import Access, FileGrant, Limits, RootFS, SandboxPlan, plan_sandbox

__all__ = ["session_sandbox"]

_ACCESS: Final = {
    PathMode.NONE: Access.NONE,
    PathMode.READ: Access.READ_ONLY,
    PathMode.READ_WRITE: Access.READ_WRITE,
}


def session_sandbox(
    policy: CompiledPolicy, *, session: str, rootfs: RootFS, runtime: str | None
) -> SandboxPlan:
    """The plan of one session.

    Raises:
        PlanRefused: a path or a limit that no sandbox may have.
    """
    default, wanted = Limits(), policy.resources
    return plan_sandbox(
        session,
        [FileGrant(grant.path, _ACCESS[grant.mode]) for grant in policy.mounts()],
        rootfs=rootfs,
        runtime=runtime,
        limits=Limits(
            memory_bytes=wanted.memory or default.memory_bytes,
            tmp_bytes=wanted.disk or default.tmp_bytes,
            processes=wanted.pids or default.processes,
            cpus=wanted.cpus,
        ),
    )
