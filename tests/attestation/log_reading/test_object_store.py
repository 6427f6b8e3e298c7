"""A store of objects: nothing is written over by chance, and no refusal holds a credential."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from tests.raising import raises_code
from tests.s3_server import SECRET, S3Server

from affiant.attestation.log_reading.errors import (
    ExtraMissing,
    LogSettingsInvalid,
    LogUnreachable,
    ResourceTooLarge,
)
from affiant.attestation.log_reading.object_store import (
    Found,
    ObjectStore,
    check_objects_address,
    open_objects,
)


@pytest.fixture(params=["memory", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return ObjectStore("memory", MemoryStore())
    if request.param == "file":
        return open_objects(f"file://{tmp_path}/made/for/it")
    server: S3Server = request.getfixturevalue("s3")
    return open_objects(server.url(f"store-{tmp_path.name}"))


def test_an_object_is_created_once_and_replaced_only_as_it_was_read(store: ObjectStore) -> None:
    assert store.get("tile/0/000", limit=10) is None
    assert store.create("tile/0/000", b"one") and not store.create("tile/0/000", b"two")
    first = store.get("tile/0/000", limit=3)
    assert first is not None and first.content == b"one"
    assert store.replace("tile/0/000", b"two", first)
    assert not store.replace("tile/0/000", b"three", first)
    assert not store.replace("nothing", b"three", Found(b"x", first.tag))
    second = store.get("tile/0/000", limit=3)
    assert second is not None and second.content == b"two"


def test_more_than_the_limit_is_refused(store: ObjectStore) -> None:
    store.create("checkpoint", b"12345")
    with pytest.raises(ResourceTooLarge):
        store.get("checkpoint", limit=4)


def test_a_listing_names_what_is_below_a_prefix_with_its_size(store: ObjectStore) -> None:
    for path in ("tile/0/000", "tile/0/000.p/3", "tile/entries/000", "checkpoint", "tiles/0"):
        store.create(path, path.encode())
    found = dict(store.sizes("tile"))
    assert found == {path: len(path) for path in ("tile/0/000", "tile/0/000.p/3", "tile/entries/000")}
    assert len(list(store.sizes())) == 5


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "bucket",
            "/folder",
            "https://bucket",
            "gs://bucket",
            "memory:///",
            "s3://",
            "s3:///x",
            "file://",
        ),
        *("s3://key:secret@bucket/x", "s3://key@bucket", "s3://bucket/x?secret=1", "s3://bucket#x"),
        *("s3://bucket/../x", "s3://Bucket", "s3://bucket:80/x", "s3://bucket/a b", "s3://bucket//x"),
        *("file://host/x", "file:///", "file:///a/../b", "s3://bucket/\n", "s3://bucket/%2e%2e"),
    ],
)
def test_what_is_no_address_of_a_store_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(LogSettingsInvalid) as refusal:
        check_objects_address(url)
    assert "secret" not in str(refusal.value) and "key:" not in str(refusal.value)


@pytest.mark.parametrize("url", ["s3://bucket", "s3://b.u-1/log/a_b=c/", "file:///var/log%20s"])
def test_addresses_of_stores_are_taken(url: str) -> None:
    check_objects_address(url)


def test_without_the_extra_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.exceptions", "obstore.store"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ExtraMissing, match=r"pip install 'affiant\[objects\]'"):
        open_objects("s3://bucket")


def test_wrong_credentials_are_a_refusal_that_repeats_nothing_that_was_signed(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    store = open_objects(s3.url("x"))
    for ask in (lambda: store.get("checkpoint", limit=9), lambda: store.create("checkpoint", b"")):
        with raises_code("log.denied") as refusal:
            ask()
        text = f"{refusal.value} {refusal.value.to_json()} {store!r} {refusal.value.__suppress_context__}"
        assert "SignatureDoesNotMatch" in text and "True" in text
        assert not any(each in text for each in (SECRET, "another-secret", "AWS4-HMAC", "affiant-tests"))


def test_a_bucket_that_is_not_there_is_no_empty_one(s3: S3Server) -> None:
    store = open_objects("s3://other-bucket/x")
    with pytest.raises(LogUnreachable, match="NoSuchBucket"):
        store.get("checkpoint", limit=9)
    with pytest.raises(LogUnreachable, match="NoSuchBucket"):
        list(store.sizes())


def test_a_store_that_does_not_answer_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "a"),
        ("AWS_SECRET_ACCESS_KEY", "b"),
        ("AWS_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(LogUnreachable, match="Connect"):
        open_objects("s3://bucket", answer_s=0.1).get("checkpoint", limit=9)


@pytest.mark.parametrize("how", ["create", "replace"])
def test_without_conditional_writes_nothing_is_written_at_all(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The environment may switch them off; nobody is asked, and nothing is written over."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_REGION": "x",
        "AWS_ENDPOINT": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_CONDITIONAL_PUT": "disabled",
    }.items():
        monkeypatch.setenv(name, value)
    store = open_objects("s3://bucket/prefix", answer_s=1)
    with pytest.raises(LogSettingsInvalid, match="conditional"):
        if how == "create":
            store.create("checkpoint", b"new")
        else:
            store.replace("checkpoint", b"new", Found(b"old", "tag"))
