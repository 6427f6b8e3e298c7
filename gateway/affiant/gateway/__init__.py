"""Composes: the HTTP service, admission, upstreams, receipts at the moment they happen."""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.gateway.config.config import Settings, parse_settings
    from affiant.gateway.process.server import serve

__all__ = ["Settings", "parse_settings", "serve"]

_PUBLIC: Final = {
    "Settings": "affiant.gateway.config.config",
    "parse_settings": "affiant.gateway.config.config",
    "serve": "affiant.gateway.process.server",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
