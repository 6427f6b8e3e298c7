"""A published file is believed if everything holds, and each thing that does not hold refuses at its own code."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.signatures.sigstore.conftest import (
    AT,
    IDENTITY,
    ISSUER,
    POLICY,
    STATEMENT,
    Vendor,
    entry_of,
)
from tests.properties import thorough
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.certificate_log import CertificateLog
from tests.sigstore_authority.certificates import CertificateAuthority
from tests.sigstore_authority.timestamps import TimestampAuthority
from tests.sigstore_authority.transparency_log import Rekor, base64_of

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.errors import AffiantError

WORKFLOW = "https://forge.example/vendor/policies/.forge/workflows/release.yml@refs/tags/v1"


@pytest.fixture(params=[False, True], ids=["promise", "timestamp"], scope="module")
def tiled(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def refused(vendor: Vendor, bundle: dict[str, Any] | bytes, **given: Any) -> str:
    with pytest.raises(AffiantError) as found:
        vendor.verify(bundle, **given)
    assert len(str(found.value)) < 1500
    return found.value.code


# -- what holds ----------------------------------------------------------------------------------------------------


def test_a_published_file_holds_and_says_on_whose_word(vendor: Vendor, tiled: bool) -> None:
    bundle, trusted_root = encoded(vendor.sign(tiled=tiled)), encoded(vendor.authority.trusted_root())
    found = vendor.verify(bundle, trusted_root=trusted_root)
    assert found.file == POLICY
    assert found.signer == Signer(IDENTITY, ISSUER)
    assert (found.log.at, found.log.promised) == (AT, not tiled)
    assert (found.bundle, found.trusted_root) == (sha256_name(bundle), sha256_name(trusted_root))
    entry = entry_of(json.loads(bundle))
    assert found.to_json()["log"] == {
        "id": base64.b64decode(entry["logId"]["keyId"]).hex(),
        "origin": entry["inclusionProof"]["checkpoint"]["envelope"].partition("\n")[0],
        "index": int(entry["logIndex"]),
        "size": int(entry["inclusionProof"]["treeSize"]),
        "at": "2026-05-04T12:00:00Z",
        "at_from": "timestamp-authority" if tiled else "log",
    }


def test_a_workflow_is_an_identity_too(vendor: Vendor) -> None:
    found = vendor.verify(vendor.sign(identity=WORKFLOW), signer=Signer(WORKFLOW, ISSUER))
    assert found.signer.identity == WORKFLOW


def test_an_entry_holds_wherever_it_stands_in_the_log(vendor: Vendor) -> None:
    for before in range(9):
        log = Rekor(key=vendor.authority.log.key, leaves=[b"%d" % i for i in range(before)])
        at_place = Vendor(replace(vendor.authority, log=log))
        bundle = at_place.sign()
        log.leaves.extend([b"later", b"and later"])
        assert vendor.verify(bundle).log.size == before + 1
        entry_of(bundle)["inclusionProof"] = log.proof(before)
        assert vendor.verify(bundle).log.size == before + 3


# -- who -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signer",
    [
        Signer("Release@vendor.example", ISSUER),
        Signer("release@vendor.example.evil", ISSUER),
        Signer("vendor.example", ISSUER),
        Signer(IDENTITY, ISSUER + "/"),
        Signer(IDENTITY, "https://accounts.google.com"),
        Signer(ISSUER, IDENTITY),
    ],
)
def test_any_other_name_or_issuer_is_refused(vendor: Vendor, tiled: bool, signer: Signer) -> None:
    assert refused(vendor, vendor.sign(tiled=tiled), signer=signer) == "published.signer"


@pytest.mark.parametrize(
    "names",
    [
        {"identity": ("mallory@evil.example", IDENTITY)},
        {"identity": (IDENTITY, IDENTITY)},
        {"issuer": None},
        {"issuer": ""},
    ],
)
def test_a_certificate_that_names_more_or_less_is_refused(vendor: Vendor, names: dict[str, Any]) -> None:
    assert refused(vendor, vendor.sign(**names)) == "published.signer"


@pytest.mark.parametrize(
    "given", [("", ISSUER), (IDENTITY, ""), (" ", ISSUER), ("a\u202e", ISSUER), ("a" * 1025, ISSUER)]
)
def test_nobody_is_no_signer(given: tuple[str, str]) -> None:
    with pytest.raises(SettingsInvalid):
        Signer(*given)


# -- the certificate -----------------------------------------------------------------------------------------------


def test_an_own_authority_with_the_right_names_is_refused(vendor: Vendor, tiled: bool) -> None:
    own = Vendor(
        replace(vendor.authority, certificates=CertificateAuthority(log=vendor.authority.certificates.log))
    )
    assert refused(vendor, own.sign(tiled=tiled)) == "published.not_authentic"


def test_a_whole_own_deployment_is_refused(vendor: Vendor, tiled: bool) -> None:
    assert refused(vendor, Vendor(Authority()).sign(tiled=tiled)) == "published.not_logged"


def test_a_certificate_that_no_log_has_seen_is_refused(vendor: Vendor, tiled: bool) -> None:
    assert refused(vendor, vendor.sign(tiled=tiled, certified_in_log=False)) == "published.not_authentic"


def test_a_certificate_that_another_log_has_seen_is_refused(vendor: Vendor) -> None:
    certificates = copy.copy(vendor.authority.certificates)
    certificates.log = CertificateLog()
    own = Vendor(replace(vendor.authority, certificates=certificates))
    assert refused(vendor, own.sign()) == "published.not_authentic"


def test_a_certificate_for_something_else_is_refused(vendor: Vendor) -> None:
    assert refused(vendor, vendor.sign(code_signing=False)) == "published.not_authentic"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (bytes.fromhex("a003020102"), bytes.fromhex("a003020139")),
        (b"260504", b"269904"),
        (b"0", b"1"),
    ],
)
def test_what_is_no_certificate_is_refused(vendor: Vendor, old: bytes, new: bytes) -> None:
    bundle = vendor.sign()
    certificate = bundle["verificationMaterial"]["certificate"]
    changed = base64.b64decode(certificate["rawBytes"]).replace(old, new, 1)
    certificate["rawBytes"] = base64_of(changed)
    assert refused(vendor, bundle) == "published.bundle"


@thorough(100)
@given(
    place=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    part=st.sampled_from(["certificate", "stamp"]),
)
def test_no_flipped_byte_of_certificate_or_timestamp_means_anything_else(
    vendor: Vendor, place: float, byte: int, part: str
) -> None:
    bundle = json.loads(_BUNDLES.setdefault(True, encoded(vendor.sign(tiled=True))))
    material = bundle["verificationMaterial"]
    holder, name = (
        (material["certificate"], "rawBytes")
        if part == "certificate"
        else (material["timestampVerificationData"]["rfc3161Timestamps"][0], "signedTimestamp")
    )
    der = bytearray(base64.b64decode(holder[name]))
    der[int(place * len(der))] = byte
    holder[name] = base64_of(bytes(der))
    try:
        found = vendor.verify(bundle)
    except AffiantError:
        return
    assert (found.file, found.log.at) == (POLICY, AT)


@pytest.mark.parametrize("certified", [AT - timedelta(minutes=11), AT + timedelta(seconds=1)])
def test_signed_outside_of_the_certificates_time_is_refused(
    vendor: Vendor, tiled: bool, certified: Any
) -> None:
    assert refused(vendor, vendor.sign(tiled=tiled, certified_at=certified)) == "published.validity"


def test_a_signature_by_another_key_is_refused(vendor: Vendor, tiled: bool) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    names = {"identity": IDENTITY, "issuer": ISSUER, "at": AT - timedelta(minutes=1)}
    certificate = vendor.authority.certificates.issue(key.public_key(), **names)
    assert refused(vendor, vendor.sign(tiled=tiled, certificate=certificate)) == "published.not_authentic"


# -- the statement -------------------------------------------------------------------------------------------------


def test_another_payload_under_the_same_signature_is_refused(vendor: Vendor, tiled: bool) -> None:
    bundle = vendor.sign(tiled=tiled)
    bundle["dsseEnvelope"]["payload"] = base64_of(STATEMENT.replace(b"appraisal.yaml", b"appraisaI.yaml"))
    assert refused(vendor, bundle) == "published.not_authentic"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda d: d["subject"][0]["digest"].update(sha256="00" * 32), "published.content"),
        (lambda d: d["predicate"].update(content="AAAA"), "published.content"),
        (lambda d: d["subject"].append(d["subject"][0]), "published.statement"),
        (lambda d: d.update(predicateType="https://vendor.example/policy"), "published.statement"),
        (lambda d: d["predicate"].update(note=1), "published.statement"),
        (lambda d: d["predicate"].update(kind="affiant-reference-values/1"), "fmt.json"),
    ],
)
def test_a_signed_statement_of_another_form_is_refused(
    vendor: Vendor, tiled: bool, change: Callable[[dict[str, Any]], object], code: str
) -> None:
    document = json.loads(STATEMENT)
    change(document)
    assert refused(vendor, vendor.sign(json.dumps(document).encode(), tiled=tiled)) == code


def test_a_signed_statement_with_a_member_twice_is_refused(vendor: Vendor) -> None:
    twice = STATEMENT.replace(b'"kind":', b'"kind":"x","kind":')
    assert refused(vendor, vendor.sign(twice)) == "published.statement"


def test_signed_bytes_of_another_type_are_refused(vendor: Vendor) -> None:
    assert refused(vendor, vendor.sign(payload_type="application/json")) == "published.bundle"


# -- the log -------------------------------------------------------------------------------------------------------


def test_the_entry_of_another_bundle_is_refused(vendor: Vendor, tiled: bool) -> None:
    bundle, other = vendor.sign(tiled=tiled), vendor.sign(STATEMENT + b" ", tiled=tiled)
    bundle["verificationMaterial"]["tlogEntries"] = other["verificationMaterial"]["tlogEntries"]
    assert refused(vendor, bundle) == "published.not_logged"


def test_size_and_index_that_are_not_the_checkpoints_are_refused(vendor: Vendor) -> None:
    own = Vendor(replace(vendor.authority, log=Rekor(key=vendor.authority.log.key)))
    bundle = own.sign()
    assert vendor.verify(bundle).log.size == 5
    entry_of(bundle)["inclusionProof"].update(treeSize="9", logIndex="8")
    assert refused(vendor, bundle) == "published.not_logged"


@pytest.mark.parametrize(
    "forge",
    [
        lambda log: Rekor().checkpoint(size=len(log.leaves)),
        lambda log: replace(log, key=Rekor().key).checkpoint(),
        lambda log: log.checkpoint().replace("log.tests", "log.forged"),
        lambda log: log.checkpoint(root=bytes(32)),
        lambda log: log.checkpoint(size=len(log.leaves) + 1),
        lambda log: log.checkpoint().partition("\u2014")[0] + "\u2014 log.tests AAAAAAAA\n",
    ],
)
def test_a_forged_checkpoint_is_refused(vendor: Vendor, forge: Callable[[Rekor], str]) -> None:
    bundle = vendor.sign()
    entry_of(bundle)["inclusionProof"]["checkpoint"]["envelope"] = forge(vendor.authority.log)
    assert refused(vendor, bundle) == "published.not_logged"


def test_a_leaf_that_the_checkpoints_tree_lacks_is_refused(vendor: Vendor) -> None:
    """The log promised, and a proof of its own making leads to a root that the log did not sign."""
    own = Rekor(key=Rekor().key)
    bundle = Vendor(replace(vendor.authority, log=own)).sign()
    honest = vendor.sign()
    entry_of(honest)["inclusionProof"] = {
        **entry_of(bundle)["inclusionProof"],
        "checkpoint": entry_of(honest)["inclusionProof"]["checkpoint"],
    }
    assert refused(vendor, honest) == "published.not_logged"


def test_a_promise_alone_is_refused(vendor: Vendor) -> None:
    bundle = vendor.sign()
    del entry_of(bundle)["inclusionProof"]
    assert refused(vendor, bundle) == "published.not_logged"


@pytest.mark.parametrize("name", ["integratedTime", "logIndex"])
def test_what_the_log_promised_cannot_be_changed(vendor: Vendor, name: str) -> None:
    bundle = vendor.sign()
    entry_of(bundle)[name] = str(int(entry_of(bundle)[name]) + 1)
    assert refused(vendor, bundle) == "published.not_logged"


def test_a_promise_of_another_log_than_the_checkpoints_is_refused(vendor: Vendor) -> None:
    """Both logs are trusted; the entry names one of them, and that one must have said everything."""
    second = Rekor(origin="second.tests - 2")
    trusted_root = vendor.authority.trusted_root()
    trusted_root["tlogs"].append(second.instance(valid_for={"start": "2026-01-01T00:00:00Z"}))
    bundle = vendor.sign()
    entry = entry_of(bundle)
    second.leaves.append(base64.b64decode(entry["canonicalizedBody"]))
    entry["inclusionProof"] = second.proof(len(second.leaves) - 1)
    for log_id in (entry["logId"]["keyId"], base64_of(second.log_id), base64_of(bytes(32))):
        entry["logId"]["keyId"] = log_id
        assert refused(vendor, bundle, trusted_root=encoded(trusted_root)) == "published.not_logged"


@pytest.mark.parametrize(
    ("kind", "version"), [("intoto", "0.0.2"), ("hashedrekord", "0.0.1"), ("dsse", "0.0.2")]
)
def test_an_entry_of_another_kind_is_refused(vendor: Vendor, kind: str, version: str) -> None:
    bundle = vendor.sign()
    entry_of(bundle)["kindVersion"] = {"kind": kind, "version": version}
    assert refused(vendor, bundle) == "published.not_logged"


# -- when ----------------------------------------------------------------------------------------------------------


def test_a_timestamp_of_an_own_authority_is_refused(vendor: Vendor) -> None:
    own = Vendor(replace(vendor.authority, timestamps=TimestampAuthority()))
    assert refused(vendor, own.sign(tiled=True)) == "published.validity"


def test_a_timestamp_of_another_signature_is_refused(vendor: Vendor) -> None:
    bundle, other = vendor.sign(tiled=True), vendor.sign(tiled=True)
    name = "timestampVerificationData"
    bundle["verificationMaterial"][name] = other["verificationMaterial"][name]
    assert refused(vendor, bundle) == "published.validity"


def test_without_a_time_or_with_two_nobody_says_when(vendor: Vendor) -> None:
    bundle = vendor.sign(tiled=True)
    stamps = bundle["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"]
    (stamp,) = stamps
    for several in ([], [stamp, stamp]):
        stamps[:] = several
        assert refused(vendor, bundle) == "published.validity"
    stamps[:] = [{"signedTimestamp": base64_of(b"0\x00")}]
    assert refused(vendor, bundle) == "published.bundle"


@pytest.mark.parametrize("part", ["tlogs", "certificateAuthorities", "ctlogs"])
@pytest.mark.parametrize(
    "period",
    [
        {"start": "2026-01-01T00:00:00Z", "end": "2026-05-04T11:00:00Z"},
        {"start": "2026-05-04T12:00:01Z"},
    ],
)
def test_what_did_not_count_then_vouches_for_nothing(
    vendor: Vendor, tiled: bool, part: str, period: dict[str, str]
) -> None:
    """A key that leaked after its retirement signs no bundle of today's, and none of before it was trusted."""
    trusted_root = vendor.authority.trusted_root()
    trusted_root[part] = vendor.authority.trusted_root(period)[part]
    assert (
        refused(vendor, vendor.sign(tiled=tiled), trusted_root=encoded(trusted_root)) == "published.validity"
    )


