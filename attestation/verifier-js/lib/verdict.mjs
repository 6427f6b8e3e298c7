// Verdicts: rows, tiers, levels, outcome, exit codes (trust rules 12 and 13), as `affiant-verdict/1`.
//
// This verifier appraises no quote to its end. So no verdict of its is affirming, whatever its rows say (trust rules, 15).

/** What each level says. */
export const LEVELS = Object.freeze({
  L0: "receipts are authentic under the keys that the bundle names",
  L1: "chains and sessions are whole, without gap",
  L2: "included in the log",
  L3: "witnessed, and the time bounds are not empty",
  L4: "keys are bound to appraised TDX evidence",
  L5: "content is opened and matches",
});
const TIERS = ["affirming", "warning", "none", "contraindicated"];
const EXIT_CODES = { warning: 10, contraindicated: 20, none: 30 };
const EXIT_SIMULATED = 40;

/** A check that was made and refused nothing. `counted`: what `detail` counts, as of `counted.mjs`. */
export function held(detail, { tier = "affirming", where = [], counted = null } = {}) {
  return { detail, tier, where, counted };
}

/** One row of the verdict; what it counts is no part of the document. */
export function makeRow(code, level, state, tier, detail, { reason = null, where = [], required = true, counted = null } = {}) {
  const row = { code, level, state, tier, reason, where, detail, required };
  return Object.defineProperty(row, "counted", { value: counted });
}

/**
 * The state of a level: refused, not made, held or not asked, the first that one of its checks has. L1 that holds is open or
 * lost where a session is.
 */
export function levelState(rows, level, { open, lost }) {
  const states = new Set(rows.filter((row) => row.level === level).map((row) => row.state));
  const state = ["refused", "not made", "held", "not asked"].find((each) => states.has(each)) ?? "not made";
  if (level !== "L1" || state !== "held" || open + lost === 0) return state;
  return open > 0 ? "open" : "lost";
}

/** What a reader demands: `L3`, `complete`, or both with a comma between them; null for another text. */
export function parseDemand(text) {
  const [level, ...others] = text.split(",").sort();
  if (level === "complete" && others.length === 0) return { level: null, complete: true };
  if (!Object.hasOwn(LEVELS, level) || !["", "complete"].includes(others.join())) return null;
  return { level, complete: others.length > 0 };
}

/** How the sessions ended, in words: those that were judged, and how many were not. */
export function endsOf({ started, closed, open, lost, not_judged: foreign }) {
  const others = [["open", open], ["lost", lost], ["not judged whole", started - closed - open - lost]];
  const counts = (closed === started ? [["closed", closed]] : others).filter(([, count]) => count > 0);
  const said = counts.map(([word, count]) => `${count} of ${started} ${word}`);
  if (foreign > 0) said.push(`${foreign} not judged`);
  return said.join(", ") || "none judged";
}

/**
 * The verdict document over all rows. `evidenceClass`: simulated, hardware (claimed), or null. `ofAllSessions`: a period of
 * which no single session was asked for.
 */
export function makeVerdict(found) {
  const { bundle, at, trust, build, time, evidenceClass, rows, population, demand, asked, summary, ofAllSessions } = found;
  const { sessions } = population;
  const levels = Object.fromEntries(Object.keys(LEVELS).map((level) => [level, levelState(rows, level, sessions)]));
  const level = highest(levels);
  const simulated = evidenceClass === "simulated";
  const unmet = unmetOf(demand, level, rows, sessions, ofAllSessions);
  const outcome = outcomeOf(rows);
  const short = outcome === "cannot be judged" || unmet.length > 0;
  const tier = tierOf(rows, simulated || unmet.length > 0);
  const codes = (state) => rows.filter((row) => row.state === state).map((row) => row.code).sort();
  return {
    typ: "affiant-verdict/1",
    bundle,
    at,
    trust,
    tool: { name: "affiant-verifier-js", build },
    time,
    outcome,
    platform_class: platformOf(evidenceClass),
    tier,
    simulated,
    evidence_class: evidenceClass,
    level,
    levels,
    exit_code: exitCodeOf(tier, { simulated, short }),
    demand: { ...demand, unmet },
    ...(Object.keys(asked).length === 0 ? {} : { asked }),
    requirements_off: rows.filter((row) => !row.required).map((row) => row.code).sort(),
    not_made: codes("not made"),
    not_asked: codes("not asked"),
    counts: population,
    summary,
    checks: rows,
  };
}

/** What the checks come to, whatever the platform is. It never `holds`: quotes are not appraised to their end. */
function outcomeOf(rows) {
  if (rows.some((row) => row.state === "refused")) return "rejected";
  const lacks = ({ code, required, state }) => code === "bundle.objects" && required && state === "not made";
  return rows.some(lacks) ? "cannot be judged" : "holds in part";
}

/** What the evidence is of: hardware is at most claimed. */
function platformOf(evidenceClass) {
  if (evidenceClass === null) return "no evidence";
  return evidenceClass === "simulated" ? "simulated" : "hardware (claimed)";
}

/** What of the reader's demand is not reached. A session's bundle holds its neighbours' records: they are not asked for. */
function unmetOf(demand, level, rows, { started, closed, not_judged: foreign }, ofAllSessions) {
  const order = [null, ...Object.keys(LEVELS)];
  const ends = rows.find(({ code }) => code === "session.close");
  const wanted = started + (ofAllSessions ? foreign : 0);
  const isComplete = ends?.state === "held" && wanted > 0 && closed === wanted;
  const isShort = order.indexOf(level) < order.indexOf(demand.level);
  return [...(isShort ? ["level"] : []), ...(demand.complete && !isComplete ? ["complete"] : [])];
}

/** `short`: it cannot be judged, or falls short of the reader's demand. */
function exitCodeOf(tier, { simulated, short }) {
  if (tier === "contraindicated") return EXIT_CODES.contraindicated;
  if (short) return EXIT_CODES.none;
  return simulated ? EXIT_SIMULATED : EXIT_CODES[tier];
}

function highest(levels) {
  let reached = null;
  for (const [level, state] of Object.entries(levels)) {
    if (!["held", "open", "lost"].includes(state)) break;
    reached = level;
  }
  return reached;
}

/** The worst tier of the required rows and of every refused one; never better than `warning`; `isNone`: than `none`. */
function tierOf(rows, isNone) {
  const counted = rows.filter((row) => row.tier !== null && (row.required || row.state === "refused"));
  const tiers = [...counted.map((row) => row.tier), isNone ? "none" : "warning"];
  if (counted.length === 0) tiers.push("none");
  return TIERS[Math.max(...tiers.map((tier) => TIERS.indexOf(tier)))];
}
