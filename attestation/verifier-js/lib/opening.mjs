// A verdict's opening: what happened, in sentences, and what is not proven, each with what to do about it.

import { quoted } from "./printable.mjs";
import { TASK_LABEL } from "./summary.mjs";
import { WORDS } from "./words.mjs";

const SHOWN = 5;
const STATES = ["refused", "not made", "held"];

/** Who ran which agent under which profile and when, what was used and refused, which other model answered, how it ended. */
export function sentencesOf({ summary, counts, checks }) {
  const { began, ended, uses } = summary;
  if (began === null) return ["No record is authentic, so nothing is known of what happened."];
  const { sessions } = counts;
  const names = (what) => namesIn(summary, what);
  const between = `from ${clock(began)} to ${clock(ended)} by the signers' clocks`;
  const label = TASK_LABEL.filter((what) => uses[what] !== undefined).map((what) => `${what} ${names(what)}`);
  const used = Object.entries(WORDS.uses)
    .filter(([what]) => uses[what] !== undefined)
    .map(([what, [one, several]]) => {
      return `${Object.keys(uses[what]).length === 1 ? one : several} ${namesIn(summary, what, { counted: true })}`;
    });
  const refused = namesIn(summary, "refused", { counted: true });
  return [
    opening(sessions.started, names, between),
    ...(label.length > 0 ? [`Task label: ${label.join(", ")}.`] : []),
    used.length > 0 ? `Used: ${used.join("; ")}.` : "No use of a model, host, secret or tool is recorded.",
    ...answered(checks),
    refused === "" ? "Nothing was refused." : `Refused: ${refused}.`,
    ...endings(summary, sessions),
  ];
}

function opening(started, names, between) {
  const users = names("user") || `known by ${names("known_by") || "nothing"}`;
  const agents = names("agent") || "of an undisclosed name";
  if (started === 0) return `The gateway's own records, ${between}: no session is in this bundle.`;
  if (started === 1) {
    const profile = names("profile") || "that is not named here";
    return `User ${users} ran agent ${agents} under profile ${profile}, ${between}.`;
  }
  return `${started} sessions ${between}: users ${users}; agents ${agents}; profiles ${names("profile") || "unknown"}.`;
}

/** What no alias of the measured configuration explains. */
function answered(rows) {
  const found = rows.find(({ code }) => code === "model.answered")?.counted ?? null;
  if (found === null || found.others === 0) return [];
  const { named, others, pairs, left } = found;
  const told = pairs.map(({ asked, answered: name, count }) => {
    return `asked for ${quoted(asked)}, answered by ${quoted(name)} (${count})`;
  });
  if (left > 0) told.push(`others (${left})`);
  return [`Warning: ${others} of ${named} answers name another model than was asked for: ${told.join("; ")}.`];
}

function endings({ uses }, { started, closed, lost, open }) {
  const said = [];
  if (started === 1 && closed === 1) {
    said.push(...Object.keys(uses.end ?? {}).map((why) => `The session ${WORDS.ends[why] ?? quoted(why)}.`));
  } else if (started === 1 && lost === 1) {
    said.push(`The session ${WORDS.ends.lost}.`);
  } else if (started > 0) {
    const states = [[closed, "closed"], [lost, "lost"], [open, "open"]].filter(([count]) => count > 0);
    said.push(`Sessions: ${states.map(([count, state]) => `${count} ${state}`).join(", ")}.`);
  }
  if (open > 0) said.push("An open session has no close: it may still run, or its last records are missing.");
  return said;
}

/** What is not proven: `{row, means, step}`, refused checks first; checks that nobody asked for are left out. */
export function openPointsOf(rows) {
  const isOpen = ({ state, tier }) =>
    state === "refused" || state === "not made" || (state === "held" && tier !== "affirming");
  return rows
    .filter(isOpen)
    .map((row) => {
      const [means, step] = WORDS.checks[row.code] ?? [row.detail, ""];
      return { row, means, step };
    })
    .sort((one, other) => STATES.indexOf(one.row.state) - STATES.indexOf(other.row.state));
}

/** The names, the most frequent first, visibly quoted; empty if there is none. */
function namesIn({ uses, more }, what, { counted = false } = {}) {
  const counts = Object.entries(uses[what] ?? {}).sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1));
  const shown = counts.slice(0, SHOWN).map(([name, count]) => `${quoted(short(name))}${counted ? ` (${count})` : ""}`);
  const left = counts.length - shown.length + (more[what] === undefined ? 0 : 1);
  return shown.join(", ") + (left > 0 ? ` and ${left} more` : "");
}

/** A digest by its first 48 bits; the document has it whole. */
function short(name) {
  return name.startsWith("sha384:") ? `${name.slice(0, 19)}...` : name;
}

function clock(seconds) {
  const time = new Date(Number(seconds) * 1000);
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString().replace(".000Z", "Z");
}
