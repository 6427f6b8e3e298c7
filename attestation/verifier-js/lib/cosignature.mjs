// Cosignatures of witnesses (C2SP tlog-cosignature): 8 bytes of seconds since 1970, then the signature, Ed25519 or
// ML-DSA-44, each over a message of its own. That of ML-DSA-44 names the witness, and says nothing of extension lines.

import { holdsEd25519 } from "./cryptography.mjs";
import { concat, utf8 } from "./encoding.mjs";
import { holdsMLDSA44 } from "./mldsa44.mjs";
import { COSIGNATURE_ED25519, COSIGNATURE_MLDSA44 } from "./note.mjs";
import { Refusal } from "./refusals.mjs";

const TIME_BYTES = 8;
const MAX_TIME = (1n << 63n) - 1n;
const MAX_NAME_BYTES = 255;
const SUBTREE_LABEL = utf8("subtree/v1\n\0");

/** Whether a verifier key is a witness's. */
export function isCosignatureKey(key) {
  return key.kind === COSIGNATURE_ED25519 || key.kind === COSIGNATURE_MLDSA44;
}

/**
 * The time of the cosignature in `line`, a BigInt; one that does not hold refuses the note, whoever else has cosigned.
 *
 * @param {string} text the note's, which `checkpoint` was read from
 */
export async function timeOfCosignature(text, checkpoint, key, line) {
  const time = statedTime(line.signature);
  if (time !== null && (await holds(text, checkpoint, key, time, line.signature.subarray(TIME_BYTES)))) return time;
  throw new Refusal("note.signature", "the signature of a known key does not hold", { found: line.name });
}

/** Null where there can be none: zero, over 2**63 - 1, or cut short. */
function statedTime(bytes) {
  if (bytes.length < TIME_BYTES) return null;
  const time = new DataView(bytes.buffer, bytes.byteOffset, TIME_BYTES).getBigUint64(0);
  return time > 0n && time <= MAX_TIME ? time : null;
}

async function holds(text, checkpoint, key, time, signature) {
  if (key.kind === COSIGNATURE_ED25519) {
    return holdsEd25519(key.publicKey, utf8(`cosignature/v1\ntime ${time}\n${text}`), signature);
  }
  const message = key.kind === COSIGNATURE_MLDSA44 ? treeMessage(key.name, checkpoint, time) : null;
  return message !== null && holdsMLDSA44(key.publicKey, message, signature);
}

/** `cosigned_message` over the whole tree, from 0 to its size; null: a name or origin that has no place in one. */
function treeMessage(name, { origin, size, root }, time) {
  const [witness, log] = [utf8(name), utf8(origin)];
  if (witness.length > MAX_NAME_BYTES || log.length > MAX_NAME_BYTES) return null;
  return concat(
    SUBTREE_LABEL,
    new Uint8Array([witness.length]),
    witness,
    eightBytes(time),
    new Uint8Array([log.length]),
    log,
    eightBytes(0n),
    eightBytes(size),
    root,
  );
}

function eightBytes(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, number);
  return bytes;
}
