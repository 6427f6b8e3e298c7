// One whose signatures over profiles count: a plain key, or an identity under a sigstore trusted root.

import { isP384, pointOfJwk } from "./cryptography.mjs";
import { isNobodysKey } from "./ed25519_points.mjs";
import { fromBase64url, fromUtf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { canonical, isObject } from "./strict_json.mjs";

const NAME = /^[!-~](?:[ -~]{0,1022}[!-~])?$/;
const TRUSTED_ROOT = "application/vnd.dev.sigstore.trustedroot";

/** Whether `value` is one: `{key: JWK}`, or `{trusted_root, identity, issuer}`. */
export function isSigner(value) {
  if (!isObject(value)) return false;
  const names = Object.keys(value).sort().join();
  if (names === "key") return isObject(value.key) && isKey(value.key);
  if (names !== "identity,issuer,trusted_root") return false;
  const { identity, issuer, trusted_root: root } = value;
  const named = isObject(root) && typeof root.mediaType === "string" && root.mediaType.startsWith(TRUSTED_ROOT);
  return named && [identity, issuer].every((text) => typeof text === "string" && NAME.test(text));
}

/** Whether no signer stands twice among `values`: whoever is revoked in one entry must not count by another. */
export function areOnce(values) {
  return new Set(values.map((value) => fromUtf8(canonical(value)))).size === values.length;
}

/** Whether a JWK with exactly the members of its kind is a public key: P-256, P-384 or Ed25519. */
function isKey(jwk) {
  try {
    if (jwk.kty === "OKP") {
      const members = Object.keys(jwk).sort().join();
      return members === "crv,kty,x" && jwk.crv === "Ed25519" && !isNobodysKey(fromBase64url(jwk.x, { size: 32 }));
    }
    return jwk.crv === "P-384" ? isP384(jwk) : pointOfJwk(jwk) !== null;
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}
