"""The SGX extension: every member once, in its type and exact length."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, key_of
from tests.raising import raises_code

from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform import der
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.sgx_extension import encode_sgx_extension
from affiant.attestation.tdx.pki.certificates import parse_chain
from affiant.attestation.tdx.pki.pck import PCKCA, parse_pck_extension, verify_pck_chain
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError

MACHINE = MachineIdentity()
EXTENSION = encode_sgx_extension(MACHINE)
OID = "1.2.840.113741.1.13.1"


def member(arc: str, value: bytes) -> bytes:
    return der.sequence(der.oid(f"{OID}.{arc}"), value)


def tcb(**changes: bytes) -> bytes:
    members = {str(number): der.integer(number) for number in range(1, 18)}
    members |= {"18": der.octet_string(bytes(16))} | {
        name.strip("_"): value for name, value in changes.items()
    }
    return der.sequence(*(member(f"2.{name}", value) for name, value in members.items() if value))


def extension(**changes: bytes) -> bytes:
    members = {
        "1": der.octet_string(bytes(16)),
        "2": tcb(),
        "3": der.octet_string(bytes(2)),
        "4": der.octet_string(bytes(6)),
        "5": der.enumerated(1),
    } | {name.strip("_"): value for name, value in changes.items()}
    return der.sequence(*(member(name, value) for name, value in members.items() if value))


def test_the_extension_is_read() -> None:
    read = parse_pck_extension(EXTENSION)
    assert read.ppid == MACHINE.ppid
    assert read.fmspc == MACHINE.fmspc
    assert read.components == MACHINE.sgx_components
    assert read.pce_svn == MACHINE.pce_svn
    assert read.platform_instance_id == MACHINE.platform_instance_id
    assert (read.dynamic_platform, read.cached_keys, read.smt_enabled) == (True, True, True)


def test_the_processor_authority_says_nothing_of_the_platform() -> None:
    read = parse_pck_extension(encode_sgx_extension(replace(MACHINE, issuer=PCKIssuer.PROCESSOR)))
    assert read.platform_instance_id is None
    assert read.dynamic_platform is None


def test_unknown_members_are_ignored() -> None:
    assert parse_pck_extension(extension(_9=der.octet_string(b"new"))) == parse_pck_extension(extension())


@pytest.mark.parametrize(
    "changes",
    [
        {"_1": b""},
        {"_2": b""},
        {"_3": b""},
        {"_4": b""},
        {"_5": b""},
        {"_1": der.octet_string(bytes(15))},
        {"_1": der.octet_string(bytes(17))},
        {"_3": der.octet_string(bytes(3))},
        {"_4": der.octet_string(bytes(5))},
        {"_5": der.enumerated(3)},
        {"_5": der.integer(1)},
        {"_6": der.octet_string(bytes(15))},
        {"_7": der.octet_string(bytes(1))},
        {"_7": der.sequence(member("7.1", b"\x01\x01\x01"))},
        {"_7": der.sequence(member("7.1", b"\x01\x02\xff\xff"))},
        {"_2": tcb(_1=der.integer(256))},
        {"_2": tcb(_1=b"\x02\x01\xff")},
        {"_2": tcb(_1=b"\x02\x02\x00\x01")},
        {"_2": tcb(_1=der.octet_string(b"\x01"))},
        {"_2": tcb(_16=b"")},
        {"_2": tcb(_17=der.integer(0x10000))},
        {"_2": tcb(_18=der.octet_string(bytes(15)))},
    ],
)
def test_a_member_that_is_absent_or_misshapen_is_refused(changes: dict[str, bytes]) -> None:
    with raises_code("pck.extension"):
        parse_pck_extension(extension(**changes))


@pytest.mark.parametrize(
    "pair",
    [
        der.sequence(der.oid(f"{OID}.9"), der.integer(1), der.integer(2)),
        der.sequence(der.integer(1), der.integer(2)),
        der.sequence(der.oid(f"{OID}.9")),
        b"\x31" + member("9", der.integer(1))[1:],
    ],
)
def test_a_member_is_a_pair_of_identifier_and_value(pair: bytes) -> None:
    inner = extension()[4:] if extension()[1] == 0x82 else extension()[3:]
    with raises_code("pck.extension"):
        parse_pck_extension(der.sequence(inner, pair))


def test_a_doubled_member_is_refused() -> None:
    doubled = extension()[4:] if extension()[1] == 0x82 else extension()[3:]
    with raises_code("pck.extension", match="twice"):
        parse_pck_extension(der.sequence(doubled, member("4", der.octet_string(b"\xff" * 6))))


@pytest.mark.parametrize(
    "text", [b"", b"\x30\x00", EXTENSION + b"\0", EXTENSION[:-1], b"\x31" + EXTENSION[1:]]
)
def test_another_structure_is_refused(text: bytes) -> None:
    with raises_code("pck.extension"):
        parse_pck_extension(text)


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with raises_code("pck.extension"):
        parse_pck_extension(data)


@given(st.integers(0, len(EXTENSION) - 1), st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(offset: int, value: int) -> None:
    changed = bytearray(EXTENSION)
    changed[offset] = value
    try:
        parse_pck_extension(bytes(changed))
    except AffiantError as error:
        assert error.code == "pck.extension"


def test_genuine_extensions_are_as_recorded(vectors: Any) -> None:
    for name, record in vectors.expected["quotes"].items():
        wanted = record["fields"].get("pck")
        if not wanted or not wanted.get("intel_root"):
            continue
        leaf, authority, root = parse_chain(parse_quote(vectors.quote(name)).authentication.pck_chain)
        chain = verify_pck_chain(
            parse_quote(vectors.quote(name)).authentication.pck_chain, root=root, authority=authority
        )
        assert chain.leaf == leaf
        assert chain.ca is PCKCA(wanted["issuer_cn"])
        assert chain.extension.fmspc.hex() == wanted["fmspc"]
        assert chain.extension.pceid.hex() == wanted["pceid"]
        assert chain.extension.cpu_svn.hex() == wanted["cpusvn"]
        assert bytes(chain.extension.components) == chain.extension.cpu_svn
        assert chain.extension.pce_svn == wanted["pcesvn"]
        assert chain.extension.smt_enabled == wanted["smt_enabled"]


def test_a_chain_has_the_digest_of_its_exact_bytes(platform: SimulatedPlatform) -> None:
    pem = pem_chain(platform.certificates.chain(CertificateRole.PCK))
    leaf, authority, root = parse_chain(pem)
    one = verify_pck_chain(pem, root=root, authority=authority)
    two = verify_pck_chain(pem + b"\n", root=root, authority=authority)
    assert one.leaf == two.leaf == leaf
    assert one.digest != two.digest


# -- chains that only look like one --------------------------------------------------------------------------------

SGX = x509.UnrecognizedExtension(x509.ObjectIdentifier(OID), EXTENSION)


def usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def issued(
    platform: SimulatedPlatform,
    *,
    name: str | x509.Name,
    issuer: CertificateRole,
    signer: Role,
    key: Role = Role.PCK,
    authority: bool = False,
    extension: x509.UnrecognizedExtension | None = SGX,
) -> x509.Certificate:
    """A certificate that the platform's own authorities really signed, in a form that they never would."""
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) if isinstance(name, str) else name
    builder = x509.CertificateBuilder(
        issuer_name=platform.certificates.of(issuer).subject,
        subject_name=named,
        public_key=key_of(platform, key).public_key(),
        serial_number=7,
        not_valid_before=NOW - timedelta(days=1),
        not_valid_after=NOW + timedelta(days=1),
    )
    builder = builder.add_extension(usage(signs_certificates=authority), critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    if extension is not None:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key_of(platform, signer), hashes.SHA256())


