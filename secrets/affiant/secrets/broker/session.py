"""The broker's session: the values, held once, and everything that is derived from them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from affiant.errors import AffiantError, ConfigurationError, NotAllowedError, UnreachableError
from affiant.secrets.broker.client.messages import Configuration, Grant, KeptGrant, Limits
from affiant.secrets.broker.partial_echoes import PartialEchoes
from affiant.secrets.broker.tokens.token_request import require_credential
from affiant.secrets.broker.tokens.tokens import Credential, Instants, Tokens
from affiant.secrets.broker.uses import Uses
from affiant.secrets.injection.placeholder import PlaceholderTable
from affiant.secrets.injection.signing_key import SigningKey
from affiant.secrets.injection.signing_surface import SigningSurface
from affiant.secrets.names.source import (
    Reference,
    ResolvedSecret,
    SecretSource,
    VaultReference,
    parse_reference,
)
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.incremental import GrowingRedactor
from affiant.secrets.redaction.redaction import Redactor
from affiant.secrets.store.private_files import read_private_descriptor
from affiant.secrets.store.tls import client_context

if TYPE_CHECKING:
    from affiant.secrets.store.vault import VaultSource

__all__ = ["BrokerSession", "Held", "OpenedSession", "open_session"]

_MAX_CREDENTIAL_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True, repr=False)
class BrokerSession:
    """What the exchanges of one session share; immutable but for the uses that are left, tokens, and what came back.

    ``values`` are those that are put into requests as they are; what is exchanged for a token is in ``tokens`` alone.
    """

    table: PlaceholderTable
    values: Mapping[str, SecretValue]
    redactor: Redactor
    context: ssl.SSLContext
    limits: Limits
    uses: Uses
    tokens: Tokens
    echoes: PartialEchoes = field(default_factory=PartialEchoes)

    @property
    def guarded(self) -> bool:
        """Whether there is anything that an answer must not hold."""
        return bool(self.redactor)

    def value(self, name: str) -> SecretValue:
        """What is put into requests for the secret ``name``: its value, or its token.

        Raises:
            ``secret.not_found``: it was not granted, or could not be resolved. TokenUnavailable: it has no token now.
        """
        if name in self.tokens:
            return self.tokens.value(name)
        try:
            return self.values[name]
        except KeyError as error:
            raise ConfigurationError(
                "the broker does not hold this secret", found=name, code="secret.not_found"
            ) from error

    def sent_values(self, name: str) -> Iterable[SecretValue]:
        """What a host gets to see of the secret ``name``: all of it; of a key that signs, at most its session token."""
        binding = self.table.binding(name)
        if binding is None or not isinstance(binding.surface, SigningSurface):
            return (self.value(name),)
        token = SigningKey.read(self.value(name)).session_token
        return () if token is None else (token,)

    @property
    def names(self) -> frozenset[str]:
        """The secrets that can be put anywhere."""
        return frozenset({*self.values, *self.tokens.credentials})

    def restricted(self, kept: Sequence[KeptGrant]) -> BrokerSession:
        """The session with fewer secrets, at fewer places, for fewer uses.

        A value that may be put nowhere any more is not given out, and is still redacted: a host that was sent it may
        send it back.

        Raises:
            ``secret.grants``: more than before, or a name twice.
        """
        names = {grant.name for grant in kept}
        if len(names) != len(kept):
            raise ConfigurationError("a secret is granted twice", code="secret.grants")
        table = self.table.narrowed_to({grant.name: grant.endpoints for grant in kept})
        return replace(
            self,
            table=table,
            values={name: self.value(name) for name in sorted(names) if name not in self.tokens},
            uses=self.uses.restricted({grant.name: grant.max_uses for grant in kept}),
            tokens=self.tokens.restricted(names),
        )


class Held:
    """The session as it is now: each exchange takes it when its request is there to be prepared."""

    __slots__ = ("_sending", "session")

    def __init__(self, session: BrokerSession) -> None:
        self.session = session
        self._sending: set[asyncio.Timeout] = set()

    def value(self, name: str) -> SecretValue:
        """As :meth:`BrokerSession.value`."""
        return self.session.value(name)

    @contextlib.asynccontextmanager
    async def until_restricted(self) -> AsyncIterator[None]:
        """A block that sends what was prepared by the session as it is; restricting the session interrupts it.

        Raises:
            ``broker.request``: it was.
        """
        cut = asyncio.timeout(None)
        try:
            async with cut:
                self._sending.add(cut)
                yield
        except TimeoutError:
            if cut.expired():
                raise NotAllowedError(
                    "the profile was restricted while the request was on its way", code="broker.request"
                ) from None
            raise
        finally:
            self._sending.discard(cut)

    def restrict(self, kept: Sequence[KeptGrant]) -> None:
        """Hold less from now on, and interrupt what is on its way.

        The broker does not notice that a supervisor has abandoned a request while a host is slow to accept the
        connection. Without the interruption, the host would be sent the secret after the restriction.

        Raises:
            ``secret.grants``: as :meth:`BrokerSession.restricted`; everything is as it was.
        """
        self.session = self.session.restricted(kept)
        cut, self._sending = self._sending, set()
        for each in cut:
            each.reschedule(asyncio.get_running_loop().time())


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session, and what came of each grant."""

    session: BrokerSession
    versions: Mapping[str, str]
    refused: Mapping[str, AffiantError]


