"""``affiant quote take`` and ``affiant quote sources`` as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.quote.providers.fake_kernel import FakeTSM
from tests.attestation.release_of_files import launched
from tests.attestation.simulated.conftest import counting_bytes, served

from affiant.__main__ import cli
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.quote.providers.kernel import configfs_tsm
from affiant.attestation.quote.providers.kernel.configfs_tsm import TSM_REPORT_ROOT
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.attestation.tdx.quote.quote import parse_quote

REPORT_DATA = bytes(range(64))
NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
HERE = ("--report-data", REPORT_DATA.hex())


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, ...]:
    """Options for a machine that has nothing."""
    absent = tmp_path / "absent"
    return (
        "--tsm-root", str(absent), "--dstack-socket", str(absent), "--tappd-socket", str(absent),
        "--tpm-device", str(absent), "--imds", "http://127.0.0.1:1", "--home", str(tmp_path / "home"),
    )  # fmt: skip


@pytest.fixture
def tsm(platform: SimulatedPlatform, monkeypatch: pytest.MonkeyPatch) -> FakeTSM:
    """configfs-tsm, which is at its root."""
    td = platform.launch(Image.SESSION, mrconfigid=bytes(48), mrtd=bytes(48), td_id=bytes(32))
    fake = FakeTSM(lambda data: platform.quote(td, data))
    monkeypatch.setattr(configfs_tsm, "OSKernelFiles", lambda: fake)
    return fake


@pytest.fixture
def home(platform: SimulatedPlatform, tmp_path: Path) -> Iterator[Path]:
    """The home of a running simulated platform."""
    host = PlatformHost(
        platform, measure=lambda _: launched(), clock=lambda: NOW, random_bytes=counting_bytes("host")
    )
    socket = platform_socket(tmp_path / "home")
    socket.parent.mkdir(parents=True)
    with served(host, socket):
        yield tmp_path / "home"


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["quote", command, *map(str, arguments)])


def test_a_quote_is_taken_and_said_by_whom(tsm: FakeTSM, tmp_path: Path) -> None:
    result = run("take", *HERE, "--output", tmp_path / "quote.bin")
    assert result.exit_code == 0, result.output
    assert parse_quote((tmp_path / "quote.bin").read_bytes()).body.report_data == REPORT_DATA
    assert "configfs-tsm" in result.stdout
    assert "verified      no" in result.stdout
    assert "SIMULATED" not in result.stdout
    assert tsm.directories == {}


def test_json_says_the_same(tsm: FakeTSM, tmp_path: Path) -> None:
    document = json.loads(run("take", *HERE, "--output", tmp_path / "q", "--json").stdout)
    assert document["typ"] == "affiant-quote-taken/1"
    assert (document["source"], document["profile"], document["simulated"]) == ("configfs-tsm", "tdx", False)
    written = (tmp_path / "q").read_bytes()
    assert (document["bytes"], document["digest"]) == (len(written), sha256_name(written))
    assert document["verified"] is False


def test_a_simulated_quote_is_labelled_and_no_hardware_root_accepts_it(home: Path, tmp_path: Path) -> None:
    result = run("take", "--source", "simulated", *HERE, "--output", tmp_path / "q", "--home", home)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("SIMULATED")
    document = json.loads(
        run(
            "take", "--source", "simulated", *HERE, "--output", tmp_path / "r", "--home", home, "--json"
        ).stdout
    )
    assert document["simulated"] is True
    assert b"SIMULATED" in parse_quote((tmp_path / "q").read_bytes()).header.user_data


def test_what_was_taken_is_judged_simulated_by_the_verifier(
    home: Path, platform: SimulatedPlatform, tmp_path: Path
) -> None:
    """The whole way of a person: take here, carry the file, verify there."""
    run("take", "--source", "simulated", *HERE, "--output", tmp_path / "q", "--home", home)
    (tmp_path / "collateral").write_bytes(platform.collateral(NOW).to_bytes())
    (tmp_path / "root").write_bytes(platform.root_spki())
    result = run(
        "verify", tmp_path / "q", "--collateral", tmp_path / "collateral", "--root", tmp_path / "root",
        "--at", "2026-05-04T12:00:00Z", *HERE,
    )  # fmt: skip
    assert result.exit_code == 40, result.output
    assert "SIMULATED" in result.stdout


def test_the_simulated_platform_is_never_taken_unasked(
    home: Path, places: tuple[str, ...], tmp_path: Path
) -> None:
    result = run("take", *HERE, "--output", tmp_path / "q", *places)
    assert result.exit_code == 1
    assert "[source.absent]" in result.stderr
    assert not (tmp_path / "q").exists()


def test_a_machine_without_any_is_1_with_the_reasons(places: tuple[str, ...], tmp_path: Path) -> None:
    result = run("take", *HERE, "--output", tmp_path / "q", "--json", *places)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["refused"]["code"] == "source.absent"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--output", "q"),
        (*HERE,),
        ("--report-data", "00" * 63, "--output", "q"),
        ("--report-data", "00" * 65, "--output", "q"),
        ("--report-data", "0x" + "00" * 64, "--output", "q"),
        ("--report-data", " " + "00" * 64, "--output", "q"),
        ("--nonce", "00" * 31, "--output", "q"),
        ("--source", "azure-vtpm", *HERE, "--output", "q"),
        ("--source", "configfs-tsm", "--nonce", "00" * 32, "--output", "q"),
        ("--source", "tpm", *HERE, "--output", "q"),
        (*HERE, "--output", "-", "--json"),
        (*HERE, "--output", "missing/q"),
    ],
)
def test_what_cannot_be_meant_is_2_and_nothing_is_asked(
    tsm: FakeTSM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("take", *arguments)
    assert result.exit_code == 2, result.output
    assert (tsm.made, list(tmp_path.iterdir())) == ([], [])


def test_another_file_is_left_as_it_is_unless_forced(tsm: FakeTSM, tmp_path: Path) -> None:
    (tmp_path / "q").write_bytes(b"mine")
    result = run("take", *HERE, "--output", tmp_path / "q")
    assert result.exit_code == 2
    assert "[quote.output]" in result.stderr
    assert (tmp_path / "q").read_bytes() == b"mine"
    assert run("take", *HERE, "--output", tmp_path / "q", "--force").exit_code == 0
    assert parse_quote((tmp_path / "q").read_bytes()).body.report_data == REPORT_DATA


def test_standard_output_carries_the_quote_alone(tsm: FakeTSM) -> None:
    result = run("take", *HERE, "--output", "-")
    assert parse_quote(result.stdout_bytes).body.report_data == REPORT_DATA
    assert "configfs-tsm" in result.stderr


def test_a_terminal_gets_no_bytes(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "affiant", "quote", "take", *HERE, "--output", "-"],
        stdout=theirs, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    os.close(ours)
    assert done.returncode == 2
    assert b"terminal" in done.stderr


def test_an_interruption_removes_the_directory_and_ends_with_130(tsm: FakeTSM, tmp_path: Path) -> None:
    """The kernel polls for seconds; Ctrl-C comes there."""

    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    for hooked in ("before_read", "mkdir"):
        if hooked == "before_read":
            tsm.before_read = [interrupt]
        else:
            made: Callable[[Path], None] = tsm.mkdir

            def mkdir(path: Path, made: Callable[[Path], None] = made) -> None:
                made(path)
                raise KeyboardInterrupt

            tsm.mkdir = mkdir  # type: ignore[method-assign]
        result = run("take", *HERE, "--output", tmp_path / "q")
        assert (result.exit_code, tsm.directories) == (130, {})
        assert not (tmp_path / "q").exists()


_BLOCKING = """
import sys, time
from affiant.attestation.quote.providers.kernel import configfs_tsm
from tests.attestation.quote.providers.fake_kernel import FakeTSM

