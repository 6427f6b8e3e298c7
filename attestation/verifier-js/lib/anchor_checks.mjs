// Anchors: who says by when a checkpoint existed. This verifier reads no timestamp token, and so never holds such a check.

import { NotAsked, NotMade } from "./refusals.mjs";

/** `time.tsa`: not asked without `tsa_roots` in the trust file; else not made: tokens are not verified here. */
export function checkTokens(subject) {
  if (subject.trust.tsa_roots === null) throw new NotAsked("the trust file names no timestamp authority");
  if (subject.bundle.anchors.tsr.length === 0) throw new NotMade("the bundle has no timestamp token");
  throw new NotMade("this verifier does not verify timestamp tokens; `affiant verify` does");
}
