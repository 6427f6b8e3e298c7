"""The sandbox's ``/etc``: made here, of nothing but constants and the trust bundle that the caller gives. Pure.

No resolver is configured (names are the proxy's business), and no user of the machine is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.sandbox.isolation.plan.plan import AGENT_GID, AGENT_UID

__all__ = ["CA_BUNDLE_AT", "etc_files", "etc_links"]

CA_BUNDLE_AT: Final = "/etc/ssl/certs/ca-certificates.crt"
"""Where programs inside find the certificates to trust: what SSL_CERT_FILE and its kin should name."""


def etc_files(*, hostname: str, ca_bundle: bytes) -> Mapping[str, bytes]:
    """Path below ``/etc`` -> content. ``ca_bundle`` is PEM; it may be empty."""
    return {
        "group": f"root:x:0:\nagent:x:{AGENT_GID}:\nnogroup:x:65534:\n".encode(),
        "hostname": f"{hostname}\n".encode(),
        "hosts": f"127.0.0.1 localhost {hostname}\n::1 localhost\n".encode(),
        "nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files\n",
        "passwd": (
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
            f"agent:x:{AGENT_UID}:{AGENT_GID}:agent:/tmp:/bin/sh\n"
            "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
        ).encode(),
        "resolv.conf": b"",
        "ssl/certs/ca-certificates.crt": ca_bundle,
    }


def etc_links() -> Mapping[str, str]:
    """Path below ``/etc`` -> target of a link: other systems' names for the one trust bundle."""
    return {
        "pki/tls/certs/ca-bundle.crt": CA_BUNDLE_AT,
        "ssl/cert.pem": CA_BUNDLE_AT,
    }
