"""The eight points of small order of Curve25519 in Edwards form, computed (RFC 8032, section 5.1), not copied."""

from __future__ import annotations

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME
ROOT_OF_MINUS_ONE = pow(2, (PRIME - 1) // 4, PRIME)

Point = tuple[int, int]
NEUTRAL: Point = (0, 1)


def added(one: Point, other: Point) -> Point:
    (x1, y1), (x2, y2) = one, other
    k = D * x1 * x2 * y1 * y2 % PRIME
    x = (x1 * y2 + x2 * y1) * pow(1 + k, -1, PRIME)
    y = (y1 * y2 + x1 * x2) * pow(1 - k, -1, PRIME)
    return x % PRIME, y % PRIME


def times(number: int, point: Point) -> Point:
    found = NEUTRAL
    for bit in f"{number:b}":
        found = added(found, found)
        if bit == "1":
            found = added(found, point)
    return found


def point_with(y: int) -> Point | None:
    """The point with this y and an even x, if there is one."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    for root in (x, x * ROOT_OF_MINUS_ONE % PRIME):
        if root * root % PRIME == square:
            return (root if root % 2 == 0 else PRIME - root), y
    return None


def encoded(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def small_order_points() -> list[bytes]:
    """All eight, each in its one encoding."""
    for y in range(2, 100):
        point = point_with(y)
        if point is None:
            continue
        generator = times(ORDER, point)
        if times(4, generator) != NEUTRAL:
            return [encoded(times(number, generator)) for number in range(8)]
    raise AssertionError("one of these points has a component of order eight")


SMALL_ORDER = small_order_points()
