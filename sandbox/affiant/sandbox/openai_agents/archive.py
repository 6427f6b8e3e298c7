"""The workspace as the SDK's snapshots have it, a tar stream with relative names: made and read on this side."""

from __future__ import annotations

import io
import lzma
import tarfile
import tempfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, cast

from agents.sandbox.errors import WorkspaceArchiveWriteError
from agents.sandbox.util.tar_utils import UnsafeTarMemberError, safe_extract_tarfile, should_skip_tar_member

__all__ = ["packed", "unpacked"]


def packed(folder: Path, skip: Collection[Path]) -> io.IOBase:
    """``folder`` as an archive, without what is at or below the relative paths ``skip``."""

    def chosen(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if should_skip_tar_member(member.name, skip_rel_paths=skip, root_name=None):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    archive: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's
    try:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(folder, arcname=".", filter=chosen)
        archive.seek(0)
    except BaseException:
        archive.close()
        raise
    return cast("io.IOBase", archive)


def unpacked(data: io.IOBase, folder: Path) -> None:
    """Unpack an archive into the empty ``folder``.

    Raises:
        WorkspaceArchiveWriteError: the stream is not a tar archive, or a member or a link leads out of ``folder``.
    """
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", data), mode="r:*") as tar:
            safe_extract_tarfile(tar, root=folder, allow_external_symlink_targets=False)
    except UnsafeTarMemberError as error:
        raise WorkspaceArchiveWriteError(
            path=folder, context={"reason": error.reason, "member": error.member}, cause=error
        ) from error
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise WorkspaceArchiveWriteError(path=folder, cause=error) from error
