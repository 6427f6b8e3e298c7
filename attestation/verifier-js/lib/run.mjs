// What the verification of one file works on and has found so far: its case, and the row of each check that was made.

import { Case, questioned } from "./case.mjs";
import { BODIES, CHECKS } from "./check_order.mjs";
import { made, notAsked, requirementsOf } from "./check_rows.mjs";
import { sha256Name } from "./cryptography.mjs";
import { SessionUnknown } from "./refusals.mjs";
import { summaryOf } from "./summary.mjs";
import { showInstant } from "./trust_file.mjs";
import { makeRow, makeVerdict } from "./verdict.mjs";

/** Code -> level, in the order of the rows. */
const LEVELS = new Map([["fmt.bundle", "L0"], ...CHECKS, ...BODIES, ["chain.coverage", null]]);

/** One verification, of a single bundle or of a period. */
export class Run {
  /**
   * @param {object} trust a parsed trust file; nothing in the bundle adds to it
   * @param {object} how `at`: seconds since 1970 that trust entries are judged at; `build`: which verifier this is; `table`:
   *   the record table; `request`, `response`: bodies to hold against the receipts; `session`: judge this one alone;
   *   `demand`: as `parseDemand` gives it; `since`, `until`: of a period, the auditor's own range, seconds since 1970
   */
  constructor(trust, how) {
    const { at, build, table, request = null, response = null, session = null, demand = null } = how;
    Object.assign(this, { trust, at, build, bodies: { "body.request": request, "body.response": response } });
    this.range = { since: how.since ?? null, until: how.until ?? null };
    this.demand = { level: demand?.level ?? null, complete: trust.complete || (demand?.complete ?? false) };
    this.asked = { trust, table, at, request, response, onlySession: session };
    this.required = requirementsOf(trust);
    this.rows = new Map();
    this.whole = null;
  }

  /** Begins the case of `bundle`, which could be read. */
  open(bundle) {
    this.whole = new Case({ ...this.asked, bundle });
  }

  /** Makes one check. */
  async make(code, check) {
    const row = await made(code, LEVELS.get(code), this.required, check);
    this.rows.set(code, row);
    if (row.state === "held") this.whole.established.add(code);
    else this.whole?.established.delete(code);
  }

  /** Says that nobody asks for a check. */
  skip(code, why) {
    this.rows.set(code, notAsked(code, LEVELS.get(code), why, this.required(code)));
  }

  /** The checks of bodies that were given; the others are not asked. */
  checksOfBodies() {
    const isGiven = ([code]) => this.bodies[code] !== null;
    for (const [code] of BODIES.filter((each) => !isGiven(each))) this.skip(code, "no body was given");
    return BODIES.filter(isGiven);
  }

  /** The verdict document on the file `data`; a check of which there is no row could not be made. */
  async verdict(data, { time, parties, population, ofAllSessions = false }) {
    const unread = (code) => {
      const facts = { required: this.required(code) };
      return makeRow(code, LEVELS.get(code), "not made", "none", "the bundle could not be read", facts);
    };
    const told = this.rows.get("sig.receipts")?.state === "held" ? population.records : [];
    const inQuestion = this.whole === null ? new Set() : questioned(this.whole);
    const verdict = makeVerdict({
      bundle: await sha256Name(data),
      at: showInstant(this.at),
      trust: this.trust.digest,
      build: this.build,
      time,
      evidenceClass: classOf(parties),
      rows: [...LEVELS.keys()].map((code) => this.rows.get(code) ?? unread(code)),
      population: countedIn(population),
      summary: summaryOf(told.filter((record) => isToldOf(record, inQuestion))),
      demand: this.demand,
      asked: await this.scope(),
      ofAllSessions,
    });
    return Object.defineProperty(verdict, "records", { value: told }); // for the page; no part of the document
  }

  /** What was asked about, beside the whole bundle: only what was. */
  async scope() {
    const { onlySession, request, response } = this.asked;
    const shown = (time) => (time === null ? null : showInstant(time));
    const found = {
      session: onlySession,
      from: shown(this.range.since),
      to: shown(this.range.until),
      request: request && (await sha256Name(request)),
      response: response && (await sha256Name(response)),
    };
    return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== null));
  }

  /** Goes on only if the session that was asked for has a keyset or a record in a bundle whose receipts are authentic. */
  demandSession() {
    const { onlySession } = this.asked;
    if (onlySession === null || !this.whole?.established.has("sig.receipts")) return;
    const known = [...this.whole.sessions.map(({ id }) => id), ...this.whole.foreign];
    if (!known.includes(onlySession)) throw new SessionUnknown(onlySession);
  }
}

/** Of one of the sessions, or of a gateway's own: a session's bundle holds its neighbours' records, which tell another story. */
function isToldOf(record, sessions) {
  const ofSupervisor = record.role === "session";
  const session = ofSupervisor ? record.member("iss").split(":").at(-1) : record.member("agt", "ses");
  return session === undefined || sessions.has(session);
}

/** Simulated as soon as any keyset or root says so; else what the keysets claim, which nothing here confirms. */
function classOf(parties) {
  if (parties.length === 0) return null;
  const said = parties.flatMap((party) => [party.statement.cls, ...party.quoted.map(({ root }) => root?.cls)]);
  return said.includes("simulated") ? "simulated" : "hardware";
}

/** `receipts`: how many there are; `states`: how each session that was judged ended; `started`, `foreign`: sessions. */
function countedIn({ records, receipts, states, started, foreign }) {
  const kinds = {};
  for (const { kind } of records) kinds[kind] = (kinds[kind] ?? 0) + 1;
  const counted = (state) => states.filter((each) => each === state).length;
  return {
    receipts,
    chains: new Set(records.map(({ chn }) => chn)).size,
    restarts: kinds.gap ?? 0,
    sessions: {
      started,
      closed: counted("closed"),
      lost: counted("lost"),
      open: counted("open"),
      not_judged: foreign,
    },
    refusals: kinds.refusal ?? 0,
    kinds,
  };
}
