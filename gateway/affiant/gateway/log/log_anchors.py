"""The anchors that lie beside the log's files, for bundles: the first of each kind that covers all records of one.

``affiant log anchor`` puts them there; like everything in the store they are the operator's and untrusted.
The log's own key must have signed the checkpoint, and its tiles must show that it is of the tree of the bundle's
proofs. What does not hold is left out, and said in the log of the process: a bundle without an anchor is a lesser
answer, not a wrong one. Tokens and signatures are taken apart and not verified: whom to believe is the reader's choice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from affiant.attestation.anchors.anchor_files import AnchorFile, AnchorFolder
from affiant.attestation.anchors.carrying import AnyAnchorFile, first_covering, with_anchor
from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.signatures.timestamps.response import parse_response
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import parse_note, verify_note
from affiant.attestation.tlog.proof import LogProof, parse_log_proof
from affiant.errors import AffiantError
from affiant.gateway.log.transparency_log import TransparencyLog

__all__ = ["LogAnchors"]

_log = logging.getLogger("affiant.gateway")


class LogAnchors:
    """The anchors of one log.

    Args:
        folder: of the log's files; anchors lie in ``anchors`` below it.
    """

    def __init__(self, folder: Path, log: TransparencyLog) -> None:
        self._anchors, self._log = AnchorFolder(folder / "anchors"), log

    def added_to(self, bundle: Bundle) -> Bundle:
        """``bundle`` with the first anchor of each kind that covers all its records, where there is one. Blocks."""
        try:
            stamped, signed = self._anchors.sizes(), self._anchors.signed_sizes()
            if not (stamped or signed) or len(bundle.proofs) != len(bundle.receipts):
                return bundle
            proofs = [parse_log_proof(text.encode("utf-8")) for text in bundle.proofs.values()]
        except AffiantError as error:
            return _left_out(bundle, error)
        last = max(proof.index for proof in proofs)
        for size, read in (
            (first_covering(stamped, last), self._anchors.read),
            (first_covering(signed, last), self._anchors.read_signed),
        ):
            if size is not None:
                bundle = self._with(bundle, partial(read, size), proofs[0])
        return bundle

    def _with(self, bundle: Bundle, read: Callable[[], AnyAnchorFile], proof: LogProof) -> Bundle:
        """One kind's; what is wrong with it keeps no other out."""
        try:
            return self._added(bundle, read(), proof)
        except AffiantError as error:
            return _left_out(bundle, error)

    def _added(self, bundle: Bundle, file: AnyAnchorFile, proof: LogProof) -> Bundle:
        if isinstance(file, AnchorFile):
            for token in file.tokens:
                parse_response(token)
        smaller, larger = sorted(
            (self._checkpoint(file), parse_checkpoint(proof.note.text)), key=lambda each: each.size
        )
        path = self._log.consistency(smaller.size, larger.size)
        return with_anchor(bundle, file, smaller, larger, path)

    def _checkpoint(self, file: AnyAnchorFile) -> Checkpoint:
        note = parse_note(file.note)
        verify_note(note, [self._log.key])
        return parse_checkpoint(note.text)


def _left_out(bundle: Bundle, error: AffiantError) -> Bundle:
    _log.warning("an anchor of the log is left out of a bundle: %s [%s]", error, error.code)
    return bundle
