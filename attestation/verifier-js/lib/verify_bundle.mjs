// The order of a verification of a single bundle, and the verdict that it comes to.
//
// A check throws what it refuses; NotMade says that what it needs is not there, or is not judged by this verifier.
// Everything is an argument: bytes, trust file, instant, table. No clock, no network, no storage.

import { parseBundle } from "./bundle.mjs";
import { CHECKS } from "./check_order.mjs";
import { Run } from "./run.mjs";
import { stateOf } from "./session_close.mjs";
import { held } from "./verdict.mjs";
import { timeOf } from "./witness_checks.mjs";

/** The verdict document on one bundle, also where it cannot be read: the refusal is then its first row; `how`: of `Run`. */
export async function verifyBundle(data, trust, how) {
  const run = new Run(trust, how);
  await run.make("fmt.bundle", async () => {
    const bundle = await parseBundle(data);
    run.open(bundle);
    return held(`${bundle.receipts.length} receipts; every object is what its name says`);
  });
  const { whole } = run;
  const checks = whole === null ? [] : [...CHECKS, ...run.checksOfBodies()];
  for (const [code, , check] of checks) await run.make(code, () => check(whole));
  run.demandSession();
  run.skip("chain.coverage", "a single bundle: what else there was is not asked");
  const { records, parties, sessions, foreign } = whole ?? { records: [], parties: [], sessions: [], foreign: new Set() };
  const states = sessions.map((session) => stateOf(whole, session));
  const population = { records, receipts: records.length, states, started: sessions.length, foreign: foreign.size };
  return run.verdict(data, { time: timeOf(whole), parties, population });
}
