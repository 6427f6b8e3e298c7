"""``affiant collateral`` as a user runs it: what is written, what is said, and every exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.quote.collateral.conftest import NOW, VECTORS, Recorded, Simulated, random_bytes
from tests.attestation.quote.collateral.pcs_server import PCSServer, item_reply, reply, serve, slow

from affiant.__main__ import cli
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.tcb.collateral import parse_collateral

AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture(scope="module")
def today() -> Simulated:
    """A platform whose collateral holds by the machine's own clock."""
    now = datetime.now(UTC).replace(microsecond=0)
    return Simulated(SimulatedPlatform.create(now=now - timedelta(days=50), random_bytes=random_bytes("now")))


def issued(today: Simulated, *, days: int = 0, **changes: object) -> object:
    return today.collateral(issued=datetime.now(UTC).replace(microsecond=0) - timedelta(days=days), **changes)


@pytest.fixture
def server(today: Simulated, tls: Path) -> Iterator[PCSServer]:
    with serve(issued(today), tls) as running:  # type: ignore[arg-type]
        yield running


@pytest.fixture
def folder(today: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with a quote, the root, and a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFFIANT_HOME", str(tmp_path / "home"))
    root = today.platform.certificates.of(CertificateRole.ROOT)
    (tmp_path / "root.pem").write_bytes(root.public_bytes(Encoding.PEM))
    (tmp_path / "quote.bin").write_bytes(today.quote())
    return tmp_path


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["collateral", *arguments], input=stdin)


def fetch(server: PCSServer, *more: str, quote: str = "quote.bin", stdin: bytes | None = None) -> Result:
    service = ("--pccs", server.url, "--tls-ca", str(server.ca), "--root", "root.pem")
    return run("fetch", *((quote,) if quote else ()), *service, *more, stdin=stdin)


def files(folder: Path) -> set[str]:
    given = {"root.pem", "quote.bin"}
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name not in given}


# -- fetch --------------------------------------------------------------------------------------------------------


def test_fetch_writes_the_file_that_quote_verify_reads(server: PCSServer, folder: Path) -> None:
    done = fetch(server, "--output", "c.json")
    assert done.exit_code == 0, done.output
    assert files(folder) == {"c.json"}
    assert parse_collateral(Path("c.json").read_bytes()) == server.collateral
    assert "SIMULATED" in done.output
    verify = ["quote", "verify", "quote.bin", "--collateral", "c.json", "--root", "root.pem"]
    assert CliRunner().invoke(cli, verify).exit_code == 40


def test_fetch_writes_the_folder_that_quote_verify_reads(server: PCSServer, folder: Path) -> None:
    assert fetch(server, "--output", "c/").exit_code == 0
    fmspc = server.asked[0].query["fmspc"]
    ca = server.asked[2].query["ca"]
    assert files(folder) == {
        f"c/tcb_info_{fmspc}.json",
        f"c/tcb_info_{fmspc}_chain.pem",
        "c/qe_identity.json",
        "c/qe_identity_chain.pem",
        f"c/pck_crl_{ca}.crl",
        f"c/pck_crl_{ca}_chain.pem",
        "c/root_ca_crl.crl",
    }
    assert Path(f"c/tcb_info_{fmspc}.json").read_bytes() == server.collateral.tcb_info
    verify = ["quote", "verify", "quote.bin", "--collateral", "c", "--root", "root.pem"]
    assert CliRunner().invoke(cli, verify).exit_code == 40
    assert run("check", "c", "--root", "root.pem").exit_code == 40
    assert fetch(server, "--output", "c").exit_code == 0  # again, over what it wrote


def test_fetch_without_an_output_keeps_it_in_the_cache_alone(server: PCSServer, folder: Path) -> None:
    done = fetch(server)
    assert done.exit_code == 0, done.output
    assert str(folder / "home" / "collateral") in done.output
    assert all(name.startswith("home/collateral/") for name in files(folder))
    again = run("fetch", "quote.bin", "--offline", "--root", "root.pem", "-o", "c.json")
    assert again.exit_code == 0, again.output
    assert parse_collateral(Path("c.json").read_bytes()) == server.collateral
    assert len(server.asked) == 4


