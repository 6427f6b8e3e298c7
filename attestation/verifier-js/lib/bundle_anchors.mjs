// The anchors of a bundle: read to the last member, so that no other reader sees more in them; their tokens are not
// verified here, and the checks that would need that say so.

import { fromBase64url } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { isObject } from "./strict_json.mjs";

const MAX_ANCHORS = 16;
const MAX_TOKENS = 64;
/** Bytes of one RFC 3161 response. */
const MAX_TOKEN = 64 * 1024;
/** Bytes of one sigstore bundle. */
const MAX_SIGSTORE = 256 * 1024;
const HASH_SIZE = 32;
/** Hashes of the longest proof of consistency. */
const MAX_PATH = 63;

/** `{tsr: [{checkpoint, consistency: [bytes], tokens: [bytes]}], sigstore: [...]}`; refuses every other form. */
export function parseAnchors(value) {
  demandMembers(value, ["tsr", "sigstore"], "anchors");
  const tokensOf = (tokens, where) => listOf(tokens, 1, MAX_TOKENS, where).map((text) => bytesOf(text, MAX_TOKEN, where));
  return {
    tsr: entriesOf(value, "tsr", "tokens", tokensOf),
    sigstore: entriesOf(value, "sigstore", "bundle", (text, where) => bytesOf(text, MAX_SIGSTORE, where)),
  };
}

/** The anchors of one kind; `read`: what reads their own member. */
function entriesOf(anchors, kind, member, read) {
  return listOf(anchors[kind], 0, MAX_ANCHORS, `anchors.${kind}`).map((entry, index) => {
    const where = `anchors.${kind}[${index}]`;
    demandMembers(entry, ["checkpoint", "consistency", member], where);
    return {
      checkpoint: nameOf(entry.checkpoint, where),
      consistency: hashesOf(entry.consistency, `${where}.consistency`),
      [member]: read(entry[member], `${where}.${member}`),
    };
  });
}

function nameOf(value, where) {
  if (typeof value !== "string" || !/^sha256:[0-9a-f]{64}$/.test(value)) throw malformed("names no checkpoint", where);
  return value;
}

function hashesOf(value, where) {
  return listOf(value, 0, MAX_PATH, where).map((text) => {
    const bytes = bytesOf(text, HASH_SIZE, where);
    if (bytes.length !== HASH_SIZE) throw malformed("a hash of another size", where);
    return bytes;
  });
}

function demandMembers(value, names, where) {
  const exact = isObject(value) && Object.keys(value).length === names.length && names.every((name) => name in value);
  if (!exact) throw malformed("missing or foreign members", where);
}

function listOf(value, least, most, where) {
  if (!Array.isArray(value) || value.length < least || value.length > most) {
    throw malformed(`no list of ${least} to ${most}`, where);
  }
  return value;
}

function bytesOf(value, limit, where) {
  if (typeof value !== "string" || value.length === 0 || value.length > Math.floor((limit * 4 + 2) / 3)) {
    throw malformed(`no text for 1 to ${limit} bytes`, where);
  }
  try {
    return fromBase64url(value);
  } catch {
    throw malformed("not base64url", where);
  }
}

function malformed(message, where) {
  return new Refusal("bundle.malformed", message, { where });
}
