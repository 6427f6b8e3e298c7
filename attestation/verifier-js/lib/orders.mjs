// What an erasure authority signs: the member `aut` of an erasure or a hold. All but `made` is computed again from the
// record, so that a signature for other records, or for another log, does not fit.

import { sha256 } from "./cryptography.mjs";
import { toBase64url } from "./encoding.mjs";
import { splitJws, verifyJws } from "./jws.mjs";
import { Refusal } from "./refusals.mjs";
import { canonical } from "./strict_json.mjs";

const TYPES = { erasure: "affiant-erasure+jwt", hold: "affiant-hold+jwt" };

/** Goes on if `payload.aut` is an order of one of `authorities` for this record, in the log `origin`, not after `latest`. */
export async function demandOrder(kind, payload, { origin, authorities, latest }) {
  const parts = splitJws(payload.aut, TYPES[kind]);
  const key = authorities.find(({ kid }) => kid === parts.kid);
  if (key === undefined) throw unauthorized("signed by nobody whose orders are accepted", parts.kid);
  const order = await verifyJws(parts, key);
  const { made } = order;
  if (!Number.isSafeInteger(made) || made < 0 || made > latest) {
    throw unauthorized("an order of a time that was not yet");
  }
  const expected = { ...(await coveredBy(kind, payload)), typ: `affiant-${kind}/1`, origin, made };
  if (canonical(order).join() !== canonical(expected).join()) {
    throw unauthorized("the authority signed an order for something else, or for another log");
  }
}

async function coveredBy(kind, { del, tgt, basis, rel }) {
  if (kind === "erasure") return { del: toBase64url(await sha256(canonical(del))) };
  return rel === undefined ? { tgt, basis } : { tgt, basis, rel };
}

function unauthorized(message, found) {
  return new Refusal("erasure.unauthorized", message, { found });
}
