// L3 over a period: when records existed, by witnesses. Not before: what the keyset, or the nearest earlier epoch of the
// gateway's chain, names. Not after: the earliest of the cosigned checkpoints of this tree that cover the leaf.

import { signersByChain } from "./case.mjs";
import { link } from "./cryptography.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { demandInside, witnessed } from "./witness_checks.mjs";

/**
 * What the trust file's witnesses back among `noted`, checkpoints of one tree of which the last is the newest, which must be
 * backed: `{ceilings: [{size, notAfter}], floors: Map(digest -> {size, notBefore})}`. Numbers are BigInts.
 */
export async function witnessedAmong(subject, log, noted) {
  const ceilings = [];
  const floors = new Map();
  for (const { bytes, note, noteText, checkpoint } of noted) {
    const seen = await backed(subject, note, noteText, log, noteText === noted.at(-1).noteText);
    if (seen === null) continue;
    ceilings.push({ size: checkpoint.size, notAfter: seen.notAfter });
    floors.set(await link(bytes), { size: checkpoint.size, notBefore: seen.notBefore });
  }
  ceilings.sort((one, other) => (one.size < other.size ? -1 : 1));
  for (let at = ceilings.length - 2; at >= 0; at -= 1) {
    const later = ceilings[at + 1].notAfter;
    if (later < ceilings[at].notAfter) ceilings[at].notAfter = later;
  }
  return { ceilings, floors };
}

/**
 * The bracket of every record that has its leaf, in the order of the log: `{brackets: [{floor, ceiling}], unnamed}`. What
 * contradicts its bracket goes to `exceptions`; `unnamed`: how many checkpoints are named that are not here, or not backed.
 */
export function bracketsOf(subject, beside, { ceilings, floors }, exceptions) {
  const found = { brackets: [], unnamed: 0 };
  const byChain = floorsStated(subject, floors, found);
  const admitted = new Map();
  const signers = signersByChain(subject);
  let covering = 0;
  for (const { leaf, record } of beside) {
    if (record === null) continue;
    while (ceilings[covering].size <= BigInt(leaf.index)) covering += 1;
    const { role, signing } = signers.get(record.chn).statement;
    if (role === "gateway" && typeof record.member("cp") === "string") {
      rise(record, floors.get(record.member("cp")), byChain, found, exceptions);
    }
    const floor = (role === "gateway" ? byChain.get(record.chn) : admitted.get(signing.kid)) ?? null;
    const ceiling = ceilings[covering].notAfter;
    found.brackets.push({ floor, ceiling });
    const broken = brokenBy(record, floor, ceiling, BigInt(subject.trust.clockToleranceS));
    if (broken !== null) exceptions.add("time.bracket", broken);
    if (record.kind === "session-start") admitted.set(record.member("agt", "key"), byChain.get(record.chn) ?? null);
  }
  return found;
}

/** A checkpoint under the witnesses; null where they do not back one that need not be. */
async function backed(subject, note, noteText, log, isNewest) {
  try {
    return await witnessed(subject, note, noteText, log);
  } catch (error) {
    if (error instanceof NotMade && !isNewest) return null; // it bounds nothing; who names it will say so
    throw error;
  }
}

/** What keysets name: none of their chains is older. */
function floorsStated(subject, floors, found) {
  const byChain = new Map();
  for (const { statement } of subject.parties) {
    if (statement.cp === undefined) continue;
    const known = floors.get(statement.cp);
    for (const chn of statement.chn) {
      if (known === undefined) found.unnamed += 1;
      else byChain.set(chn, known.notBefore);
    }
  }
  return byChain;
}

/** What an epoch names: nothing after it in its chain is older. */
function rise(record, known, byChain, found, exceptions) {
  if (known === undefined) {
    found.unnamed += 1;
    return;
  }
  const said = record.member("cps");
  if (said !== undefined && BigInt(said) !== known.size) {
    const facts = { where: record.jti, expected: known.size, found: said };
    exceptions.add("time.bracket", new Refusal("time.outside", "an epoch names a checkpoint of another size", facts));
  }
  byChain.set(record.chn, known.notBefore);
}

function brokenBy(record, floor, ceiling, tolerance) {
  try {
    demandInside(record, floor, ceiling, tolerance);
    return null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error;
  }
}
