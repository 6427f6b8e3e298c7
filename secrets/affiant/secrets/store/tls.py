"""The one way in which this component speaks TLS: verified, by the roots it was given."""

from __future__ import annotations

import ssl

from affiant.errors import ConfigurationError

__all__ = ["client_context"]


def client_context(*, roots: tuple[str, ...], system_roots: bool = False) -> ssl.SSLContext:
    """A client's context: TLS 1.2 or newer, chain and host name verified (S11).

    Args:
        roots: certificates in PEM, each the end of some chain.
        system_roots: the machine's own roots count too. Vault never takes them.

    Raises:
        ``broker.configuration``: a root is no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    for root in roots:
        try:
            context.load_verify_locations(cadata=root)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                "a root is not a certificate in PEM", code="broker.configuration"
            ) from error
    if system_roots:
        context.set_default_verify_paths()
    return context
