// The only things that are asked of the platform: SHA-2, ECDSA on P-256 and P-384, Ed25519. WebCrypto, so that Node and a
// browser run the same lines. WebCrypto accepts a high `s` and any curve point order; those are refused here.

import { fromBase64url, toBase64url, toHex } from "./encoding.mjs";
import { NotMade, Refusal } from "./refusals.mjs";

const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n; // SEC 2, section 2.4.2
const PRIME = 0xffffffff00000001000000000000000000000000ffffffffffffffffffffffffn;
const CURVE_B = 0x5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604bn;

const PRIME_384 = 2n ** 384n - 2n ** 128n - 2n ** 96n + 2n ** 32n - 1n;
const CURVE_B_384 =
  0xb3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aefn;

/** SHA-256: 32 bytes. */
export const sha256 = (bytes) => digest("SHA-256", bytes);
/** SHA-384: 48 bytes. */
export const sha384 = (bytes) => digest("SHA-384", bytes);
/** SHA-512: 64 bytes. */
export const sha512 = (bytes) => digest("SHA-512", bytes);

/** `sha256:` and 64 digits: what a person compares with `sha256sum`. */
export async function sha256Name(bytes) {
  return `sha256:${toHex(await sha256(bytes))}`;
}

/** SHA-256 as 43 characters: the form of every internal link. */
export async function link(bytes) {
  return toBase64url(await sha256(bytes));
}

/** Whether the 64 bytes x || y are a point of P-256 (SEC 1, section 3.2.2.1; the cofactor is 1). */
export function isPoint(bytes) {
  const x = number(bytes.subarray(0, 32));
  const y = number(bytes.subarray(32));
  return x < PRIME && y < PRIME && (y * y - (x * x * x - 3n * x + CURVE_B)) % PRIME === 0n;
}

/** A P-256 public key of 64 bytes x || y, which must be a point. */
export function importP256(point) {
  const raw = new Uint8Array(65);
  raw[0] = 4;
  raw.set(point, 1);
  return subtle().importKey("raw", raw, { name: "ECDSA", namedCurve: "P-256" }, false, ["verify"]);
}

/** Whether `signature`, 64 bytes r || s with r and s in 1..n-1, holds over `message`. A high s is valid here. */
export async function holdsP256(key, message, signature) {
  const [r, s] = [number(signature.subarray(0, 32)), number(signature.subarray(32))];
  if (signature.length !== 64 || r === 0n || r >= ORDER || s === 0n || s >= ORDER) return false;
  return subtle().verify({ name: "ECDSA", hash: "SHA-256" }, key, signature, message);
}

/** The same for a key of 64 or 96 bytes x || y on P-256 or P-384, which hash with SHA-256 and SHA-384. */
export async function holdsECDSA(curve, key, message, signature) {
  if (curve === "P-256") return holdsP256(await importP256(key), message, signature);
  const raw = new Uint8Array(97);
  raw[0] = 4;
  raw.set(key, 1);
  const imported = await subtle().importKey("raw", raw, { name: "ECDSA", namedCurve: "P-384" }, false, ["verify"]);
  return subtle().verify({ name: "ECDSA", hash: "SHA-384" }, imported, signature, message);
}

/** Refuses unless `signature`, 64 bytes r || s with low s, holds over `message` (RFC 7518, section 3.4). */
export async function verifyES256(key, message, signature) {
  if (signature.length !== 64) throw invalid("not an ES256 signature of 64 bytes");
  if (number(signature.subarray(32)) > ORDER / 2n) throw invalid("s is in the upper half");
  if (!(await holdsP256(key, message, signature))) {
    throw invalid("the signature does not hold under this key");
  }
}

/** Whether the 64 bytes of `signature` are that of the 32-byte Ed25519 key (RFC 8032) over `message`. */
export async function holdsEd25519(publicKey, message, signature) {
  if (signature.length !== 64) return false;
  let key;
  try {
    key = await subtle().importKey("raw", publicKey, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error.name === "NotSupportedError") throw new NotMade("Ed25519 is unknown to this browser or Node");
    return false;
  }
  return subtle().verify({ name: "Ed25519" }, key, signature, message);
}

/** The name of a P-256 key: RFC 7638 thumbprint over its x and y, 43 characters. */
export function thumbprint(x, y) {
  return link(new TextEncoder().encode(`{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`));
}

/** The 64 bytes x || y of a public JWK with exactly crv, kty, x and y; null: another form, or no point. */
export function pointOfJwk(jwk) {
  const members = Object.keys(jwk).sort().join();
  if (members !== "crv,kty,x,y" || jwk.crv !== "P-256" || jwk.kty !== "EC") return null;
  if (typeof jwk.x !== "string" || typeof jwk.y !== "string") return null;
  const point = new Uint8Array(64);
  point.set(fromBase64url(jwk.x, { size: 32 }));
  point.set(fromBase64url(jwk.y, { size: 32 }), 32);
  return isPoint(point) ? point : null;
}

/** Whether a JWK with exactly crv, kty, x and y is a point of P-384. */
export function isP384(jwk) {
  const members = Object.keys(jwk).sort().join();
  if (members !== "crv,kty,x,y" || jwk.crv !== "P-384" || jwk.kty !== "EC") return false;
  const [x, y] = [jwk.x, jwk.y].map((text) => number(fromBase64url(text, { size: 48 })));
  return x < PRIME_384 && y < PRIME_384 && (y * y - (x * x * x - 3n * x + CURVE_B_384)) % PRIME_384 === 0n;
}

/** A public JWK as `{kid, verifier}`; null: another form, or no point. */
export async function keyOfJwk(jwk) {
  const point = pointOfJwk(jwk);
  return point === null ? null : { kid: await thumbprint(jwk.x, jwk.y), verifier: await importP256(point) };
}

async function digest(algorithm, bytes) {
  return new Uint8Array(await subtle().digest(algorithm, bytes));
}

function subtle() {
  const found = globalThis.crypto?.subtle;
  if (found === undefined) throw new NotMade("this browser gives this page no cryptography");
  return found;
}

function number(bytes) {
  return BigInt(`0x${toHex(bytes)}`);
}

function invalid(message) {
  return new Refusal("sig.invalid", message);
}
