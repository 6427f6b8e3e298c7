// Polynomials of ML-DSA-44 (FIPS 204): 256 coefficients modulo 8,380,417, packed, sampled and transformed.
//
// A coefficient has 23 bits, so a product of two is exact in a number's 53; no trick of reduction is needed.

import { shake128, shake256 } from "./shake.mjs";

/** Coefficients of a polynomial. */
export const DEGREE = 256;
/** The modulus q (section 4, table 1). */
export const Q = 8380417;
/** A 512th root of unity modulo q (section 4, table 1). */
const ZETA = 1753;
/** 256 ** -1 modulo q (algorithm 42). */
const INVERSE_OF_DEGREE = 8347681;
const ZETAS = powersOfZeta();

/** The number below q that is `value` modulo q. */
export function modulo(value) {
  const rest = value % Q;
  return rest < 0 ? rest + Q : rest;
}

/** 256 numbers of `width` bits, the low bit first (section 7.1, algorithm 18). */
export function unpack(bytes, width) {
  const numbers = new Int32Array(DEGREE);
  let held = 0;
  let bits = 0;
  let count = 0;
  for (const byte of bytes) {
    held |= byte << bits;
    for (bits += 8; bits >= width; bits -= width) {
      numbers[count] = held & ((1 << width) - 1);
      count += 1;
      held >>>= width;
    }
  }
  return numbers;
}

/** 256 numbers of 6 bits as 192 bytes (algorithm 16). */
export function packSixBits(numbers) {
  const bytes = new Uint8Array((DEGREE * 6) / 8);
  for (let at = 0, from = 0; at < bytes.length; at += 3, from += 4) {
    const [one, two, three, four] = numbers.subarray(from, from + 4);
    bytes[at] = one | (two << 6);
    bytes[at + 1] = (two >> 2) | (three << 4);
    bytes[at + 2] = (three >> 4) | (four << 2);
  }
  return bytes;
}

/** The transform of a polynomial (section 7.5, algorithm 41). */
export function transformed(polynomial) {
  const values = polynomial.map(modulo);
  let next = 1;
  for (let length = DEGREE / 2; length >= 1; length /= 2) {
    for (let start = 0; start < DEGREE; start += 2 * length) {
      const zeta = ZETAS[next];
      next += 1;
      for (let at = start; at < start + length; at += 1) {
        const turned = (zeta * values[at + length]) % Q;
        values[at + length] = modulo(values[at] - turned);
        values[at] = modulo(values[at] + turned);
      }
    }
  }
  return values;
}

/** The polynomial of a transform (algorithm 42). */
export function untransformed(transform) {
  const values = transform.slice();
  let next = DEGREE - 1;
  for (let length = 1; length < DEGREE; length *= 2) {
    for (let start = 0; start < DEGREE; start += 2 * length) {
      const zeta = Q - ZETAS[next];
      next -= 1;
      for (let at = start; at < start + length; at += 1) {
        const [low, high] = [values[at], values[at + length]];
        values[at] = modulo(low + high);
        values[at + length] = (zeta * modulo(low - high)) % Q;
      }
    }
  }
  return values.map((value) => (INVERSE_OF_DEGREE * value) % Q);
}

/** `sum` and the product of two transforms (section 7.6, algorithms 44 and 45), in place. */
export function addProduct(sum, one, other) {
  for (let at = 0; at < DEGREE; at += 1) sum[at] = (sum[at] + one[at] * other[at]) % Q;
}

/** A uniform transform: 3 bytes of SHAKE128 for each coefficient, those from q on thrown away (algorithms 14, 30). */
export function uniformTransform(seed) {
  const values = new Int32Array(DEGREE);
  const stream = shake128(seed);
  for (let count = 0; count < DEGREE; ) {
    const bytes = stream.read(168); // a block: 56 times 3 bytes
    for (let at = 0; at < bytes.length && count < DEGREE; at += 3) {
      const value = bytes[at] | (bytes[at + 1] << 8) | ((bytes[at + 2] & 0x7f) << 16);
      if (value < Q) {
        values[count] = value;
        count += 1;
      }
    }
  }
  return values;
}

/** The challenge: `weight` coefficients are 1 or -1, where and which SHAKE256 over `seed` says (algorithm 29). */
export function ballSample(seed, weight) {
  const values = new Int32Array(DEGREE);
  const stream = shake256(seed);
  const signs = stream.read(8);
  for (let at = DEGREE - weight, sign = 0; at < DEGREE; at += 1, sign += 1) {
    let [place] = stream.read(1);
    while (place > at) [place] = stream.read(1);
    values[at] = values[place];
    values[place] = (signs[sign >> 3] >> (sign & 7)) & 1 ? -1 : 1;
  }
  return values;
}

/** zeta ** BitRev8(n) modulo q, for n below 256 (section 7.5, appendix B). */
function powersOfZeta() {
  const powers = new Int32Array(DEGREE);
  for (let exponent = 0, power = 1; exponent < DEGREE; exponent += 1) {
    powers[reversed(exponent)] = power;
    power = (power * ZETA) % Q;
  }
  return powers;
}

/** A byte with its bits in the other order (algorithm 43). */
function reversed(byte) {
  let found = 0;
  for (let bit = 0; bit < 8; bit += 1) found |= ((byte >> bit) & 1) << (7 - bit);
  return found;
}
