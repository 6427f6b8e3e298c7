"""Reads and writes a store of objects over ``obstore`` (the extra ``objects``): S3, a compatible store, or a local
folder.

Credentials, endpoint and region are the environment's (``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``,
``AWS_ENDPOINT_URL``, ``AWS_REGION``, ``AWS_SKIP_SIGNATURE``, or a machine's role), which ``obstore`` reads itself:
none of them is ever in an address, a document or an error here. Of a server's error only its kind is repeated, since
the text of one about a signature holds what was signed.

Nothing here overwrites by chance: :meth:`ObjectStore.create` never does, :meth:`ObjectStore.replace` only what it was
given as read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

from affiant.attestation.log_reading.errors import (
    ExtraMissing,
    LogSettingsInvalid,
    LogUnreachable,
    ResourceTooLarge,
)
from affiant.errors import AffiantError, UnreachableError

if TYPE_CHECKING:
    from obstore.store import LocalStore, MemoryStore, S3Store

__all__ = ["Found", "ObjectStore", "Objects", "check_objects_address", "open_objects"]

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9!_.*'()=@-]+)*/?\Z")
_ERROR_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,64})</Code>")
_ERROR_KIND: Final = re.compile(r"\bkind: ([A-Z][A-Za-z]{2,30})\b")
_RETRIES: Final = 3
_HINT: Final = "pip install 'affiant[objects]'"


@dataclass(frozen=True, slots=True)
class Found:
    """An object as read: its content, and the tag by which it can be replaced; None where the store has none."""

    content: bytes
    tag: str | None


class Objects(Protocol):
    """What publishing and reading need of a store. Every call blocks, and may be made in any thread."""

    @property
    def name(self) -> str:
        """The store's address, as it was given."""
        ...

    def get(self, path: str, *, limit: int) -> Found | None:
        """The object at ``path``, at most ``limit`` bytes; None where there is none."""
        ...

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Path and size of every object below ``prefix``."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write an object where there is none; False, and nothing changed, where one does."""
        ...

    def replace(self, path: str, content: bytes, old: Found) -> bool:
        """Write over ``old``; False, and nothing changed, where it is not there any more."""
        ...


