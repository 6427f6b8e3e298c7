// Compact JWS with a byte-fixed header (receipts specification, 4.1): `{"alg":"ES256","kid":"...","typ":"..."}`.
//
// Order of work: size, header bytes, signature, and only then the payload, which must be its own canonical form.

import { verifyES256 } from "./cryptography.mjs";
import { fromBase64url, fromUtf8, isAscii, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { isObject, parseCanonical } from "./strict_json.mjs";

const MAX_PAYLOAD = 16 * 1024;
const MAX_TEXT = Math.floor((4 * (MAX_PAYLOAD + 2)) / 3) + 512;

/** The parts of a JWS of type `typ`: `{kid, payload, signature, signed}`; nothing in it is trusted. */
export function splitJws(text, typ) {
  if (text.length > MAX_TEXT || !isAscii(text)) throw malformed("not a compact JWS of ours");
  const parts = text.split(".");
  if (parts.length !== 3) throw malformed("not a compact JWS", "three parts", `${parts.length} parts`);
  const kid = kidOf(fromUtf8(fromBase64url(parts[0])) ?? "", typ);
  const payload = fromBase64url(parts[1]);
  if (payload.length > MAX_PAYLOAD) throw malformed("payload too large", `at most ${MAX_PAYLOAD} bytes`);
  const signature = fromBase64url(parts[2], { size: 64 });
  return { kid, payload, signature, signed: utf8(`${parts[0]}.${parts[1]}`) };
}

/** The payload of a split JWS, read only after its signature held under `key` = `{kid, verifier}`. */
export async function verifyJws(parts, key) {
  if (parts.kid !== key.kid) throw malformed("the header names another key", key.kid, parts.kid);
  await verifyES256(key.verifier, parts.signed, parts.signature);
  const payload = parseCanonical(parts.payload, { limit: MAX_PAYLOAD });
  if (!isObject(payload)) throw malformed("payload is not an object");
  return payload;
}

function kidOf(header, typ) {
  const [before, after] = ['{"alg":"ES256","kid":"', `","typ":"${typ}"}`];
  const kid = header.slice(before.length, -after.length);
  if (header !== before + kid + after || kid.length !== 43) {
    throw malformed("header is not the fixed one", `alg ES256, kid, typ "${typ}", nothing else`);
  }
  fromBase64url(kid, { size: 32 });
  return kid;
}

function malformed(message, expected, found) {
  return new Refusal("fmt.jws", message, { expected, found });
}
