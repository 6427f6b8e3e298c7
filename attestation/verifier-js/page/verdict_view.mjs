// A verdict as elements: what happened, what is not proven and what to do, then everything that was asked.

import { openPointsOf, sentencesOf } from "../lib/opening.mjs";
import { printable } from "../lib/printable.mjs";
import { LIMITS, NO_END, bannerOf, headOf, meaningOf, populationOfVerdict } from "../lib/report_text.mjs";
import { MAX_MOMENTS, factsOf, sessionsIn, titleOf } from "../lib/timeline.mjs";
import { LEVELS, endsOf } from "../lib/verdict.mjs";

/** Records of one session from which on they are shown only when the reader opens the session. */
const FOLDED = 200;

/** The elements of a verdict, in order. */
export function drawVerdict(verdict) {
  return [
    ...banners(verdict),
    ...opening(verdict),
    ...notProven(verdict),
    heading("What was judged, and by what"),
    definitions(headOf(verdict)),
    ...populationOfVerdict(verdict).map((sentence) => made("p", {}, sentence)),
    ...timeline(verdict),
    heading("Levels"),
    levels(verdict),
    heading("Every check"),
    checks(verdict),
    made("details", {}, made("summary", {}, "Result document (JSON)"), made("pre", {}, escapedJson(verdict))),
  ];
}

function banners(verdict) {
  const simulated = made(
    "p",
    { class: "banner simulated" },
    made("strong", {}, "SIMULATED"),
    "Nothing here is evidence of hardware: the signers' own keysets say so.",
  );
  const reached = verdict.level === null ? "No level is reached." : `Level ${verdict.level} is reached.`;
  const rows = bannerOf(verdict).map(([name, value]) => `${name}: ${value}. `);
  const title = made("strong", {}, `${verdict.outcome}, ${verdict.platform_class}`);
  const words = `${rows.join("")}${reached} Tier: ${verdict.tier}.`;
  const outcome = made("p", { class: `banner ${verdict.tier}` }, title, words);
  return verdict.simulated ? [simulated, outcome] : [outcome];
}

function opening(verdict) {
  return [heading("What happened"), made("p", { class: "opening" }, sentencesOf(verdict).join(" "))];
}

function notProven(verdict) {
  const off = verdict.checks.filter((row) => !row.required && row.state !== "not asked");
  const points = openPointsOf(verdict.checks).map(openPoint);
  const limits = LIMITS.map((limit) => made("li", {}, limit));
  return [
    heading("What is not proven, and what to do"),
    made("ul", { class: "points" }, ...unended(verdict), ...points, ...off.map(switchedOff), ...limits),
  ];
}

function openPoint({ row, means, step }) {
  const isRefused = row.state === "refused";
  const mark = made("strong", { class: isRefused ? "refused" : "not-made" }, isRefused ? "Refused:" : "Not proven:");
  const reason = row.reason === null ? "" : ` [${row.reason}]`;
  const state = row.state === "held" ? row.tier : row.state;
  const small = made("small", {}, made("span", { class: "code" }, row.code + reason), ` ${state}: ${row.detail}`);
  const said = ` ${isRefused ? "it does not hold that" : "that"} ${means}. ${step}`;
  return made("li", {}, mark, said, made("br", {}), small);
}

function unended({ counts: { sessions } }) {
  return sessions.open + sessions.lost > 0 ? [made("li", {}, `${endsOf(sessions)}: ${NO_END}`)] : [];
}

function switchedOff(row) {
  return made("li", {}, made("span", { class: "code not-made" }, row.code), " not required by the trust file");
}

/** Who did what, under which rule, session by session; what the agent chose is quoted by its typeface. */
function timeline({ records }) {
  if (records.length === 0) return [];
  let room = MAX_MOMENTS;
  const groups = sessionsIn(records).map(([name, those]) => {
    const shown = those.slice(0, room);
    room -= shown.length;
    return group(name, those.length, shown);
  });
  const more = Math.max(0, records.length - MAX_MOMENTS);
  const text = `${more} records more are not shown. They were checked as all others.`;
  const left = more === 0 ? [] : [made("p", {}, text)];
  return [heading("Who did what, under which rule"), ...groups, ...left];
}

