"""ML-DSA-44 keys and signatures (FIPS 204), deterministic: a message has one signature for ever.

`cryptography` signs the hedged way, with fresh random bytes; this is the other variant of section 3.4, for keys that
are nobody's. It is slow and leaks its keys to whoever can measure time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

__all__ = ["HINT_BYTES", "MAX_HINTS", "MLDSA44Key", "mldsa44_key", "sign_mldsa44"]

Q = 8380417
SIDE = range(4)
"""Rows (k) and columns (l) of the matrix."""
DROPPED = 13
"""Bits of t that the public key is without (d)."""
WEIGHT = 39
"""Coefficients of the challenge that are 1 or -1 (tau)."""
GAMMA1 = 1 << 17
GAMMA2 = (Q - 1) // 88
BETA = 78
MAX_HINTS = 80
"""omega."""
HINT_BYTES = MAX_HINTS + len(SIDE)
"""At the end of a signature: places, zeros, and where each row ends."""

Polynomial = list[int]
_ZETAS = [pow(1753, int(f"{n:08b}"[::-1], 2), Q) for n in range(256)]


@dataclass(frozen=True)
class MLDSA44Key:
    """A private key, every polynomial of it as its transform.

    Args:
        public: 1,312 bytes.
        matrix: row by row.
        secret: 32 bytes (K).
    """

    public: bytes
    matrix: list[list[Polynomial]] = field(repr=False)
    secret: bytes = field(repr=False)
    s1: list[Polynomial] = field(repr=False)
    s2: list[Polynomial] = field(repr=False)
    t0: list[Polynomial] = field(repr=False)


def _shake256(size: int, *parts: bytes) -> bytes:
    """H (section 3.7)."""
    return hashlib.shake_256(b"".join(parts)).digest(size)


@cache
def mldsa44_key(seed: bytes) -> MLDSA44Key:
    """The key of a seed of 32 bytes (section 6.1, algorithm 6)."""
    expanded = _shake256(128, seed, bytes((len(SIDE), len(SIDE))))
    rho, sigma, secret = expanded[:32], expanded[32:96], expanded[96:]
    matrix = [[_uniform(rho + bytes((column, row))) for column in SIDE] for row in SIDE]
    small = [_bounded(sigma + n.to_bytes(2, "little")) for n in range(2 * len(SIDE))]
    s1, s2 = [_ntt(each) for each in small[: len(SIDE)]], small[len(SIDE) :]
    public, low = rho, []
    for row in SIDE:
        t = _add(_inverse(_dot(matrix[row], s1)), s2[row])
        rounded = [_centred(value, 1 << DROPPED) for value in t]
        public += _packed([value - rest >> DROPPED for value, rest in zip(t, rounded, strict=True)], 10)
        low.append(_ntt(rounded))
    return MLDSA44Key(public, matrix, secret, s1, [_ntt(each) for each in s2], low)


@cache
def sign_mldsa44(seed: bytes, message: bytes, *, context: bytes = b"", in_range: bool = True) -> bytes:
    """2,420 bytes (section 5.2, algorithm 2; section 6.2, algorithm 7).

    Args:
        in_range: False for what no signer gives away: all equations hold, but the response is too large.
    """
    key = mldsa44_key(seed)
    mu = _shake256(64, _shake256(64, key.public), bytes((0, len(context))), context, message)
    stream = _shake256(64, key.secret, bytes(32), mu)
    attempts = ([_mask(stream, count + n) for n in SIDE] for count in range(0, 1 << 16, len(SIDE)))
    signatures = (_attempt(key, mu, mask, in_range=in_range) for mask in attempts)
    return next(signature for signature in signatures if signature is not None)


def _attempt(key: MLDSA44Key, mu: bytes, mask: list[Polynomial], *, in_range: bool) -> bytes | None:
    """One turn of algorithm 7's loop; None where it is rejected."""
    masked = [_ntt(each) for each in mask]
    w = [_inverse(_dot(row, masked)) for row in key.matrix]
    challenge = _shake256(32, mu, *(_packed([_high(value) for value in each], 6) for each in w))
    c = _ntt(_ball(challenge))
    z = [_add(y, _inverse(_times(c, s))) for y, s in zip(mask, key.s1, strict=True)]
    rest = [_subtract(each, _inverse(_times(c, s))) for each, s in zip(w, key.s2, strict=True)]
    moved = [_inverse(_times(c, t)) for t in key.t0]
    if (_norm(z) < GAMMA1 - BETA) is not in_range or _norm(z) >= GAMMA1:
        return None
    if max(abs(_low(value)) for each in rest for value in each) >= GAMMA2 - BETA or _norm(moved) >= GAMMA2:
        return None
    hints = [
        [at for at in range(256) if _high(one[at]) != _high((one[at] + two[at]) % Q)]
        for one, two in zip(rest, moved, strict=True)
    ]
    if sum(map(len, hints)) > MAX_HINTS:
        return None
    response = b"".join(_packed([GAMMA1 - _centred(value, Q) for value in each], 18) for each in z)
    return challenge + response + _packed_hints(hints)


