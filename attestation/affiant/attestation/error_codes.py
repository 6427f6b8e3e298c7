"""Lists the codes of this package's errors that no program catches by a class of their own.

Each is raised as its family with ``code=``. An error that a program catches has a class; its docstring is its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ERROR_CODES"]

ERROR_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "anchor.expired": ("NotFreshError", "The authority's certificate was not valid at the token's own time."),
    "anchor.imprint": ("NotAuthenticError", "The token holds, and is about other bytes."),
    "anchor.nonce": (
        "NotFreshError",
        "The token has another nonce than the request: an answer to another request, or an old one.",
    ),
    "anchor.order": ("NotAuthenticError", "A renewal names an earlier time than the token that it renews."),
    "anchor.policy": ("NotAllowedError", "Issued under another policy than the reader pins for this root."),
    "anchor.purpose": (
        "NotAuthenticError",
        "The signer's certificate is not one for timestamps, or not the one that the token names.",
    ),
    "anchor.refused": ("NotAllowedError", "The authority's answer is an error."),
    "anchor.token": (
        "MalformedError",
        "Not an RFC 3161 response with one token, or not of the strict form that is read.",
    ),
    "anchor.unavailable": ("UnreachableError", "The authority answered that it has no answer."),
    "anchor.unreachable": ("UnreachableError", "No connection to the authority, or no whole answer in time."),
    "appraisal.advisory": ("AppraisalRefused", "An advisory is open for which there is no exception."),
    "appraisal.debug": ("AppraisalRefused", "The TD is debuggable: its host can read its memory."),
    "appraisal.evaluation_number": (
        "AppraisalRefused",
        "The collateral's tcbEvaluationDataNumber is below the required one.",
    ),
    "appraisal.evidence_class": (
        "AppraisalRefused",
        "Hardware evidence where simulated was pinned, or the other way round.",
    ),
    "appraisal.exception_lapsed": (
        "AppraisalRefused",
        "There is an exception for what was found, and it does not count at this time.",
    ),
    "appraisal.expectation": (
        "ConfigurationError",
        "The caller expects a value of another length than the field has.",
    ),
    "appraisal.grace_over": ("AppraisalRefused", "The grace period of a TCB status is over."),
    "appraisal.image": ("AppraisalRefused", "MRTD with RTMR0-2 is not one of the accepted images."),
    "appraisal.machine": ("AppraisalRefused", "The machine (PPID, FMSPC) is not on the list."),
    "appraisal.mrconfigid": ("AppraisalRefused", "MRCONFIGID is not the expected digest."),
    "appraisal.mrconfigid_unbound": (
        "AppraisalRefused",
        "MRCONFIGID is all zero: the launcher bound nothing.",
    ),
    "appraisal.no_policy": (
        "ConfigurationError",
        "An empty set of policies, which would hold of everything.",
    ),
    "appraisal.pck_flags": (
        "AppraisalRefused",
        "A flag of the PCK certificate is not as demanded, or not said.",
    ),
    "appraisal.report_data": (
        "AppraisalRefused",
        "REPORTDATA is not the binding that the verifier computed.",
    ),
    "appraisal.root": (
        "AppraisalRefused",
        "The root is trusted by the verifier, but not among the reference values.",
    ),
    "appraisal.rtmr3": ("AppraisalRefused", "RTMR3 holds another event, order or count than is permitted."),
    "appraisal.service_td": (
        "AppraisalRefused",
        "A service TD is bound to this TD, which nothing here expects.",
    ),
    "appraisal.tcb_status": ("AppraisalRefused", "The merged TCB status is not among the accepted ones."),
    "appraisal.td_attributes": (
        "AppraisalRefused",
        "TD_ATTRIBUTES has a forbidden or reserved bit, lacks a required one, or differs from the reference.",
    ),
    "appraisal.tdx_module": ("AppraisalRefused", "MRSEAM is not on the list."),
    "appraisal.xfam": ("AppraisalRefused", "XFAM leaves its fixed masks or differs from the reference."),
    "appraisal_policy.empty": (
        "MalformedError",
        "A list of a policy file is empty: it would accept nothing, or everything.",
    ),
    "appraisal_policy.key": ("MalformedError", "A key of a policy file is unknown or missing."),
    "appraisal_policy.value": (
        "MalformedError",
        "A value of a policy file has another type or form, or contradicts another one.",
    ),
    "azure.appraisal": (
        "NotAllowedError",
        "A pinned PCR has another value or was not quoted, or nothing was pinned.",
    ),
    "azure.binding": (
        "NotAuthenticError",
        "REPORTDATA of the TD quote is not the digest of the HCL report's runtime data.",
    ),
    "azure.nonce": ("NotFreshError", "The TPM quote was made for another nonce."),
    "azure.signature": (
        "NotAuthenticError",
        "The vTPM's attestation key, as the runtime data names it, did not sign the TPM quote.",
    ),
    "cert.revoked": (
        "NotAuthenticError",
        "A certificate of the chain stands on its issuer's revocation list.",
    ),
    "collateral.issuer": (
        "NotAuthenticError",
        "Collateral is signed by a certificate that has no business signing it.",
    ),
    "collateral.signature": (
        "NotAuthenticError",
        "The signature over the exact bytes of TCB Info or QE Identity does not hold.",
    ),
    "crl.issuer": ("NotAuthenticError", "A revocation list of another issuer than the one it is needed for."),
    "crl.malformed": ("MalformedError", "A revocation list is not DER of a complete, direct v2 CRL."),
    "crl.signature": ("NotAuthenticError", "The signature of a revocation list does not hold."),
    "erasure.refused": ("StateError", "The gateway refused an order; the text is its own."),
    "eventlog.ambiguous": (
        "MalformedError",
        "A runtime event's name holds the delimiter, so that its digest stands for several events.",
    ),
    "eventlog.duplicate": (
        "MalformedError",
        "An event that counts once stands twice, or where software may write whatever it likes.",
    ),
    "eventlog.malformed": (
        "MalformedError",
        "The event log is of no known form, is cut, or is beyond its bounds.",
    ),
    "eventlog.preimage": ("NotAuthenticError", "An event's content is not what its digest was made of."),
    "eventlog.replay": ("NotAuthenticError", "Replaying the event log does not give the quote's registers."),
    "fmt.cmw": ("MalformedError", "Bytes are not one of our CMW collections."),
    "fmt.receipt": ("MalformedError", "Text is not a receipt: outer form or size."),
    "gateway.unreachable": ("UnreachableError", "No gateway serves from this folder."),
    "log.denied": ("UnreachableError", "A store of objects refuses these credentials, or what they ask for."),
    "log.no_such_leaf": ("StateError", "The log has no such leaf."),
    "monitor.settings": ("ConfigurationError", "What the operator gave does not fit together."),
    "monitor.state": ("StateError", "The state is damaged, or of another log."),
    "narrowing.event": (
        "NotAllowedError",
        "An event after the barrier that is no restriction, or one more than a session may have.",
    ),
    "narrowing.malformed": (
        "MalformedError",
        "A restriction's payload has other members, or values of another form.",
    ),
    "narrowing.order": (
        "NotAllowedError",
        "A restriction of another epoch than the next, of another profile than the one in force, or back.",
    ),
    "pck.chain": (
        "NotAuthenticError",
        "The chain of the PCK certificate does not hold: signature, name, role or length.",
    ),
    "pck.extension": (
        "MalformedError",
        "The SGX extension of the PCK certificate is absent, doubled or of a wrong length.",
    ),
    "platform.store": (
        "MalformedError",
        "The stored state of the platform is not what this program wrote, or others could read it.",
    ),
    "platform.td_ended": (
        "StateError",
        "The TD behind a descriptor is gone: the platform ended, or the TD did.",
    ),
    "publish.conflict": ("StateError", "An object that never changes has another content."),
    "publish.foreign": ("StateError", "The store holds another log."),
    "publish.fork": ("NotAuthenticError", "Two trees under one origin."),
    "publish.unconditional": ("ConfigurationError", "The store ignores a condition of a write."),
    "published.content": (
        "NotAuthenticError",
        "The content has another digest than the statement's subject.",
    ),
    "published.kind": (
        "NotAllowedError",
        "A signed file of another kind than the one that is asked for here.",
    ),
    "published.signing": (
        "UnreachableError",
        "The certificate authority, the log or the timestamp authority did not answer, or refused to.",
    ),
    "qe.binding": ("NotAuthenticError", "The quoting enclave's report does not name the attestation key."),
    "qe.identity": ("NotAuthenticError", "The quoting enclave is not the one that QE Identity describes."),
    "qe.report_signature": (
        "NotAuthenticError",
        "The PCK key did not sign the report of the quoting enclave.",
    ),
    "quote.local_report": (
        "MalformedError",
        "A TDREPORT, which only the CPU that made it can check; never remote evidence.",
    ),
    "quote.malformed": (
        "MalformedError",
        "The bytes are no TDX quote: a length, a reserved value or a structure is wrong.",
    ),
    "quote.no_pck_chain": (
        "MalformedError",
        "The quote carries no PCK certificate chain (certification data other than type 5).",
    ),
    "quote.not_tdx": ("MalformedError", "A quote of another TEE (an SGX quote, for example)."),
    "quote.signature": ("NotAuthenticError", "The attestation key did not sign this header and body."),
    "quote.unsupported": (
        "MalformedError",
        "A quote of a version or an attestation key type that no verifier supports.",
    ),
    "receipt_store.unusable": ("StateError", "The store is damaged, or no store of this version."),
    "receipt_store.unverified": ("NotAuthenticError", "A bundle with a receipt that is not authentic."),
    "reconcile.scratch": ("StateError", "The temporary store cannot be written."),
    "reconcile.unverified": (
        "NotAuthenticError",
        "A bundle that is rejected or cannot be judged, or whose receipts are not authentic.",
    ),
    "reference.malformed": (
        "MalformedError",
        "The reference values are incomplete, contradict themselves, or hold an empty list.",
    ),
    "roots.empty": (
        "ConfigurationError",
        "An empty set of trusted roots, which would trust nothing or everything.",
    ),
    "store.locked": ("StateError", "Another process serves from this folder."),
    "tcb.mismatch": ("NotAuthenticError", "TCB Info speaks of another kind of platform (FMSPC or PCEID)."),
    "tdx.naive_time": ("ConfigurationError", "A time without its zone."),
    "tdx_module.mismatch": (
        "NotAuthenticError",
        "The TDX module is none that TCB Info knows, or not Intel's.",
    ),
    "witness.ahead": (
        "NotAllowedError",
        "The witness has cosigned a larger tree: the log that asks has lost leaves.",
    ),
    "witness.conflict": (
        "UnreachableError",
        "The size that the witness names changed between two questions.",
    ),
    "witness.exists": ("StateError", "A key file or database exists already."),
    "witness.forged": (
        "NotAuthenticError",
        "An answer whose cosignature of a known key does not hold, or is none of a known key.",
    ),
    "witness.inconsistent": (
        "NotAuthenticError",
        "The witness answered that the checkpoint does not grow from what it has seen.",
    ),
    "witness.refused": ("NotAllowedError", "The witness does not serve this log, or not under this key."),
    "witness.settings": ("ConfigurationError", "What the operator gave does not fit together."),
    "witness.state_lost": (
        "StateError",
        "A key whose database is missing or another's. Starting empty would cosign a second history.",
    ),
    "witness.unreachable": (
        "UnreachableError",
        "No whole answer in time, or an answer that is none of a witness.",
    ),
}
"""Code -> the family that is raised, and its meaning."""