PCK_NAME, PLATFORM_NAME = "Intel SGX PCK Certificate", "Intel SGX PCK Platform CA"


def judged(platform: SimulatedPlatform, *members: x509.Certificate) -> Any:
    authority, root = parse_chain(pem_chain(platform.certificates.chain(CertificateRole.PCK_ISSUER)))
    return verify_pck_chain(pem_chain(members), root=root, authority=authority)


def test_a_leaf_of_the_right_form_is_accepted(platform: SimulatedPlatform) -> None:
    leaf = issued(platform, name=PCK_NAME, issuer=CertificateRole.PCK_ISSUER, signer=Role.PCK_ISSUER)
    assert judged(platform, leaf, platform.certificates.pck_issuer).extension.ppid == MACHINE.ppid


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Intel SGX TCB Signing"},
        {"name": "anything"},
        {"authority": True},
        {"issuer": CertificateRole.ROOT},
        {"signer": Role.PCK},
        {"signer": Role.ROOT},
        {"signer": Role.TCB_SIGNING},
    ],
)
def test_a_leaf_of_another_name_role_or_signer_is_refused(
    platform: SimulatedPlatform, changes: dict[str, Any]
) -> None:
    honest: dict[str, Any] = {
        "name": PCK_NAME,
        "issuer": CertificateRole.PCK_ISSUER,
        "signer": Role.PCK_ISSUER,
    }
    with raises_code("pck.chain"):
        judged(platform, issued(platform, **(honest | changes)), platform.certificates.pck_issuer)


