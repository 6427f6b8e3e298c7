"""The page: one file, current, that needs nothing from anywhere, and shows in a browser what the command prints."""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.attestation.story import REQUEST, Story, trust_bytes
from tests.attestation.verifier_js.conftest import HOME, ROOT, node
from tests.attestation.verifier_js.recorded import asked_of
from tests.attestation.verifier_js.test_agreement import pinning_its_log
from tests.attestation.verifier_js.test_period_agreement import period_vectors
from tests.attestation.verifier_js.test_vectors import question_of, vectors
from tests.browser import Browser, browser

VECTORS = ROOT / "docs/formats/vectors"
PUBLISHED = ROOT / "attestation/vectors/receipts"
SHOWN = "!document.getElementById('verdict').hidden"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as its modules make it now."""
    place = tmp_path_factory.mktemp("page") / "affiant-verifier.html"
    subprocess.run([node(), str(HOME / "build_page.mjs"), str(place)], check=True, timeout=30)
    return place


@pytest.mark.parametrize("version", [None, "v18.19.1"])
def test_where_node_is_missing_or_old_the_build_says_so(tmp_path: Path, version: str | None) -> None:
    bash, dirname = (shutil.which(name) for name in ("bash", "dirname"))
    assert bash and dirname
    (tmp_path / "dirname").symlink_to(dirname)
    if version is not None:
        (tmp_path / "node").write_text(f"#!{bash}\necho {version}\n")
        (tmp_path / "node").chmod(0o755)
    script = ROOT / "scripts/build_verifier_page.sh"
    done = subprocess.run(
        [bash, script], env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 77
    assert f"expected Node 20 or later as 'node', found: {version or 'none'}" in done.stdout
    assert "make verifier-page" in done.stdout


def test_the_page_holds_every_module_that_decides(built: Path) -> None:
    text = built.read_text()
    for path in (HOME / "lib").glob("*.mjs"):
        assert f"const ${path.stem} = (() => {{" in text, path.name


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(built: Path) -> None:
    text = built.read_text()
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("default-src") == "'none'"
    for rule, element in (("script-src", "script"), ("style-src", "style")):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        assert (
            rules.pop(rule)
            == f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
        )
    assert rules == {"base-uri": "'none'", "form-action": "'none'", "require-trusted-types-for": "'script'"}
    assert not re.search(
        r"\b(src|href|style|on[a-z]+)=", re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL)
    )


def test_every_input_has_its_label(built: Path) -> None:
    text = built.read_text()
    inputs = re.findall(r'<input type="\w+" id="(\w+)"', text)
    assert inputs == re.findall(r'<label for="(\w+)"', text) != []
    assert '<html lang="en">' in text and "<title>" in text


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as found:
        yield found


def judged(
    page: Browser, built: Path, bundle: Path, trust: Path, *, at: str | None = "2026-11-21T12:00:00Z"
) -> str:
    page.open(built)
    if at is not None:
        page.evaluate(f"document.getElementById('at').value = {json.dumps(at)}")
    page.choose("#trust", trust)
    page.choose("#bundle", bundle)
    page.until(SHOWN)
    return str(page.evaluate("document.getElementById('verdict').innerText"))


@pytest.mark.slow
def test_a_bundle_is_judged_in_the_browser_as_on_the_command_line(page: Browser, built: Path) -> None:
    bundle, trust = VECTORS / "session.affiant.json", VECTORS / "trust.json"
    text = judged(page, built, bundle, trust)
    shown = json.loads(page.evaluate("document.querySelector('#verdict pre').textContent"))
    command = [node(), str(HOME / "verify.mjs"), str(bundle), "--trust", str(trust), "--json"]
    done = subprocess.run(
        [*command, "--at", "2026-11-21T12:00:00Z"], capture_output=True, text=True, timeout=30, check=False
    )
    assert shown == json.loads(done.stdout)
    assert text.startswith("SIMULATED")
    assert text.index("What is not proven") < text.index("Every check")
    assert "This verifier appraises no quote to its end" in text
    assert "tee.appraisal not made" in text


@pytest.mark.slow
def test_a_witnessed_bundle_is_judged_now(page: Browser, built: Path, tmp_path: Path) -> None:
    question = pinning_its_log(question_of(vectors.CASES["valid/witnessed"]))
    (tmp_path / "bundle").write_bytes(question.bundle)
    (tmp_path / "trust").write_bytes(question.trust)
    judged(page, built, tmp_path / "bundle", tmp_path / "trust", at=None)
    shown = json.loads(page.evaluate("document.querySelector('#verdict pre').textContent"))
    assert {row["code"]: row["state"] for row in shown["checks"]}["wit.quorum"] == "held"
    assert shown["exit_code"] == 40


@pytest.mark.slow
def test_a_period_is_judged_in_the_browser_as_on_the_command_line(page: Browser, built: Path) -> None:
    """Its own ZIP reader and inflate, in the browser; the range is the reader's."""
    case = period_vectors.CASES["valid/witnessed"]
    archive, trust = PUBLISHED / case["file"], PUBLISHED / case["trust"]
    page.open(built)
    for name in ("at", "from", "to"):
        page.evaluate(f"document.getElementById({json.dumps(name)}).value = {json.dumps(case[name])}")
    page.choose("#trust", trust)
    page.choose("#bundle", archive)
    page.until(SHOWN)
    shown = json.loads(page.evaluate("document.querySelector('#verdict pre').textContent"))
    command = [node(), str(HOME / "verify.mjs"), str(archive), "--trust", str(trust), "--at", case["at"]]
    done = subprocess.run(
        [*command, "--from", case["from"], "--to", case["to"], "--json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert shown == json.loads(done.stdout)
    assert shown["exit_code"] == 40
    text = str(page.evaluate("document.getElementById('verdict').innerText"))
    assert text.startswith("SIMULATED")
    assert text.index("tee.appraisal not made") < text.index("chain.coverage")


@pytest.mark.slow
def test_a_dropped_archive_that_lies_is_refused_before_anything_is_unpacked(
    page: Browser, built: Path
) -> None:
    archive = (PUBLISHED / "period/archive-bomb.affiant.zip").read_bytes()
    trust = (PUBLISHED / "trust.json").read_text()
    page.open(built)
    page.evaluate(
        f"const zip = Uint8Array.from(atob({json.dumps(base64.b64encode(archive).decode())}), (c) => c.charCodeAt(0));"
        f" const held = new DataTransfer(); held.items.add(new File([zip], 'november.affiant.zip'));"
        f" held.items.add(new File([{json.dumps(trust)}], 'trust.json'));"
        " document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: held}))"
    )
    page.until(SHOWN)
    text = str(page.evaluate("document.getElementById('verdict').innerText"))
    assert "Tier: contraindicated" in text
    assert "fmt.bundle [zip.ratio]" in text


@pytest.mark.slow
def test_a_refused_bundle_says_so_before_the_table(page: Browser, built: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").write_bytes(Story(alter=asked_of("test_verify_bundle").at("close", n=9)).bytes())
    (tmp_path / "trust").write_bytes(trust_bytes())
    text = judged(page, built, tmp_path / "bundle", tmp_path / "trust")
    assert "Tier: contraindicated" in text
    assert text.index("session.close [session.close]") < text.index("Every check")


@pytest.mark.slow
def test_a_log_key_is_checked_in_the_browser_too(page: Browser, built: Path, tmp_path: Path) -> None:
    """Ed25519 by the browser's own cryptography: the pinned log's checkpoint holds."""
    story = Story().tell()
    (tmp_path / "bundle").write_bytes(story.bytes())
    (tmp_path / "trust").write_bytes(trust_bytes(log=[{"value": story.log_signer.verifier.vkey()}]))
    judged(page, built, tmp_path / "bundle", tmp_path / "trust")
    shown = json.loads(page.evaluate("document.querySelector('#verdict pre').textContent"))
    assert shown["levels"]["L2"] == "held"


@pytest.mark.slow
def test_a_witness_with_an_ml_dsa_key_is_counted_in_the_browser_too(
    page: Browser, built: Path, tmp_path: Path
) -> None:
    """FIPS 204 by the page's own script: the published bundle has its quorum, and one flipped bit refuses it."""
    trust = PUBLISHED / "trust-witnesses-mldsa.json"
    patch = json.loads((PUBLISHED / "patches/witness-mldsa-challenge-flipped.json").read_text())
    whole = json.loads((PUBLISHED / "valid/witnessed-mldsa.affiant.json").read_text())
    (tmp_path / "flipped").write_text(json.dumps(vectors.applied(copy.deepcopy(whole), patch)))
    (tmp_path / "whole").write_text(json.dumps(whole))
    rows = {}
    for name in ("whole", "flipped"):
        judged(page, built, tmp_path / name, trust, at="2026-11-21T12:30:00Z")
        shown = json.loads(page.evaluate("document.querySelector('#verdict pre').textContent"))
        rows[name] = next(row for row in shown["checks"] if row["code"] == "wit.quorum")
    assert (rows["whole"]["state"], rows["whole"]["detail"]) == ("held", "cosigned by a, m")
    assert (rows["flipped"]["state"], rows["flipped"]["reason"]) == ("refused", "note.signature")


@pytest.mark.slow
def test_a_trust_file_that_is_refused_is_an_alert_and_no_verdict(
    page: Browser, built: Path, tmp_path: Path
) -> None:
    (tmp_path / "trust").write_text('{"typ": "affiant-trust/1"}')
    page.open(built)
    page.choose("#bundle", VECTORS / "session.affiant.json")
    page.choose("#trust", tmp_path / "trust")
    page.until("!document.getElementById('problem').hidden")
    assert "trust.malformed" in page.evaluate("document.getElementById('problem').innerText")
    assert page.evaluate("document.getElementById('verdict').hidden")


@pytest.mark.slow
def test_files_can_be_dropped_and_bodies_given(page: Browser, built: Path, tmp_path: Path) -> None:
    page.open(built)
    files = [(VECTORS / "session.affiant.json").read_text(), (VECTORS / "trust.json").read_text()]
    page.evaluate("document.getElementById('at').value = '2026-11-21T12:00:00Z'")
    page.evaluate(
        f"const held = new DataTransfer(); for (const text of {json.dumps(files)})"
        " held.items.add(new File([text], 'dropped.json'));"
        " document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: held}))"
    )
    page.until(SHOWN)
    (tmp_path / "request").write_bytes(REQUEST)
    page.choose("#request", tmp_path / "request")
    page.until("document.querySelector('#verdict pre')?.textContent.includes('the request is the one')")


@pytest.mark.slow
def test_hostile_strings_become_escaped_text_and_no_markup(
    page: Browser, built: Path, tmp_path: Path
) -> None:
    broken = json.loads((VECTORS / "session.affiant.json").read_text())
    broken['<img src=x onerror="window.owned=1">\u202e\u001b'] = 1
    hostile = tmp_path / "<b>\u202egnp.json"
    hostile.write_text(json.dumps(broken))
    text = judged(page, built, hostile, VECTORS / "trust.json")
    assert page.evaluate("document.querySelectorAll('img, b').length") == 0
    assert page.evaluate("window.owned === undefined")
    whole = page.evaluate("document.body.innerText")
    assert "\u202e" not in whole and "\u001b" not in whole
    assert "contraindicated" in text


@pytest.mark.slow
def test_the_page_asks_nobody_and_breaks_no_rule_of_its_own(page: Browser, built: Path) -> None:
    """Over everything that was done above: no request but for the file itself, no violation, no error."""
    judged(page, built, VECTORS / "session.affiant.json", VECTORS / "trust.json")
    asked = {
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert asked == {built.as_uri()}
    assert not [
        event for event in page.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")
    ]


@pytest.mark.slow
def test_the_policy_stops_what_a_script_would_send(page: Browser, built: Path) -> None:
    page.open(built)
    sent = page.evaluate("fetch('https://example.invalid/').then(() => 'sent', (error) => error.name)")
    assert sent == "TypeError"
    assert (
        page.evaluate(
            "(() => { try { document.body.innerHTML = '<i>x</i>'; return 'set' } catch { return 'refused' } })()"
        )
        == "refused"
    )
    page.events.clear()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_text_has_contrast_in_light_and_dark(page: Browser, built: Path, dark: bool) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1, for every colour of text on what it stands on."""
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    page.call("Emulation.setEmulatedMedia", features=scheme)
    page.open(built)
    names = ("ink", "paper", "soft", "quiet", "bad", "bad-paper", "warn", "warn-paper", "good")
    page.evaluate("window.style = getComputedStyle(document.documentElement)")
    found = page.evaluate(f"{json.dumps(names)}.map((name) => style.getPropertyValue('--' + name).trim())")
    colour = dict(zip(names, found, strict=True))
    pairs = [
        ("ink", "paper"),
        ("ink", "soft"),
        ("quiet", "paper"),
        ("quiet", "soft"),
        ("bad", "paper"),
        ("warn", "paper"),
    ]
    for one, other in [*pairs, ("good", "paper"), ("bad", "bad-paper"), ("warn", "warn-paper")]:
        light, dim = sorted((luminance(colour[one]), luminance(colour[other])), reverse=True)
        assert (light + 0.05) / (dim + 0.05) >= 4.5, (one, other)


def luminance(colour: str) -> float:
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
