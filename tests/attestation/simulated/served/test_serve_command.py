"""The platform as a process: its life, its lock, its keys, and who can get at them."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.simulated.served_platform import (
    STRANGER,
    Served,
    as_user,
    closed_installation,
    needs_root,
    serving,
    users_of,
)
from tests.raising import raises_code

from affiant.attestation.release import start
from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import (
    Release,
    build_release,
    images_of,
    installed_image,
    mrtd_of,
    reference_values,
)
from affiant.attestation.release.measured_files import find_files, installed_portions, measure
from affiant.attestation.simulated.platform.errors import PlatformUnreachableError
from affiant.attestation.simulated.served import serve_command
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.attestation.simulated.served.store import open_store
from affiant.attestation.statements.restriction import Narrowing, parse_narrowings
from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import (
    SESSION_EVENT_ORDER,
    Event,
    EventLog,
    LoggedEvent,
    parse_event_log,
)
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import verify_quote
from affiant.errors import AffiantError
from affiant.socket_address import reachable_address

MRCONFIGID = b"c" * 48


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> object:
    """One platform for the tests that only look at it."""
    with serving(tmp_path_factory.mktemp("home")) as one:
        yield one


def launch(client: PlatformClient, image: Image = Image.SESSION) -> SimulatedTD:
    return SimulatedTD(client.create_td(image=image, mrconfigid=MRCONFIGID))


def release_now() -> Release:
    found = find_files()
    return build_release(measure(found), images_of(found))


# -- evidence, end to end ---------------------------------------------------------------------------------------


def test_a_sessions_evidence_meets_reference_values_made_before_it(served: Served) -> None:
    release = release_now()
    reference = parse_reference_values(reference_values(release, served.client.root()))
    events = [
        Event(name, {"n": index})
        for index, name in enumerate(
            ("affiant-manifest", "affiant-profile", "affiant-images", "affiant-activate", "affiant-ready")
        )
    ]
    with launch(served.client) as td:
        for event in events:
            td.extend(event)
        quote = td.quote(b"r" * 64)
    if release_now() != release:
        pytest.skip("the source tree changed while the test ran")
    now = datetime.now(UTC)
    collateral = verify_collateral(served.client.collateral(), now=now, trust=reference.trust_roots())
    boot = parse_event_log(served.client.boot_log(Image.SESSION))
    appraisal = appraise(
        verify_quote(parse_quote(quote), collateral, now=now),
        reference,
        image="session",
        mrconfigid=MRCONFIGID,
        report_data=b"r" * 64,
        log=EventLog((*boot.entries, *(LoggedEvent(3, event) for event in events))),
        expected_rtmr3=tuple(events),
    )
    assert appraisal.evidence_class.value == "simulated"


def test_a_td_is_quoted_again_after_each_narrowing_and_each_quote_shows_those_until_it(
    served: Served,
) -> None:
    release = release_now()
    reference = parse_reference_values(reference_values(release, served.client.root()))
    boot = tuple(Event(name, {}) for name in SESSION_EVENT_ORDER)
    names = [f"sha384:{number:096x}" for number in range(3)]
    narrowings = tuple(
        Narrowing(epoch, names[epoch], f"sha256:{epoch:064x}", old=names[epoch - 1]) for epoch in (1, 2)
    )
    later = tuple(narrowing.event for narrowing in narrowings)
    with launch(served.client) as td:
        for event in boot:
            td.extend(event)
        quotes = [td.quote(bytes([0]) * 64)]
        for epoch, event in enumerate(later, 1):
            td.extend(event)
            quotes.append(td.quote(bytes([epoch]) * 64))
    if release_now() != release:
        pytest.skip("the source tree changed while the test ran")
    now = datetime.now(UTC)
    collateral = verify_collateral(served.client.collateral(), now=now, trust=reference.trust_roots())
    booted = parse_event_log(served.client.boot_log(Image.SESSION)).entries

    def appraised(epoch: int, known: int) -> Appraisal:
        events = (*boot, *later[:epoch])
        return appraise(
            verify_quote(parse_quote(quotes[epoch]), collateral, now=now),
            reference,
            image="session",
            mrconfigid=MRCONFIGID,
            report_data=bytes([epoch]) * 64,
            log=EventLog((*booted, *(LoggedEvent(3, event) for event in events))),
            expected_rtmr3=boot,
            expected_later=later[:known],
        )

    for epoch in range(3):
        found = appraised(epoch, epoch).later_events
        assert parse_narrowings(found, first=names[0]) == narrowings[:epoch]
        for known in {0, 1, 2} - {epoch}:
            with raises_code("appraisal.rtmr3"):
                appraised(epoch, known)


def test_the_mrtd_is_measured_from_the_installed_files(served: Served) -> None:
    def measured_here(image: Image) -> bytes:
        files = [(path, hashlib.sha256(data).hexdigest()) for path, data in installed_image(image).items()]
        return mrtd_of(files)

    for image in Image:
        before = measured_here(image)
        with launch(served.client, image) as td:
            measured = td.report().mrtd
        if measured_here(image) != before:
            pytest.skip("the source tree changed while the test ran")
        assert measured == before


def test_a_platform_that_revokes_itself_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "--dangerous-revoke-pck") as revoked:
        with launch(revoked.client) as td:
            quote = parse_quote(td.quote(bytes(64)))
        now, trust = datetime.now(UTC), TrustRoots.pinned([revoked.client.root()])
        collateral = verify_collateral(revoked.client.collateral(), now=now, trust=trust)
        with pytest.raises(AffiantError) as caught:
            verify_quote(quote, collateral, now=now)
        assert caught.value.code == "cert.revoked"


# -- life -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: int) -> None:
    with serving(tmp_path) as one:
        td = launch(one.client)
        assert one.stop(number) == 0
        assert not one.path.exists()
        with td, raises_code("platform.td_ended"):
            td.report()
        assert one.process.stderr is not None
        assert b"Traceback" not in one.process.stderr.read()


def test_killed_and_started_again_it_has_the_same_keys(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        root, chain = first.client.root(), first.client.collateral().pck_crl_issuer_chain
        td = launch(first.client)
        first.stop(signal.SIGKILL)
    with serving(tmp_path) as second:
        assert (second.client.root(), second.client.collateral().pck_crl_issuer_chain) == (root, chain)
        assert second.client.status()["tds"] == 0
        with td, raises_code("platform.td_ended"):
            td.quote(bytes(64))


def test_a_second_platform_on_one_home_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        second = subprocess.run(
            [sys.executable, "-m", "affiant", "platform", "serve", "--home", tmp_path],
            capture_output=True,
            timeout=20,
            check=False,
        )
        assert second.returncode == 1
        assert b"[store.locked]" in second.stderr
        assert first.client.status()["tds"] == 0


def test_a_td_outlives_its_launcher_in_a_child(served: Served) -> None:
    """A launcher hands the descriptor on and closes its own copy; the TD is the child's then."""
    descriptor = served.client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    program = (
        "import sys; from affiant.attestation.simulated.served.client import SimulatedTD\n"
        "sys.stdin.read()\n"
        "with SimulatedTD(int(sys.argv[1])) as td: print(td.report().mrconfigid.hex())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(descriptor)],
        pass_fds=[descriptor],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        os.close(descriptor)
        output, _ = child.communicate("go\n", timeout=20)
    assert output.strip() == MRCONFIGID.hex()


# -- who can get at it ------------------------------------------------------------------------------------------


def test_the_socket_the_folder_and_the_keys_are_the_owners_alone(served: Served) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in served.path.parent.iterdir()}
    assert modes["platform.sock"] == modes["keys.json"] == 0o600
    assert stat.S_IMODE(served.path.parent.stat().st_mode) == 0o700