def _packed_hints(hints: Sequence[Sequence[int]]) -> bytes:
    """Algorithm 20."""
    places = bytes(at for row in hints for at in row)
    ends = bytes(sum(map(len, hints[: row + 1])) for row in SIDE)
    return places.ljust(MAX_HINTS, b"\0") + ends


# -- sampling (section 7.3) ------------------------------------------------------------------------------------


def _uniform(seed: bytes) -> Polynomial:
    """Algorithm 30."""
    data = hashlib.shake_128(seed).digest(1344)
    numbers = (int.from_bytes(data[at : at + 3], "little") & 0x7FFFFF for at in range(0, len(data), 3))
    return _first(256, (number for number in numbers if number < Q))


def _bounded(seed: bytes) -> Polynomial:
    """Algorithm 31, for eta = 2."""
    halves = (half for byte in _shake256(512, seed) for half in (byte & 15, byte >> 4))
    return _first(256, ((2 - half % 5) % Q for half in halves if half < 15))


def _first(count: int, values: Iterator[int]) -> Polynomial:
    found = [value for value, _ in zip(values, range(count), strict=False)]
    assert len(found) == count
    return found


def _mask(seed: bytes, number: int) -> Polynomial:
    """One polynomial of algorithm 34."""
    bits = int.from_bytes(_shake256(576, seed, number.to_bytes(2, "little")), "little")
    return [(GAMMA1 - (bits >> 18 * at & 0x3FFFF)) % Q for at in range(256)]


def _ball(seed: bytes) -> Polynomial:
    """Algorithm 29."""
    data = iter(_shake256(1024, seed))
    signs = int.from_bytes(bytes(next(data) for _ in range(8)), "little")
    c = [0] * 256
    for at in range(256 - WEIGHT, 256):
        place = next(byte for byte in data if byte <= at)
        c[at] = c[place]
        c[place] = Q - 1 if signs & 1 else 1
        signs >>= 1
    return c


# -- numbers and polynomials (sections 7.1, 7.4 to 7.6) --------------------------------------------------------


def _packed(numbers: Iterable[int], width: int) -> bytes:
    """Algorithm 16."""
    bits = sum(number << width * at for at, number in enumerate(numbers))
    return bits.to_bytes(32 * width, "little")


def _centred(value: int, modulus: int) -> int:
    """``value`` mod+- ``modulus`` (section 2.3)."""
    rest = value % modulus
    return rest - modulus if rest > modulus // 2 else rest


def _low(value: int) -> int:
    """LowBits (algorithms 36 and 38)."""
    rest = _centred(value, 2 * GAMMA2)
    return rest - 1 if value - rest == Q - 1 else rest


def _high(value: int) -> int:
    """HighBits (algorithms 36 and 37)."""
    rest = _centred(value, 2 * GAMMA2)
    return 0 if value - rest == Q - 1 else (value - rest) // (2 * GAMMA2)


def _norm(vector: list[Polynomial]) -> int:
    return max(abs(_centred(value, Q)) for each in vector for value in each)


def _add(one: Polynomial, other: Polynomial) -> Polynomial:
    return [(a + b) % Q for a, b in zip(one, other, strict=True)]


def _subtract(one: Polynomial, other: Polynomial) -> Polynomial:
    return [(a - b) % Q for a, b in zip(one, other, strict=True)]


def _times(one: Polynomial, other: Polynomial) -> Polynomial:
    return [a * b % Q for a, b in zip(one, other, strict=True)]


def _dot(row: list[Polynomial], column: list[Polynomial]) -> Polynomial:
    products = [_times(one, other) for one, other in zip(row, column, strict=True)]
    return [sum(each) % Q for each in zip(*products, strict=True)]


def _ntt(polynomial: Polynomial) -> Polynomial:
    """Algorithm 41."""
    w, zetas = list(polynomial), iter(_ZETAS[1:])
    for length in (128, 64, 32, 16, 8, 4, 2, 1):
        for start in range(0, 256, 2 * length):
            zeta = next(zetas)
            for at in range(start, start + length):
                turned = zeta * w[at + length] % Q
                w[at], w[at + length] = w[at] + turned, w[at] - turned
    return [value % Q for value in w]


def _inverse(transform: Polynomial) -> Polynomial:
    """Algorithm 42."""
    w, zetas = list(transform), iter(_ZETAS[:0:-1])
    for length in (1, 2, 4, 8, 16, 32, 64, 128):
        for start in range(0, 256, 2 * length):
            zeta = next(zetas)
            for at in range(start, start + length):
                low, high = w[at], w[at + length]
                w[at], w[at + length] = low + high, zeta * (high - low) % Q
    return [value * 8347681 % Q for value in w]
