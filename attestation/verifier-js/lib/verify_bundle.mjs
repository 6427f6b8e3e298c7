// The order of a verification: which checks are made, at which level, and what becomes of each.
//
// A check throws what it refuses; NotMade says that what it needs is not there, or is not judged by this verifier.
// Everything is an argument: bytes, trust file, instant, table. No clock, no network, no storage.

import { checkSigstore, checkTokens } from "./anchor_checks.mjs";
import { checkRequest, checkResponse } from "./body_checks.mjs";
import { parseBundle } from "./bundle.mjs";
import { Case, byChain, theOnly } from "./case.mjs";
import { checkBoot, checkContiguous, checkEnd, checkEpochs, checkGaps, checkIds, checkTime } from "./chain_checks.mjs";
import { sha256Name } from "./cryptography.mjs";
import { checkEvidence, checkExpiry, checkKeyBound, checkPeerBound, checkResults } from "./evidence_checks.mjs";
import { checkAuthority, checkHolds } from "./erasure_checks.mjs";
import { checkConsistency, checkInclusion } from "./log_checks.mjs";
import { checkAppraisal } from "./measurement_checks.mjs";
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
import { NotAsked, NotMade, NotPinned, Refusal } from "./refusals.mjs";
import {
  checkCounter,
  checkDecisions,
  checkIntents,
  checkOrder,
  checkSealed,
  checkStart,
  checkSupervisor,
} from "./session_checks.mjs";
import { checkClose, isLost } from "./session_close.mjs";
import { showInstant } from "./trust_file.mjs";
import { held, makeRow, makeVerdict } from "./verdict.mjs";
import { checkBracket, checkQuorum, timeOf } from "./witness_checks.mjs";

const CHECKS = [
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
  ["key.evidence", "L4", checkEvidence],
  ["key.bound", "L4", checkKeyBound],
  ["key.not_after", "L4", checkExpiry],
  ["conf.bound", "L4", checkConfigBound],
  ["pol.bound", "L4", checkPolicyBound],
  ["session.sealed", "L1", checkSealed],
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
];

/**
 * The verdict document on one bundle, also where it cannot be read: the refusal is then its first row.
 *
 * @param {Uint8Array} data the bundle file
 * @param {object} trust a parsed trust file; nothing in the bundle adds to it
 * @param {object} how `at`: seconds since 1970 that trust entries are judged at; `build`: which verifier this is; `table`:
 *   the record table; `request`, `response`: bodies to hold against the receipts; `session`: judge this one alone
 */
export async function verifyBundle(data, trust, { at, build, table, request, response, session }) {
  const rows = [];
  const required = (code) => trust.require === null || trust.require.has(code);
  let subject = null;
  rows.push(
    await made("fmt.bundle", "L0", required, async () => {
      const bundle = await parseBundle(data);
      const bodies = { request: request ?? null, response: response ?? null };
      subject = new Case({ bundle, trust, table, at, ...bodies, onlySession: session ?? null });
      subject.established.add("fmt.bundle");
      return held(`${bundle.receipts.length} receipts; every object is what its name says`);
    }),
  );
  const bodies = [
    ["body.request", "L5", checkRequest, request],
    ["body.response", "L5", checkResponse, response],
  ];
  for (const [code, level, check] of CHECKS) rows.push(await run(subject, code, level, required, check));
  for (const [code, level, check, body] of bodies) {
    const asked = subject === null || body !== undefined;
    const row = asked ? await run(subject, code, level, required, check) : null;
    rows.push(row ?? notAsked(code, level, "no body was given", false));
  }
  rows.push(notAsked("chain.coverage", null, "a single bundle: what else there was is not asked", true));
  return makeVerdict({
    bundle: await sha256Name(data),
    at: showInstant(at),
    trust: trust.digest,
    build,
    time: timeOf(subject),
    evidenceClass: classOf(subject),
    rows,
    population: populationOf(subject),
  });
}

/** `tee.class`: refused where root, keysets and manifests disagree; else not made: only an appraisal confirms it. */
function checkClass(subject) {
  subject.need("key.bound");
  const said = new Set(subject.parties.map((party) => party.statement.cls));
  for (const { manifest } of subject.sessions) said.add(manifest.cls);
  for (const { root } of subject.parties) if (root !== null) said.add(root.cls);
  if (said.size > 1) throw new Refusal("tee.class_mismatch", "evidence class disagrees");
  throw new NotMade("root, keysets and manifests name one class; no quote was appraised that could confirm it");
}

async function run(subject, code, level, required, check) {
  if (subject === null) {
    return makeRow(code, level, "not made", "none", "the bundle could not be read", { required: required(code) });
  }
  const row = await made(code, level, required, () => check(subject));
  if (row.state === "held") subject.established.add(code);
  return row;
}

/** A row from what a check found, or threw. A mistake of ours refuses the bundle, and is never passed over. */
async function made(code, level, required, step) {
  const known = { required: required(code) };
  try {
    const { detail, tier, where } = await step();
    return makeRow(code, level, "held", tier, detail, { ...known, where });
  } catch (error) {
    if (error instanceof NotAsked) return notAsked(code, level, error.message, required(code));
    if (error instanceof NotMade) {
      return makeRow(code, level, "not made", error instanceof NotPinned ? null : "none", error.message, known);
    }
    const refusal = error instanceof Refusal ? error : fault(error);
    const where = refusal.where === null ? [] : [refusal.where];
    return makeRow(code, level, "refused", "contraindicated", refusal.text, { ...known, reason: refusal.code, where });
  }
}

function fault(error) {
  const name = error instanceof Error ? error.constructor.name : typeof error;
  return new Refusal("verifier.fault", "the verifier failed on this bundle", { found: name });
}

function notAsked(code, level, detail, required) {
  return makeRow(code, level, "not asked", null, detail, { required });
}

/** Simulated as soon as any keyset or root says so; else what the keysets claim, which nothing here confirms. */
function classOf(subject) {
  if (subject === null || subject.parties.length === 0) return null;
  const said = subject.parties.flatMap((party) => [party.statement.cls, party.root?.cls]);
  return said.includes("simulated") ? "simulated" : "hardware";
}

function populationOf(subject) {
  const records = subject?.records ?? [];
  const sessions = subject?.sessions ?? [];
  const kinds = {};
  for (const { kind } of records) kinds[kind] = (kinds[kind] ?? 0) + 1;
  const closes = sessions.map((session) => theOnly(session, "session-close")).filter((close) => close !== undefined);
  const lost = closes.filter((close) => close.member("why") === "lost").length;
  const unclosed = sessions.filter((session) => theOnly(session, "session-close") === undefined);
  const gone = unclosed.filter((session) => isLost(subject, session)).length;
  return {
    receipts: records.length,
    chains: byChain(records).size,
    restarts: kinds.gap ?? 0,
    sessions: {
      started: sessions.length,
      closed: closes.length - lost,
      lost: lost + gone,
      open: unclosed.length - gone,
      not_judged: subject?.foreign.size ?? 0,
    },
    refusals: kinds.refusal ?? 0,
    kinds,
  };
}
