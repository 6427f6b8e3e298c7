// The page: files in, a verdict out. Every string of a bundle or a file becomes text, escaped and bounded, no markup.

import { MAX_BUNDLE } from "../lib/bundle.mjs";
import { printable } from "../lib/printable.mjs";
import { RecordTable } from "../lib/record_table.mjs";
import { Refusal } from "../lib/refusals.mjs";
import { isObject, parseStrict } from "../lib/strict_json.mjs";
import { parseInstant, parseTrustFile, wholeSeconds } from "../lib/trust_file.mjs";
import { verifyFile } from "../lib/verify_file.mjs";
import { drawVerdict } from "./verdict_view.mjs";

const FILES = ["bundle", "trust", "request", "response"];
const TEXTS = ["at", "session", "from", "to"];
const build = document.querySelector('meta[name="affiant-build"]').content;
const table = new RecordTable(JSON.parse(byId("records").textContent));
/** What was chosen: input id -> {name, bytes}. */
const chosen = new Map();
/** Counts judgements, so that a late answer of an earlier one is dropped. */
let asked = 0;

byId("build").textContent = build;
byId("form").addEventListener("submit", (event) => event.preventDefault());
for (const id of FILES) byId(id).addEventListener("change", () => chooseFrom(id));
for (const id of TEXTS) byId(id).addEventListener("change", judge);
for (const name of ["dragenter", "dragover", "dragleave", "drop"]) document.addEventListener(name, onDrag);

async function chooseFrom(id) {
  const [file] = byId(id).files;
  if (file === undefined) chosen.delete(id);
  else await choose(id, file);
  await judge();
}

async function choose(id, file) {
  if (file.size > MAX_BUNDLE) {
    chosen.delete(id);
    return complain(`${file.name} is larger than this page reads; \`affiant verify\` reads larger archives`);
  }
  chosen.set(id, { name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) });
  return undefined;
}

async function onDrag(event) {
  event.preventDefault();
  document.body.classList.toggle("dragging", event.type === "dragenter" || event.type === "dragover");
  if (event.type !== "drop") return;
  for (const file of [...event.dataTransfer.files].slice(0, 2)) await take(file);
  await judge();
}

/** A dropped file is a trust file if it says so; all else is a bundle, and refused if it is none. */
async function take(file) {
  await choose("bundle dropped", file);
  const found = chosen.get("bundle dropped");
  chosen.delete("bundle dropped");
  if (found !== undefined) chosen.set(saysTrust(found.bytes) ? "trust" : "bundle", found);
}

function saysTrust(bytes) {
  try {
    const value = parseStrict(bytes, { limit: 16 << 20 });
    return isObject(value) && value.typ === "affiant-trust/1";
  } catch {
    return false;
  }
}

async function judge() {
  asked += 1;
  const mine = asked;
  const [bundle, trust] = [chosen.get("bundle"), chosen.get("trust")];
  byId("verdict").hidden = true;
  complain(null);
  if (!bundle || !trust) {
    const names = [bundle, trust].filter(Boolean).map((file) => file.name);
    if (names.length === 0) return say("Choose a bundle and a trust file.");
    return say(`${names.join()}: now the ${bundle ? "trust file" : "bundle"}.`);
  }
  say(`Checking ${bundle.name} against ${trust.name} ...`);
  try {
    const verdict = await verifyFile(bundle.bytes, await parseTrustFile(trust.bytes), {
      at: instantIn("at") ?? wholeSeconds(Date.now()),
      build,
      table,
      request: chosen.get("request")?.bytes,
      response: chosen.get("response")?.bytes,
      session: byId("session").value.trim() || undefined,
      since: instantIn("from"),
      until: instantIn("to"),
    });
    if (mine === asked) show(verdict, bundle.name, trust.name);
  } catch (error) {
    if (mine !== asked) return undefined;
    say("Nothing was judged.");
    const known = error instanceof Refusal;
    complain(known ? `${error.text} [${error.code}]` : `${error.name}: the page failed on these files`);
  }
  return undefined;
}

function instantIn(id) {
  const text = byId(id).value.trim();
  return text === "" ? undefined : parseInstant(text);
}

function show(verdict, bundleName, trustName) {
  say(`Checked ${bundleName} against ${trustName}.`);
  byId("verdict").replaceChildren(...drawVerdict(verdict));
  byId("verdict").hidden = false;
}

function say(text) {
  byId("status").textContent = printable(text);
}

function complain(text) {
  byId("problem").hidden = text === null;
  byId("problem").textContent = text === null ? "" : printable(text);
}

function byId(id) {
  return document.getElementById(id);
}