# -- the trusted root ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda r: r.update(tlogs=[]),
        lambda r: r.update(ctlogs=[]),
        lambda r: r.update(certificateAuthorities=[]),
        lambda r: r.pop("tlogs"),
        lambda r: r.clear(),
        lambda r: r.update(mediaType="application/vnd.dev.sigstore.trustedroot.v0.2+json"),
        lambda r: r["certificateAuthorities"][0]["validFor"].update(start="2026-01-01T00:00:00"),
        lambda r: r.update(more=1),
        lambda r: r["certificateAuthorities"][0]["certChain"].update(certificates=[{"rawBytes": "AAAA"}]),
        lambda r: r["timestampAuthorities"][0]["certChain"].update(certificates=[]),
    ],
)
def test_a_trusted_root_that_trusts_nobody_is_no_trusted_root(
    vendor: Vendor, change: Callable[[dict[str, Any]], object]
) -> None:
    trusted_root = vendor.authority.trusted_root()
    change(trusted_root)
    assert refused(vendor, vendor.sign(), trusted_root=encoded(trusted_root)) == "published.trusted_root"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b" " * ((4 << 20) + 1)])
def test_what_is_no_trusted_root_is_refused(vendor: Vendor, content: bytes) -> None:
    assert refused(vendor, vendor.sign(), trusted_root=content) == "published.trusted_root"


