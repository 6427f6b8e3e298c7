// The order of a verification of a single bundle, and the verdict that it comes to.
//
// A check throws what it refuses; NotMade says that what it needs is not there, or is not judged by this verifier.
// Everything is an argument: bytes, trust file, instant, table. No clock, no network, no storage.

import { parseBundle } from "./bundle.mjs";
import { Case, byChain, theOnly } from "./case.mjs";
import { BODIES, CHECKS } from "./check_order.mjs";
import { made, notAsked, requirementsOf, run } from "./check_rows.mjs";
import { sha256Name } from "./cryptography.mjs";
import { isLost } from "./session_close.mjs";
import { showInstant } from "./trust_file.mjs";
import { held, makeVerdict } from "./verdict.mjs";
import { timeOf } from "./witness_checks.mjs";

/**
 * The verdict document on one bundle, also where it cannot be read: the refusal is then its first row.
 *
 * @param {Uint8Array} data the bundle file
 * @param {object} trust a parsed trust file; nothing in the bundle adds to it
 * @param {object} how `at`: seconds since 1970 that trust entries are judged at; `build`: which verifier this is; `table`:
 *   the record table; `request`, `response`: bodies to hold against the receipts; `session`: judge this one alone
 */
export async function verifyBundle(data, trust, { at, build, table, request, response, session }) {
  const rows = [];
  const required = requirementsOf(trust);
  let subject = null;
  rows.push(
    await made("fmt.bundle", "L0", required, async () => {
      const bundle = await parseBundle(data);
      const bodies = { request: request ?? null, response: response ?? null };
      subject = new Case({ bundle, trust, table, at, ...bodies, onlySession: session ?? null });
      subject.established.add("fmt.bundle");
      return held(`${bundle.receipts.length} receipts; every object is what its name says`);
    }),
  );
  for (const [code, level, check] of CHECKS) rows.push(await run(subject, code, level, required, check));
  const given = { "body.request": request, "body.response": response };
  for (const [code, level, check] of BODIES) {
    const asked = subject === null || given[code] !== undefined;
    const row = asked ? await run(subject, code, level, required, check) : null;
    rows.push(row ?? notAsked(code, level, "no body was given", required(code)));
  }
  rows.push(notAsked("chain.coverage", null, "a single bundle: what else there was is not asked", required("chain.coverage")));
  return makeVerdict({
    bundle: await sha256Name(data),
    at: showInstant(at),
    trust: trust.digest,
    build,
    time: timeOf(subject),
    evidenceClass: classOf(subject),
    rows,
    population: populationOf(subject),
  });
}

/** Simulated as soon as any keyset or root says so; else what the keysets claim, which nothing here confirms. */
function classOf(subject) {
  if (subject === null || subject.parties.length === 0) return null;
  const said = subject.parties.flatMap((party) => [party.statement.cls, ...party.quoted.map(({ root }) => root?.cls)]);
  return said.includes("simulated") ? "simulated" : "hardware";
}

function populationOf(subject) {
  const records = subject?.records ?? [];
  const sessions = subject?.sessions ?? [];
  const kinds = {};
  for (const { kind } of records) kinds[kind] = (kinds[kind] ?? 0) + 1;
  const closes = sessions.map((session) => theOnly(session, "session-close")).filter((close) => close !== undefined);
  const lost = closes.filter((close) => close.member("why") === "lost").length;
  const unclosed = sessions.filter((session) => theOnly(session, "session-close") === undefined);
  const gone = unclosed.filter((session) => isLost(subject, session)).length;
  return {
    receipts: records.length,
    chains: byChain(records).size,
    restarts: kinds.gap ?? 0,
    sessions: {
      started: sessions.length,
      closed: closes.length - lost,
      lost: lost + gone,
      open: unclosed.length - gone,
      not_judged: subject?.foreign.size ?? 0,
    },
    refusals: kinds.refusal ?? 0,
    kinds,
  };
}
