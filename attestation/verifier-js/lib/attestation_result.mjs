// Attestation results (EAR, draft-ietf-rats-ear-04, closed profile): what the gateway concluded about a peer.

import { splitJws, verifyJws } from "./jws.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";

const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
const LINK = { pattern: "[A-Za-z0-9_-]{43}" };
const SUBMODULE = {
  object: {
    "ear.status": { enum: ["affirming", "warning", "contraindicated", "none"] },
    "ear.trustworthiness-vector": { map: { int: [-128, 127] }, name: "[a-z-]{1,32}", most: 8 },
    "ear.appraisal-policy-id": { text: 256 },
    "affiant.evd": LINK,
    "affiant.col": LINK,
    "affiant.cls": { enum: ["hardware", "simulated"] },
    "affiant.tcb": { text: 64 },
    "affiant.until": { int: [0, MAX_INTEGER] },
  },
};
const RESULT = {
  object: {
    eat_profile: { const: "tag:affiant.dev,2026:ear/1" },
    iss: { text: 256 },
    iat: { int: [0, MAX_INTEGER] },
    "ear.verifier-id": { object: { developer: { const: "https://affiant.dev" }, build: { text: 256 } } },
    submods: { map: SUBMODULE, name: "session|gateway|upstream", most: 1 },
  },
};

/** The result in `text` as verified under the gateway's `ear` key. */
export async function verifyResult(text, key) {
  const payload = await verifyJws(splitJws(text, "affiant-ear+jwt"), key);
  checkShape(RESULT, payload, "ear");
  const [about] = Object.entries(payload.submods);
  if (about === undefined) {
    throw new Refusal("fmt.profile", "a result about nobody", { where: "ear.submods", expected: "exactly one peer" });
  }
  const [peer, body] = about;
  return {
    peer,
    tier: body["ear.status"],
    evd: body["affiant.evd"],
    cls: body["affiant.cls"],
    policy: body["ear.appraisal-policy-id"],
    until: body["affiant.until"],
  };
}
