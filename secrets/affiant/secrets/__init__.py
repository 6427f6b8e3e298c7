"""Names and brokers secrets: references, placeholders, stores, redaction."""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.secrets.names.ref import SecretRef

__all__ = ["SecretRef"]

_PUBLIC: Final = {"SecretRef": "affiant.secrets.names.ref"}
__getattr__ = lazy_names(__name__, _PUBLIC)