def test_fetch_with_both_writes_both(server: PCSServer, folder: Path) -> None:
    done = json.loads(fetch(server, "--cache", "kept", "-o", "c.json", "--json").output)
    assert done["written"] == [str(folder / "kept"), "c.json"]
    assert done["simulated"] is True
    assert done["source"] == server.url
    assert not (folder / "home").exists()


def test_a_quote_is_read_in_any_spelling_and_from_standard_input(
    server: PCSServer, folder: Path, today: Simulated
) -> None:
    assert fetch(server, "-o", "c.json", quote="-", stdin=today.quote()).exit_code == 0
    Path("quote.hex").write_text(today.quote().hex())
    assert fetch(server, "-o", "c.json", quote="quote.hex").exit_code == 0


def test_a_platform_is_named_instead_of_a_quote(server: PCSServer, folder: Path, today: Simulated) -> None:
    named = ("--fmspc", today.asked.fmspc.hex().upper(), "--ca", str(today.asked.authority))
    assert fetch(server, *named, "-o", "c.json", quote="").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name the platform"),
        (("quote.bin", "--fmspc", "90c06f000000"), "name the platform"),
        (("--fmspc", "90c06f000000"), "belong together"),
        (("--ca", "platform"), "belong together"),
        (("--fmspc", "90c06f", "--ca", "platform"), "12 hexadecimal digits"),
        (("--fmspc", "90c06f000000", "--ca", "root"), "--ca"),
        (("quote.bin", "--pccs", "http://127.0.0.1:1"), "https"),
        (("quote.bin", "--update", "early", "--evaluation", "18"), "exclude each other"),
        (("quote.bin", "--update", "late"), "--update"),
        (("quote.bin", "--evaluation", "0"), "--evaluation"),
        (("quote.bin", "--offline", "--update", "early"), "--offline"),
        (("quote.bin", "--root", "missing.pem"), "--root"),
        (("quote.bin", "-o", "missing/c.json"), "missing"),
        (("quote.bin", "-o", ""), "no place"),
        (("quote.bin", "-o", "quote.bin/"), "no folder"),
        (("quote.bin", "--proxy", "nonsense", "-o", "c.json"), "proxy"),
        (("missing.bin",), "missing.bin"),
    ],
)
def test_a_wrong_command_line_is_usage_and_asks_nobody(
    folder: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = run("fetch", *arguments)
    assert done.exit_code == 2, done.output
    assert says in done.output
    assert files(folder) == set()


def test_what_is_no_quote_is_refused_by_name(folder: Path) -> None:
    Path("chain.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    done = run("fetch", "chain.pem", "-o", "c.json")
    assert done.exit_code == 1
    assert "PEM text" in done.output


def test_nothing_is_written_that_does_not_verify(server: PCSServer, folder: Path) -> None:
    changed = replace(
        server.collateral, tcb_info=server.collateral.tcb_info.replace(b"OutOfDate", b"UpToDate", 1)
    )
    server.scripts["tcb_info"] = lambda _: item_reply(changed, "tcb_info")
    done = fetch(server, "-o", "c.json", "--cache", "kept")
    assert (done.exit_code, files(folder)) == (1, set())
    assert "[collateral.signature]" in done.output


def test_another_root_than_the_accepted_one_is_refused(server: PCSServer, folder: Path) -> None:
    service = ("--pccs", server.url, "--tls-ca", str(server.ca))
    done = run("fetch", "quote.bin", *service, "-o", "c.json")
    assert (done.exit_code, files(folder)) == (1, set())
    assert "[root.untrusted]" in done.output


def test_an_unknown_platform_says_so(server: PCSServer, folder: Path) -> None:
    server.scripts["tcb_info"] = lambda _: reply(status="404 Not Found")
    done = fetch(server, "-o", "c.json")
    assert done.exit_code == 1
    assert "[collateral.unknown]" in done.output
    assert "FMSPC" in done.output


def test_a_refusal_is_a_document_where_one_was_asked_for(server: PCSServer, folder: Path) -> None:
    server.scripts["tcb_info"] = lambda _: reply(status="404 Not Found")
    done = fetch(server, "-o", "c.json", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["refused"]["code"] == "collateral.unknown"
    Path("c.json").write_bytes(b"[]")
    done = run("show", "c.json", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["refused"]["code"] == "collateral.malformed"


def test_a_busy_service_is_told_while_it_is_waited_for(server: PCSServer, folder: Path) -> None:
    tries = iter([reply(status="503 Service Unavailable", retry_after="0")])
    server.scripts["qe_identity"] = lambda _: (
        next(tries, None) or item_reply(server.collateral, "qe_identity")
    )
    done = fetch(server, "-o", "c.json")
    assert done.exit_code == 0
    assert "QE Identity: the service cannot answer now (status 503); asking again in 0 s" in done.stderr


def test_a_slow_service_is_told_and_a_quick_one_is_not(server: PCSServer, folder: Path) -> None:
    assert fetch(server, "-o", "c.json").stderr == ""
    server.scripts["tcb_info"] = lambda _: slow(item_reply(server.collateral, "tcb_info"), 1.7)
    done = fetch(server, "-o", "c.json", "--json")
    assert "waiting for TCB Info from https://localhost" in done.stderr
    assert json.loads(done.stdout)["typ"] == "affiant-collateral-fetched/1"


def test_older_collateral_never_replaces_newer(server: PCSServer, folder: Path, today: Simulated) -> None:
    for place in ("c.json", "c/"):
        assert fetch(server, "-o", place, "--cache", "kept").exit_code == 0
    before = {name: Path(name).read_bytes() for name in files(folder)}
    server.collateral = issued(today, days=3)  # type: ignore[assignment]
    for more in (("-o", "c.json"), ("-o", "c"), ("--cache", "kept")):
        done = fetch(server, *more)
        assert done.exit_code == 1, done.output
        assert "[collateral.rollback]" in done.output
    assert {name: Path(name).read_bytes() for name in files(folder)} == before


def test_expired_collateral_at_the_output_is_replaced(
    server: PCSServer, folder: Path, today: Simulated
) -> None:
    old = issued(today, days=40)
    Path("c.json").write_bytes(old.to_bytes())  # type: ignore[attr-defined]
    assert fetch(server, "-o", "c.json").exit_code == 0
    assert parse_collateral(Path("c.json").read_bytes()) == server.collateral


def test_something_else_at_the_output_is_left_alone(
    server: PCSServer, folder: Path, recorded: Recorded
) -> None:
    for content in (b"my notes", recorded.collateral().to_bytes(), b""):
        Path("c.json").write_bytes(content)
        done = fetch(server, "-o", "c.json")
        assert done.exit_code == 2, done.output
        assert Path("c.json").read_bytes() == content


def test_collateral_of_another_platform_at_the_output_is_left_alone(
    server: PCSServer, folder: Path, today: Simulated
) -> None:
    info = replace(today.platform.tcb_info, fmspc=bytes.fromhex("00a06d080000"))
    content = issued(today, tcb_info=info).to_bytes()  # type: ignore[attr-defined]
    Path("c.json").write_bytes(content)
    done = fetch(server, "-o", "c.json")
    assert (done.exit_code, Path("c.json").read_bytes()) == (2, content)
    assert "00a06d080000" in done.output


@pytest.mark.parametrize(
    "name", ["collateral.json", "root_ca_crl.der", "qe_identity_chain.txt", "Root_CA_CRL.pem"]
)
def test_a_folder_that_would_be_read_in_two_ways_is_refused_before_asking(
    server: PCSServer, folder: Path, name: str
) -> None:
    Path("c").mkdir()
    Path("c", name).write_text("x")
    done = fetch(server, "-o", "c")
    assert (done.exit_code, server.asked) == (2, [])
    assert name in done.output


def test_two_platforms_share_a_folder(server: PCSServer, folder: Path, today: Simulated) -> None:
    assert fetch(server, "-o", "c/").exit_code == 0
    info = replace(today.platform.tcb_info, fmspc=bytes.fromhex("00a06d080000"))
    server.collateral = issued(today, tcb_info=info)  # type: ignore[assignment]
    named = ("--fmspc", "00a06d080000", "--ca", str(today.asked.authority))
    assert fetch(server, *named, "-o", "c", quote="").exit_code == 0
    assert run("show", "c").exit_code == 2
    assert "more than one FMSPC" in run("show", "c").output
    for fmspc in ("00a06d080000", today.asked.fmspc.hex()):
        assert run("check", "c", "--fmspc", fmspc, "--root", "root.pem").exit_code == 40


def test_offline_without_anything_kept_says_what_to_do(folder: Path) -> None:
    done = run("fetch", "quote.bin", "--offline", "-o", "c.json")
    assert (done.exit_code, files(folder)) == (1, set())
    assert "[collateral.not_cached]" in done.output
    assert "affiant collateral fetch" in done.output


def test_an_interrupt_ends_it_and_leaves_nothing(server: PCSServer, folder: Path) -> None:
    server.scripts["qe_identity"] = lambda _: slow([], 60.0)
    # A run in the background of a script ignores SIGINT, and so would its children.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from affiant.__main__ import main; main()"
    command = [sys.executable, "-c", code, "collateral", "fetch", "quote.bin", "-o", "c.json"]
    command += ["--pccs", server.url, "--tls-ca", str(server.ca), "--root", "root.pem"]
    root = Path(__file__).resolve().parents[4] / "attestation"
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)}, cwd=folder
    ) as process:
        for _ in range(200):
            if len(server.asked) == 2:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert files(folder) == set()


# -- show ---------------------------------------------------------------------------------------------------------


def test_show_tells_dates_numbers_and_digests(recorded: Recorded, folder: Path) -> None:
    arguments = ("show", str(recorded.folder), "--fmspc", "90c06f000000", "--ca", "platform")
    shown = run(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "nothing is verified" in shown.output
    assert "2026-02-11T15:46:45Z  (TCB Info)" in shown.output
    document = json.loads(run(*arguments, "--json").output)
    assert document["verified"] is False
    assert document["evaluation_number"] == {"tcb_info": 18, "qe_identity": 18, "lower": 18}
    assert document["valid"] == {
        "from": "2026-01-12T16:03:13Z",
        "from_part": "QE Identity",
        "until": "2026-02-11T15:46:45Z",
        "until_part": "TCB Info",
    }
    assert document["root"]["intel"] is True
    assert document["revoked"] == {"root_ca_crl": 0, "pck_crl": 51}
    assert files(folder) == set()


@pytest.mark.parametrize("name", ["b0c06f_2025-06", "00806f_2025-02", "50806f_2023-06", "b0c06f_2026-10"])
def test_show_reads_the_form_of_dcap_qvl(name: str, folder: Path) -> None:
    path = VECTORS / "collateral" / f"{name}.json"
    if not path.is_file():
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    document = json.loads(run("show", str(path), "--json").output)
    assert document["fmspc"].startswith(name[:6])


def test_show_says_simulated(folder: Path, simulated: Simulated) -> None:
    Path("c.json").write_bytes(simulated.collateral().to_bytes())
    assert "SIMULATED" in run("show", "c.json").output


def test_show_lists_the_cache_and_names_damage(server: PCSServer, folder: Path) -> None:
    assert "0 sound, 0 damaged" in run("show").output
    assert not (folder / "home").exists()
    fetch(server)
    listed = run("show")
    assert (listed.exit_code, "1 sound, 0 damaged" in listed.output) == (0, True)
    item = next((folder / "home" / "collateral" / "items").iterdir())
    item.write_bytes(b"")
    damaged = run("show")
    assert damaged.exit_code == 1
    assert str(item) in damaged.output
    document = json.loads(run("show", "--json").output)
    assert document["damaged"][0]["refused"]["code"] == "collateral.damaged"
    assert run("check", "--root", "root.pem").exit_code == 20


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\x00" * 100, b'{"typ":"x"}'])
def test_what_is_no_collateral_is_refused(folder: Path, content: bytes) -> None:
    Path("c.json").write_bytes(content)
    assert run("show", "c.json").exit_code == 1
    assert run("check", "c.json").exit_code == 20


def test_a_folder_that_lacks_an_item_says_which(folder: Path) -> None:
    Path("c").mkdir()
    for command in ("show", "check"):
        done = run(command, "c")
        assert done.exit_code == 2
        assert "tcb_info.json" in done.output


# -- check --------------------------------------------------------------------------------------------------------


def test_check_affirms_intels_collateral_in_its_time(recorded: Recorded, folder: Path) -> None:
    Path("c.json").write_bytes(recorded.collateral().to_bytes())
    at = f"{recorded.now:%Y-%m-%dT%H:%M:%SZ}"
    done = run("check", "c.json", "--at", at)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith("VERIFIED")
    document = json.loads(run("check", "c.json", "--at", str(int(recorded.now.timestamp())), "--json").output)
    assert (document["tier"], document["exit_code"]) == ("affirming", 0)
    assert {check["point"] for check in document["checks_not_made"]} == {12, 13, 19, 22}
    for days, code in ((21, 0), (23, 10)):
        assert run("check", "c.json", "--at", at, "--expires-within", str(days)).exit_code == code


def test_check_refuses_it_after_its_time(recorded: Recorded, folder: Path) -> None:
    Path("c.json").write_bytes(recorded.collateral().to_bytes())
    done = run("check", "c.json", "--at", "2026-02-11T15:46:46Z")
    assert done.exit_code == 20
    assert "[collateral.expired]" in done.output
    assert run("check", "c.json", "--at", "2026-02-11T15:46:45Z").exit_code == 0


def test_check_of_simulated_collateral_is_40_under_its_root_and_20_under_intels(
    folder: Path, today: Simulated
) -> None:
    Path("c.json").write_bytes(issued(today).to_bytes())  # type: ignore[attr-defined]
    assert run("check", "c.json", "--root", "root.pem").exit_code == 40
    document = json.loads(run("check", "c.json", "--root", "root.pem", "--json").output)
    assert (document["tier"], document["simulated"]) == ("none", True)
    refused = run("check", "c.json")
    assert refused.exit_code == 20
    assert "[root.untrusted]" in refused.output


def test_check_of_nothing_is_30(folder: Path) -> None:
    done = run("check")
    assert done.exit_code == 30
    assert "nothing to check" in done.output
    assert files(folder) == set()


def test_check_of_the_cache_judges_every_entry_against_its_memory(server: PCSServer, folder: Path) -> None:
    fetch(server)
    done = json.loads(run("check", "--root", "root.pem", "--json").output)
    assert (done["exit_code"], len(done["judged"])) == (40, 1)
    assert {check["point"] for check in done["checks_not_made"]} == {12, 13, 19}
    assert run("check").exit_code == 30  # nothing of it is under Intel's root


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "c.json", "--at", "yesterday"),
        ("check", "missing.json"),
        ("check", "--fmspc", "90c06f000000"),
        ("show", "--ca", "platform"),
        ("check", "c.json", "--root", "c.json"),
        ("check", "c.json", "--expires-within", "-1"),
    ],
)
def test_a_wrong_question_is_usage(folder: Path, arguments: tuple[str, ...]) -> None:
    Path("c.json").write_bytes(b"{}")
    assert run(*arguments).exit_code == 2