def test_no_core_file_is_ever_written(served: Served) -> None:
    limits = Path(f"/proc/{served.process.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert line.split()[4:6] == ["0", "0"]


@pytest.mark.root
@needs_root
def test_another_user_with_a_td_can_quote_and_nothing_else(served: Served) -> None:
    descriptor = served.client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID)
    keys, path = served.path.parent / "keys.json", served.path
    held = descriptor

    def connects() -> object:
        return PlatformClient(path).create_td(image=Image.GATEWAY, mrconfigid=bytes(48))

    def quotes() -> object:
        return parse_quote(SimulatedTD(os.dup(held)).quote(bytes(64))).body.mrconfigid == MRCONFIGID

    try:
        assert as_user(STRANGER, quotes) == "True"
        assert as_user(STRANGER, connects) == PlatformUnreachableError.__name__
        assert as_user(STRANGER, keys.read_bytes) == "PermissionError"
        assert as_user(STRANGER, lambda: os.listdir(keys.parent)) == "PermissionError"
    finally:
        os.close(descriptor)


@pytest.mark.root
@needs_root
def test_as_a_user_of_its_own_it_serves_and_is_closed_even_to_that_user(tmp_path: Path) -> None:
    user = STRANGER + 1
    with serving(tmp_path, "--user", str(user)) as one:
        pid = one.process.pid
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"Uid:\t{user}\t{user}\t{user}\t{user}" in status
        assert "NoNewPrivs:\t1" in status
        with launch(one.client) as td:
            assert td.report().mrconfigid == MRCONFIGID
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as hostile:
            with reachable_address(one.path) as address:
                hostile.connect(address)
            for packet in (b"\xff", b"{", b'{"a":1.5}', b'{"id":"a","op":"none"}'):
                hostile.send(packet)
                assert b'"refused"' in hostile.recv(1 << 16)
        memory = Path(f"/proc/{pid}/mem")
        assert as_user(user, memory.read_bytes) == "PermissionError"
        assert as_user(user, Path(f"/proc/{pid}/environ").read_bytes) == "PermissionError"
        assert as_user(user, lambda: os.readlink(f"/proc/{pid}/fd/3")) == "PermissionError"
        assert one.stop() == 0
        assert not one.path.exists()
    with serving(tmp_path, "--user", str(user)) as again:
        assert again.client.status()["tds"] == 0


