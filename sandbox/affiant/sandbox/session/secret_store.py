"""The local secret store of a session: asked to open before anything starts, and handed to the broker as descriptors.

Only where the profile names a secret in it. The broker's user can open neither file; what opens a store without a key
file (a passphrase, a key from the system keyring) goes to it as a memory file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from affiant.policy.loading.policy_file import read_policy_file
from affiant.policy.loading.profile_set import Profile
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest
from affiant.secrets.store.local_store import KeyKind, StoreKey
from affiant.secrets.store.local_store_file import Keyring, LocalStoreFile

__all__ = ["asked_store_key", "secret_descriptors"]


def asked_store_key(
    request: SessionRequest,
    folder: Path,
    *,
    owners: frozenset[int],
    keyring: Keyring,
    ask_passphrase: Callable[[bool], bytes] | None,
) -> StoreKey | None:
    """What opens the store, where that is no key file and the profile needs the store; else None.

    Args:
        folder: the state folder's own store, if the request names none.
        owners: users whose profile files may be enforced.
        ask_passphrase: as of :class:`LocalStoreFile`; None: no one can be asked.

    Raises:
        AffiantError: there is no such profile, or what opens the store cannot be had.
    """
    profile = read_policy_file(request.profile, owners=owners, floor=request.floor).profiles.profile(
        request.agent
    )
    store = LocalStoreFile(
        request.secret_store or folder,
        random_bytes=os.urandom,
        ask_passphrase=ask_passphrase,
        keyring=keyring,
    )
    if not _needs_store(profile) or store.kind in (None, KeyKind.FILE):
        return None
    return store.key()


def secret_descriptors(plan: SessionPlan, folder: Path, stack: ExitStack) -> Mapping[str, int]:
    """The store and what opens it, by their names as descriptors of the supervisor; none, or both.

    Raises:
        ``store.key``: the store is not opened by a key file, and the request holds nothing that opens it.
    """
    if not _needs_store(plan.profile):
        return {}
    store = LocalStoreFile(plan.request.secret_store or folder, random_bytes=os.urandom)
    found = store.descriptors(plan.request.store_key)
    if found is None:
        return {}
    for descriptor in found:
        stack.callback(os.close, descriptor)
    return dict(zip(("secret_store", "secret_key"), found, strict=True))


def _needs_store(profile: Profile) -> bool:
    return any((grant.ref or "local:").startswith("local:") for grant in profile.compiled.secret_grants())