def test_a_leaf_without_the_extension_is_refused(platform: SimulatedPlatform) -> None:
    bare = issued(
        platform, name=PCK_NAME, issuer=CertificateRole.PCK_ISSUER, signer=Role.PCK_ISSUER, extension=None
    )
    with raises_code("pck.extension"):
        judged(platform, bare, platform.certificates.pck_issuer)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "Intel SGX PCK Other CA"}, "no PCK authority"),
        ({"name": "Intel SGX Root CA"}, "no PCK authority"),
        ({"authority": False}, "may not sign"),
        ({"signer": Role.PCK}, "not signed by the root"),
        ({"issuer": CertificateRole.PCK_ISSUER}, "not signed by the root"),
    ],
)
def test_an_intermediate_of_another_name_role_or_signer_is_refused(
    platform: SimulatedPlatform, changes: dict[str, Any], reason: str
) -> None:
    """It has the authority's own key, so that the leaf below it would hold."""
    honest: dict[str, Any] = {
        "name": platform.certificates.pck_issuer.subject,
        "key": Role.PCK_ISSUER,
        "issuer": CertificateRole.ROOT,
        "signer": Role.ROOT,
        "authority": True,
    }
    assert judged(platform, platform.certificates.pck, issued(platform, **honest)).leaf
    with raises_code("pck.chain", match=reason):
        judged(platform, platform.certificates.pck, issued(platform, **(honest | changes)))


@pytest.mark.parametrize("changes", [{"authority": False}, {"signer": Role.PCK}])
def test_a_root_in_the_chain_is_a_self_signed_authority(
    platform: SimulatedPlatform, changes: dict[str, Any]
) -> None:
    honest: dict[str, Any] = {
        "name": platform.certificates.root.subject,
        "key": Role.ROOT,
        "issuer": CertificateRole.ROOT,
        "signer": Role.ROOT,
        "authority": True,
    }
    members = platform.certificates.pck, platform.certificates.pck_issuer
    assert judged(platform, *members, issued(platform, **honest)).hint
    with raises_code("pck.chain", match="self-signed"):
        judged(platform, *members, issued(platform, **(honest | changes)))


def test_an_intermediate_is_issued_by_the_root_itself(platform: SimulatedPlatform) -> None:
    """No path search: an authority below an authority is none."""
    below = issued(
        platform,
        name="Intel SGX PCK Processor CA",
        issuer=CertificateRole.PCK_ISSUER,
        signer=Role.PCK_ISSUER,
        authority=True,
    )
    with raises_code("pck.chain"):
        judged(platform, platform.certificates.pck, below)
