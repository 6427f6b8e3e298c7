"""The errors of a period bundle: its archive (``zip.*``), then its content (``period.*``)."""

from __future__ import annotations

from affiant.errors import MalformedError, NotAuthenticError, StateError

__all__ = [
    "ArchiveUnreadable",
    "DigestMismatch",
    "LineMalformed",
    "ManifestMalformed",
    "MemberAbsent",
    "WriterMisused",
    "Zip64Refused",
    "ZipContentMismatch",
    "ZipDuplicate",
    "ZipEncrypted",
    "ZipHeaderMismatch",
    "ZipKindRefused",
    "ZipMethodRefused",
    "ZipNameRefused",
    "ZipRatio",
    "ZipStructure",
    "ZipTooLarge",
]


class ZipStructure(MalformedError):
    """The archive's records do not account for every byte of the file, in order."""

    code = "zip.structure"


class ZipNameRefused(MalformedError):
    """A name that could lead out of a folder, or that some file system reads as another."""

    code = "zip.name"


class ZipDuplicate(MalformedError):
    """Two members of one name, or of names that differ in case alone."""

    code = "zip.duplicate"


class ZipKindRefused(MalformedError):
    """A member that is no regular file: a link, a folder, a device."""

    code = "zip.kind"


class ZipEncrypted(MalformedError):
    """A member is encrypted."""

    code = "zip.encrypted"


class ZipMethodRefused(MalformedError):
    """A member is packed in another way than deflate."""

    code = "zip.method"


class ZipHeaderMismatch(MalformedError):
    """A member's two headers differ, or one has fields that the form does not have."""

    code = "zip.header"


class Zip64Refused(MalformedError):
    """Fields of 64 bits that are not needed, missing, or contradict those of 32."""

    code = "zip.zip64"


class ZipContentMismatch(MalformedError):
    """A member unpacks to another size or checksum than its headers say, or its padding bits are not zero."""

    code = "zip.content"


class ZipRatio(MalformedError):
    """A member claims to unpack to more than 100 times its packed size."""

    code = "zip.ratio"


class ZipTooLarge(MalformedError):
    """More members, or more bytes unpacked, than the reader's bounds allow."""

    code = "zip.too_large"


class ManifestMalformed(MalformedError):
    """The manifest is missing, of another form, or does not list what is there."""

    code = "period.manifest"


class DigestMismatch(NotAuthenticError):
    """A file is not the one that the manifest, or its own name, says."""

    code = "period.digest"


class LineMalformed(MalformedError):
    """A line of receipts or disclosures is of another form."""

    code = "period.line"


class MemberAbsent(StateError):
    """A file that is asked for is not in the archive."""

    code = "period.absent"


class ArchiveUnreadable(StateError):
    """The file cannot be read, or was changed while it was read."""

    code = "period.unreadable"


class WriterMisused(StateError):
    """What is to be written does not fit the layout."""

    code = "period.writer"
