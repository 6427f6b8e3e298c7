// Attestation results (EAR): what the gateway concluded about a peer. The form of draft-ietf-rats-ear-04, with one declared
// extension; and the form that gateways wrote before, which is read and no longer written. `eat_profile` says which it is.

import { splitJws, verifyJws } from "./jws.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";

const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
const PROFILE = "tag:ietf.org,2026:rats/ear#04";
const EXTENDED = "tag:affiant.dev,2026:ear/2";
const EXTENSION = "affiant.dev/appraisal";
const PROFILE_BEFORE = "tag:affiant.dev,2026:ear/1";

const PEERS = "session|gateway|upstream";
const LINK = { pattern: "[A-Za-z0-9_-]{43}" };
const TIER = { enum: ["affirming", "warning", "contraindicated", "none"] };
const VERIFIER = { object: { developer: { const: "https://affiant.dev" }, build: { text: 256 } } };
const CLAIMS = [
  "instance-identity",
  "configuration",
  "executables",
  "file-system",
  "hardware",
  "runtime-opaque",
  "storage-opaque",
  "sourced-data",
];
const FACTS = {
  evd: LINK,
  col: LINK,
  cls: { enum: ["hardware", "simulated"] },
  tcb: { text: 64 },
  until: { int: [0, MAX_INTEGER] },
};
const SUBMODULE = {
  object: {
    eat_profile: { const: EXTENDED },
    ear_status: TIER,
    ear_trustworthiness_vector: { map: { int: [-128, 127] }, name: CLAIMS.join("|"), most: CLAIMS.length },
    ear_appraisal_policy_ids: { array: { text: 256 }, least: 1, most: 1 },
    [EXTENSION]: { object: FACTS },
  },
};
const SUBMODULE_BEFORE = {
  object: {
    "ear.status": TIER,
    "ear.trustworthiness-vector": { map: { int: [-128, 127] }, name: "[a-z-]{1,32}", most: 8 },
    "ear.appraisal-policy-id": { text: 256 },
    ...Object.fromEntries(Object.entries(FACTS).map(([name, shape]) => [`affiant.${name}`, shape])),
  },
};
const RESULT = shapeOf(PROFILE, "ear_verifier_id", SUBMODULE);
const RESULT_BEFORE = shapeOf(PROFILE_BEFORE, "ear.verifier-id", SUBMODULE_BEFORE);

function shapeOf(profile, verifier, submodule) {
  return {
    object: {
      eat_profile: { const: profile },
      iss: { text: 256 },
      iat: { int: [0, MAX_INTEGER] },
      [verifier]: VERIFIER,
      submods: { map: submodule, name: PEERS, most: 1 },
    },
  };
}

/** The result in `text` as verified under the gateway's `ear` key. */
export async function verifyResult(text, key) {
  const payload = await verifyJws(splitJws(text, "affiant-ear+jwt"), key);
  const before = payload.eat_profile === PROFILE_BEFORE;
  checkShape(before ? RESULT_BEFORE : RESULT, payload, "ear");
  const [about] = Object.entries(payload.submods);
  if (about === undefined) {
    throw new Refusal("fmt.profile", "a result about nobody", { where: "ear.submods", expected: "exactly one peer" });
  }
  const [peer, body] = about;
  if (before) {
    return {
      peer,
      tier: body["ear.status"],
      evd: body["affiant.evd"],
      col: body["affiant.col"],
      cls: body["affiant.cls"],
      policy: body["ear.appraisal-policy-id"],
      until: body["affiant.until"],
    };
  }
  if (Object.keys(body.ear_trustworthiness_vector).length === 0) {
    const where = `ear.submods.${peer}.ear_trustworthiness_vector`;
    throw new Refusal("fmt.profile", "an empty vector", { where, expected: "one claim or more" });
  }
  const { evd, col, cls, until } = body[EXTENSION];
  return { peer, tier: body.ear_status, evd, col, cls, policy: body.ear_appraisal_policy_ids[0], until };
}
