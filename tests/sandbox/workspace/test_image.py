"""Unpacking a root file system: digests first, whiteouts, and nothing written through a link."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.sandbox.workspace.image import unpack_image
from affiant.sandbox.workspace.tree import TreeTooLarge, tree_digest
from affiant.sandbox.workspace.walk import Limits, read_tree


def archive(*entries):
    """A tar archive: (name, content) files, (name, ("link" or "hard", target)), (name, None) directories."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.mode = 0o6755
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, tuple):
                member.type = tarfile.SYMTYPE if content[0] == "link" else tarfile.LNKTYPE
                member.linkname = content[1]
            elif content == "device":
                member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 1, 3
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return data.getvalue()


def unpacked(tmp_path, *entries, **arguments):
    (tmp_path / "image.tar").write_bytes(archive(*entries))
    digest = unpack_image(tmp_path / "image.tar", tmp_path / "root", **arguments)
    return tmp_path / "root", digest


def test_an_archive_is_unpacked_and_named_by_its_tree(tmp_path):
    root, digest = unpacked(
        tmp_path,
        ("./usr", None),
        ("usr/bin/tool", b"tool"),
        ("bin", ("link", "usr/bin")),
        ("usr/bin/same", ("hard", "usr/bin/tool")),
        ("/absolute/name", b"inside"),
        ("dev/null", "device"),
    )
    assert (root / "bin" / "same").read_bytes() == b"tool"
    assert (root / "absolute" / "name").read_bytes() == b"inside"
    assert not (root / "dev" / "null").exists()
    assert (root / "usr" / "bin" / "tool").stat().st_mode & 0o7777 == 0o755
    assert digest == tree_digest(read_tree(root))


@pytest.mark.parametrize(
    "entries",
    [
        [("../x", b"x")],
        [("a/../../x", b"x")],
        [("a", ("link", "/tmp")), ("a/x", b"x")],
        [("a", ("link", "..")), ("a/x", b"x")],
        [("a", ("link", "..")), ("a", None)],
        [("x", ("hard", "../outside"))],
        [("l", ("link", "../outside")), ("x", ("hard", "l"))],
        [("d", ("link", "..")), ("x", ("hard", "d/outside"))],
        [("d", ("link", "..")), ("d/.wh.outside", b"")],
        [(".wh...", b"")],
        [("d/.wh..", b"")],
        [("d/.wh.", b"")],
    ],
)
def test_no_entry_reads_writes_or_removes_anything_elsewhere(tmp_path, entries):
    (tmp_path / "outside").write_text("the machine's own")
    before = sorted(os.listdir(tmp_path))
    with raises_code("workspace.image"):
        unpacked(tmp_path, *entries)
    assert (tmp_path / "outside").read_text() == "the machine's own"
    assert sorted(set(os.listdir(tmp_path)) - {"image.tar", "root"}) == before
    assert not any(path.is_file() and not path.is_symlink() for path in (tmp_path / "root").rglob("x"))


def test_a_link_is_replaced_by_a_file_of_its_name_and_not_written_through(tmp_path):
    (tmp_path / "outside").write_text("the machine's own")
    root, _ = unpacked(tmp_path, ("f", ("link", "../outside")), ("f", b"new"))
    assert (root / "f").read_bytes() == b"new"
    assert (tmp_path / "outside").read_text() == "the machine's own"


def test_the_limits_refuse(tmp_path):
    with pytest.raises(TreeTooLarge):
        unpacked(tmp_path, ("a", b"x" * 100), limits=Limits(total_bytes=99))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not an archive",
        b"\x1f\x8b broken",
        gzip.compress(os.urandom(4096) * 9)[:-900],
        archive(("a", b"a"))[:512],
    ],
)
def test_what_is_no_archive_is_refused(tmp_path, data):
    (tmp_path / "image.tar").write_bytes(data)
    with raises_code("workspace.image"):
        unpack_image(tmp_path / "image.tar", tmp_path / "root")


