// The cases of a period bundle: each session with both signers' records, the boot records of gateways, every gap, erasure and
// hold; and each gateway with what no session has. They are judged by the checks of a single bundle.

import { BODIES, CHECKS } from "./check_order.mjs";
import { run } from "./check_rows.mjs";
import { Case, byPlace, signersByChain } from "./case.mjs";
import { idOf } from "./receipt_checks.mjs";
import { stateOf } from "./session_close.mjs";

/** Records of a gateway without a session that make one case. */
const ALONE = 5_000;
/** Erasures and holds, and gaps, that are judged with each session. */
export const MAX_ORDERS = 10_000;
const MAX_GAPS = 10_000;
/** Areas that are judged over the whole archive. */
const WHOLE = /^(?:fmt|sig|chain|log|wit|time)\./;
const GATEWAY_ALONE = [
  ...["kinds.judged", "key.evidence", "key.bound", "key.not_after", "conf.bound", "tee.appraisal", "tee.class"],
  ...["conf.accepted", "erasure.authority", "hold.respected", "bundle.objects"],
];
const ORDERS = ["erasure", "hold"];

/** The checks that are made case by case. */
export const CASE_CHECKS = Object.freeze(CHECKS.filter(([code]) => !WHOLE.test(code)));

/**
 * What became of every case of `whole`, whose records are verified: `[{name, rows: Map(code -> row), subject, state}]`.
 * `state`: closed, lost or open; null without a session. `places`: hash -> place in the log of the records that have one.
 * `alongLog`: whether the log can be read.
 */
export async function judgeCases(whole, places, required, { alongLog }) {
  const kept = keptApart(whole);
  const judged = [];
  for (const { party, records } of kept.alone) {
    const subject = caseOf(whole, kept, { records, beside: [...kept.boots, ...kept.orders], places, alongLog });
    subject.established.add("pol.bound"); // there is no session whose profile could be bound
    const checks = CASE_CHECKS.filter(([code]) => GATEWAY_ALONE.includes(code));
    judged.push({ name: "gateway", rows: await rowsOf(subject, checks, required), subject, state: null, party });
  }
  for (const { id, supervisor, records } of kept.sessions) {
    const beside = [...kept.boots, ...kept.gaps, ...kept.orders];
    const subject = caseOf(whole, kept, { records, beside, places, alongLog, supervisor });
    judged.push({ name: id, rows: await rowsOf(subject, CASE_CHECKS, required), subject, state: stateOf(subject, subject.sessions[0]) });
  }
  return judged;
}

/** The records of each case, by session and by gateway, and what stands beside each of them. */
function keptApart(whole) {
  const ofKind = (...kinds) => whole.records.filter(({ kind }) => kinds.includes(kind));
  const sessions = new Map();
  for (const { id, supervisor } of whole.sessions) sessions.set(id, { id, supervisor, records: [] });
  const alone = new Map(whole.gateways.map((party) => [party, { party, records: [] }]));
  const signers = signersByChain(whole);
  for (const record of whole.records) {
    const party = signers.get(record.chn);
    const ofGateway = party.statement.role === "gateway";
    const session = sessions.get(ofGateway ? record.member("agt", "ses") : idOf(party));
    if (session !== undefined) session.records.push(record);
    else if (ofGateway) alone.get(party).records.push(record);
  }
  const byKey = ({ party: one }, { party: other }) => (one.statement.signing.kid < other.statement.signing.kid ? -1 : 1);
  return {
    signers,
    sessions: [...sessions.values()],
    alone: [...alone.values()].filter(({ party }) => bootOf(party) !== undefined).sort(byKey).flatMap(inPieces),
    boots: whole.gateways.map(bootOf).filter((record) => record !== undefined),
    gaps: ofKind("gap").slice(0, MAX_GAPS),
    orders: ofKind(...ORDERS).slice(0, MAX_ORDERS),
  };
}

/** A gateway's records without a session, some at a time. */
function inPieces({ party, records }) {
  const pieces = [];
  for (let at = 0; at < records.length; at += ALONE) pieces.push({ party, records: records.slice(at, at + ALONE) });
  return pieces;
}

function bootOf(party) {
  return party.records.findLast(({ kind }) => kind === "boot");
}

/** A case of some records; `supervisor`: of the session that it is about, null: it is about a gateway. */
function caseOf(whole, { signers }, { records, beside, places, alongLog, supervisor = null }) {
  const { trust, table, at, request, response } = whole;
  const bundle = { ...whole.bundle, proofs: places };
  const subject = new Case({ bundle, trust, table, at, request, response, onlySession: null });
  subject.established = new Set([...whole.established, "fmt.bundle"]);
  subject.logPlaces = places;
  subject.alongLog = alongLog;
  subject.authorized = whole.authorized;
  const known = new Set(records);
  subject.records = [...records, ...beside.filter((record) => !known.has(record))];
  subject.parties = partiesOf(signers, subject.records, known, supervisor);
  if (supervisor !== null) {
    const id = idOf(supervisor);
    const own = subject.parties.find(({ statement }) => statement === supervisor.statement);
    const ofGateways = subject.gateways.flatMap((party) => party.records);
    const gateway = ofGateways.filter((record) => record.member("agt", "ses") === id);
    subject.sessions = [{ id, gateway, supervisor: own, manifest: null, activation: null, narrowings: [] }];
  }
  return subject;
}

/** Who signed what the case is about, or an order beside it; each with its records here, by chain and number. */
function partiesOf(signers, records, known, supervisor) {
  const isOrder = ({ kind }) => ORDERS.includes(kind);
  const wanted = new Set(records.filter((record) => known.has(record) || isOrder(record)).map(({ chn }) => signers.get(chn)));
  if (supervisor !== null) wanted.add(supervisor);
  const parties = new Map();
  for (const record of records) {
    const counts = known.has(record) || record.kind === "boot" || isOrder(record);
    if (counts && wanted.has(signers.get(record.chn))) partyIn(parties, signers.get(record.chn)).records.push(record);
  }
  if (supervisor !== null) partyIn(parties, supervisor);
  for (const party of parties.values()) party.records.sort(byPlace);
  return [...parties.values()];
}

/** The party of a case that is `party` of the whole archive. */
function partyIn(parties, party) {
  const fresh = () => ({ statement: party.statement, records: [], quoted: [] });
  if (!parties.has(party)) parties.set(party, fresh());
  return parties.get(party);
}

async function rowsOf(subject, checks, required) {
  const rows = new Map();
  for (const [code, level, check] of checks) rows.set(code, await run(subject, code, level, required, check));
  const given = { "body.request": subject.request, "body.response": subject.response };
  for (const [code, level, check] of BODIES) {
    if (given[code] !== null) rows.set(code, await run(subject, code, level, required, check));
  }
  return rows;
}
