"""configfs-tsm: one private directory for each request, and never a quote over somebody else's report data."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.attestation.quote.providers.conftest import REPORT_DATA
from tests.attestation.quote.providers.fake_kernel import ROOT, FakeTSM, refuse

from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.kernel.configfs_tsm import TSM_REPORT_ROOT, ConfigfsTSM
from affiant.attestation.quote.providers.kernel.kernel_files import OSKernelFiles
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError

Quoting = Callable[[bytes], bytes]


def names() -> Callable[[int], bytes]:
    counter = itertools.count(1)
    return lambda size: next(counter).to_bytes(size, "big")


@pytest.fixture
def tsm(quoting: Quoting) -> FakeTSM:
    return FakeTSM(quoting)


def source(tsm: FakeTSM) -> ConfigfsTSM:
    return ConfigfsTSM(random_bytes=names(), files=tsm)


def refusal(tsm: FakeTSM, report_data: bytes = REPORT_DATA) -> AffiantError:
    with pytest.raises(AffiantError) as refused:
        source(tsm).quote(report_data)
    assert tsm.directories == {}
    return refused.value


def failing(number: int) -> Callable[[Path], None]:
    def fail(_: Path) -> None:
        raise refuse(number)

    return fail


def test_a_quote_is_over_exactly_what_was_asked(tsm: FakeTSM) -> None:
    assert parse_quote(source(tsm).quote(REPORT_DATA)).body.report_data == REPORT_DATA
    assert ROOT == TSM_REPORT_ROOT


def test_each_request_has_a_directory_of_its_own_that_is_gone_afterwards(tsm: FakeTSM) -> None:
    one = source(tsm)
    for _ in range(3):
        one.quote(REPORT_DATA)
    assert len(set(tsm.made)) == 3
    assert tsm.directories == {}


@pytest.mark.parametrize("size", [0, 1, 32, 48, 63, 65, 128])
def test_report_data_of_another_size_is_never_padded_or_cut(tsm: FakeTSM, size: int) -> None:
    assert isinstance(refusal(tsm, bytes(size)), SettingsInvalid)
    assert tsm.made == []


def test_a_race_is_noticed_and_begun_again_elsewhere(tsm: FakeTSM) -> None:
    """Somebody else writes to the directory: their quote is never handed out."""
    tsm.before_read = [lambda directory: tsm.other_writes(directory, b"\x07" * 64)]
    assert parse_quote(source(tsm).quote(REPORT_DATA)).body.report_data == REPORT_DATA
    assert len(set(tsm.made)) == 2
    assert tsm.directories == {}


def test_a_race_without_end_is_given_up(tsm: FakeTSM) -> None:
    tsm.before_read = [lambda directory: tsm.other_writes(directory, b"\x07" * 64)] * 9
    found = refusal(tsm)
    assert isinstance(found, ProviderBusy)
    assert (found.code, len(tsm.made)) == ("source.busy", 3)


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EINTR, errno.ETIMEDOUT])
def test_what_may_pass_is_tried_three_times(tsm: FakeTSM, number: int) -> None:
    tsm.before_read = [failing(number)] * 2
    source(tsm).quote(REPORT_DATA)
    tsm.before_read = [failing(number)] * 3
    found = refusal(tsm)
    assert isinstance(found, ProviderBusy)
    assert found.retryable is True


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENXIO, ProviderAbsent),
        (errno.ENOENT, ProviderAbsent),
        (errno.EACCES, ProviderDenied),
        (errno.EINVAL, ResponseRefused),
        (errno.EIO, ResponseRefused),
        (errno.EFBIG, ResponseRefused),
    ],
)
def test_every_other_error_is_final_and_named(
    tsm: FakeTSM, number: int, expected: type[AffiantError]
) -> None:
    tsm.before_read = [failing(number)]
    found = refusal(tsm)
    assert isinstance(found, expected)
    assert errno.errorcode[number] in str(found)
    assert len(tsm.made) == 1


def test_a_kernel_without_a_provider_is_named(tsm: FakeTSM) -> None:
    tsm.provider = None
    found = refusal(tsm)
    assert isinstance(found, ProviderAbsent)
    assert found.retryable is False


def test_another_tee_is_named(quoting: Quoting) -> None:
    found = refusal(FakeTSM(quoting, provider=b"sev_guest\n"))
    assert isinstance(found, ProviderAbsent)
    assert "sev_guest" in str(found)


@pytest.mark.parametrize(
    "answer", [b"", b"\x04\x00", b"{}", b"\xd2\x84" + bytes(9000), bytes(20_000), bytes(200_000)]
)
def test_what_is_no_quote_is_refused(answer: bytes) -> None:
    assert isinstance(refusal(FakeTSM(lambda _: answer)), ResponseRefused)


def test_a_quote_over_other_report_data_is_refused(quoting: Quoting) -> None:
    found = refusal(FakeTSM(lambda _: quoting(b"\x07" * 64)))
    assert isinstance(found, ResponseRefused)
    assert "other report data" in str(found)


def test_many_threads_each_get_their_own(tsm: FakeTSM) -> None:
    one, found = source(tsm), {}

    def ask(index: int) -> None:
        data = bytes([index]) * 64
        found[index] = parse_quote(one.quote(data)).body.report_data == data

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(8), True)
    assert tsm.directories == {}


# -- the real calls -----------------------------------------------------------------------------------------------


def test_a_machine_without_configfs_tsm_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProviderAbsent, match="ENOENT"):
        ConfigfsTSM(random_bytes=names(), root=tmp_path / "tsm" / "report").quote(REPORT_DATA)


def test_a_plain_folder_is_no_configfs_and_is_left_clean(tmp_path: Path) -> None:
    """A directory made there has no files in it."""
    with pytest.raises(ProviderAbsent):
        ConfigfsTSM(random_bytes=names(), root=tmp_path).quote(REPORT_DATA)
    assert list(tmp_path.iterdir()) == []


def test_a_write_is_one_call(tmp_path: Path) -> None:
    """A pipe hands over what one write gave it."""
    pipe = tmp_path / "inblob"
    os.mkfifo(pipe)
    got: list[bytes] = []

    def read() -> None:
        descriptor = os.open(pipe, os.O_RDONLY)
        got.append(os.read(descriptor, 4096))
        got.append(os.read(descriptor, 4096))
        os.close(descriptor)

    reader = threading.Thread(target=read)
    reader.start()
    OSKernelFiles().write(pipe, REPORT_DATA)
    reader.join()
    assert got == [REPORT_DATA, b""]


def test_a_read_goes_to_the_end_and_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "outblob").write_bytes(bytes(100_000))
    files = OSKernelFiles()
    assert len(files.read(tmp_path / "outblob", limit=100_000)) == 100_000
    with pytest.raises(OSError, match="too large") as refused:
        files.read(tmp_path / "outblob", limit=99_999)
    assert refused.value.errno == errno.EFBIG


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "inblob").symlink_to(tmp_path / "target")
    for use in (
        lambda: OSKernelFiles().read(tmp_path / "inblob", limit=9),
        lambda: OSKernelFiles().write(tmp_path / "inblob", b"y"),
    ):
        with pytest.raises(OSError):
            use()
    assert (tmp_path / "target").read_bytes() == b"x"
