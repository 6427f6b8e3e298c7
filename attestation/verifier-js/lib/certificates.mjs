// X.509 certificates of Intel's attestation PKI: read strictly, judged by role (Intel SGX PCK Certificate and CRL Profile
// Specification; RFC 5280). Version 3, ecdsa-with-SHA256, P-256 by named curve. Names are compared as raw DER.

import { holdsP256, importP256, isPoint } from "./cryptography.mjs";
import { childrenOf, readSingle, SEQUENCE, unsigned } from "./der.mjs";
import { fromBase64, sameBytes, toHex } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_CHAIN_BYTES = 16 * 1024;
const MAX_CERTIFICATES = 3;
const VERSION_3 = "a003020102";
const ECDSA_WITH_SHA256 = "300a06082a8648ce3d040302";
const P256_SPKI_PREFIX = "3059301306072a8648ce3d020106082a8648ce3d030107034200" + "04";
const COMMON_NAME = "0603550403";
const BASIC_CONSTRAINTS = "0603551d13";
const KEY_USAGE = "0603551d0f";
const TEXT_TAGS = [0x0c, 0x13];
const TRUE = "0101ff";
const BLOCK = /[ \t\r\n]*-----BEGIN CERTIFICATE-----[ \t]*\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE-----/y;
const TAIL = /^[ \t\r\n]*\0*$/;

/** The certificates of a PEM text, one to three, in its order; nothing but white space around, NUL at the end. */
export function parseChain(pem) {
  if (pem.length > MAX_CHAIN_BYTES) throw malformed("certificate chain too large");
  const text = String.fromCharCode(...pem);
  const bodies = [];
  let end = 0;
  BLOCK.lastIndex = 0;
  for (let found = BLOCK.exec(text); found !== null; found = BLOCK.exec(text)) {
    end = BLOCK.lastIndex;
    bodies.push(found[1].replace(/[\r\n]/g, ""));
    if (bodies.length > MAX_CERTIFICATES) throw malformed("chain of too many certificates");
  }
  if (bodies.length === 0 || !TAIL.test(text.slice(end))) throw malformed("not a PEM chain of certificates alone");
  return bodies.map((body) => {
    const der = fromBase64(body);
    if (der === null) throw malformed("PEM block is not base64");
    return parseCertificate(der);
  });
}

/** The certificate in `der`; nothing about it is verified. */
export function parseCertificate(der) {
  try {
    return read(der);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw malformed("not a certificate of Intel's profile");
  }
}

/** Whether `issuer`'s name and key made this certificate. */
export async function isIssuedBy(certificate, issuer) {
  if (!sameBytes(certificate.issuer, issuer.subject)) return false;
  return holdsP256(await importP256(issuer.point), certificate.tbs, certificate.signature);
}

/** Whether it may sign certificates and lists. */
export function isAuthority({ isCa, usage }) {
  return isCa && usage.includes("keyCertSign") && usage.includes("cRLSign");
}

/** Whether it may sign data, and neither certificates nor lists. */
export function isEndEntity({ isCa, usage }) {
  return !isCa && usage.includes("digitalSignature") && !usage.includes("keyCertSign") && !usage.includes("cRLSign");
}

function read(der) {
  const [tbs, algorithm, signature] = exactly(childrenOf(readSingle(der, SEQUENCE)), 3);
  const [version, serial, inner, issuer, validity, subject, spki, ...rest] = childrenOf(tbs.content);
  if (toHex(version.encoded) !== VERSION_3) throw malformed("certificate is not of version 3");
  if (toHex(algorithm.encoded) !== ECDSA_WITH_SHA256 || toHex(inner.encoded) !== ECDSA_WITH_SHA256) {
    throw malformed("signature algorithm is not ecdsa-with-SHA256");
  }
  const number = unsigned(serial.tag === 0x02 ? serial.content : new Uint8Array(0));
  if (number === 0n || number >= 1n << 160n) throw malformed("serial number is not positive, or too long");
  if (signature.tag !== 0x03 || signature.content[0] !== 0) throw malformed("signature has unused bits");
  const [notBefore, notAfter] = exactly(childrenOf(validity.content), 2).map(instantOf);
  return {
    tbs: tbs.encoded,
    signature: rawSignature(signature.content.subarray(1)),
    issuer: issuer.encoded,
    subject: subject.encoded,
    commonName: commonName(subject),
    spki: spki.encoded,
    point: pointOf(spki.encoded),
    notBefore,
    notAfter,
    ...constraintsOf(rest),
  };
}

