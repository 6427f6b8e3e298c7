// L3: the log's checkpoints are cosigned by witnesses that the reader names, and so every record has a time.
//
// Not before: the checkpoint that the nearest earlier epoch of the gateway's chain names. Not after: the checkpoint of
// the record's proof. Each time is one that a quorum stands behind. `iat` is the signer's word, and is held against both.
// A quorum that needs the operator's own witness, which the trust file names `self`, holds as a warning.

import { bothSides, byChain } from "./case.mjs";
import { fromBase64url, toHex } from "./encoding.mjs";
import { parseNote } from "./note.mjs";
import { NotMade, NotPinned, Refusal } from "./refusals.mjs";
import { countsAt, showInstant } from "./trust_file.mjs";
import { held } from "./verdict.mjs";
import { cosignedBy } from "./witness_policy.mjs";

/** Seconds; a wider bracket is a warning. */
const WIDE_S = 3600n;

/** `wit.quorum`: every checkpoint that proves inclusion is cosigned by a quorum that the trust file names. */
export async function checkQuorum(subject) {
  if (subject.trust.witnesses === null) throw new NotPinned("the trust file names no witnesses");
  subject.need("log.inclusion");
  const names = new Set();
  for (const { note, noteText, log } of subject.proven.values()) {
    for (const name of (await witnessed(subject, note, noteText, log)).times.keys()) names.add(name);
  }
  if (needsSelf(subject)) return held("witness: self, which is run by whoever runs the log", { tier: "warning" });
  return held(`cosigned by ${[...names].sort().join(", ")}`);
}

/** `time.bracket`: no record is dated outside of its bracket, and no bracket is empty. */
export async function checkBracket(subject) {
  if (subject.trust.witnesses === null) {
    throw new NotPinned("without witnesses there is no time but what signers assert");
  }
  subject.need("wit.quorum", "chain.contiguous");
  const { brackets } = subject;
  for (const gateway of subject.gateways) {
    for (const [record, floor] of await withFloors(subject, gateway)) {
      const { note, noteText, log } = subject.proven.get(record.rh);
      const ceiling = (await witnessed(subject, note, noteText, log)).notAfter;
      brackets.set(record.rh, { floor, ceiling });
      demandInside(record, floor, ceiling, BigInt(subject.trust.clockToleranceS));
    }
  }
  return bracketFinding(subject, [...brackets.values()]);
}

/** What brackets, none of them broken, amount to. */
export function bracketFinding(subject, brackets) {
  const unbounded = brackets.filter(({ floor }) => floor === null).length;
  if (unbounded > 0) return held(`${unbounded} records have no earlier cosigned checkpoint`, { tier: "warning" });
  const widths = brackets.map(({ floor, ceiling }) => ceiling - floor);
  const widest = widths.reduce((most, width) => (width > most ? width : most), 0n);
  if (widest > WIDE_S) return held(`the widest time bounds are ${widest} s apart`, { tier: "warning" });
  return needsSelf(subject)
    ? held(`within ${widest} s, by the clock of the operator's own witness`, { tier: "warning" })
    : held(`every record within ${widest} s`);
}

/** Whether a quorum that was counted so far would not stand without the operator's own witness. */
export function needsSelf({ witnessed }) {
  return [...witnessed.values()].some(({ independent }) => !independent);
}

/** `{not_before, not_after, by}` around the records of the sessions judged, or of all; null where it was not made. */
export function timeOf(subject) {
  if (!subject?.established.has("time.bracket")) return null;
  const judged = subject.sessions.flatMap(bothSides).map(({ rh }) => subject.brackets.get(rh));
  return timeAround(judged.length > 0 ? judged : [...subject.brackets.values()]);
}

/** The same around brackets; null: there are none. */
export function timeAround(around) {
  if (around.length === 0) return null;
  const floors = around.map(({ floor }) => floor);
  const begin = floors.includes(null) ? null : floors.reduce((least, each) => (each < least ? each : least));
  const end = around.map(({ ceiling }) => ceiling).reduce((most, each) => (each > most ? each : most));
  const by = { not_before: begin === null ? null : "witnesses", not_after: "witnesses" };
  return { not_before: begin === null ? null : shown(begin), not_after: shown(end), by };
}

/** RFC 3339; the number where no calendar of four-digit years has the day. */
function shown(seconds) {
  return seconds < 253402300800n ? showInstant(Number(seconds)) : String(seconds);
}

/** Refuses a record that is dated outside of its bracket, and a bracket that is empty; all but `iat` are BigInts. */
export function demandInside(record, floor, ceiling, tolerance) {
  if (floor !== null && floor > ceiling + tolerance) {
    throw outside("empty time bounds: witnesses saw what follows the record before what it follows", record);
  }
  const iat = BigInt(record.iat);
  if (iat > ceiling + tolerance || (floor !== null && iat < floor - tolerance)) {
    throw outside("a record is dated outside of what witnesses saw", record);
  }
}

/** A gateway's records, and those of the sessions that it admitted, each with its not-before or null. */
async function withFloors(subject, gateway) {
  const found = [];
  const admitted = new Map();
  const { cp } = gateway.statement;
  const begin = cp === undefined ? null : (await named(subject, cp, gateway)).notBefore;
  for (const chain of byChain(gateway.records).values()) {
    let floor = begin;
    for (const record of chain) {
      if (typeof record.member("cp") === "string") floor = await floorOf(subject, record, gateway);
      found.push([record, floor]);
      if (record.kind === "session-start") admitted.set(record.member("agt", "key"), floor);
    }
  }
  for (const { statement, records } of subject.parties) {
    if (statement.gks !== gateway.statement.keysetDigest) continue;
    for (const record of records) found.push([record, admitted.get(statement.signing.kid) ?? null]);
  }
  return found;
}

async function floorOf(subject, record, gateway) {
  const seen = await named(subject, record.member("cp"), gateway);
  const said = record.member("cps");
  if (said !== undefined && BigInt(said) !== seen.size) {
    throw outside("an epoch names a checkpoint of another size", record);
  }
  return seen.notBefore;
}

/** The checkpoint with this digest, which a statement or an epoch record names. */
async function named(subject, cp, gateway) {
  const name = `sha256:${toHex(fromBase64url(cp, { size: 32 }))}`;
  const bytes = subject.bundle.checkpoints.get(name);
  if (bytes === undefined) {
    throw new NotMade("a checkpoint that an epoch record or a statement names is not in the bundle");
  }
  return witnessed(subject, parseNote(bytes), name, gateway.statement.log);
}

/** The note under one of the policies that count at the instant judged at; each is asked once. */
export async function witnessed(subject, note, noteText, log) {
  const name = `${log.vkey}\n${noteText}`;
  if (!subject.witnessed.has(name)) {
    for (const entry of subject.trust.witnesses.filter((each) => countsAt(each, subject.at))) {
      const seen = await cosignedBy(note, entry.policy, log.key);
      if (seen === null) continue;
      if (seen.notAfter !== null && seen.notAfter > BigInt(subject.at) + BigInt(subject.trust.clockToleranceS)) {
        throw new NotMade("a checkpoint is cosigned by a quorum only after the time judged at");
      }
      subject.witnessed.set(name, seen);
      return seen;
    }
    throw new NotMade("a checkpoint is not cosigned by the quorum that the trust file names");
  }
  return subject.witnessed.get(name);
}

function outside(message, record) {
  return new Refusal("time.outside", message, { where: record.jti });
}
