// Salted disclosures (RFC 9901): base64url of the canonical array [salt, name, value]; SHA-256 of it stands in `_sd`.

import { link } from "./cryptography.mjs";
import { fromBase64url, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { objectsWithDigests } from "./record_table.mjs";
import { checkShape } from "./shapes.mjs";
import { parseCanonical } from "./strict_json.mjs";

/** What `disclosures` say of a payload that has its shape: `path.member` -> value. Each is referenced exactly once. */
export async function openDisclosures(payload, shape, disclosures) {
  const places = placesOf(payload, shape);
  const values = new Map();
  for (const disclosure of disclosures) {
    const digest = await link(utf8(disclosure));
    const place = places.get(digest);
    if (place === undefined) {
      throw invalid("a disclosure that the record does not reference, or one given twice");
    }
    places.delete(digest);
    const [name, value] = read(disclosure);
    const full = place.path === "" ? name : `${place.path}.${name}`;
    const hidden = place.shape.hidden;
    if (!hidden || !Object.hasOwn(hidden, name) || values.has(full)) {
      throw invalid("a disclosure for a member that is not hidden here", full);
    }
    checkShape(hidden[name], value, full);
    values.set(full, value);
  }
  return values;
}

function placesOf(payload, shape) {
  const places = new Map();
  for (const { path, digests, shape: inner } of objectsWithDigests(payload, shape)) {
    for (const digest of digests) {
      if (places.has(digest)) throw invalid("a digest stands in two places", path);
      places.set(digest, { path, shape: inner });
    }
  }
  return places;
}

function read(disclosure) {
  const parts = parseCanonical(fromBase64url(disclosure), { limit: 16 * 1024 });
  if (!Array.isArray(parts) || parts.length !== 3 || typeof parts[1] !== "string") {
    throw invalid("not a disclosure");
  }
  if (typeof parts[0] !== "string" || fromBase64url(parts[0]).length !== 16) {
    throw invalid("the salt is not 16 bytes");
  }
  return [parts[1], parts[2]];
}

function invalid(message, where) {
  return new Refusal("sd.invalid", message, { where });
}
