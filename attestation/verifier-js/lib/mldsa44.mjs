// ML-DSA-44 (FIPS 204): whether a signature holds. Everything here is public, so nothing needs to take constant time.
//
// A signature has one spelling: hints in ascending order, what is left of their room zero, sizes exact.

import { concat, sameBytes } from "./encoding.mjs";
import {
  DEGREE,
  Q,
  addProduct,
  ballSample,
  packSixBits,
  transformed,
  uniformTransform,
  unpack,
  untransformed,
} from "./mldsa44_ring.mjs";
import { shake256 } from "./shake.mjs";

// Section 4, tables 1 and 2.
const PUBLIC_KEY_BYTES = 1312;
const SIGNATURE_BYTES = 2420;
/** Rows k and columns l of the matrix: four of each. */
const SIDE = [0, 1, 2, 3];
/** Dropped bits of t (d), and the width of those that a public key has. */
const DROPPED_BITS = 13;
const KEPT_BITS = 10;
/** Coefficients of the challenge that are not zero (tau). */
const CHALLENGE_WEIGHT = 39;
/** lambda / 4: of the challenge's hash. */
const CHALLENGE_BYTES = 32;
/** gamma_1, and the width of a coefficient of z. */
const MASK_RANGE = 1 << 17;
const MASK_BITS = 18;
/** beta = tau * eta: how far a secret can move a coefficient of z. */
const SECRET_RANGE = 78;
/** gamma_2: low-order parts are of twice this width, high-order parts below 44. */
const ROUNDING_RANGE = (Q - 1) / 88;
const HIGH_PARTS = 44;
/** omega: hints, at most. */
const MAX_HINTS = 80;

const SEED_BYTES = 32;
const KEPT_BYTES = (DEGREE * KEPT_BITS) / 8;
const MASK_BYTES = (DEGREE * MASK_BITS) / 8;
/** Pure signing with an empty context: one byte for the kind, one for the context's length (section 5.3, algorithm 3). */
const PURE_WITHOUT_CONTEXT = new Uint8Array(2);

/** Whether the 2,420 bytes of `signature` are that of the 1,312-byte key over `message`, with an empty context. */
export function holdsMLDSA44(publicKey, message, signature) {
  if (publicKey.length !== PUBLIC_KEY_BYTES || signature.length !== SIGNATURE_BYTES) return false; // section 3.6.2
  const { challenge, response, hints } = decodeSignature(signature);
  if (hints === null || response.some(isOutOfRange)) return false;
  const high = recovered(decodePublicKey(publicKey), challenge, response, hints);
  const key = shake256(publicKey).read(64);
  const represented = shake256(concat(key, PURE_WITHOUT_CONTEXT, message)).read(64);
  return sameBytes(challenge, shake256(concat(represented, ...high.map(packSixBits))).read(CHALLENGE_BYTES));
}

/** `{seed, kept}`: what the matrix is made from, and t without its low bits (section 7.2, algorithm 23). */
function decodePublicKey(bytes) {
  const kept = SIDE.map((row) => unpack(part(bytes, SEED_BYTES, KEPT_BYTES, row), KEPT_BITS));
  return { seed: bytes.subarray(0, SEED_BYTES), kept };
}

/** `{challenge, response, hints}`: the hash c~, the vector z, and where h is 1; null for hints of another spelling. */
function decodeSignature(bytes) {
  const response = SIDE.map((row) =>
    unpack(part(bytes, CHALLENGE_BYTES, MASK_BYTES, row), MASK_BITS).map((value) => MASK_RANGE - value),
  );
  const hints = decodeHints(bytes.subarray(CHALLENGE_BYTES + SIDE.length * MASK_BYTES));
  return { challenge: bytes.subarray(0, CHALLENGE_BYTES), response, hints };
}

/** For each row the places with a hint; null: not the one spelling of any (section 7.1, algorithm 21). */
function decodeHints(bytes) {
  const ends = bytes.subarray(MAX_HINTS);
  const rows = [];
  let begin = 0;
  for (const end of ends) {
    if (end < begin || end > MAX_HINTS) return null;
    const places = bytes.subarray(begin, end);
    if (places.some((place, at) => at > 0 && places[at - 1] >= place)) return null;
    rows.push(places);
    begin = end;
  }
  return bytes.subarray(begin, MAX_HINTS).every((byte) => byte === 0) ? rows : null;
}

/** Whether a coefficient of z is one that no signer may give: ||z|| must be below gamma_1 - beta (algorithm 8, line 13). */
function isOutOfRange(polynomial) {
  return polynomial.some((value) => Math.abs(value) >= MASK_RANGE - SECRET_RANGE);
}

/** The high-order part that the signer committed to: UseHint(h, Az - c * t1 * 2**d) (section 6.3, algorithm 8). */
function recovered({ seed, kept }, challenge, response, hints) {
  const columns = response.map(transformed);
  const negated = transformed(ballSample(challenge, CHALLENGE_WEIGHT).map((value) => -value));
  return SIDE.map((row) => {
    const sum = new Int32Array(DEGREE);
    SIDE.forEach((column) => addProduct(sum, matrixEntry(seed, row, column), columns[column]));
    addProduct(sum, negated, transformed(kept[row].map((value) => value << DROPPED_BITS)));
    return withHints(untransformed(sum), hints[row]);
  });
}

/** One entry of the matrix, as a transform; the column's number stands before the row's (section 7.3, algorithm 32). */
function matrixEntry(seed, row, column) {
  return uniformTransform(concat(seed, new Uint8Array([column, row])));
}

/** High-order parts, moved by one where a hint says so (section 7.4, algorithm 40). */
function withHints(polynomial, places) {
  const moved = polynomial.map((value) => decomposed(value).high);
  for (const place of places) {
    const { high, low } = decomposed(polynomial[place]);
    moved[place] = (high + (low > 0 ? 1 : HIGH_PARTS - 1)) % HIGH_PARTS;
  }
  return moved;
}

/** `value` = high * 2 gamma_2 + low, with low in (-gamma_2, gamma_2]; q - 1 counts as -1 (algorithm 36). */
function decomposed(value) {
  let low = value % (2 * ROUNDING_RANGE);
  if (low > ROUNDING_RANGE) low -= 2 * ROUNDING_RANGE;
  return value - low === Q - 1 ? { high: 0, low: low - 1 } : { high: (value - low) / (2 * ROUNDING_RANGE), low };
}

/** The bytes of one row after `begin`. */
function part(bytes, begin, size, row) {
  return bytes.subarray(begin + size * row, begin + size * (row + 1));
}
