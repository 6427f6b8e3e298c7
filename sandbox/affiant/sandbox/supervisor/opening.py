"""From a provision to an open session, in three steps that cannot be taken in another order.

1. *Provisioning* (``starting``): what was provided agrees with the TD; children started; privileges given up.
2. *Attesting* (``attesting``): the gateway appraised, this session's evidence made, admission.
3. *Activating* (``activating``): the chain's ``boot``, the broker, the sandbox, the proxy.
"""

from __future__ import annotations

from affiant.sandbox.supervisor.activating import OpenSession, activate
from affiant.sandbox.supervisor.attesting import attest
from affiant.sandbox.supervisor.context import Opening
from affiant.sandbox.supervisor.launch.lifecycle import State
from affiant.sandbox.supervisor.starting import start

__all__ = ["open_session"]


async def open_session(opening: Opening) -> OpenSession:
    """Open one session; must be called before any thread has been started.

    Raises:
        AffiantError: the step that was refused; what it opened is on the exit stack.
    """
    started = start(opening)
    await opening.progress("provisioned", {"isolation": opening.provision.backend.value})
    opening.lifecycle.to(State.ATTESTING)
    admitted = await attest(opening, started)
    return await activate(opening, started, admitted)
