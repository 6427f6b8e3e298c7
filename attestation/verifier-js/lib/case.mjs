// What a verification works on: the bundle taken apart, and what earlier checks established for later ones.

import { NotMade } from "./refusals.mjs";

/** One bundle under examination. */
export class Case {
  /** `at`: seconds since 1970; `request`, `response`: bytes or null; `onlySession`: an id or null. */
  constructor({ bundle, trust, table, at, request, response, onlySession }) {
    Object.assign(this, { bundle, trust, table, at, request, response, onlySession });
    this.records = [];
    /**
     * Signers: `{statement, records, quoted}`; the last: what their records name, one more for each narrowing, as
     * `{evd, evidence, epoch, recorded, quote, root}`; `root`: `{name, cls}` that signed the quote.
     */
    this.parties = [];
    /** Sessions in focus: `{id, gateway: [record], supervisor: party, manifest, activation, narrowings}`. */
    this.sessions = [];
    this.foreign = new Set();
    /** Note text and key -> checkpoint, its signature verified. */
    this.checkpoints = new Map();
    /** Receipt hash -> `{note, noteText, log}`: what its proof of inclusion holds under. */
    this.proven = new Map();
    /** Note text and key -> the checkpoint under the trust file's witnesses. */
    this.witnessed = new Map();
    /** Receipt hash -> `{floor, ceiling}`: when the record existed. */
    this.brackets = new Map();
    /** Receipt hash -> `{origin, index}` of its leaf, once inclusion holds. */
    this.logPlaces = new Map();
    /** Whether every record was held against its leaf as the log was walked: a period's, of which the log can be read. */
    this.alongLog = false;
    /** Chain and number -> what an accepted authority ordered to be erased, whether it is here or not. */
    this.erased = new Map();
    /** Chain -> the last record up to which an accepted authority ordered it to be pruned. */
    this.pruned = new Map();
    /** Erasure or hold -> the refusal of its authority, or null. */
    this.authorized = new Map();
    /** Chain that a gap record names -> chains of those records, once a session without a close was asked for. */
    this.gaps = null;
    /** Chain, and chain and session -> what was ordered to be erased and is not here, once that was asked. */
    this.absent = null;
    this.established = new Set();
  }

  /** Goes on only if the checks with these codes held. */
  need(...codes) {
    for (const code of codes) {
      if (!this.established.has(code)) throw new NotMade(`needs ${code}, which did not hold`);
    }
  }

  /** Gateways, and the supervisors of the sessions in focus: the signers whose quotes are asked for. */
  get judged() {
    const supervisors = new Set(this.sessions.map((session) => session.supervisor));
    return this.parties.filter((party) => party.statement.role === "gateway" || supervisors.has(party));
  }

  /** The signers in the role `gateway`. */
  get gateways() {
    return this.parties.filter((party) => party.statement.role === "gateway");
  }
}

/** Records by chain, each sorted by `seq`. */
export function byChain(records) {
  const chains = new Map();
  for (const record of records) {
    if (!chains.has(record.chn)) chains.set(record.chn, []);
    chains.get(record.chn).push(record);
  }
  for (const chain of chains.values()) chain.sort(bySeq);
  return chains;
}

/** Chain -> its signer; no two keysets claim one chain. */
export function signersByChain({ parties }) {
  return new Map(parties.flatMap((party) => party.statement.chn.map((chn) => [chn, party])));
}

/** The order of a chain. */
export function bySeq(one, other) {
  return one.seq - other.seq;
}

/** The order in which records of one signer stand: chain after chain. */
export function byPlace(one, other) {
  if (one.chn !== other.chn) return one.chn < other.chn ? -1 : 1;
  return one.seq - other.seq;
}

/** A session's only gateway record of `kind`, or undefined. */
export function theOnly(session, kind) {
  return session.gateway.find((record) => record.kind === kind);
}

/** Ids of the sessions in focus; where there is none, of the one that was asked for, or of all. */
export function questioned({ sessions, foreign, onlySession }) {
  if (sessions.length > 0) return new Set(sessions.map(({ id }) => id));
  return onlySession === null ? foreign : new Set([onlySession]);
}

/** Both signers' records of a session. */
export function bothSides(session) {
  return [...session.gateway, ...session.supervisor.records];
}