def test_a_directory_that_is_no_layout_or_a_target_that_is_not_empty_is_refused(tmp_path):
    with raises_code("workspace.image", match="oci-layout"):
        unpack_image(tmp_path, tmp_path / "root")
    (tmp_path / "full" / "x").mkdir(parents=True)
    with raises_code("workspace.image", match="not empty"):
        unpack_image(tmp_path, tmp_path / "full")


class Layout:
    """An OCI image layout under construction."""

    def __init__(self, at):
        self.at = at
        (at / "blobs" / "sha256").mkdir(parents=True)
        (at / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data):
        name = hashlib.sha256(data).hexdigest()
        (self.at / "blobs" / "sha256" / name).write_bytes(data)
        return {"digest": f"sha256:{name}", "size": len(data)}

    def image(self, *layers):
        kind = "application/vnd.oci.image.layer.v1.tar+gzip"
        listed = [{**self.blob(gzip.compress(layer)), "mediaType": kind} for layer in layers]
        return self.blob(json.dumps({"schemaVersion": 2, "layers": listed}).encode())

    def index(self, *manifests):
        (self.at / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": list(manifests)}))


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


def test_layers_are_applied_in_order_with_their_whiteouts(layout, tmp_path):
    first = archive(("etc/a", b"a"), ("etc/b", b"b"), ("old/x", b"x"), ("old/y", b"y"), ("f", b"file"))
    second = archive(
        ("etc/.wh.a", b""), ("old/.wh..wh..opq", b""), ("old/z", b"z"), ("f/now", b"a directory")
    )
    layout.index(layout.image(first, second))
    unpack_image(layout.at, tmp_path / "root")
    found = {
        path.relative_to(tmp_path / "root").as_posix()
        for path in (tmp_path / "root").rglob("*")
        if path.is_file()
    }
    assert found == {"etc/b", "old/z", "f/now"}


def test_the_image_for_this_machine_is_taken(layout, tmp_path, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    images = {name: layout.image(archive((name, b""))) for name in ("amd64", "arm64")}
    layout.index(
        *({**image, "platform": {"os": "linux", "architecture": name}} for name, image in images.items())
    )
    unpack_image(layout.at, tmp_path / "root")
    assert os.listdir(tmp_path / "root") == ["arm64"]
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with raises_code("workspace.image", match="no image for this machine"):
        unpack_image(layout.at, tmp_path / "other")


def test_any_blob_with_another_content_is_refused(layout, tmp_path):
    layout.index(layout.image(archive(("a", b"a"))))
    for number, blob in enumerate(sorted((layout.at / "blobs" / "sha256").iterdir())):
        content = blob.read_bytes()
        blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with raises_code("workspace.image", match="another content"):
            unpack_image(layout.at, tmp_path / f"root{number}")
        assert not any((tmp_path / f"root{number}").iterdir())
        blob.write_bytes(content)


@pytest.mark.parametrize("digest", ["", "sha512:00", "sha256:../../../etc/passwd", "sha256:" + "0" * 63])
def test_a_digest_is_never_a_path(layout, tmp_path, digest):
    layout.index({"digest": digest})
    with raises_code("workspace.image"):
        unpack_image(layout.at, tmp_path / "root")


def test_an_index_that_names_itself_ends(layout, tmp_path):
    inner = layout.blob(b'{"manifests":[]}')
    layout.index(inner)
    with raises_code("workspace.image"):
        unpack_image(layout.at, tmp_path / "root")


BASE = archive(("usr", None), ("usr/a", b"a" * 600), ("l", ("link", "usr/a")), ("h", ("hard", "usr/a")))


@thorough(150)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4
    )
)
def test_a_broken_archive_is_unpacked_or_refused_and_touches_nothing_else(changes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    data = bytearray(BASE)
    for at, change in changes:
        data[at : at + len(change)] = change
    for start in range(
        0, len(data) - 511, 512
    ):  # give every header a sum that holds, so that its fields are read
        header = data[start : start + 512]
        header[148:156] = b" " * 8
        data[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    (folder / "image.tar").write_bytes(data)
    with suppress(AffiantError):
        unpack_image(folder / "image.tar", folder / "root")
    assert set(os.listdir(folder)) <= {"image.tar", "root"}
