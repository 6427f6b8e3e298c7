// Verdicts: rows, tiers, levels, exit codes (trust rules 12 and 13), as `affiant-verdict/1`.
//
// This verifier appraises no quote to its end. So no verdict of its is affirming, whatever its rows say (trust rules, 15).

/** What each level says. */
export const LEVELS = Object.freeze({
  L0: "receipts are authentic under the keys that the bundle names",
  L1: "chains and sessions are whole, without gap",
  L2: "included in the log",
  L3: "witnessed, and the time bracket is not empty",
  L4: "keys are bound to appraised TDX evidence",
  L5: "content is opened and matches",
});
const TIERS = ["affirming", "warning", "none", "contraindicated"];
const EXIT_CODES = { warning: 10, contraindicated: 20, none: 30 };
const EXIT_SIMULATED = 40;

/** A check that was made and refused nothing. */
export function held(detail, { tier = "affirming", where = [] } = {}) {
  return { detail, tier, where };
}

/** One row of the verdict. */
export function makeRow(code, level, state, tier, detail, { reason = null, where = [], required = true } = {}) {
  return { code, level, state, tier, reason, where, detail, required };
}

/** The state of a level: refused, not made, held or not asked, the first that one of its checks has. */
export function levelState(rows, level) {
  const states = new Set(rows.filter((row) => row.level === level).map((row) => row.state));
  return ["refused", "not made", "held", "not asked"].find((state) => states.has(state)) ?? "not made";
}

/** The verdict document over all rows. `evidenceClass`: simulated, hardware (claimed), or null. */
export function makeVerdict({ bundle, at, trust, build, time, evidenceClass, rows, population, summary }) {
  const levels = Object.fromEntries(Object.keys(LEVELS).map((level) => [level, levelState(rows, level)]));
  const level = highest(levels);
  const simulated = evidenceClass === "simulated";
  const tier = tierOf(rows, simulated);
  const codes = (state) => rows.filter((row) => row.state === state).map((row) => row.code).sort();
  return {
    typ: "affiant-verdict/1",
    bundle,
    at,
    trust,
    tool: { name: "affiant-verifier-js", build },
    time,
    tier,
    simulated,
    evidence_class: evidenceClass,
    level,
    levels,
    exit_code: tier === "contraindicated" ? EXIT_CODES.contraindicated : simulated ? EXIT_SIMULATED : EXIT_CODES[tier],
    requirements_off: rows.filter((row) => !row.required).map((row) => row.code).sort(),
    not_made: codes("not made"),
    not_asked: codes("not asked"),
    counts: population,
    summary,
    checks: rows,
  };
}

function highest(levels) {
  let reached = null;
  for (const [level, state] of Object.entries(levels)) {
    if (state !== "held") break;
    reached = level;
  }
  return reached;
}

/** The worst tier of the required rows and of every refused one; never better than `warning`, simulated: `none`. */
function tierOf(rows, simulated) {
  const counted = rows.filter((row) => row.tier !== null && (row.required || row.state === "refused"));
  const tiers = [...counted.map((row) => row.tier), simulated ? "none" : "warning"];
  if (counted.length === 0) tiers.push("none");
  return TIERS[Math.max(...tiers.map((tier) => TIERS.indexOf(tier)))];
}
