// The verdict as text for a terminal. Strings from a bundle are hostile: escaped, bounded, quoted (trust rules, 15).

import { openPointsOf, sentencesOf } from "./opening.mjs";
import { printable, quoted } from "./printable.mjs";
import { LEVELS, endsOf } from "./verdict.mjs";

const WIDTH = 100;
const MAX_POINTS = 12;
const MARKS = {
  held: "held",
  open: "open",
  lost: "lost",
  refused: "REFUSED",
  "not made": "not made",
  "not asked": "not asked",
};
const PLATFORMS = {
  "hardware (claimed)": "hardware (claimed): no appraisal up to L4 confirms it",
  "no evidence": "no evidence: no signer's platform is known",
  simulated: "SIMULATED: nothing here is evidence of hardware",
};
const SCOPE = {
  session: "session {} alone",
  from: "records from {}",
  to: "records to {}",
  request: "request body {}",
  response: "response body {}",
};
/** What a session that is open or lost leaves unsaid. */
export const NO_END = "what a session without a signed end did after its last record here is not shown";

/** What no verdict of this verifier says, printed with every one. */
export const LIMITS = Object.freeze([
  "This verifier appraises no quote to its end: whether the platform is revoked or out of date is not judged.",
  "A receipt says what the measured gateway code saw, did and decided; not that a model computed the answer.",
  "remote-adversary-only: no claim against whoever holds the machine. Time is self-asserted until witnessed.",
]);

/** The facts that stand first in every verdict (trust rules, 14): name and value. */
export function headOf(verdict) {
  const off = verdict.checks.filter((row) => !row.required).map((row) => row.code);
  return [
    ["bundle", verdict.bundle],
    ...bannerOf(verdict),
    ["judged at", verdict.at],
    ["time", timeText(verdict)],
    ["verifier", verdict.tool.build],
    ["trust file", verdict.trust],
    ["requirements off", off.join(", ") || "none"],
    ["not made", codes(verdict, "not made")],
    ["not asked", codes(verdict, "not asked")],
  ];
}

/** What was asked, what it comes to, on what platform, how sessions ended, what is demanded and not reached: name and value. */
export function bannerOf(verdict) {
  const { outcome, platform_class: platform, counts, demand } = verdict;
  const { sessions } = counts;
  const ends = endsOf(sessions);
  const unmet = { level: `level ${demand.level} is not reached, but ${verdict.level ?? "none"}` };
  unmet.complete = `sessions are not complete: ${ends}`;
  const rows = [
    ...(verdict.asked === undefined ? [] : [["asked", scopeText(verdict.asked)]]),
    ["outcome", `${outcome.toUpperCase()}: ${whyOf(verdict)}`],
    ["platform", PLATFORMS[platform]],
    ["sessions", sessions.open + sessions.lost > 0 ? `${ends}; ${NO_END}` : ends],
  ];
  if (demand.unmet.length === 0) return rows;
  return [...rows, ["demanded", `NOT REACHED: ${demand.unmet.map((name) => unmet[name]).join("; ")}`]];
}

function scopeText(asked) {
  return Object.entries(SCOPE)
    .filter(([name]) => name in asked)
    .map(([name, words]) => words.replace("{}", () => quoted(asked[name])))
    .join("; ");
}

function whyOf({ outcome, checks }) {
  const count = (is) => checks.filter(is).length;
  const warned = count(({ required, state, tier }) => required && state === "held" && tier === "warning");
  const missing = count(({ required, state }) => required && state === "not made");
  const refused = count(({ state }) => state === "refused");
  if (outcome === "rejected") return `refused checks: ${refused}. Do not rely on these receipts`;
  if (outcome === "cannot be judged") {
    return "objects that the records name are not in the bundle, so nothing follows from what holds";
  }
  return `nothing was rejected; required checks with a warning: ${warned}, not made: ${missing}`;
}

/** What a level says of this bundle: L1 how sessions ended, L4 on what platform. */
export function meaningOf({ levels, counts, platform_class: platform }, level) {
  if (level === "L1" && ["open", "lost"].includes(levels.L1)) {
    return `what is here is whole; sessions without a signed end: ${endsOf(counts.sessions)}`;
  }
  if (level !== "L4") return LEVELS[level];
  return `${LEVELS.L4}; platform: ${platform === "simulated" ? "SIMULATED, not hardware" : platform}`;
}

function timeText({ time, checks }) {
  if (time === null) return "the signers' word alone";
  const begin = time.not_before === null ? "no witnessed beginning" : `from ${time.not_before}`;
  const own = checks.some(({ code, tier }) => code === "wit.quorum" && tier === "warning");
  return `by ${own ? "the operator's own witness" : "witnesses"}: ${begin}, to ${time.not_after}`;
}

