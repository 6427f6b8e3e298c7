"""Makes the quoting enclave's report, the link from the PCK key to the key that signs quotes.

Source: Intel SGX SDK, ``sgx_report_body_t``, 384 bytes. The report data is SHA-256(attestation key || QE auth
data) and 32 zero bytes (DCAP quoting library, quote v4, "QE report").
"""

from __future__ import annotations

import hashlib

from affiant.attestation.release.platform_identity import QuotingEnclave

__all__ = ["encode_qe_report"]


def encode_qe_report(enclave: QuotingEnclave, attestation_point: bytes) -> bytes:
    """The report body, 384 bytes, for the attestation key with this public point (64 bytes, x || y)."""
    binding = hashlib.sha256(attestation_point + enclave.auth_data).digest() + bytes(32)
    return b"".join(
        (
            enclave.cpu_svn,  # 0: 16
            enclave.misc_select,  # 16: 4
            bytes(28),  # 20: reserved
            enclave.attributes,  # 48: 16
            enclave.mrenclave,  # 64: 32
            bytes(32),  # 96: reserved
            enclave.mrsigner,  # 128: 32
            bytes(96),  # 160: reserved
            enclave.isv_prod_id.to_bytes(2, "little"),  # 256
            enclave.isv_svn.to_bytes(2, "little"),  # 258
            bytes(60),  # 260: reserved
            binding if enclave.report_data is None else enclave.report_data,  # 320: 64
        )
    )
