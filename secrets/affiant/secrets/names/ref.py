"""``SecretRef``: a secret's name, in place of its value.

An agent, a profile, a log and a receipt may hold it. It *is* text: the placeholder that the session's broker
will replace on the way out, or ``<SecretRef:NAME>`` when none is bound. So ``str``, ``json.dumps``, f-strings
and ``subprocess.run(env=...)`` give the placeholder, and there is no value that could leak. Pickling, copying
and ``dataclasses.asdict`` keep the name alone: a placeholder belongs to one session and does not travel.

>>> token = SecretRef("GITHUB_TOKEN")
>>> token
<SecretRef:GITHUB_TOKEN>
>>> import json
>>> json.dumps({"auth": token.bound_to("affiant-ph-x")})
'{"auth": "affiant-ph-x"}'
>>> token.resolve()
Traceback (most recent call last):
    ...
affiant.errors.StateError: GITHUB_TOKEN: a secret is resolved in the broker only. Send ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Self

from affiant.errors import StateError
from affiant.secrets.names.errors import SecretNameInvalid
from affiant.secrets.names.value import SecretValue

__all__ = ["SecretRef", "resolution_inside_broker", "secret_name"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")

_resolver: ContextVar[Callable[[str], SecretValue]] = ContextVar("_resolver")


def secret_name(text: str) -> str:
    """``text``, if it can name a secret: letters, digits, ``_``, no digit first, at most 64 characters.

    Raises:
        SecretNameInvalid: it cannot.
    """
    if _NAME.match(text) is None:
        raise SecretNameInvalid(
            "not a secret's name", expected="letters, digits and '_', at most 64", found=repr(text[:70])
        )
    return text


class SecretRef(str):
    """A secret by name; as text, its placeholder if one is bound.

    Args:
        name: see :func:`secret_name`.
    """

    __slots__ = ("name",)

    name: str

    def __new__(cls, name: str) -> Self:
        ref = super().__new__(cls, f"<SecretRef:{secret_name(name)}>")
        ref.name = name
        return ref

    def bound_to(self, placeholder: str) -> SecretRef:
        """The same name, rendered as ``placeholder`` in this session."""
        ref = str.__new__(type(self), placeholder)
        ref.name = self.name
        return ref

    def resolve(self) -> SecretValue:
        """The value: in the broker's process, while it resolves; nowhere else.

        Raises:
            ``secret.outside_broker``: called anywhere else.
        """
        resolver = _resolver.get(None)
        if resolver is None:
            raise StateError(
                "a secret is resolved in the broker only",
                where=self.name,
                hint="Send the placeholder; it is replaced on the way to the hosts that the profile names",
                code="secret.outside_broker",
            )
        return resolver(self.name)

    def __repr__(self) -> str:
        return f"<SecretRef:{self.name}>"

    def __reduce_ex__(self, protocol: object) -> tuple[type[SecretRef], tuple[str]]:
        return (type(self), (self.name,))

    def __copy__(self) -> SecretRef:
        return type(self)(self.name)

    def __deepcopy__(self, memo: object) -> SecretRef:
        return type(self)(self.name)


@contextmanager
def resolution_inside_broker(resolver: Callable[[str], SecretValue]) -> Iterator[None]:
    """Let :meth:`SecretRef.resolve` work inside this block, by ``resolver``. For the broker's process."""
    token = _resolver.set(resolver)
    try:
        yield
    finally:
        _resolver.reset(token)
