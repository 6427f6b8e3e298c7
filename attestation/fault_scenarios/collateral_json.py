"""Collateral as one file, in the form that most verifiers read, where that form can hold it.

That is the JSON object that `dcap-qvl` calls ``QuoteCollateralV3``: the signed texts and their signatures apart. A
body of another shape than text and signature cannot be written so; it is in an ``affiant-dcap-collateral/1``
document, which holds any bytes.
"""

from __future__ import annotations

import json
import re
from typing import Final

from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = ["collateral_json"]

_TCB_INFO: Final = re.compile(rb'\{"tcbInfo":(.*),"signature":"([0-9a-f]*)"\}\Z', re.DOTALL)
_QE_IDENTITY: Final = re.compile(rb'\{"enclaveIdentity":(.*),"signature":"([0-9a-f]*)"\}\Z', re.DOTALL)


def collateral_json(collateral: Collateral) -> bytes:
    """The file's bytes; its reader gets back exactly the items of ``collateral``."""
    tcb_info, qe_identity = _TCB_INFO.match(collateral.tcb_info), _QE_IDENTITY.match(collateral.qe_identity)
    if tcb_info is None or qe_identity is None:
        return collateral.to_bytes()
    members = {
        "pck_crl_issuer_chain": collateral.pck_crl_issuer_chain.decode(),
        "root_ca_crl": collateral.root_ca_crl.hex(),
        "pck_crl": collateral.pck_crl.hex(),
        "tcb_info_issuer_chain": collateral.tcb_info_issuer_chain.decode(),
        "tcb_info": tcb_info.group(1).decode(),
        "tcb_info_signature": tcb_info.group(2).decode(),
        "qe_identity_issuer_chain": collateral.qe_identity_issuer_chain.decode(),
        "qe_identity": qe_identity.group(1).decode(),
        "qe_identity_signature": qe_identity.group(2).decode(),
    }
    return json.dumps(members, indent=1).encode("ascii") + b"\n"
