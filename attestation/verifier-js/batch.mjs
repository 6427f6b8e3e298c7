#!/usr/bin/env node
// Many bundles in one process: one JSON request a line on standard input, one JSON answer a line on standard output.
//
//   {"bundle": PATH, "trust": PATH, "at": "2026-11-21T12:00:00Z",
//    "flip": [[offset, mask], ...], "request": PATH, "response": PATH, "session": ID, "require": "L3,complete",
//    "period": true, "from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
//
// `flip` changes bytes of the bundle before it is judged; with `period` it is judged as an archive, whatever it begins
// with. The answer is a verdict, or {"usage": code} for a trust file that is refused, and for a session that is unknown. Files
// are read once.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { SessionUnknown } from "./lib/refusals.mjs";
import { parseInstant, parseTrustFile } from "./lib/trust_file.mjs";
import { parseDemand } from "./lib/verdict.mjs";
import { verifyFile } from "./lib/verify_file.mjs";
import { verifyPeriod } from "./lib/verify_period.mjs";
import { buildName, recordTable } from "./own_files.mjs";

const files = new Map();
const [build, table] = [buildName(), recordTable()];

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}

async function answer({ bundle, trust, at, flip = [], request, response, session, require, period, from, to }) {
  let accepted;
  try {
    accepted = await parseTrustFile(read(trust));
  } catch (error) {
    return { usage: error.code };
  }
  const data = flip.length > 0 ? read(bundle).slice() : read(bundle);
  for (const [offset, mask] of flip) data[offset] ^= mask;
  const bodies = { request: optional(request), response: optional(response) };
  const range = { since: instantOrNone(from), until: instantOrNone(to) };
  const asked = { session: session ?? undefined, demand: require ? parseDemand(require) : null };
  const how = { at: parseInstant(at), build, table, ...bodies, ...asked, ...range };
  try {
    return await (period ? verifyPeriod(data, accepted, how) : verifyFile(data, accepted, how));
  } catch (error) {
    if (error instanceof SessionUnknown) return { usage: error.code };
    throw error;
  }
}

function read(path) {
  if (!files.has(path)) files.set(path, new Uint8Array(readFileSync(path)));
  return files.get(path);
}

function instantOrNone(text) {
  return text === undefined || text === null ? undefined : parseInstant(text);
}

function optional(path) {
  return path === undefined || path === null ? undefined : read(path);
}
