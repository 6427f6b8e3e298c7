// Anchors: who says by when a checkpoint existed. This verifier verifies none, and so never holds such a check.

import { NotAsked, NotMade } from "./refusals.mjs";

/** `time.tsa`: not asked without `tsa_roots` in the trust file; else not made: tokens are not verified here. */
export function checkTokens(subject) {
  if (subject.trust.tsa_roots === null) throw new NotAsked("the trust file names no timestamp authority");
  if (subject.bundle.anchors.tsr.length === 0) throw new NotMade("the bundle has no timestamp token");
  throw new NotMade("this verifier does not verify timestamp tokens; `affiant verify` does");
}

/** `time.sigstore`: not asked without `sigstore_root` in the trust file; else not made, as above. */
export function checkSigstore(subject) {
  if (subject.trust.sigstore_root === null) throw new NotAsked("the trust file names no signer by sigstore");
  if (subject.bundle.anchors.sigstore.length === 0) throw new NotMade("the bundle has no anchor by sigstore");
  throw new NotMade("this verifier does not verify sigstore bundles; `affiant verify` does");
}