@pytest.mark.root
@needs_root
def test_started_as_root_it_serves_as_a_user_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        assert users_of(one.process.pid) == {PLATFORM_USER}
        with launch(one.client) as td:
            assert td.report().mrconfigid == MRCONFIGID


@pytest.mark.root
@needs_root
def test_as_that_user_it_measures_an_installation_that_only_root_can_enter(tmp_path: Path) -> None:
    python = closed_installation(tmp_path / "closed")
    with serving(tmp_path / "home", python=python) as one:
        assert users_of(one.process.pid) == {PLATFORM_USER}
        with launch(one.client) as td:
            assert td.report().mrconfigid == MRCONFIGID


@pytest.mark.root
@needs_root
def test_becoming_another_user_needs_root() -> None:
    from affiant.attestation.simulated.served.confinement import become_user

    assert as_user(STRANGER, lambda: become_user(STRANGER + 1)) == "ConfinementError"


@pytest.mark.parametrize("image", Image)
def test_a_td_gives_the_memory_that_was_measured_and_nobody_can_change_it(
    served: Served, image: Image
) -> None:
    with launch(served.client, image) as td:
        descriptor = start.memory_of_td(td._socket.fileno())
        mrtd = td.report().mrtd
    try:
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"x", 0)
        measured = start.read_memory(descriptor)
        assert measured.image_name == image.value
        assert mrtd_of(list(measured.image_files.items())) == mrtd
        assert measured.image_files.keys() == installed_image(image).keys()
    finally:
        os.close(descriptor)


def test_compiled_memory_is_kept_for_the_same_files_and_made_anew_for_others(served: Served) -> None:
    os.close(served.client.create_td(image=Image.GATEWAY, mrconfigid=MRCONFIGID))
    kept = served.path.parent / "memory-gateway.bin"
    before = kept.stat()
    os.close(served.client.create_td(image=Image.GATEWAY, mrconfigid=MRCONFIGID))
    assert kept.stat().st_mtime_ns == before.st_mtime_ns
    assert stat.S_IMODE(before.st_mode) == 0o600


def test_a_disk_without_space_for_compiled_memory_keeps_no_td_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_store(tmp_path) as store:
        monkeypatch.setattr(type(store), "keep", full)
        measuring = serve_command._Measuring(store, installed_portions())
        first = measuring(Image.SESSION)
        assert measuring(Image.SESSION) == first
        assert list(store.path.glob("memory-*")) == []


def test_every_image_is_compiled_before_a_td_asks_for_it(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        kept = [one.path.parent / f"memory-{image.value}.bin" for image in Image]
        until = time.monotonic() + 60
        while not all(path.exists() for path in kept):
            assert time.monotonic() < until
            time.sleep(0.02)
        before = [path.stat().st_mtime_ns for path in kept]
        for image in Image:
            os.close(one.client.create_td(image=image, mrconfigid=MRCONFIGID))
        assert [path.stat().st_mtime_ns for path in kept] == before


def test_what_compiles_ahead_ends_with_a_platform_that_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text().split()
        one.process.kill()
        one.process.wait()
        until = time.monotonic() + 10
        while any(runs(int(child)) for child in children):
            assert time.monotonic() < until
            time.sleep(0.02)


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