function group(name, count, shown) {
  const title = made("summary", {}, name === "" ? "The gateway itself" : `Session ${name}`, `: ${count} records`);
  const attributes = count < FOLDED ? { class: "session", open: "" } : { class: "session" };
  const rows = shown.map((record) => {
    const facts = factsOf(record).map(([path, value]) => made("li", {}, `${path}: `, made("code", {}, String(value))));
    const rules = record.disclosed.get("pol.rules");
    const decided = [record.member("pol", "dec") ?? "", ...(Array.isArray(rules) ? rules.slice(0, 16) : [])].join(" ");
    const isDenied = record.kind === "refusal" || record.member("pol", "dec") === "deny";
    return made(
      "tr",
      isDenied ? { class: "deny" } : {},
      made("th", { scope: "row" }, clockOf(record.iat)),
      made("td", {}, `${record.role === "gateway" ? "gateway" : "supervisor"} ${record.seq}`),
      made("td", {}, decided),
      made("td", {}, titleOf(record), made("ul", { class: "facts" }, ...facts)),
    );
  });
  return made("details", attributes, title, grid("", ["time", "who", "decision", "what"], rows));
}

function clockOf(seconds) {
  const time = new Date(Number(seconds) * 1000);
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString().slice(0, 19).replace("T", " ");
}

function definitions(pairs) {
  const items = pairs.flatMap(([name, value]) => [made("dt", {}, name), made("dd", { class: "code" }, value)]);
  return made("dl", {}, ...items);
}

function levels(verdict) {
  const rows = Object.keys(LEVELS).map((level) =>
    made(
      "tr",
      {},
      made("th", { scope: "row" }, level),
      made("td", { class: `state ${styleOf(verdict.levels[level])}` }, verdict.levels[level]),
      made("td", {}, meaningOf(verdict, level)),
    ),
  );
  return grid("The highest level held together with all below it counts", ["level", "state", "meaning"], rows);
}

function checks(verdict) {
  const rows = verdict.checks.map((row) => {
    const detail = row.reason === null ? row.detail : `[${row.reason}] ${row.detail}`;
    const where = row.state === "held" && row.where.length > 0 ? ` Receipts: ${row.where.join(", ")}` : "";
    const warned = row.state === "held" && row.tier === "warning" ? "warned" : styleOf(row.state);
    return made(
      "tr",
      {},
      made("th", { scope: "row", class: "code" }, row.code),
      made("td", { class: `state ${warned}` }, row.state),
      made("td", { class: "state" }, row.tier ?? ""),
      made("td", {}, detail + where),
    );
  });
  return grid("In the order in which they are made", ["check", "state", "tier", "what was found"], rows);
}

function grid(caption, names, rows) {
  const head = made("tr", {}, ...names.map((name) => made("th", { scope: "col" }, name)));
  return made("table", {}, made("caption", {}, caption), made("thead", {}, head), made("tbody", {}, ...rows));
}

function heading(text) {
  return made("h2", {}, text);
}

/** An element; text among its children is escaped and bounded. */
function made(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.map((child) => (typeof child === "string" ? printable(child) : child)));
  return element;
}

/** ASCII lines, which have to stay whole. */
function escapedJson(verdict) {
  const pre = document.createElement("span");
  const text = JSON.stringify(verdict, null, 2);
  const hex = (unit) => unit.charCodeAt(0).toString(16).padStart(4, "0");
  pre.textContent = text.replace(/[^\x0a\x20-\x7e]/g, (unit) => `\\u${hex(unit)}`);
  return pre;
}

function styleOf(state) {
  return state.replace(" ", "-");
}