def test_without_the_timestamp_authority_a_timestamp_is_nobodys(vendor: Vendor) -> None:
    trusted_root = {**vendor.authority.trusted_root(), "timestampAuthorities": []}
    assert (
        refused(vendor, vendor.sign(tiled=True), trusted_root=encoded(trusted_root)) == "published.validity"
    )


# -- every byte ----------------------------------------------------------------------------------------------------


def leaves_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str]]:
    if isinstance(value, str):
        yield path, value
    for key, item in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from leaves_of(item, (*path, key))


def with_leaf(bundle: dict[str, Any], path: tuple[Any, ...], text: str) -> dict[str, Any]:
    changed: Any = copy.deepcopy(bundle)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = text
    return changed


def test_no_value_of_a_bundle_can_be_changed(tiled: bool) -> None:
    """In each text, a character at its beginning, in the middle and at its end.

    Not in the timestamp: CMS leaves version numbers and an algorithm's name unsigned. That no change of it means
    another time is claimed above. The entry is the eighth of its log, so that its proof has three hashes.
    """
    vendor = Vendor(Authority())
    for _ in range(7):
        vendor.sign(tiled=tiled)
    bundle = vendor.sign(tiled=tiled)
    leaves = [(path, text) for path, text in leaves_of(bundle) if path[-1] != "signedTimestamp"]
    assert len([path for path, _ in leaves if "hashes" in path]) == 3
    for path, text in leaves:
        for place in {0, len(text) // 2, len(text) - 3}:
            if 0 <= place < len(text):
                other = "B" if text[place] != "B" else "C"
                changed = text[:place] + other + text[place + 1 :]
                assert refused(vendor, with_leaf(bundle, path, changed)).startswith("published."), path


@thorough(150)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_no_flipped_byte_is_accepted_with_another_meaning(
    vendor: Vendor, tiled: bool, place: float, byte: int
) -> None:
    raw = _BUNDLES.setdefault(tiled, encoded(vendor.sign(tiled=tiled)))
    position = int(place * len(raw))
    changed = raw[:position] + bytes([byte]) + raw[position + 1 :]
    try:
        found = vendor.verify(changed)
    except AffiantError:
        return
    assert replace(found, bundle=sha256_name(raw)) == vendor.verify(raw)


_BUNDLES: dict[bool, bytes] = {}


# -- the process ---------------------------------------------------------------------------------------------------

_VERIFY = """
import sys
from pathlib import Path
folder = Path(sys.argv[1])
def forbid(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"verification asks the network: {event}")
%s
from affiant.attestation.signatures.sigstore.trusted_identity import Signer
from affiant.attestation.signatures.sigstore.verification import verify_signed_file
for name in ("promise", "timestamp"):
    found = verify_signed_file(
        (folder / name).read_bytes(),
        trusted_root=(folder / "root").read_bytes(),
        signer=Signer(sys.argv[2], sys.argv[3]),
    )
    print(found.file.digest)
"""


def in_a_process(vendor: Vendor, folder: Any, first: str) -> subprocess.CompletedProcess[str]:
    (folder / "promise").write_bytes(encoded(vendor.sign()))
    (folder / "timestamp").write_bytes(encoded(vendor.sign(tiled=True)))
    (folder / "root").write_bytes(encoded(vendor.authority.trusted_root()))
    command = [sys.executable, "-c", _VERIFY % first, str(folder), IDENTITY, ISSUER]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_verification_makes_no_socket(vendor: Vendor, tmp_path: Any) -> None:
    done = in_a_process(vendor, tmp_path, "sys.addaudithook(forbid)")
    assert done.stdout.split() == [POLICY.digest] * 2, done.stderr
    proof = in_a_process(vendor, tmp_path, "sys.addaudithook(forbid); import socket; socket.socket()")
    assert "asks the network: socket." in proof.stderr


def test_without_the_library_the_refusal_says_what_to_install(vendor: Vendor, tmp_path: Any) -> None:
    done = in_a_process(vendor, tmp_path, "sys.modules['sigstore'] = None")
    assert done.returncode == 1
    assert "ExtraMissing" in done.stderr
    assert "pip install 'affiant[sigstore]'" in done.stderr