def check_objects_address(url: str) -> None:
    """Refuse what is no store's address, or could hold a credential; the address itself is not repeated.

    Raises:
        LogSettingsInvalid: neither ``s3://bucket/prefix`` nor ``file:///folder``.
    """
    if not _is_address(url):
        raise LogSettingsInvalid(
            "not the address of a store of objects",
            expected="s3://bucket/prefix or file:///folder",
            hint="Credentials, endpoint and region are read from the environment: AWS_ACCESS_KEY_ID and others",
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if not url.isprintable() or parts.query or parts.fragment or ".." in parts.path.split("/"):
        return False
    if parts.scheme == "file":
        return parts.netloc == "" and parts.path.startswith("/") and parts.path != "/"
    return (
        parts.scheme == "s3"
        and _BUCKET.match(parts.netloc) is not None
        and _PREFIX.match(parts.path) is not None
    )


def open_objects(url: str, *, answer_s: float = 30.0) -> ObjectStore:
    """The store at ``url``; nothing is asked of it yet.

    Args:
        answer_s: seconds after which a request that failed is not tried again.

    Raises:
        LogSettingsInvalid: no address of a store, or the environment's settings cannot be meant.
        ExtraMissing: ``obstore`` is not installed.
    """
    check_objects_address(url)
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra
        from obstore.store import LocalStore, S3Store  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ExtraMissing("reading and writing objects needs obstore", hint=_HINT) from error
    if url.startswith("file:"):
        folder = Path(unquote(urlsplit(url).path))
        try:
            return ObjectStore(url, LocalStore(folder, mkdir=True))
        except (BaseError, OSError) as error:
            raise LogSettingsInvalid("the folder of the store cannot be made", where=str(folder)) from error
    retry_for = timedelta(seconds=answer_s)
    try:
        store = S3Store.from_url(url, retry_config={"max_retries": _RETRIES, "retry_timeout": retry_for})
    except (BaseError, ValueError) as error:
        raise LogSettingsInvalid("the environment's settings for S3 cannot be meant", where=url) from error
    return ObjectStore(url, store)


class ObjectStore:
    """See :class:`Objects`. Made by :func:`open_objects`."""

    __slots__ = ("_name", "_store")

    def __init__(self, name: str, store: S3Store | LocalStore | MemoryStore) -> None:
        self._name, self._store = name.rstrip("/"), store

    @property
    def name(self) -> str:
        """The store's address, as it was given."""
        return self._name

    def get(self, path: str, *, limit: int) -> Found | None:
        """As :meth:`Objects.get`.

        Raises:
            ResourceTooLarge: there is more. LogUnreachable, ``log.denied``: the store does not say.
        """
        with self._asking(path):
            try:
                found = self._store.get(path)
                if found.meta["size"] > limit:  # as the store says; bodies of another length are errors below
                    raise ResourceTooLarge(
                        "an object is too large", where=path, expected=f"at most {limit} bytes"
                    )
                return Found(bytes(found.bytes()), found.meta["e_tag"])
            except FileNotFoundError as error:
                if _code_of(error) in ("", "NoSuchKey"):
                    return None
                raise

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """As :meth:`Objects.sizes`."""
        with self._asking(prefix or self._name):
            for batch in self._store.list(prefix or None):
                for each in batch:
                    yield each["path"], each["size"]

    def create(self, path: str, content: bytes) -> bool:
        """As :meth:`Objects.create`."""
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - an extra

        with self._asking(path):
            try:
                self._store.put(path, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            except NotImplementedError as error:
                raise self._unconditional(path) from error
        return True

    def replace(self, path: str, content: bytes, old: Found) -> bool:
        """As :meth:`Objects.replace`. A local folder cannot do it in one step: it is compared, then written."""
        from obstore.exceptions import PreconditionError  # noqa: PLC0415 - an extra

        with self._asking(path):
            try:
                if old.tag is not None:
                    self._store.put(path, content, mode={"e_tag": old.tag}, use_multipart=False)
                    return True
            except PreconditionError:
                return False
            except NotImplementedError as error:
                if not self._name.startswith("file:"):
                    raise self._unconditional(path) from error
            found = self.get(path, limit=max(len(old.content), 1))
            if found is None or found.content != old.content:
                return False
            self._store.put(path, content, mode="overwrite", use_multipart=False)
            return True

    def _unconditional(self, path: str) -> LogSettingsInvalid:
        """Never fall back to writing over what is there: another writer's checkpoint would be gone."""
        return LogSettingsInvalid(
            "the environment switches off conditional writes, without which nothing is published",
            where=path,
            hint="Unset AWS_CONDITIONAL_PUT; a store that has no conditional writes cannot hold the log",
        )

    @contextmanager
    def _asking(self, where: str) -> Iterator[None]:
        from obstore.exceptions import (  # noqa: PLC0415 - an extra
            BaseError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        try:
            yield
        except AffiantError:
            raise
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise UnreachableError(
                "the store does not let these credentials do this",
                where=where,
                found=_kind_of(error),
                hint="See the credentials in the environment, and the bucket's policy",
                code="log.denied",
            ) from None  # the text of the error may hold what was signed
        except (BaseError, OSError) as error:
            raise LogUnreachable(
                "the store does not answer as it should",
                where=where,
                found=_kind_of(error),
            ) from None


def _kind_of(error: Exception) -> str:
    """What may be said of an error: S3's code, or how the connection failed, or its class."""
    match = _ERROR_KIND.search(str(error))
    return _code_of(error) or (type(error).__name__ if match is None else match.group(1))


def _code_of(error: Exception) -> str:
    """S3's own code of an error, such as NoSuchBucket; empty where it gave none."""
    match = _ERROR_CODE.search(str(error))
    return "" if match is None else match.group(1)
