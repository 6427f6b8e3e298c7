"""Defines the errors of the transparency log's documents, each with a stable code.

::

    MalformedError      note.malformed        no signed note, or no key, of the form of C2SP signed-note
                        checkpoint.malformed  a note whose text is no checkpoint
                        log.entry             no leaf of 66 bytes
                        log.proof             no proof of the form of C2SP tlog-proof, or of another length
                        log.tile              no tile or entry bundle, or the path of none
                        quorum.malformed      no policy of the form of C2SP tlog-policy
    NotAuthenticError   note.signature        no known key has signed, or one that is known did not sign this
                        log.inclusion         the leaf is not at this place of the tree
                        log.consistency       the larger tree does not begin with the smaller
                        wit.quorum            not cosigned by enough witnesses
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAuthenticError

__all__ = [
    "CheckpointMalformed",
    "ConsistencyInvalid",
    "EntryMalformed",
    "InclusionInvalid",
    "NoteMalformed",
    "NoteSignatureInvalid",
    "ProofMalformed",
    "QuorumMalformed",
    "QuorumMissed",
    "TileMalformed",
]


class NoteMalformed(MalformedError):
    """The bytes are no signed note, or the text is no verifier key."""

    code = "note.malformed"


class CheckpointMalformed(MalformedError):
    """The note's text is not origin, size and root."""

    code = "checkpoint.malformed"


class EntryMalformed(MalformedError):
    """The bytes are no leaf of this log."""

    code = "log.entry"


class ProofMalformed(MalformedError):
    """The text is no proof, or the hashes are not as many as the sizes demand."""

    code = "log.proof"


class TileMalformed(MalformedError):
    """The bytes are no tile or entry bundle of that width, or the path names none."""

    code = "log.tile"


class QuorumMalformed(MalformedError):
    """The file is no witness policy."""

    code = "quorum.malformed"


class NoteSignatureInvalid(NotAuthenticError):
    """No known key has signed the note, or a signature of a known key does not hold."""

    code = "note.signature"


class InclusionInvalid(NotAuthenticError):
    """The hashes do not lead from the leaf at its index to the root."""

    code = "log.inclusion"


class ConsistencyInvalid(NotAuthenticError):
    """The hashes do not lead from the smaller tree's root to the larger's: one of them is another log."""

    code = "log.consistency"


class QuorumMissed(NotAuthenticError):
    """Fewer witnesses have cosigned than the policy demands."""

    code = "wit.quorum"
