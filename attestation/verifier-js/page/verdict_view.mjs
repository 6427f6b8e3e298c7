// A verdict as elements: what is not proven first, then what was refused, then everything that was asked.

import { LIMITS, claimOf, headOf, populationOfVerdict, printable } from "../lib/report_text.mjs";
import { LEVELS } from "../lib/verdict.mjs";

/** The elements of a verdict, in order. */
export function drawVerdict(verdict) {
  return [
    ...banners(verdict),
    ...notProven(verdict),
    ...refused(verdict),
    heading("What was judged, and by what"),
    definitions(headOf(verdict)),
    ...populationOfVerdict(verdict).map((sentence) => made("p", {}, sentence)),
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
  const claim = verdict.simulated ? reached : `${reached} ${claimOf(verdict)}`;
  const tier = made("p", { class: `banner ${verdict.tier}` }, made("strong", {}, `Tier: ${verdict.tier}`), claim);
  return verdict.simulated ? [simulated, tier] : [tier];
}

function notProven(verdict) {
  const open = verdict.checks.filter((row) => row.state === "not made");
  const off = verdict.checks.filter((row) => !row.required && row.state !== "not asked");
  return [
    heading("What is not proven"),
    made("ul", {}, ...LIMITS.map((limit) => made("li", {}, limit)), ...open.map(unproven), ...off.map(switchedOff)),
  ];
}

function unproven(row) {
  return made("li", {}, made("span", { class: "code not-made" }, row.code), ` not made: ${row.detail}`);
}

function switchedOff(row) {
  return made("li", {}, made("span", { class: "code not-made" }, row.code), " not required by the trust file");
}

function refused(verdict) {
  const rows = verdict.checks.filter((row) => row.state === "refused");
  if (rows.length === 0) return [];
  const items = rows.map((row) =>
    made("li", {}, made("span", { class: "code refused" }, `${row.code} [${row.reason}]`), ` ${row.detail}`),
  );
  return [heading("What was refused"), made("ul", {}, ...items)];
}

function definitions(pairs) {
  const items = pairs.flatMap(([name, value]) => [made("dt", {}, name), made("dd", { class: "code" }, value)]);
  return made("dl", {}, ...items);
}

function levels(verdict) {
  const rows = Object.entries(LEVELS).map(([level, meaning]) =>
    made(
      "tr",
      {},
      made("th", { scope: "row" }, level),
      made("td", { class: `state ${styleOf(verdict.levels[level])}` }, verdict.levels[level]),
      made("td", {}, meaning),
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
