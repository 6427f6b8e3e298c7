// L1, the chains: whole, linked, booted, in rhythm, with nothing after an end.

import { byChain } from "./case.mjs";
import { afterEnd, brokenLinks, demandNone, linkOf, offRhythm, outOfTime, withoutBoot } from "./chain_rules.mjs";
import { placeOf } from "./erasure_checks.mjs";
import { Refusal } from "./refusals.mjs";
import { held } from "./verdict.mjs";

/** Gaps whose records are named. */
const SHOWN = 5;

/** `chain.ids`: no two records have one id. */
export function checkIds(subject) {
  subject.need("sig.receipts");
  const seen = new Set();
  for (const record of subject.records) {
    if (seen.has(record.jti)) {
      throw new Refusal("chain.repeated_id", "one id in two records", { where: record.jti });
    }
    seen.add(record.jti);
  }
  return held(`${seen.size} ids, each once`);
}

/** `chain.time`: self-asserted times do not go back, and none lies after the instant judged at. */
export function checkTime(subject) {
  subject.need("sig.receipts");
  const bounds = { at: subject.at, tolerance: subject.trust.clockToleranceS };
  for (const chain of byChain(subject.records).values()) demandNone(outOfTime(chain.map(linkOf), bounds));
  return held("self-asserted times in order");
}

/** `chain.boot`: each chain begins with the one boot record of its own keyset. */
export function checkBoot(subject) {
  subject.need("sig.receipts");
  for (const [party, , chain] of eachChain(subject)) {
    demandNone(withoutBoot(chain.map(linkOf), party.statement.keysetDigest));
  }
  return held("each chain begins with the boot record of its keyset");
}

/**
 * `chain.contiguous`: no number missing or twice; each link names the record before it. A gateway's chain may leave
 * out one stretch right after its boot record: what it did before this session. Erasures and holds at its end may stand
 * alone. What an accepted authority ordered to be erased may be missing; order and link name its hash.
 */
export function checkContiguous(subject) {
  subject.need("chain.boot");
  const notes = [];
  let gone = 0;
  for (const [party, chn, chain] of eachChain(subject)) {
    const [main] = partsOf(party, chain);
    const links = linksOf(party, main.length, chain, subject.erased);
    demandNone(brokenLinks(links));
    gone += links.length - chain.length;
    const skipped = party.statement.role === "gateway" ? skippedAfterBoot(main) : 0;
    if (skipped > 0) notes.push(`records 1 to ${skipped} of ${chn} not here`);
  }
  const text = `${subject.records.length} records, links unbroken`;
  const noted = notes.length > 0 ? `${text} (${notes.join("; ")})` : text;
  if (gone === 0) return held(noted);
  const orders = [...subject.erased.values()].filter(({ level }) => level === 2).map(({ order }) => order);
  const where = [...new Set(orders)].sort();
  return held(`${noted}; ${gone} records erased by order of an authority`, { tier: "warning", where });
}

/** `chain.end`: nothing after an end record. */
export function checkEnd(subject) {
  subject.need("chain.boot");
  const chains = [...byChain(subject.records).values()].map((chain) => chain.map(linkOf));
  for (const chain of chains) demandNone(afterEnd(chain));
  const ended = chains.filter((chain) => chain.at(-1).kind === "end").length;
  return held(`${ended} of ${chains.length} chains ended, the others are open`);
}

/** `chain.epochs`: no more time between boot, epochs and any record than the keyset's cadence; each epoch counts. */
export function checkEpochs(subject) {
  subject.need("chain.contiguous");
  for (const [party, , chain] of eachChain(subject)) {
    const [main] = partsOf(party, chain);
    const marks = skippedAfterBoot(main) > 0 ? main.slice(1) : main;
    const rhythm = { epochS: party.statement.epochS, tolerance: subject.trust.clockToleranceS };
    demandNone(offRhythm(marks.map(linkOf), rhythm));
  }
  return held("epoch records at their cadence");
}

/**
 * `chain.gaps`: what a crash left unaccounted is disclosed, and each disclosure is a warning. Which records are in no log a
 * single bundle cannot tell: of its gateway's chain it holds what its session needs.
 */
export function checkGaps(subject) {
  subject.need("sig.receipts");
  const gaps = subject.records.filter((record) => record.kind === "gap").map((record) => record.jti);
  if (gaps.length === 0) return held("no gap disclosed");
  return held(gapsText(gaps.length, []), { tier: "warning", where: gaps });
}

/** How many gaps are disclosed, and which records were signed before a crash and have no leaf: `[{chn, first, last}]`. */
export function gapsText(count, unlogged) {
  const text = count === 1 ? "1 gap disclosed after a crash" : `${count} gaps disclosed after a crash`;
  if (unlogged.length === 0) return text;
  const named = unlogged.map(({ chn, first, last }) => `${first === last ? first : `${first} to ${last}`} of chain ${chn}`);
  const more = named.length > SHOWN ? ` and ${named.length - SHOWN} more` : "";
  return `${text}; records ${named.slice(0, SHOWN).join(", ")}${more} were signed before it and never logged: sessions may have been lost in them`;
}

function* eachChain(subject) {
  for (const party of subject.parties) {
    for (const [chn, chain] of byChain(party.records)) yield [party, chn, chain];
  }
}

/** How many records after the boot record are left out; never negative, so that a double is compared. */
function skippedAfterBoot(chain) {
  return chain.length > 1 ? Math.max(0, chain[1].seq - 1) : 0;
}

/** A gateway's chain, and the erasures and holds at its end. */
function partsOf({ statement }, chain) {
  if (statement.role !== "gateway") return [chain, []];
  const last = chain.findLastIndex(({ kind }) => kind !== "erasure" && kind !== "hold");
  return [chain.slice(0, last + 1), chain.slice(last + 1)];
}

/** The links of a chain, and of what is missing in it by order; after the first `count`, any may be left out. */
function linksOf({ statement }, count, chain, erased) {
  return chain.flatMap((record, at) => {
    if (at === 0) return [linkOf(record)];
    const before = chain[at - 1];
    const maySkip = at >= count || (at === 1 && statement.role === "gateway");
    if (maySkip) return [{ ...linkOf(record), skipped: Math.max(0, record.seq - before.seq - 1) }];
    return [...erasedBetween(before, record, erased), linkOf(record)];
  });
}

/** The links of all that is between two records, if an order names each; else none. */
function erasedBetween(before, record, erased) {
  const missing = record.seq - before.seq - 1;
  if (missing < 1 || missing > erased.size) return []; // numbers are whatever was signed: nothing here grows with them
  const found = Array.from({ length: missing }, (_, at) => erased.get(placeOf({ chn: record.chn, seq: before.seq + 1 + at })));
  return found.every((each) => each?.level === 2) ? found.map((each) => ({ ...each, prev: null })) : [];
}
