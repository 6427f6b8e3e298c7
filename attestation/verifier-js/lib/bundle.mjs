// The single bundle: receipts, and objects under the SHA-256 of their bytes. Nothing in it is a trust anchor.

import { parseAnchors } from "./bundle_anchors.mjs";
import { link, sha256Name } from "./cryptography.mjs";
import { fromBase64url, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { isObject, parseStrict } from "./strict_json.mjs";

const TYPE = "application/vnd.affiant.bundle.v1+json";
/** Bytes of the largest single bundle. */
export const MAX_BUNDLE = 256 * 1024 * 1024;
const MAPS = ["keysets", "evidence", "endorsements", "results", "policies", "checkpoints"];
const MEMBERS = ["typ", "receipts", "anchors", ...MAPS];

/** The bundle: `{receipts: [text], proofs: Map(rh -> text), anchors, keysets, evidence, ...: Map(name -> bytes)}`. */
export async function parseBundle(bytes) {
  const value = parseStrict(bytes, { limit: MAX_BUNDLE });
  if (!isObject(value) || value.typ !== TYPE) throw malformed("not a bundle", "typ", `"typ": "${TYPE}"`);
  if (!hasExactly(value, MEMBERS)) throw malformed("missing or foreign members");
  const anchors = parseAnchors(value.anchors);
  const bundle = { ...(await readReceipts(value.receipts)), anchors };
  for (const name of MAPS) bundle[name] = await readObjects(value[name], name);
  return bundle;
}

async function readReceipts(entries) {
  if (!Array.isArray(entries) || entries.length === 0) throw malformed("no receipts", "receipts");
  const receipts = [];
  const proofs = new Map();
  const known = new Set();
  for (const [index, entry] of entries.entries()) {
    const where = `receipts[${index}]`;
    if (!isObject(entry) || !hasExactly(entry, ["sdjwt", "proof"])) throw malformed("not a receipt entry", where);
    const { sdjwt, proof } = entry;
    if (typeof sdjwt !== "string" || (proof !== null && typeof proof !== "string")) {
      throw malformed("a receipt or a proof is no text", where);
    }
    const [jws] = sdjwt.split("~", 1);
    if (known.has(jws)) throw malformed("a receipt that is in the bundle already", where);
    known.add(jws);
    receipts.push(sdjwt);
    if (proof !== null) proofs.set(await link(utf8(jws)), proof);
  }
  return { receipts, proofs };
}

async function readObjects(entries, name) {
  if (!isObject(entries)) throw malformed("not a map of objects", name);
  const objects = new Map();
  for (const [digest, text] of Object.entries(entries)) {
    if (!/^sha256:[0-9a-f]{64}$/.test(digest) || typeof text !== "string") {
      throw malformed("not an object entry", name);
    }
    const bytes = decoded(text, `${name}.${digest}`);
    if ((await sha256Name(bytes)) !== digest) {
      throw malformed("an object is not what its name says", `${name}.${digest}`);
    }
    objects.set(digest, bytes);
  }
  return objects;
}

function decoded(text, where) {
  try {
    return fromBase64url(text);
  } catch {
    throw malformed("an object is not base64url", where);
  }
}

function hasExactly(value, names) {
  return Object.keys(value).length === names.length && names.every((name) => name in value);
}

function malformed(message, where, expected) {
  return new Refusal("bundle.malformed", message, { where, expected });
}
