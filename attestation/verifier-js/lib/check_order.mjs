// Which checks there are, in the order in which they are made: one finds what those before it established. `[code, level,
// check]`; a check is given a case.

import { checkSigstore, checkTokens } from "./anchor_checks.mjs";
import { checkApprovals } from "./approval_checks.mjs";
import { checkRequest, checkResponse } from "./body_checks.mjs";
import { checkBoot, checkContiguous, checkEnd, checkEpochs, checkGaps, checkIds, checkTime } from "./chain_checks.mjs";
import { checkEvidence, checkExpiry, checkKeyBound, checkPeerBound, checkResults } from "./evidence_checks.mjs";
import { checkAuthority, checkHolds } from "./erasure_checks.mjs";
import { checkConsistency, checkInclusion } from "./log_checks.mjs";
import { checkAppraisal, checkClass } from "./measurement_checks.mjs";
import { checkAnswered } from "./model_checks.mjs";
import { checkObjects } from "./object_checks.mjs";
import { checkPeer } from "./peer_links.mjs";
import {
  checkConfigAccepted,
  checkConfigBound,
  checkIsolation,
  checkPolicyAccepted,
  checkPolicyBound,
  checkPrivate,
  checkRootfs,
} from "./policy_checks.mjs";
import { checkKeysets, checkKinds, checkReceipts } from "./receipt_checks.mjs";
import {
  checkCounter,
  checkDecisions,
  checkOrder,
  checkSealed,
  checkStart,
  checkSupervisor,
} from "./session_checks.mjs";
import { checkIntents } from "./session_intents.mjs";
import { checkClose } from "./session_close.mjs";
import { checkBracket, checkQuorum } from "./witness_checks.mjs";

/** Of every bundle. */
export const CHECKS = Object.freeze([
  ["fmt.keysets", "L0", checkKeysets],
  ["sig.receipts", "L0", checkReceipts],
  ["kinds.judged", "L1", checkKinds],
  ["erasure.authority", "L1", checkAuthority],
  ["chain.ids", "L1", checkIds],
  ["chain.time", "L1", checkTime],
  ["chain.boot", "L1", checkBoot],
  ["chain.contiguous", "L1", checkContiguous],
  ["chain.end", "L1", checkEnd],
  ["chain.epochs", "L1", checkEpochs],
  ["chain.gaps", "L1", checkGaps],
  ["session.start", "L1", checkStart],
  ["session.order", "L1", checkOrder],
  ["session.counter", "L1", checkCounter],
  ["session.close", "L1", checkClose],
  ["session.peer", "L1", checkPeer],
  ["session.intents", "L1", checkIntents],
  ["session.decisions", "L1", checkDecisions],
  ["session.supervisor", "L1", checkSupervisor],
  ["bundle.objects", "L4", checkObjects],
  ["key.evidence", "L4", checkEvidence],
  ["key.bound", "L4", checkKeyBound],
  ["key.not_after", "L4", checkExpiry],
  ["conf.bound", "L4", checkConfigBound],
  ["pol.bound", "L4", checkPolicyBound],
  ["session.sealed", "L1", checkSealed],
  ["model.answered", "L1", checkAnswered],
  ["apr.bound", "L4", checkApprovals],
  ["tee.appraisal", "L4", checkAppraisal],
  ["tee.class", "L4", checkClass],
  ["peer.bound", "L4", checkPeerBound],
  ["peer.ear", "L4", checkResults],
  ["conf.accepted", "L4", checkConfigAccepted],
  ["pol.accepted", "L4", checkPolicyAccepted],
  ["pol.private", "L4", checkPrivate],
  ["iso.floor", "L4", checkIsolation],
  ["rfs.accepted", "L4", checkRootfs],
  ["log.inclusion", "L2", checkInclusion],
  ["log.consistency", "L2", checkConsistency],
  ["hold.respected", "L2", checkHolds],
  ["wit.quorum", "L3", checkQuorum],
  ["time.bracket", "L3", checkBracket],
  ["time.tsa", "L3", checkTokens],
  ["time.sigstore", "L3", checkSigstore],
]);

/** Of bodies that the reader may hold. */
export const BODIES = Object.freeze([
  ["body.request", "L5", checkRequest],
  ["body.response", "L5", checkResponse],
]);
