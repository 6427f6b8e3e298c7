"""Defines the errors of orders, requests and the keys of erasure authorities."""

from __future__ import annotations

from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["AuthorityKeyMalformed", "OrderUnauthorized", "RequestFileMalformed"]


class OrderUnauthorized(NotAuthenticError):
    """An order that no accepted authority has signed, or that was signed for something else."""

    code = "erasure.unauthorized"


class RequestFileMalformed(MalformedError):
    """A file is no request to erase or to hold."""

    code = "erasure.request"


class AuthorityKeyMalformed(MalformedError):
    """A file is no key of an erasure authority, or others can read it."""

    code = "erasure.key"
