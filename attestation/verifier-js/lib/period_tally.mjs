// One row out of many cases: what became of one check in each of them.

import { MAX_WHERE } from "./period_exceptions.mjs";
import { makeRow } from "./verdict.mjs";

const WORST_FIRST = ["refused", "not made", "held", "not asked"];
const TIERS = ["affirming", "warning", "none", "contraindicated"];

/** The rows of one check, `{row, name}`, as one; `name`: of the case. `anySuffices`: it holds if it held in one of them. */
export function tallied(code, level, rows, { required, nothing, anySuffices = false }) {
  if (rows.length === 0) return makeRow(code, level, "not made", "none", nothing, { required });
  const states = new Set(rows.map(({ row }) => row.state));
  const state = anySuffices && states.has("held") ? "held" : WORST_FIRST.find((each) => states.has(each));
  const these = rows.filter(({ row }) => row.state === state);
  const warned = state === "held" ? these.filter(({ row }) => row.tier !== "affirming") : [];
  const shown = warned.length > 0 ? warned : these;
  const [{ row }] = shown;
  const tier = state === "held" ? worstTier(these) : row.tier;
  const counted = state === "held" && row.counted !== null ? summed(these) : null;
  const text = counted?.text ?? row.detail;
  const detail = rows.length === 1 ? text : `${shown.length} of ${rows.length}: ${text}`;
  return makeRow(code, level, state, tier, detail, { reason: row.reason, where: placesIn(these), required, counted });
}

/** What all cases have counted together. */
function summed(rows) {
  const counts = rows.map(({ row }) => row.counted).filter((counted) => counted !== null);
  return counts[0].constructor.sum(counts);
}

function worstTier(rows) {
  return TIERS[Math.max(...rows.map(({ row }) => TIERS.indexOf(row.tier)))];
}

/** The first places that refused rows name, or their cases; and those that held rows name. */
function placesIn(rows) {
  const where = rows.flatMap(({ row, name }) => (row.state === "refused" && row.where.length === 0 ? [name] : row.where));
  return [...new Set(where)].slice(0, MAX_WHERE); // several cases may name one order
}