/** Who is in the bundle: two sentences. */
export function populationOfVerdict({ counts }) {
  const { sessions, kinds } = counts;
  const foreign = sessions.not_judged > 0 ? `, ${sessions.not_judged} not judged` : "";
  const named = Object.entries(kinds).sort(([one], [other]) => (one < other ? -1 : 1));
  return [
    `${counts.receipts} receipts in ${counts.chains} chains (${counts.restarts} restarts); sessions: ` +
      `${sessions.started} started, ${sessions.closed} closed, ${sessions.lost} lost, ${sessions.open} open${foreign}`,
    `of which ${named.map(([kind, count]) => `${count} ${kind}`).join(", ") || "nothing"}`,
  ];
}

/** The last line: what it comes to. */
export function conclusionOf(verdict) {
  const reached = `${verdict.outcome}, tier ${verdict.tier}, level ${verdict.level ?? "none reached"}`;
  if (!verdict.simulated) return `${reached}, ${verdict.platform_class}`;
  return `SIMULATED  ${reached}: nothing here is evidence of hardware`;
}

/** The whole report, with a final newline. */
export function render(verdict) {
  const [first, ...others] = verdict.checks;
  if (first.state === "refused" && (first.reason === "fmt.json" || first.where.join() === "typ")) {
    return `${wrapped("REFUSED  ", `no bundle: [${first.reason}] ${first.detail} (${verdict.bundle})`).join("\n")}\n`;
  }
  const lines = headOf(verdict).flatMap(([name, value]) => wrapped(name.padEnd(17), value));
  if (first.state === "refused" && others.every(({ state }) => state === "not made" || state === "not asked")) {
    return `${[...lines, "", ...endOf(verdict)].join("\n")}\n`; // nothing could be read: every other row says the same
  }
  lines.push("", ...wrapped("", sentencesOf(verdict).join(" ")), "", ...pointLines(verdict.checks));
  lines.push("", ...populationOfVerdict(verdict).flatMap((sentence) => wrapped("", sentence)), "");
  for (const level of Object.keys(LEVELS)) {
    lines.push(...wrapped(`${level}  ${MARKS[verdict.levels[level]].padEnd(10)}`, meaningOf(verdict, level)));
  }
  lines.push("", ...verdict.checks.flatMap(rowLines), "", ...endOf(verdict));
  return `${lines.join("\n")}\n`;
}

function endOf(verdict) {
  const refused = verdict.checks.find((row) => row.state === "refused");
  const why = refused === undefined ? [] : wrapped("REFUSED  ", `${refused.reason}: ${refused.detail}`);
  return [...LIMITS.flatMap((limit) => wrapped("", limit)), ...why, conclusionOf(verdict)];
}

function pointLines(rows) {
  const points = openPointsOf(rows);
  const lines = points.slice(0, MAX_POINTS).flatMap(({ row, means, step }) => {
    const mark = row.state === "refused" ? "REFUSED: it does not hold that " : "that ";
    return wrapped("  - ", `${mark}${means}. ${step} [${row.code}]`);
  });
  const more = points.length > MAX_POINTS ? [`  and ${points.length - MAX_POINTS} more, in the table`] : [];
  return points.length === 0 ? [] : ["Not proven, and what to do:", ...lines, ...more];
}

function rowLines(row) {
  const head = row.code.padEnd(20) + MARKS[row.state].padEnd(10) + (row.tier ?? "").padEnd(16);
  const lines = wrapped(head, row.reason === null ? row.detail : `[${row.reason}] ${row.detail}`);
  if (row.where.length === 0 || row.state !== "held") return lines;
  const named = row.where.map((jti) => `'${printable(jti)}'`).join(", ");
  return [...lines, ...wrapped(" ".repeat(head.length), `receipts: ${named}`)];
}

function codes(verdict, state) {
  return verdict.checks.filter((row) => row.state === state).map((row) => row.code).join(", ") || "none";
}

/** `text` after `head`, in lines of at most 100 columns; words that are longer are broken. */
function wrapped(head, text) {
  const width = WIDTH - head.length;
  const lines = [];
  let line = "";
  for (let word of printable(text).split(" ").filter((each) => each !== "")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = "";
    }
    for (; word.length > width; word = word.slice(width)) lines.push(word.slice(0, width));
    line = line === "" ? word : `${line} ${word}`;
  }
  if (line !== "" || lines.length === 0) lines.push(line);
  return lines.map((each, index) => (index === 0 ? head : " ".repeat(head.length)) + each);
}
