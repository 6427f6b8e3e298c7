// Signatures over files of profiles, as they lie among a bundle's policies: DSSE envelopes by a plain key. What was
// signed through sigstore is recognised and not verified here.

import { holdsECDSA, holdsEd25519, sha256Name } from "./cryptography.mjs";
import { SEQUENCE, childrenOf, readSingle, unsigned } from "./der.mjs";
import { concat, fromBase64, fromBase64url, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { canonical, isObject, parseStrict } from "./strict_json.mjs";

const INTEGER = 0x02;
const LARGEST = 256 << 10;
const LARGEST_STATEMENT = 96 << 10;
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const SHA384 = { pattern: "sha384:[0-9a-f]{96}" };
const STATEMENT = {
  object: {
    _type: { const: "https://in-toto.io/Statement/v1" },
    subject: {
      array: { object: { name: { const: "profiles" }, digest: { object: { sha256: { pattern: "[0-9a-f]{64}" } } } } },
      least: 1,
      most: 1,
    },
    predicateType: { const: "tag:affiant.dev,2026:policy-signature/1" },
    predicate: {
      object: {
        semantics: { pattern: "affiant\\.policy/[1-9][0-9]{0,3}" },
        digest: SHA384,
        floor: { nullable: SHA384 },
        profiles: { array: SHA384, least: 1, most: 1024 },
      },
    },
  },
};
// RFC 8410, section 4; RFC 5480, section 2: what stands before the key in a SubjectPublicKeyInfo.
const PREFIXES = {
  "P-256": "3059301306072a8648ce3d020106082a8648ce3d03010703420004",
  "P-384": "3076301006072a8648ce3d020106052b8104002203620004",
  Ed25519: "302a300506032b6570032100",
};
const COORDINATES = { "P-256": 32, "P-384": 48 };

/** The envelope in `raw`, with what it claims; null: something else. */
export function readEnvelope(raw) {
  try {
    const document = raw.length <= LARGEST ? parseStrict(raw, { limit: LARGEST }) : null;
    if (!isObject(document) || Object.keys(document).sort().join() !== "payload,payloadType,signatures") return null;
    if (document.payloadType !== PAYLOAD_TYPE || !Array.isArray(document.signatures)) return null;
    if (document.signatures.length !== 1) return null;
    const { sig, keyid = "", ...more } = isObject(document.signatures[0]) ? document.signatures[0] : {};
    if (Object.keys(more).length > 0 || typeof keyid !== "string") return null;
    const statement = bytesOf(document.payload, LARGEST_STATEMENT);
    const signature = bytesOf(sig, 160);
    const claimed = statement === null || signature === null ? null : readStatement(statement);
    return claimed === null ? null : { statement, signature, keyid, claimed };
  } catch (error) {
    if (error instanceof Refusal) return null;
    throw error;
  }
}

/** Whether `raw` calls itself a sigstore bundle over a file of profiles: approvals by identities are bundles too. */
export function isSigstoreBundle(raw) {
  try {
    const document = raw.length <= LARGEST ? parseStrict(raw, { limit: LARGEST }) : null;
    if (!isObject(document) || !String(document.mediaType).startsWith("application/vnd.dev.sigstore.bundle")) return false;
    const statement = bytesOf(document.dsseEnvelope?.payload, LARGEST_STATEMENT);
    const said = statement === null ? null : parseStrict(statement, { limit: LARGEST_STATEMENT });
    return isObject(said) && said.predicateType === STATEMENT.object.predicateType.const;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

/** Whether the key of `jwk`, which is one, signed the envelope. */
export async function isSignedBy(envelope, jwk) {
  const { statement, signature, keyid } = envelope;
  const coordinates = jwk.y === undefined ? [jwk.x] : [jwk.x, jwk.y];
  const key = concat(...coordinates.map((text) => fromBase64url(text)));
  if (keyid !== "" && keyid !== (await sha256Name(concat(ofHex(PREFIXES[jwk.crv]), key)))) return false;
  const message = concat(utf8(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${statement.length} `), statement);
  if (jwk.crv === "Ed25519") return holdsEd25519(key, message, signature);
  const raw = rawSignature(signature, COORDINATES[jwk.crv]);
  return raw !== null && holdsECDSA(jwk.crv, key, message, raw);
}

function readStatement(bytes) {
  const said = parseStrict(bytes, { limit: LARGEST_STATEMENT });
  checkShape(STATEMENT, said, "statement");
  const { digest, floor, profiles, semantics } = said.predicate;
  if (profiles.some((each, index) => index > 0 && profiles[index - 1] >= each)) return null;
  canonical(said);
  return { source: `sha256:${said.subject[0].digest.sha256}`, digest, floor, profiles, semantics };
}

/** 64 or 96 bytes r || s of a DER Ecdsa-Sig-Value; null: it is none. */
function rawSignature(der, size) {
  try {
    const parts = childrenOf(readSingle(der, SEQUENCE));
    if (parts.length !== 2 || parts.some(({ tag }) => tag !== INTEGER)) return null;
    const numbers = parts.map(({ content }) => unsigned(content).toString(16).padStart(2 * size, "0"));
    return numbers.some((hex) => hex.length !== 2 * size) ? null : ofHex(numbers.join(""));
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function bytesOf(text, most) {
  const bytes = typeof text === "string" && text.length <= 4 * Math.ceil(most / 3) ? fromBase64(text) : null;
  return bytes !== null && bytes.length > 0 && bytes.length <= most + 2 ? bytes : null;
}

function ofHex(text) {
  return Uint8Array.from(text.match(/../g), (pair) => Number.parseInt(pair, 16));
}