def open_session(
    configuration: Configuration, descriptors: tuple[int, ...], *, instants: Instants
) -> OpenedSession:
    """Resolve every grant that can be resolved. Blocks: call it from a thread. Closes ``descriptors``.

    A grant that cannot be resolved is rejected by itself; the others stay.

    Raises:
        ``broker.configuration``: another number of descriptors than the configuration names.
        ``secret.grants``: the grants contradict each other.
    """
    try:
        if len(descriptors) != 2 * configuration.local + (configuration.vault is not None):
            raise ConfigurationError(
                "the descriptors are not those that the configuration names", code="broker.configuration"
            )
        table = PlaceholderTable(grant.binding for grant in configuration.grants)
        context = client_context(roots=configuration.roots, system_roots=configuration.system_roots)
        resolved, refused = _resolve_all(configuration, descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    table = table.restricted_to(resolved)
    values = {name: secret.value for name, secret in resolved.items()}
    redactor = GrowingRedactor(
        (part, grant.binding.placeholder)
        for grant in configuration.grants
        if grant.binding.name in values
        for part in _parts(grant, values[grant.binding.name])
    )
    uses = Uses({grant.binding.name: grant.max_uses for grant in configuration.grants})
    credentials = {
        grant.binding.name: Credential(
            values.pop(grant.binding.name), grant.exchange, grant.binding.placeholder
        )
        for grant in configuration.grants
        if grant.exchange is not None and grant.binding.name in values
    }
    tokens = Tokens(credentials, redactor, instants)
    session = BrokerSession(table, values, redactor, context, configuration.limits, uses, tokens)
    return OpenedSession(session, {name: secret.version for name, secret in resolved.items()}, refused)


def _resolve_all(
    configuration: Configuration, descriptors: tuple[int, ...]
) -> tuple[dict[str, ResolvedSecret], dict[str, AffiantError]]:
    resolved: dict[str, ResolvedSecret] = {}
    refused: dict[str, AffiantError] = {}
    with contextlib.ExitStack() as stack:
        sources = _Sources(configuration, descriptors, stack)
        for grant in configuration.grants:
            try:
                resolved[grant.binding.name] = _usable(grant, sources.resolve(grant))
            except AffiantError as error:
                refused[grant.binding.name] = error
    return resolved, refused


def _usable(grant: Grant, resolved: ResolvedSecret) -> ResolvedSecret:
    """The secret, if what its grant says can be done with its value.

    Raises:
        SecretValueInvalid, ``secret.sigv4_key``: it cannot.
    """
    if grant.exchange is None:
        resolved.value.require_one_line()
        _parts(grant, resolved.value)
    else:
        require_credential(grant.exchange, resolved.value)
    return resolved


def _parts(grant: Grant, value: SecretValue) -> Iterable[SecretValue]:
    """What must not be seen of a value: all of it; of a key that signs each part, because only parts are ever sent."""
    return SigningKey.read(value).parts if isinstance(grant.binding.surface, SigningSurface) else (value,)


class _Sources:
    """The sources of a configuration: each opened once, when a grant first asks for it; one that fails is left."""

    def __init__(
        self, configuration: Configuration, descriptors: tuple[int, ...], stack: contextlib.ExitStack
    ) -> None:
        self._configuration = configuration
        self._descriptors = descriptors
        self._stack = stack
        self._opened: dict[type, SecretSource | AffiantError] = {}

    def resolve(self, grant: Grant) -> ResolvedSecret:
        reference = parse_reference(grant.reference)
        kind = type(reference)
        if kind not in self._opened:
            try:
                self._opened[kind] = self._open(reference)
            except AffiantError as error:
                self._opened[kind] = error
        source = self._opened[kind]
        if isinstance(source, AffiantError):
            raise source
        try:
            return source.resolve(reference)
        except UnreachableError as error:
            self._opened[kind] = error  # the others would only wait for the same
            raise

    def _open(self, reference: Reference) -> SecretSource:
        if isinstance(reference, VaultReference):
            return self._stack.enter_context(self._vault())
        if not self._configuration.local:
            raise ConfigurationError(
                "there is no local store",
                hint="Make one with: affiant secret set NAME",
                code="secret.not_found",
            )
        from affiant.secrets.broker.local_source import LocalSource  # noqa: PLC0415 - only where a store is given

        return LocalSource.from_descriptors(*self._descriptors[:2])

    @contextlib.contextmanager
    def _vault(self) -> Iterator[VaultSource]:
        settings = self._configuration.vault
        if settings is None:
            raise ConfigurationError(
                "a secret lives in Vault, and no Vault is configured", code="broker.configuration"
            )
        from affiant.secrets.store.vault import (  # noqa: PLC0415 - hvac and requests: only where Vault is named
            VaultJWT,
            VaultSource,
            VaultToken,
        )

        data = read_private_descriptor(self._descriptors[-1], limit=_MAX_CREDENTIAL_BYTES)
        credential = data.decode("ascii", "replace").strip()
        if settings.role is None or settings.mount is None:
            login: VaultToken | VaultJWT = VaultToken(credential)
        else:
            login = VaultJWT(settings.role, settings.mount, credential)
        with contextlib.closing(VaultSource(settings.address, roots=settings.roots, login=login)) as source:
            yield source
