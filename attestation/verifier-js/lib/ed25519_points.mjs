// Which 32 bytes no Ed25519 key of anybody has (RFC 8032, section 5.1): the eight points of small order, under which anybody
// can sign; and second spellings of a point.

const PRIME = 2n ** 255n - 19n;
const OF_ORDER_8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
const SMALL = [0n, 1n, PRIME - 1n, OF_ORDER_8, PRIME - OF_ORDER_8];

/** Whether these 32 bytes (`y`, little-endian, and the sign of `x` as the highest bit) are such a key. */
export function isNobodysKey(bytes) {
  const digits = [...bytes].reverse().map((byte) => byte.toString(16).padStart(2, "0"));
  const y = BigInt(`0x${digits.join("")}`) & (2n ** 255n - 1n);
  return y >= PRIME || SMALL.includes(y);
}