/** The 64 bytes r || s of a DER Ecdsa-Sig-Value. */
function rawSignature(der) {
  const raw = new Uint8Array(64);
  exactly(childrenOf(readSingle(der, SEQUENCE)), 2).forEach((element, index) => {
    if (element.tag !== 0x02) throw malformed("not a signature");
    const hex = unsigned(element.content).toString(16).padStart(64, "0");
    if (hex.length !== 64) throw malformed("not a signature");
    for (let byte = 0; byte < 32; byte += 1) raw[32 * index + byte] = parseInt(hex.slice(2 * byte, 2 * byte + 2), 16);
  });
  return raw;
}

function pointOf(spki) {
  const prefix = P256_SPKI_PREFIX.length / 2;
  const point = spki.slice(prefix);
  if (toHex(spki.subarray(0, prefix)) !== P256_SPKI_PREFIX || point.length !== 64 || !isPoint(point)) {
    throw malformed("key is not an uncompressed P-256 key");
  }
  return point;
}

/** The one common name of a name. */
function commonName(name) {
  const values = childrenOf(name.content)
    .flatMap((set) => childrenOf(set.content))
    .map((attribute) => childrenOf(attribute.content))
    .filter(([type]) => toHex(type.encoded) === COMMON_NAME);
  if (values.length !== 1 || values[0].length !== 2 || !TEXT_TAGS.includes(values[0][1].tag)) {
    throw malformed("subject does not have exactly one common name");
  }
  return String.fromCharCode(...values[0][1].content);
}

/** Basic constraints and key usage; any other critical extension is unknown, and one that stands twice is refused. */
function constraintsOf(rest) {
  const found = { isCa: false, usage: [] };
  const extensions = rest.find((element) => element.tag === 0xa3);
  const seen = new Set();
  for (const extension of extensions ? childrenOf(readSingle(extensions.content, SEQUENCE)) : []) {
    const [type, ...more] = childrenOf(extension.content);
    const id = toHex(type.encoded);
    const critical = more.length === 2 && toHex(more[0].encoded) === TRUE;
    if (seen.has(id) || more.length < 1 || (more.length === 2 && !critical) || more.length > 2) {
      throw malformed("an extension that stands twice, or of another form");
    }
    seen.add(id);
    const value = readSingle(more.at(-1).encoded, 0x04);
    if (id === BASIC_CONSTRAINTS) found.isCa = toHex(childrenOf(readSingle(value, SEQUENCE))[0]?.encoded ?? []) === TRUE;
    else if (id === KEY_USAGE) found.usage = usageOf(readSingle(value, 0x03));
    else if (critical) throw malformed("unknown critical extension");
  }
  return found;
}

/** RFC 5280, section 4.2.1.3: bits from the most significant, after the number of unused ones. */
function usageOf([, bits = 0]) {
  return [[0x80, "digitalSignature"], [0x04, "keyCertSign"], [0x02, "cRLSign"]]
    .filter(([mask]) => (bits & mask) !== 0)
    .map(([, name]) => name);
}

/** Seconds since 1970 of a UTCTime (1950 to 2049) or GeneralizedTime. */
function instantOf({ tag, content }) {
  const text = String.fromCharCode(...content);
  const form = { 0x17: /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/, 0x18: /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z$/ }[tag];
  const [, year, ...parts] = form?.exec(text) ?? [];
  const whole = year?.length === 2 ? `${year < "50" ? "20" : "19"}${year}` : year;
  const seconds = Date.parse(`${whole}-${parts[0]}-${parts[1]}T${parts.slice(2).join(":")}Z`) / 1000;
  if (Number.isNaN(seconds)) throw malformed("a validity of another form");
  return seconds;
}

function exactly(elements, count) {
  if (elements.length !== count) throw malformed("another number of elements");
  return elements;
}

function malformed(message) {
  return new Refusal("cert.malformed", message);
}
