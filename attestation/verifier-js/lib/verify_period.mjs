// The order of a verification of a period bundle: the archive and its keysets, its log, every receipt once along that, every
// session and gateway as a case of its own, and what the trust file says of log and witnesses.
//
// As in a single bundle: a check throws what it refuses, everything is an argument, and nothing is asked of anybody.

import { openPeriod } from "./period_archive.mjs";
import { aheadOf } from "./log_checks.mjs";
import { bracketsOf, witnessedAmong } from "./period_brackets.mjs";
import { CASE_CHECKS, MAX_ORDERS, judgeCases } from "./period_cases.mjs";
import { judgeChains, judgeIds, judgeOwners, nameOfLeaf } from "./period_chains.mjs";
import { Exceptions, MAX_WHERE } from "./period_exceptions.mjs";
import { leavesOf, oneLogOf, openLog, otherCheckpoints } from "./period_log.mjs";
import { placed, verifyReceipts } from "./period_records.mjs";
import { CHAIN_ROWS, LOG_ROWS, TIME_ROWS, coverage } from "./period_rows.mjs";
import { tallied } from "./period_tally.mjs";
import { checkKeysets, findSessions } from "./receipt_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { Run } from "./run.mjs";
import { held, makeRow } from "./verdict.mjs";
import { timeAround } from "./witness_checks.mjs";

/**
 * The verdict document on one archive, also where it cannot be read: the refusal is then its first row.
 *
 * @param {Uint8Array} data the archive
 * @param {object} trust a parsed trust file; nothing in the archive adds to it
 * @param {object} how as of `Run`; `since` and `until` undefined: coverage is not made
 */
export async function verifyPeriod(data, trust, how) {
  const run = Object.assign(new Run(trust, how), {
    period: null,
    exceptions: new Exceptions(),
    passed: false,
    lines: 0,
    view: null,
    logRefusal: null,
    others: { noted: [], refusals: [], undecided: 0 },
    beside: [],
    allChains: [],
    chains: [],
    brackets: { brackets: [], unnamed: 0, refusal: null },
    judged: [],
  });
  await run.make("fmt.bundle", async () => {
    run.period = await openPeriod(data);
    run.open(bundleOf(run.period));
    return format(run.period);
  });
  if (run.whole !== null) await judge(run);
  run.demandSession();
  return run.verdict(data, {
    time: run.rows.get("time.bracket")?.state === "held" ? timeAround(run.brackets.brackets) : null,
    parties: partiesIn(run),
    population: populationOf(run),
    ofAllSessions: run.asked.onlySession === null,
  });
}

async function judge(run) {
  await run.make("fmt.keysets", () => checkKeysets(run.whole));
  findSessions(run.whole); // none yet has a record; who is judged is said by keysets alone
  const damage = run.whole.established.has("fmt.keysets") ? await pass(run) : null;
  if (damage !== null) await run.make("fmt.bundle", () => Promise.reject(damage));
  for (const [code, check] of [...CHAIN_ROWS, ...LOG_ROWS]) await run.make(code, () => check(run));
  if (run.whole.established.has("sig.receipts")) {
    run.judged = await judgeCases(run.whole, placesOf(run), run.required, { alongLog: run.view !== null });
  }
  for (const [code, check] of TIME_ROWS) await run.make(code, () => check(run));
  await run.make("chain.coverage", () => coverage(run, orderedIn(run.judged)));
  tallyCases(run);
  if (run.exceptions.has("peer.bound")) await run.make("peer.bound", () => run.exceptions.demandNone("peer.bound"));
}

/** Log and receipts; gives what spoils the archive where it is read, or null. */
async function pass(run) {
  const { period, whole, exceptions } = run;
  try {
    await readLog(run);
    run.lines = await verifyReceipts(whole, period, exceptions);
    findSessions(whole);
    const leaves = run.view === null ? [] : await leavesOf(period, run.view, whole.table);
    run.beside = run.view === null ? [] : placed(whole.records, leaves, exceptions);
    judgeNamedSizes(run.beside, exceptions);
    run.allChains = judgeChains(whole, run.beside, exceptions);
    run.chains = run.allChains.filter(({ links }) => links.some(({ prev }) => prev !== null));
    judgeIds(whole.records, exceptions);
    judgeOwners(whole.records, exceptions);
    if (whole.records.filter(({ kind }) => kind === "erasure" || kind === "hold").length > MAX_ORDERS) {
      const facts = { expected: MAX_ORDERS };
      exceptions.add("chain.contiguous", new Refusal("chain.gap", "more erasures and holds than are judged together", facts));
    }
    await readBrackets(run);
    run.passed = true;
    return null;
  } catch (error) {
    forget(run);
    if (!(error instanceof Refusal) || !error.code.startsWith("log.")) return error;
    run.logRefusal = error;
    run.view = null;
    return null;
  }
}

