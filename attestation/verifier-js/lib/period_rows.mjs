// The rows that are judged over a whole period, each from what was found along its log. They throw what they refuse.

import { checkSigstore, checkTokens } from "./anchor_checks.mjs";
import { Case } from "./case.mjs";
import { gapsText } from "./chain_checks.mjs";
import { acceptedLog } from "./log_checks.mjs";
import { MAX_WHERE } from "./period_exceptions.mjs";
import { coverageOf } from "./period_coverage.mjs";
import { NotMade, NotPinned } from "./refusals.mjs";
import { held } from "./verdict.mjs";
import { bracketFinding, needsSelf, witnessed } from "./witness_checks.mjs";

/** Rules over every receipt: code, what must hold before, and what is said where nothing breaks it. */
const RULES = [
  ["sig.receipts", "fmt.keysets", ({ whole }) => held(`${whole.records.length} signatures hold, each in its closed form`)],
  ["chain.ids", "sig.receipts", ({ whole }) => held(`${whole.records.length} ids, each once`)],
  ["chain.time", "sig.receipts", () => held("self-asserted times in order")],
  ["chain.boot", "sig.receipts", () => held("each chain begins with the boot record of its keyset")],
  ["chain.contiguous", "chain.boot", contiguous],
  ["chain.end", "chain.boot", ended],
  ["chain.epochs", "chain.contiguous", () => held("epoch records at their cadence")],
];
const ALONG = ["chain.time", "chain.boot", "chain.contiguous", "chain.end", "chain.epochs"];

/** `[code, check]` of receipts and chains, in the order in which they are made. */
export const CHAIN_ROWS = Object.freeze([
  ...RULES.map(([code, need, good]) => [code, (run) => ruled(run, code, need, good)]),
  ["chain.gaps", gaps],
]);

/** The same of the log, made before the cases: what they say of holds rests on it. */
export const LOG_ROWS = Object.freeze([
  ["log.inclusion", included],
  ["log.consistency", consistent],
]);

/** The same of times. */
export const TIME_ROWS = Object.freeze([
  ["wit.quorum", quorum],
  ["time.bracket", times],
  ["time.tsa", ({ whole }) => checkTokens(whole)],
  ["time.sigstore", ({ whole }) => checkSigstore(whole)],
]);

/** `chain.coverage`, over the range that was asked for. */
export function coverage(run, { erased, pruned }) {
  const { since, until } = run.range;
  if (since === null && until === null) throw new NotMade("no range was asked for: say which with --from and --to");
  run.whole.need("sig.receipts", "log.inclusion");
  return coverageOf(run.beside, { since, until, size: run.view.size, erased, pruned });
}

/** A rule over every receipt: what broke it refuses, all of it counted. */
function ruled(run, code, need, good) {
  run.whole.need(need);
  if (!run.passed) throw new NotMade("the receipts could not be read");
  if (ALONG.includes(code) && run.view === null) throw new NotMade("chains are judged along the log, which cannot be read");
  run.exceptions.demandNone(code);
  return good(run);
}

function contiguous({ chains, beside }) {
  const placed = beside.filter(({ record }) => record !== null).length;
  const text = `${placed} records in ${chains.length} chains, links unbroken along the log`;
  const withheld = beside.length - placed;
  if (withheld === 0) return held(text);
  return held(`${text}; ${withheld} leaves beside them without a record here`, { tier: "warning" });
}

function ended({ chains }) {
  const count = chains.filter(({ links }) => links.some(({ kind }) => kind === "end")).length;
  return held(`${count} of ${chains.length} chains ended, the others are open`);
}

function gaps({ whole, passed, allChains }) {
  whole.need("sig.receipts");
  if (!passed) throw new NotMade("the receipts could not be read");
  const found = whole.records.filter(({ kind }) => kind === "gap");
  if (found.length === 0) return held("no gap disclosed");
  const where = found.slice(0, MAX_WHERE).map(({ jti }) => jti);
  return held(gapsText(found.length, unlogged(found, allChains)), { tier: "warning", where });
}

/** Of each gap that knows of more than the log holds of its chain: the chain, and the numbers that have no leaf. */
function unlogged(found, chains) {
  const ends = new Map(chains.map(({ links }) => [links.at(-1).chn, links.at(-1).seq]));
  return found
    .map((gap) => gap.member("lst"))
    .filter(({ chn, seq }) => ends.has(chn) && Number(seq) > ends.get(chn))
    .map(({ chn, seq }) => ({ chn, first: ends.get(chn) + 1, last: Number(seq) }));
}

function included(run) {
  const { whole, view, logRefusal } = run;
  if (logRefusal !== null) throw logRefusal;
  return ruled(run, "log.inclusion", "sig.receipts", () => {
    for (const { statement } of whole.gateways) acceptedLog(whole, statement.log);
    const known = new Set(whole.gateways.map(({ statement }) => statement.keysetDigest));
    if (whole.sessions.some(({ supervisor }) => !known.has(supervisor.statement.gks))) {
      throw new NotMade("the gateway that a session names is not in this bundle");
    }
    const placed = run.beside.filter(({ record }) => record !== null).length;
    const text = `${placed} leaves in ${view.log.origin}, under a checkpoint of ${view.size}`;
    if (whole.trust.log === null) {
      return held(`${text}; the log is not pinned by the trust file`, { tier: "warning" });
    }
    return held(text);
  });
}

function consistent({ whole, others, exceptions }) {
  whole.need("log.inclusion");
  exceptions.demandNone("log.consistency");
  if (others.undecided > 0) {
    throw new NotMade(`${others.undecided} checkpoints that cannot be compared with this tree`);
  }
  return held(`${others.noted.length + 1} checkpoints, all of one tree`);
}

async function quorum({ whole, view }) {
  if (whole.trust.witnesses === null) throw new NotPinned("the trust file names no witnesses");
  whole.need("log.inclusion");
  const { bundle, trust, table, at } = whole;
  const asked = new Case({ bundle, trust, table, at, request: null, response: null, onlySession: null });
  const { note, noteText } = view.newest;
  const names = [...(await witnessed(asked, note, noteText, view.log)).times.keys()].sort();
  if (needsSelf(asked)) return held("witness: self, which is run by whoever runs the log", { tier: "warning" });
  return held(`the checkpoint is cosigned by ${names.join(", ")}`);
}

function times({ whole, brackets, exceptions }) {
  if (whole.trust.witnesses === null) {
    throw new NotPinned("without witnesses there is no time but what signers assert");
  }
  whole.need("wit.quorum", "chain.contiguous");
  if (brackets.refusal !== null) throw brackets.refusal;
  exceptions.demandNone("time.bracket");
  if (brackets.unnamed > 0) {
    const what = "checkpoints that epochs or keysets name are not in the bundle, or not cosigned";
    throw new NotMade(`${brackets.unnamed} ${what}`);
  }
  return bracketFinding(whole, brackets.brackets);
}
