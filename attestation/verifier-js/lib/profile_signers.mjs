// Whose signatures over profiles a gateway's configuration demands: plain keys, and identities under a trusted root.
// Read in one form; what they sign is not verified here.

import { isP384, pointOfJwk } from "./cryptography.mjs";
import { fromBase64url, fromUtf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { canonical, isObject } from "./strict_json.mjs";
import { parseInstant } from "./trust_file.mjs";

const PERIOD = ["from", "until", "revoked_at"];
const NAME = /^[!-~](?:[ -~]{0,1022}[!-~])?$/;
const TRUSTED_ROOT = "application/vnd.dev.sigstore.trustedroot";

/** Refuses (`fmt.profile`) unless `items` is a list of 1 to 16 signers, each once, each with its time. */
export function demandSigners(items, where) {
  const refusal = new Refusal("fmt.profile", "not a list of profile signers", { where });
  if (!Array.isArray(items) || items.length < 1 || items.length > 16) throw refusal;
  for (const item of items) {
    if (!isObject(item) || !("value" in item) || !isPeriod(item) || !isSigner(item.value)) throw refusal;
  }
  const texts = items.map((item) => fromUtf8(canonical(item)));
  if (new Set(texts).size !== texts.length) throw refusal;
}

function isPeriod({ value, ...period }) {
  return Object.entries(period).every(([name, text]) => PERIOD.includes(name) && isInstant(text));
}

function isInstant(text) {
  try {
    return typeof text === "string" && Number.isSafeInteger(parseInstant(text));
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}

function isSigner(value) {
  if (!isObject(value)) return false;
  const names = Object.keys(value).sort().join();
  if (names === "key") return isObject(value.key) && isKey(value.key);
  if (names !== "identity,issuer,trusted_root") return false;
  const { identity, issuer, trusted_root: root } = value;
  const named = isObject(root) && typeof root.mediaType === "string" && root.mediaType.startsWith(TRUSTED_ROOT);
  return named && [identity, issuer].every((text) => typeof text === "string" && NAME.test(text));
}

/** Whether a JWK with exactly the members of its kind is a public key: P-256, P-384 or Ed25519. */
function isKey(jwk) {
  try {
    if (jwk.kty === "OKP") {
      const members = Object.keys(jwk).sort().join();
      return members === "crv,kty,x" && jwk.crv === "Ed25519" && fromBase64url(jwk.x, { size: 32 }) !== null;
    }
    return jwk.crv === "P-384" ? isP384(jwk) : pointOfJwk(jwk) !== null;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}
