#!/usr/bin/env node
// The rim: reads files and the clock, prints, exits. Decides nothing.

import { readFileSync, statSync } from "node:fs";
import { parseArgs } from "node:util";

import { MAX_BUNDLE } from "./lib/bundle.mjs";
import { printable } from "./lib/printable.mjs";
import { Refusal, SessionUnknown } from "./lib/refusals.mjs";
import { render } from "./lib/report_text.mjs";
import { parseInstant, parseTrustFile, wholeSeconds } from "./lib/trust_file.mjs";
import { parseDemand } from "./lib/verdict.mjs";
import { verifyFile } from "./lib/verify_file.mjs";
import { buildName, recordTable } from "./own_files.mjs";

const HELP = `Usage: node verify.mjs BUNDLE --trust TRUST [options]

Check a bundle of receipts, a single one (*.affiant.json) or a period (*.affiant.zip), offline, against your own trust
file. It appraises no quote to its end, so it never affirms.

  --trust FILE     what you accept: your own file, never the bundle's (required)
  --at TIME        judge pins at this instant, 2026-11-21T12:00:00Z (default: now)
  --request FILE   a request body to hold against the receipts
  --response FILE  a response body to hold against the receipts
  --session ID     judge this session alone
  --require WHAT   exit with 30 below this level (L0 to L5). "complete": also if a session has no signed end, or if a
                   session of a whole period is not judged. Or both: L3,complete
  --from TIME      of a period: is every record from here on in it?
  --to TIME        the end of that range; without a range nothing is said of what may be missing
  --json           print the result document instead of the table
  --help           show this

Exit codes: 10 warning, 20 contraindicated, 30 none (it cannot be judged, or falls short of --require), 40 simulated,
2 usage. (0, affirming, is never reached.)

Examples:
  node verify.mjs session.affiant.json --trust trust.json
  node verify.mjs session.affiant.json --trust trust.json --at 2026-11-21T12:00:00Z --json
  node verify.mjs november.affiant.zip --trust trust.json --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z
`;
const USAGE = 2;

class UsageError extends Error {}

async function main(argv) {
  const { values, positionals } = readArguments(argv);
  if (values.help) return print(HELP, 0);
  if (positionals.length !== 1) throw new UsageError("exactly one bundle is needed");
  if (values.trust === undefined) throw new UsageError("--trust FILE is needed");
  const [path] = positionals;
  const trust = await readTrust(values.trust);
  const data = readFile(path, MAX_BUNDLE);
  const verdict = await judged(data, trust, {
    at: values.at === undefined || values.at === "now" ? wholeSeconds(Date.now()) : readInstant("--at", values.at),
    build: buildName(),
    table: recordTable(),
    request: values.request && readFile(values.request),
    response: values.response && readFile(values.response),
    session: values.session,
    demand: values.require === undefined ? null : readDemand(values.require),
    since: values.from && readInstant("--from", values.from),
    until: values.to && readInstant("--to", values.to),
  });
  return print(values.json ? asJson(verdict) : render(verdict), verdict.exit_code);
}

async function judged(data, trust, how) {
  try {
    return await verifyFile(data, trust, how);
  } catch (error) {
    if (!(error instanceof SessionUnknown)) throw error;
    throw new UsageError(`--session: ${error.text} [${error.code}]`);
  }
}

function readDemand(text) {
  const demand = parseDemand(text);
  if (demand === null) throw new UsageError("--require: not a level (L0 to L5), complete, or both: L3,complete");
  return demand;
}

function readArguments(argv) {
  const text = { type: "string" };
  const flag = { type: "boolean" };
  const range = { from: text, to: text };
  const asked = { trust: text, at: text, request: text, response: text, session: text, require: text, ...range };
  const options = { ...asked, json: flag, help: flag };
  try {
    return parseArgs({ args: argv, options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error.message);
  }
}

async function readTrust(path) {
  const data = readFile(path);
  try {
    return await parseTrustFile(data);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new UsageError(`the trust file is refused: ${path}: ${error.text} [${error.code}]`);
  }
}

function readInstant(option, text) {
  try {
    return parseInstant(text);
  } catch (error) {
    throw new UsageError(`${option}: ${error.text}`);
  }
}

function readFile(path, limit = Infinity) {
  try {
    if (statSync(path).size > limit) {
      throw new UsageError(`${path} is larger than ${limit} bytes; \`affiant verify\` reads larger archives`);
    }
    const { buffer, byteOffset, length } = readFileSync(path);
    return new Uint8Array(buffer, byteOffset, length); // a view: nothing is copied
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`${path}: ${error.code ?? "cannot be read"}`);
  }
}

/** ASCII alone, so that no character of a bundle can act on a terminal. */
function asJson(verdict) {
  const text = JSON.stringify(verdict, null, 2);
  return `${text.replace(/[^\x00-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
}

function print(text, code) {
  process.exitCode = code;
  process.stdout.write(text);
}

// A closed pipe (`| head`) is no failure of a verification.
process.stdout.on("error", (error) => process.exit(error.code === "EPIPE" ? process.exitCode : USAGE));
try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`Error: ${printable(error.message)}\nTry --help.\n`);
  process.exitCode = USAGE;
}
