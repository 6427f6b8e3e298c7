// Every receipt of a period bundle, verified under its keyset and put beside its leaf of the log.

import { receiptsIn } from "./period_lines.mjs";
import { take, verifierOf } from "./receipt_checks.mjs";
import { Refusal } from "./refusals.mjs";
import { toHex } from "./encoding.mjs";

/** Receipts that are verified side by side. */
const BESIDE = 64;
/** Lines that are searched for in the rest of the log; beyond, the order of the lines is no log's. */
const MAX_UNPLACED = 20;

/**
 * Verifies every receipt into `subject` (its records, and those of its parties), in the order of the log. What is refused
 * goes to `exceptions`. Gives how many lines there were.
 */
export async function verifyReceipts(subject, period, exceptions) {
  const verify = verifierOf(subject);
  let lines = 0;
  let waiting = [];
  const settle = async () => {
    for (const found of await Promise.all(waiting)) {
      if (found instanceof Refusal) exceptions.add("sig.receipts", found);
      else take(subject, found);
    }
    waiting = [];
  };
  for await (const { where, text } of receiptsIn(period)) {
    lines += 1;
    waiting.push(verified(verify, text, where));
    if (waiting.length === BESIDE) await settle();
  }
  await settle();
  return lines;
}

/**
 * Puts records beside their leaves, in one order: `[{leaf, record}]` over all leaves that are shown, `record` null where it
 * is not here. A record that the log does not hold, or not after the one before it, goes to `exceptions`.
 */
export function placed(records, leaves, exceptions) {
  const places = new Map();
  for (const [at, { data }] of leaves.entries()) {
    const name = toHex(data);
    if (!places.has(name)) places.set(name, { next: 0, all: [] });
    places.get(name).all.push(at);
  }
  const beside = leaves.map((leaf) => ({ leaf, record: null }));
  let next = 0;
  let unplaced = 0;
  for (const record of records) {
    const at = notBefore(next, places.get(toHex(record.leaf())));
    if (at === undefined || (at !== next && unplaced >= MAX_UNPLACED)) {
      unplaced += 1;
      const message = "a receipt that the log does not hold, or not after the one before it";
      exceptions.add("log.inclusion", new Refusal("log.not_included", message, { where: record.jti }));
      continue;
    }
    beside[at].record = record;
    next = at + 1;
  }
  return beside;
}

/** The first of some places that is not before `least`, which only grows: what is before it is never asked for again. */
function notBefore(least, places) {
  if (places === undefined) return undefined;
  while (places.all[places.next] < least) places.next += 1;
  return places.all[places.next];
}

/** The record and who signed it, or the refusal. */
async function verified(verify, text, where) {
  try {
    return await verify(text);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    error.where = error.where === null ? where : `${where}.${error.where}`;
    return error;
  }
}
