// Merkle trees of RFC 9162, section 2.1, over SHA-256.

import { sha256 } from "./cryptography.mjs";
import { concat, sameBytes } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_SIZE = (1n << 63n) - 1n;
const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** SHA-256(0x00 || data). */
export function leafHash(data) {
  return sha256(concat(LEAF, data));
}

/** SHA-256(0x01 || left || right). */
export function nodeHash(left, right) {
  return sha256(concat(NODE, left, right));
}

/** MTH of `leaves` (section 2.1.1): 32 bytes. */
export async function rootOf(leaves) {
  if (leaves.length === 0) return sha256(new Uint8Array(0));
  if (leaves.length === 1) return leafHash(leaves[0]);
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return nodeHash(await rootOf(leaves.slice(0, split)), await rootOf(leaves.slice(split)));
}

/** Refuses unless leaf hash `leaf` is the `index`-th of `size` (both BigInt) under `root` (section 2.1.3.2). */
export async function verifyInclusion(leaf, { index, size, path, root }) {
  if (index < 0n || index >= size || size > MAX_SIZE) {
    throw malformed("there is no such leaf", `an index below ${size}`, index);
  }
  let digest = leaf;
  let node = index;
  let last = size - 1n;
  let used = 0;
  while (last > 0n) {
    if (node % 2n === 1n || node < last) {
      if (used === path.length) throw malformed("the proof of inclusion is too short", undefined, `${used} hashes`);
      const sibling = path[used];
      digest = node % 2n === 1n ? await nodeHash(sibling, digest) : await nodeHash(digest, sibling);
      used += 1;
    }
    node /= 2n;
    last /= 2n;
  }
  if (used !== path.length) throw malformed("the proof of inclusion is too long", `${used} hashes`, path.length);
  if (!sameBytes(digest, root)) {
    throw new Refusal("log.inclusion", "the hashes do not lead from the leaf to the root");
  }
}

function malformed(message, expected, found) {
  return new Refusal("log.proof", message, { expected, found });
}