# -- the base install ---------------------------------------------------------------------------------------------


def test_without_the_extra_everything_but_fetching_works(folder: Path, simulated: Simulated) -> None:
    Path("c.json").write_bytes(simulated.collateral().to_bytes())
    code = (
        "import sys\nsys.modules['httpx'] = None\nsys.modules['certifi'] = None\n"
        "from affiant.__main__ import cli\ncli(sys.argv[1:])\n"
    )
    root = Path(__file__).resolve().parents[4] / "attestation"
    env = {**os.environ, "PYTHONPATH": str(root)}

    def plain(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, "collateral", *arguments],
            check=False,
            capture_output=True,
            text=True,
            env=env,
            timeout=60,
        )

    assert plain("show", "c.json").returncode == 0
    assert plain("check", "c.json", "--at", AT).returncode == 20
    done = plain("fetch", "quote.bin", "-o", "d.json")
    assert done.returncode == 2
    assert "pip install 'affiant[collateral]'" in done.stderr


def test_completion_offers_the_commands_and_their_choices(folder: Path) -> None:
    root = Path(__file__).resolve().parents[4] / "attestation"

    def complete(words: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(root), "_AFFIANT_COMPLETE": "bash_complete"}
        env |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        code = "from affiant.__main__ import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env, timeout=60
        )
        return done.stdout

    offered = set(complete("affiant collateral ").split())
    assert {"plain,fetch", "plain,show", "plain,check", "plain,evaluations"} <= offered
    assert {"plain,platform", "plain,processor"} <= set(complete("affiant collateral fetch --ca ").split())
