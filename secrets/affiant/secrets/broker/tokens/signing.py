"""The private key that a secret is: read strictly, and an assertion signed with it (RFC 7523, section 3).

The key's own kind chooses the algorithm, from a closed list, so that neither a profile nor an issuer can ask for a
weaker one.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from affiant.policy.model.token_exchange import TokenExchange
from affiant.secrets.names.errors import SecretValueInvalid
from affiant.secrets.names.value import SecretValue

__all__ = ["ASSERTION_LIFETIME_S", "require_signing_key", "signed_assertion"]

ASSERTION_LIFETIME_S: Final = 300
"""Long enough for clocks that differ a little; RFC 7523 wants it short."""

_MIN_RSA_BITS: Final = 2048
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""RFC 7518, section 3.4."""

_Key: TypeAlias = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey


def require_signing_key(value: SecretValue) -> None:
    """Refuse a secret with which no assertion could be signed.

    Raises:
        SecretValueInvalid: no private key in PEM, or of a kind that is not used here.
    """
    _signing_key(value)


def signed_assertion(exchange: TokenExchange, value: SecretValue, *, now: int, token_id: str) -> bytes:
    """A JWT that says who asks, signed with the secret.

    Args:
        now: seconds since 1970. token_id: ``jti``, never used before.

    Raises:
        SecretValueInvalid: as :func:`require_signing_key`.
    """
    key, algorithm = _signing_key(value)
    claims = {
        "iss": exchange.issuer,
        "sub": exchange.subject,
        "aud": exchange.audience,
        "scope": exchange.scope,
        "iat": now,
        "exp": now + ASSERTION_LIFETIME_S,
        "jti": token_id,
    }
    written = {name: claim for name, claim in claims.items() if claim is not None}
    header = None if exchange.key_id is None else {"kid": exchange.key_id}
    return jwt.encode(written, key, algorithm, headers=header).encode("ascii")


def _signing_key(value: SecretValue) -> tuple[_Key, str]:
    try:
        key = load_pem_private_key(value.reveal(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # not chained: it may say something of the key
        raise _no_key("it cannot be read") from None
    match key:
        case RSAPrivateKey() if key.key_size >= _MIN_RSA_BITS:
            return key, "RS256"
        case EllipticCurvePrivateKey() if key.curve.name in _CURVES:
            return key, _CURVES[key.curve.name]
        case Ed25519PrivateKey():
            return key, "EdDSA"
        case _:
            raise _no_key("a key of another kind")


def _no_key(found: str) -> SecretValueInvalid:
    return SecretValueInvalid(
        "the value is no private key that assertions are signed with",
        expected="PEM of RSA (2048 bits or more), P-256, P-384, P-521 or Ed25519, not encrypted",
        found=found,
    )
