"""From a provision to an open session, in three steps that cannot be taken in another order.

1. *Provisioning* (``starting``): what was provided agrees with the TD; children started; privileges given up.
2. *Attesting* (``attesting``): the gateway appraised, this session's evidence made, admission.
3. *Activating* (``activating``): the chain's ``boot``, the broker, the sandbox, the proxy.

The second and third step are loaded once the children are started, so that all three processes load at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affiant.lazy_names import loading
from affiant.sandbox.supervisor.context import Opening
from affiant.sandbox.supervisor.launch.lifecycle import State
from affiant.sandbox.supervisor.starting import start

if TYPE_CHECKING:
    from affiant.sandbox.supervisor.activating import OpenSession

__all__ = ["open_session"]


async def open_session(opening: Opening) -> OpenSession:
    """Open one session; must be called before any thread has been started.

    Raises:
        AffiantError: the step that was refused; what it opened is on the exit stack.
    """
    started = start(opening)
    with loading():
        from affiant.sandbox.supervisor.activating import activate  # noqa: PLC0415 - see above
        from affiant.sandbox.supervisor.attesting import attest  # noqa: PLC0415 - see above

    await opening.progress("provisioned", {"isolation": opening.provision.backend.value})
    opening.lifecycle.to(State.ATTESTING)
    admitted = await attest(opening, started)
    return await activate(opening, started, admitted)
