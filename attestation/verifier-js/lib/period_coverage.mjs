// `chain.coverage`: of the auditor's own range, is every leaf's record here (trust rules, 6)?
//
// A leaf is in the range by its own time. That none of the range stands outside of what the archive shows of the log is
// shown by its neighbours: one before it that is older than the range, one after it that is newer.

import { nameOfLeaf } from "./period_chains.mjs";
import { MAX_WHERE } from "./period_exceptions.mjs";
import { NotMade } from "./refusals.mjs";
import { held } from "./verdict.mjs";

/**
 * What the range from `since` to before `until` (seconds; null: not bounded) amounts to. `size`: leaves under the checkpoint;
 * `erased`: `<chain>:<number>` -> hash of what was ordered to be erased; `pruned`: chain -> `{seq, rh}` of the last record.
 */
export function coverageOf(beside, { since, until, size, erased, pruned }) {
  if (since === null && until === null) throw new NotMade("no range was asked for: say which with --from and --to");
  const isInside = ({ iat }) => (since === null || iat >= since) && (until === null || iat < until);
  const begins = (first) => first.index === 0 || (since !== null && first.iat < since);
  const ends = (last) => until !== null && last.iat >= until;
  const { last } = theStretch(beside, { isInside, begins, ends, size });
  const inside = beside.filter(({ leaf }) => isInside(leaf));
  const missing = inside.filter(({ record }) => record === null).map(({ leaf }) => leaf);
  const withheld = missing.filter((leaf) => !isErased(leaf, erased, pruned));
  const gone = missing.length - withheld.length;
  const tail = until === null || ends(last) ? "" : `; the checkpoint ends at leaf ${last.index}, before the range does`;
  const more = `${gone > 0 ? `, ${gone} erased by order` : ""}${tail}`;
  if (withheld.length > 0) {
    const where = [...new Set(withheld.map(nameOfLeaf))].slice(0, MAX_WHERE);
    const text = `${withheld.length} of ${inside.length} leaves of the range without a record${more}`;
    return held(text, { tier: "warning", where });
  }
  const text = `${inside.length} leaves in the range, each with its record${more}`;
  return held(text, { tier: more === "" ? "affirming" : "warning" });
}

/** The first and the last leaf of the one stretch that holds the whole range. */
function theStretch(beside, { isInside, begins, ends, size }) {
  const stretches = new Map();
  for (const { leaf } of beside) {
    if (!stretches.has(leaf.stretch)) stretches.set(leaf.stretch, { first: leaf, last: leaf, holds: false });
    const stretch = stretches.get(leaf.stretch);
    stretch.last = leaf;
    stretch.holds ||= isInside(leaf);
  }
  const all = [...stretches.values()];
  const holding = all.filter(({ holds }) => holds);
  if (holding.length === 0) {
    const around = all.find(({ first, last }) => begins(first) && ends(last)); // nothing happened between the two
    if (around === undefined) throw new NotMade("the archive shows no leaf of this range, and not that there is none");
    return around;
  }
  const [found, second] = holding;
  if (second !== undefined) {
    const place = `between ${found.last.index} and ${second.first.index}`;
    throw new NotMade(`the archive leaves out leaves within the range: ${place}`);
  }
  if (!begins(found.first)) throw new NotMade(`the archive begins at leaf ${found.first.index}, within the range`);
  if (!ends(found.last) && found.last.index !== size - 1) {
    throw new NotMade(`the archive ends at leaf ${found.last.index}, within the range`);
  }
  return found;
}

/** By its own name, or because its chain was pruned, up to a record that the order names. */
function isErased(leaf, erased, pruned) {
  if (erased.get(nameOfLeaf(leaf)) === leaf.rh) return true;
  const last = pruned.get(leaf.chn);
  return last !== undefined && (leaf.seq < last.seq || (leaf.seq === last.seq && leaf.rh === last.rh));
}
