"""Tests in a file of their own are read as strictly as profiles, and every error has its place."""

from __future__ import annotations

import pytest

from affiant.errors import AffiantError
from affiant.policy.testing.external_tests import read_external_tests


def test_each_test_keeps_its_place() -> None:
    data = (
        b"tests:\n  dev:\n    - allow: {tool: a}\n    - deny: {egress: 'GET https://a.b.com/'}\n  other: []\n"
    )
    found = read_external_tests(data, source="t.yaml", agents=["dev", "other"])
    assert [(test.request, str(test.mark)) for test in found["dev"]] == [
        ("tool:a", "t.yaml:3:21"),
        ("GET https://a.b.com/", "t.yaml:4:22"),
    ]
    assert found["other"] == ()


@pytest.mark.parametrize(
    ("text", "code", "where"),
    [
        ("", "policy.empty_list", "t.yaml:1:1"),
        ("# nothing", "policy.empty_list", "t.yaml:1:1"),
        ("tests: {}", "policy.empty_list", "t.yaml:1:8"),
        ("tests: {dev: []}", "policy.empty_list", "t.yaml:1:8"),
        ("tests: []", "policy.wrong_type", "t.yaml:1:8"),
        ("{}", "policy.missing_key", "t.yaml:1:1"),
        ("tests: {dev: [{deny: {tool: a}}]}\nmore: 1", "policy.unknown_key", "t.yaml:2:1"),
        ("tests: {dve: [{deny: {tool: a}}]}", "policy.unknown_agent", "t.yaml:1:9"),
        ("tests:\n  dev:\n    - denied: {tool: a}", "policy.unknown_key", "t.yaml:3:7"),
        ("tests:\n  dev:\n    - deny: {egress: nowhere}", "policy.request", "t.yaml:3:22"),
        (
            "tests: {dev: [{deny: {tool: a}}], dev: [{deny: {tool: b}}]}",
            "policy.duplicate_key",
            "t.yaml:1:35",
        ),
        ("tests: &a {dev: [{deny: {tool: a}}]}", "policy.yaml_feature", "t.yaml:1:8"),
        ("tests: {dev: [{deny: {tool: 'a\u202e'}}]}", "policy.character", "t.yaml:1:31"),
    ],
)
def test_what_is_no_file_of_tests_is_refused_at_its_place(text: str, code: str, where: str) -> None:
    with pytest.raises(AffiantError) as caught:
        read_external_tests(text.encode(), source="t.yaml", agents=["dev", "other"])
    assert (caught.value.code, str(caught.value.where)) == (code, where)
