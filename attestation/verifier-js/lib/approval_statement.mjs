// What an approver signs of one action (the member `apr.sig` of a record), and who may approve by a profile's normal form.
// The key stands in the statement, and is believed only as the one whose thumbprint its header names.

import { keyOfJwk } from "./cryptography.mjs";
import { splitJws, verifyJws } from "./jws.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { isObject, parseCanonical } from "./strict_json.mjs";

const TYPE = "affiant-approval+jwt";
const LARGEST = 1024;
const MOST = Number.MAX_SAFE_INTEGER;
const STATEMENT = {
  object: {
    typ: { const: "affiant-approval/1" },
    act: { pattern: "sha256:[0-9a-f]{64}" },
    dec: { enum: ["approve", "deny"] },
    iat: { int: [0, MOST] },
    exp: { int: [0, MOST] },
    via: { enum: ["cli", "console"] },
    jwk: { object: { crv: { text: 8 }, kty: { text: 8 }, x: { text: 43 }, y: { text: 43 } } },
  },
};
const EVERYTHING = { enum: [true, false] };
const METHODS = { array: { text: 64 }, most: 1024 };
const NAMING_NOBODY = { object: { everything: EVERYTHING, methods: METHODS } };
const KEY = { pattern: "[A-Za-z0-9_-]{43}" };
const NAMING = { everything: EVERYTHING, methods: METHODS, quorum: { int: [1, 64] }, ttl: { int: [1, MOST] } };
const NAMING_KEYS = { object: { ...NAMING, approvers: { array: KEY, least: 1, most: 64 } } };
const IDENTITY = { object: { issuer: { text: 255 }, subject: { text: 255 } } };
const NAMING_IDENTITIES = {
  object: {
    ...NAMING,
    approvers: { array: KEY, least: 0, most: 64 },
    identities: { array: IDENTITY, least: 1, most: 64 },
  },
};

/** The statement in `text`, whose signature holds: `{kid, action, approves, made, expires, via}`. */
export async function readStatement(text) {
  try {
    const parts = splitJws(text, TYPE);
    const claimed = parseCanonical(parts.payload, { limit: LARGEST });
    const key = isObject(claimed) && isObject(claimed.jwk) ? await keyOfJwk(claimed.jwk) : null;
    if (key === null) throw new Refusal("fmt.jws", "no key in the statement");
    const said = await verifyJws(parts, key);
    checkShape(STATEMENT, said, "statement");
    const { act: action, dec, iat: made, exp: expires, via } = said;
    return { kid: parts.kid, action, approves: dec === "approve", made, expires, via };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new Refusal("approval.statement", `not a statement that its key has signed: ${error.text}`);
  }
}

/** Whether `sig` of a record names the statement of an identity, which is a sigstore bundle: those are not verified here. */
export function isByIdentity(sig) {
  return sig.startsWith("sha256:");
}

function checkApproval(approval) {
  const says = (...names) => isObject(approval) && names.some((name) => name in approval);
  if (!says("identities", "trusted_root")) {
    checkShape(says("approvers", "quorum", "ttl") ? NAMING_KEYS : NAMING_NOBODY, approval, "approval");
    return;
  }
  const { trusted_root: root, ...rest } = approval;
  if (!isObject(root)) throw new Refusal("fmt.shape", "identities without a trusted root");
  checkShape(NAMING_IDENTITIES, rest, "approval");
}

/** `{kids: Set, quorum}` by the bytes of a normal form, identities left out; null: in no form that is known here. */
export function readApprovers(form) {
  try {
    const { semantics, approval } = parseCanonical(form);
    if (semantics !== "affiant.policy/1") return null;
    if (approval === undefined) return { kids: new Set(), quorum: 1 };
    checkApproval(approval);
    return { kids: new Set(approval.approvers ?? []), quorum: approval.quorum ?? 1 };
  } catch (error) {
    if (error instanceof Refusal || error instanceof TypeError) return null;
    throw error;
  }
}
