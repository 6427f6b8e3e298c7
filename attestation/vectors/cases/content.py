"""Class *content*: what a reader holds in the hand is what a receipt commits to."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import one
from vectors.making.scripts import REQUEST, RESPONSE
from vectors.making.stories import two_sessions

__all__ = ["CASES"]

_REQUEST = {"body.request": "body.mismatch"}
_RESPONSE = {"body.response": "body.mismatch"}
_BOTH: dict[str, Any] = {"base": "valid/two-sessions", "script": two_sessions}

CASES = (
    one("content/request-changed", "A space more in the request.", None, _REQUEST, request=REQUEST + b" "),
    one(
        "content/request-re-serialised",
        "The same JSON value, written otherwise.",
        None,
        _REQUEST,
        request=REQUEST.replace(b'":', b'": '),
    ),
    one("content/request-empty", "An empty request.", None, _REQUEST, request=b""),
    one(
        "content/response-changed",
        "Another word in the answer.",
        None,
        _RESPONSE,
        response=RESPONSE.replace(b"measured", b"promised"),
    ),
    one("content/response-cut", "The answer without its last byte.", None, _RESPONSE, response=RESPONSE[:-1]),
    one(
        "content/response-for-request",
        "The answer where the request belongs.",
        None,
        _REQUEST,
        request=RESPONSE,
    ),
    one(
        "content/answer-to-another-request",
        "A request and an answer that are both committed to, by two receipts.",
        None,
        _RESPONSE,
        request=REQUEST,
        response=b'{"choices":[]}',
        **_BOTH,
    ),
)
