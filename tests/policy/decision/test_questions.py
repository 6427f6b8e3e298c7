"""Requests as people write them."""

import pytest

from affiant.policy.canonical.errors import RequestRefused
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    Question,
    SecretQuestion,
    ToolQuestion,
    parse_question,
)
from affiant.policy.model.profile import PathMode, Scheme


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("tool:a", ToolQuestion("a")),
        ("model:a:b", ModelQuestion("a:b")),
        ("read:/a", PathQuestion("/a", PathMode.READ)),
        ("write:/a b", PathQuestion("/a b", PathMode.READ_WRITE)),
        ("connect:A.b.com.", EgressQuestion("a.b.com", 443, Scheme.HTTPS)),
        ("GET https://a.b.com", EgressQuestion("a.b.com", 443, Scheme.HTTPS, "GET", "/")),
        ("GET https://a.b.com?x", EgressQuestion("a.b.com", 443, Scheme.HTTPS, "GET", "/?x")),
        ("GET http://a.b.com:8080/x?y", EgressQuestion("a.b.com", 8080, Scheme.HTTP, "GET", "/x?y")),
        ("GET https://ok.com@evil.com/", EgressQuestion("ok.com@evil.com", 443, Scheme.HTTPS, "GET", "/")),
        (
            "GET https://ok.com:80@evil.com/",
            EgressQuestion("ok.com:80@evil.com", 443, Scheme.HTTPS, "GET", "/"),
        ),
        ("GET https://a.b.com\\@evil/", EgressQuestion("a.b.com\\@evil", 443, Scheme.HTTPS, "GET", "/")),
        ("GET https://a.b.com/../x", EgressQuestion("a.b.com", 443, Scheme.HTTPS, "GET", "/../x")),
        ("secret:A@a.b.com:8443", SecretQuestion("A", "a.b.com", 8443)),
    ],
)
def test_a_request_is_read_as_it_is_written(text: str, question: Question) -> None:
    assert parse_question(text) == question


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tool:",
        "tool",
        "x:y",
        "GET",
        "GET a.b.com",
        "GET ftp://a/",
        "https://a.b.com",
        "secret:A",
        "secret:A@",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(RequestRefused):
        parse_question(text)