/** `log.consistency` of what records name, each at its own leaf. */
function judgeNamedSizes(beside, exceptions) {
  for (const { leaf, record } of beside) {
    const refusal = record === null ? null : aheadOf(record.member("cps"), leaf.index, record.jti);
    if (refusal !== null) exceptions.add("log.consistency", refusal);
  }
}

/** Of receipts that could not all be read nothing is said. */
function forget(run) {
  const { whole } = run;
  whole.records = [];
  for (const party of whole.parties) party.records = [];
  Object.assign(run, { lines: 0, beside: [], allChains: [], chains: [], exceptions: new Exceptions() });
}

async function readLog(run) {
  try {
    run.view = await openLog(run.period, oneLogOf(run.whole.gateways));
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof NotMade)) throw error;
    run.logRefusal = error;
    return;
  }
  run.others = await otherCheckpoints(run.period, run.view);
  for (const refusal of run.others.refusals) run.exceptions.add("log.consistency", refusal);
}

async function readBrackets(run) {
  const { whole, view, others, beside, exceptions } = run;
  if (view === null || whole.trust.witnesses === null) return;
  try {
    const seen = await witnessedAmong(whole, view.log, [...others.noted, view.newest]);
    run.brackets = { ...bracketsOf(whole, beside, seen, exceptions), refusal: null };
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof NotMade)) throw error;
    run.brackets.refusal = error;
  }
}

function format(period) {
  const { damage, count, unknown, absent } = period;
  if (damage !== null) throw damage;
  const text = `${count} files, each as the manifest lists it`;
  const odd = [];
  if (unknown.length > 0) odd.push(`${unknown.length} files that the layout does not have, not read`);
  if (absent.length > 0) odd.push(`${absent.length} files that are listed and not there`);
  if (odd.length === 0) return held(text);
  return held([text, ...odd].join("; "), { tier: "warning", where: [...unknown, ...absent].slice(0, MAX_WHERE) });
}

/** What a case asks a single bundle for; its proofs are the places in the log, and come with each case. */
function bundleOf(period) {
  const anchors = period.named("anchors/");
  const ending = (text) => anchors.filter((name) => name.endsWith(text));
  return {
    receipts: [],
    proofs: new Map(),
    checkpoints: new Map(),
    anchors: { tsr: ending(".tsr"), sigstore: ending(".sigstore.json") },
    ...period.objects,
  };
}

/** Receipt hash -> place in the log. */
function placesOf({ view, beside }) {
  const places = new Map();
  for (const { leaf, record } of beside) {
    if (record === null || places.has(record.rh)) continue;
    places.set(record.rh, { origin: view.log.origin, index: BigInt(leaf.index) });
  }
  return places;
}

/** What accepted authorities ordered to be erased: by chain and number; and whole chains. */
function orderedIn(judged) {
  const erased = new Map();
  const pruned = new Map();
  for (const { subject } of judged) {
    if (!subject?.established.has("erasure.authority")) continue;
    for (const item of subject.erased.values()) if (item.level === 2) erased.set(nameOfLeaf(item), item.rh);
    for (const [chn, item] of subject.pruned) {
      if ((pruned.get(chn)?.seq ?? -1) < item.seq) pruned.set(chn, item);
    }
  }
  return { erased, pruned };
}

function tallyCases(run) {
  const authentic = run.whole.established.has("sig.receipts");
  const nothing = authentic ? "no session whose supervisor's records are here" : "needs sig.receipts, which did not hold";
  const add = (code, level, anySuffices) => {
    const rows = run.judged.map((each) => ({ row: each.rows.get(code), name: each.name })).filter(({ row }) => row);
    run.rows.set(code, tallied(code, level, rows, { required: run.required(code), nothing, anySuffices }));
  };
  for (const [code, level] of CASE_CHECKS) add(code, level, false);
  if (authentic && run.passed && run.whole.sessions.length === 0 && run.whole.foreign.size > 0) {
    const lacking = "no keyset of the sessions that the gateway's records name is here";
    const facts = { required: run.required("bundle.objects") };
    run.rows.set("bundle.objects", makeRow("bundle.objects", "L4", "not made", "none", lacking, facts));
  }
  for (const [code, level] of run.checksOfBodies()) add(code, level, true);
}

function partiesIn({ whole, judged }) {
  if (whole === null || !whole.established.has("fmt.keysets")) return [];
  return [...whole.parties, ...judged.flatMap(({ subject }) => subject?.parties ?? [])];
}

/** Of receipts that could not be read nobody is counted. */
function populationOf({ whole, passed, lines, judged }) {
  return {
    records: passed ? whole.records : [],
    receipts: lines,
    states: judged.map(({ state }) => state),
    started: passed ? whole.sessions.length : 0,
    foreign: passed ? whole.foreign.size : 0,
  };
}
