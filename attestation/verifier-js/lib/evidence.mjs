// Evidence as a conceptual message wrapper (CMW, RFC 9999, JSON): label -> [media type, base64url, indicator 4].

import { fromBase64url } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { isObject, parseCanonical } from "./strict_json.mjs";

const TAG = "tag:affiant.dev,2026:evidence/1";
const MEDIA_TYPES = {
  quote: "application/vnd.affiant.tdx-quote",
  eventlog: "application/vnd.affiant.eventlog+json",
  statement: "application/vnd.affiant.keyset+json",
  manifest: "application/vnd.affiant.manifest+json",
  activation: "application/vnd.affiant.activation+json",
};
const EVIDENCE_INDICATOR = 4;

/** The exact bytes of each part of an evidence collection; `manifest` and `activation`: a session's, else null. */
export function parseEvidence(bytes) {
  const value = parseCanonical(bytes, { limit: 1 << 20 });
  if (!isObject(value) || value.__cmwc_t !== TAG) throw malformed("not such a collection");
  const labels = Object.keys(value).filter((label) => label !== "__cmwc_t");
  const known = labels.every((label) => Object.hasOwn(MEDIA_TYPES, label));
  const complete = ["quote", "eventlog", "statement"].every((label) => labels.includes(label));
  if (!known || !complete) throw malformed("missing or foreign labels");
  const parts = { manifest: null, activation: null };
  for (const label of labels) parts[label] = readRecord(value[label], label);
  if ((parts.manifest === null) !== (parts.activation === null)) {
    throw malformed("a session's evidence has both manifest and activation");
  }
  return parts;
}

function readRecord(record, label) {
  if (!Array.isArray(record) || record.length !== 3) throw malformed("not a record", label);
  const [media, text, indicator] = record;
  if (media !== MEDIA_TYPES[label] || indicator !== EVIDENCE_INDICATOR || typeof text !== "string") {
    throw malformed("not the record for this label", label);
  }
  return fromBase64url(text);
}

function malformed(message, where) {
  return new Refusal("fmt.cmw", message, { where });
}