class Polling(FakeTSM):
    def _read(self, path, state):
        if path.name == "outblob":
            print("polling", flush=True)
            for _ in range(600):  # a signal right before a sleep is handled only after it
                time.sleep(0.05)
        return super()._read(path, state)

kernel = Polling(bytes)
configfs_tsm.OSKernelFiles = lambda: kernel
from affiant.__main__ import main
try:
    main()
finally:
    print(len(kernel.made), len(kernel.directories), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_leaves_no_directory(tmp_path: Path, number: signal.Signals) -> None:
    root = Path(__file__).resolve().parents[4]
    with subprocess.Popen(
        [sys.executable, "-c", _BLOCKING, "quote", "take", *HERE, "--output", tmp_path / "q"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *filter(None, sys.path)))},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "polling\n"
        process.send_signal(number)
        said, complaint = process.communicate(timeout=30)
    assert (process.returncode, said, complaint) == (128 + number, "1 0\n", "")
    assert not (tmp_path / "q").exists()


def test_the_sources_are_listed_with_their_reasons(home: Path, places: tuple[str, ...]) -> None:
    result = run("sources", *places)
    assert result.exit_code == 0
    assert result.stdout.count("not here") == 3
    assert "[source.absent]" in result.stdout
    document = json.loads(run("sources", "--json", *places).stdout)
    assert document["typ"] == "affiant-quote-sources/1"
    assert {each["source"]: each["available"] for each in document["sources"]} == {
        "configfs-tsm": False,
        "dstack": False,
        "azure-vtpm": False,
        "simulated": True,
    }


def test_help_gives_examples_and_exit_codes() -> None:
    for command in ("take", "sources"):
        text = run(command, "--help").output
        assert f"affiant quote {command}" in text
        assert "Exit codes" in text
    assert str(TSM_REPORT_ROOT) == "/sys/kernel/config/tsm/report"
