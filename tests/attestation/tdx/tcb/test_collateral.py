"""Collateral documents: one form, every item, exact bytes; and what signs them."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, key_of, random_bytes, trust_of
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import (
    CollateralMalformed,
    QEIdentityMalformed,
    TCBInfoMalformed,
    UntrustedRoot,
)
from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.errors import AffiantError

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
COLLATERAL = PLATFORM.collateral(NOW)
DOCUMENT = COLLATERAL.to_bytes()
ITEMS = [item.name for item in fields(Collateral)]


def judged(collateral: Collateral, trust: TrustRoots | None = None) -> Any:
    return verify_collateral(collateral, now=NOW, trust=trust or trust_of(PLATFORM))


# -- the document -------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=7, max_size=7))
def test_a_document_carries_the_exact_bytes(items: list[bytes]) -> None:
    collateral = Collateral(**dict(zip(ITEMS, items, strict=True)))
    assert parse_collateral(collateral.to_bytes()) == collateral


def test_the_document_is_canonical_and_its_digest_is_of_its_bytes() -> None:
    assert canonical(parse_canonical(DOCUMENT)) == DOCUMENT
    assert COLLATERAL.digest == b64u(hashlib.sha256(DOCUMENT).digest())
    assert len(COLLATERAL.digest) == 43


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_is_required_and_not_empty(name: str) -> None:
    members: Any = parse_canonical(DOCUMENT)
    for changed in (
        {key: value for key, value in members.items() if key != name},
        members | {name: ""},
        members | {name: None},
        members | {name: "a"},
        members | {name: "====", "more": 1},
    ):
        with pytest.raises(CollateralMalformed):
            parse_collateral(canonical(changed))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b" " + DOCUMENT, DOCUMENT[:-1], DOCUMENT.replace(b"/1", b"/2")]
)
def test_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(CollateralMalformed):
        parse_collateral(data)


def test_collateral_does_not_print_its_bytes() -> None:
    assert repr(COLLATERAL) == "Collateral()"


# -- what is verified ---------------------------------------------------------------------------------------------


def test_an_honest_collateral_holds() -> None:
    verified = judged(COLLATERAL)
    assert verified.digest == COLLATERAL.digest
    assert verified.evaluation_number == 1
    assert verified.item_digests["pck_crl"] == hashlib.sha256(COLLATERAL.pck_crl).digest()
    assert verified.expiry <= NOW + timedelta(days=30)


def test_the_lower_evaluation_number_counts() -> None:
    for part, number in (("tcb_info", 7), ("qe_identity", 5)):
        document = replace(getattr(PLATFORM, part), evaluation_number=number)
        platform = replace(PLATFORM, **{part: document})
        assert judged(platform.collateral(NOW)).evaluation_number == 1
    both = replace(
        PLATFORM,
        tcb_info=replace(PLATFORM.tcb_info, evaluation_number=7),
        qe_identity=replace(PLATFORM.qe_identity, evaluation_number=5),
    )
    assert judged(both.collateral(NOW)).evaluation_number == 5


@pytest.mark.parametrize(
    "signer", [role for role in CertificateRole if role is not CertificateRole.TCB_SIGNING]
)
@pytest.mark.parametrize("document", ["tcb_info_signer", "qe_identity_signer"])
def test_no_other_role_signs_collateral(signer: CertificateRole, document: str) -> None:
    """A PCK key chains to the root too, and may have been extracted from a machine."""
    changes: dict[str, Any] = {document: signer}
    platform = replace(PLATFORM, **changes)
    with raises_code("collateral.issuer"):
        judged(platform.collateral(NOW))


def test_the_two_documents_are_not_interchangeable() -> None:
    with pytest.raises(TCBInfoMalformed):
        judged(replace(COLLATERAL, tcb_info=COLLATERAL.qe_identity))
    with pytest.raises(QEIdentityMalformed):
        judged(replace(COLLATERAL, qe_identity=COLLATERAL.tcb_info))


def test_the_signer_of_each_document_is_checked(other_platform: SimulatedPlatform) -> None:
    theirs = other_platform.collateral(NOW)
    both = TrustRoots(trust_of(PLATFORM).spki_sha256 | trust_of(other_platform).spki_sha256)
    for changes in (
        {"qe_identity": theirs.qe_identity, "qe_identity_issuer_chain": theirs.qe_identity_issuer_chain},
        {"tcb_info": theirs.tcb_info, "tcb_info_issuer_chain": theirs.tcb_info_issuer_chain},
        {"pck_crl": theirs.pck_crl, "pck_crl_issuer_chain": theirs.pck_crl_issuer_chain},
    ):
        for trust in (trust_of(PLATFORM), both):
            with pytest.raises(UntrustedRoot):
                judged(replace(COLLATERAL, **changes), trust)
    with raises_code("collateral.signature"):
        judged(replace(COLLATERAL, qe_identity=theirs.qe_identity))


def test_the_text_is_verified_as_received() -> None:
    for edited in (
        COLLATERAL.qe_identity.replace(b'"isvprodid":2', b'"isvprodid":1'),
        COLLATERAL.qe_identity.replace(b'"isvprodid":2', b'"isvprodid": 2'),
    ):
        assert edited != COLLATERAL.qe_identity
        with raises_code("collateral.signature"):
            judged(replace(COLLATERAL, qe_identity=edited))


def chain(*roles: CertificateRole) -> bytes:
    return pem_chain(tuple(PLATFORM.certificates.of(role) for role in roles))


ROOT, SIGNING = CertificateRole.ROOT, CertificateRole.TCB_SIGNING
AUTHORITY, LEAF = CertificateRole.PCK_ISSUER, CertificateRole.PCK


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"\0",
        chain(SIGNING),
        chain(SIGNING, ROOT, ROOT),
        chain(ROOT),
        chain(ROOT, ROOT),
        chain(AUTHORITY, ROOT),
    ],
)
def test_an_issuer_chain_is_signer_and_root(pem: bytes) -> None:
    for name in ("tcb_info_issuer_chain", "qe_identity_issuer_chain"):
        with raises_code("collateral.issuer", "collateral.signature"):
            judged(replace(COLLATERAL, **{name: pem}))


def test_a_signer_is_issued_by_the_root_itself() -> None:
    """A certificate of the right name and role below a PCK authority is none."""
    usage = PLATFORM.certificates.tcb_signing.extensions.get_extension_for_class(x509.KeyUsage).value
    below = (
        x509.CertificateBuilder(
            issuer_name=PLATFORM.certificates.pck_issuer.subject,
            subject_name=PLATFORM.certificates.tcb_signing.subject,
            public_key=key_of(PLATFORM, Role.TCB_SIGNING).public_key(),
            serial_number=7,
            not_valid_before=NOW - timedelta(days=1),
            not_valid_after=NOW + timedelta(days=1),
        )
        .add_extension(usage, critical=True)
        .sign(key_of(PLATFORM, Role.PCK_ISSUER), hashes.SHA256())
    )
    pem = pem_chain((below, PLATFORM.certificates.root))
    with raises_code("collateral.issuer", match="root itself"):
        judged(replace(COLLATERAL, tcb_info_issuer_chain=pem))


@pytest.mark.parametrize("pem", [chain(SIGNING, ROOT), chain(LEAF, ROOT), chain(ROOT, ROOT)])
def test_only_a_pck_authority_issues_the_pck_list(pem: bytes) -> None:
    with raises_code("pck.chain"):
        judged(replace(COLLATERAL, pck_crl_issuer_chain=pem))


@pytest.mark.parametrize("pem", [chain(SIGNING, AUTHORITY), chain(SIGNING, LEAF), chain(SIGNING, SIGNING)])
def test_a_chain_ends_in_a_trusted_root(pem: bytes) -> None:
    with pytest.raises(UntrustedRoot):
        judged(replace(COLLATERAL, tcb_info_issuer_chain=pem))


@pytest.mark.parametrize("item", ["tcb_info", "qe_identity"])
def test_one_collateral_has_one_root_even_where_two_are_trusted(
    platform: SimulatedPlatform, other_platform: SimulatedPlatform, item: str
) -> None:
    """A document and its chain of a second tree hold by themselves, and not beside the rest."""
    mine, theirs = platform.collateral(NOW), other_platform.collateral(NOW)
    trust = TrustRoots(trust_of(platform).spki_sha256 | trust_of(other_platform).spki_sha256)
    verify_collateral(mine, now=NOW, trust=trust)
    verify_collateral(theirs, now=NOW, trust=trust)
    names = (item, f"{item}_issuer_chain")
    mixed = replace(mine, **{name: getattr(theirs, name) for name in names})
    with pytest.raises(UntrustedRoot, match="different roots"):
        verify_collateral(mixed, now=NOW, trust=trust)


def test_a_pinned_key_that_is_no_root_is_no_root() -> None:
    """Pinning the key of another certificate by mistake does not turn that certificate into a root."""
    signing = PLATFORM.certificates.tcb_signing.public_bytes(Encoding.DER)
    trust = TrustRoots.pinned((signing, PLATFORM.root_spki()))
    with raises_code("pck.chain"):
        judged(replace(COLLATERAL, tcb_info_issuer_chain=chain(SIGNING, SIGNING)), trust)


def test_lists_are_not_interchangeable() -> None:
    with raises_code("crl.issuer"):
        judged(replace(COLLATERAL, pck_crl=COLLATERAL.root_ca_crl))
    with raises_code("crl.issuer"):
        judged(replace(COLLATERAL, root_ca_crl=COLLATERAL.pck_crl))


def test_a_forged_list_with_the_right_names_is_refused(other_platform: SimulatedPlatform) -> None:
    theirs = other_platform.collateral(NOW)
    for name in ("root_ca_crl", "pck_crl"):
        with raises_code("crl.signature"):
            judged(replace(COLLATERAL, **{name: getattr(theirs, name)}))


@pytest.mark.parametrize("name", ["root_ca_crl", "pck_crl"])
def test_there_is_no_collateral_without_its_lists(name: str) -> None:
    with raises_code("crl.malformed"):
        judged(replace(COLLATERAL, **{name: b""}))


@given(st.sampled_from(ITEMS), st.data())
def test_any_changed_byte_of_any_item_is_refused(name: str, data: Any) -> None:
    item = bytearray(getattr(COLLATERAL, name))
    offset = data.draw(st.integers(0, len(item) - 1))
    item[offset] ^= data.draw(st.integers(1, 255))
    try:
        judged(replace(COLLATERAL, **{name: bytes(item)}))
    except AffiantError:
        return
    # White space between the blocks, or the case of the signature's hexadecimal digits.
    assert chr(item[offset]).isspace() or item[offset] == 0 or chr(item[offset]) in "abcdefABCDEF"


@given(st.sampled_from(ITEMS), st.binary(max_size=300))
def test_no_item_does_more_than_refuse(name: str, value: bytes) -> None:
    with pytest.raises(AffiantError):
        judged(replace(COLLATERAL, **{name: value}))
