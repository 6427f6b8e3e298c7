// L2: every receipt is in the log that its gateway's keyset names, under a key that the reader accepts.
//
// The leaf is made anew from the verified receipt, so kind, chain, number, time and hash are the receipt's or the proof
// fails. Index and size are bound to the checkpoint that the log has signed.

import { sameBytes } from "./encoding.mjs";
import { parseLogProof } from "./log_proof.mjs";
import { leafHash, verifyInclusion } from "./merkle.mjs";
import { verifyNote } from "./note.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { ATTESTED, acceptedAt } from "./trust_file.mjs";
import { held } from "./verdict.mjs";

/** `log.inclusion`: each receipt's leaf is in the log of its gateway, by a checkpoint that the log has signed. */
export async function checkInclusion(subject) {
  subject.need("sig.receipts");
  const logs = new Map();
  for (const { statement } of subject.gateways) logs.set(statement.keysetDigest, acceptedLog(subject, statement.log));
  const missing = subject.records.filter((record) => !subject.bundle.proofs.has(record.rh)).length;
  if (missing > 0) throw new NotMade(`${missing} of ${subject.records.length} receipts have no proof of inclusion`);
  const places = new Map();
  for (const party of subject.parties) {
    const log = logs.get(party.statement.gks ?? party.statement.keysetDigest);
    if (log === undefined) throw new NotMade("the gateway that a session names is not in this bundle");
    for (const record of party.records) {
      const index = await indexOf(subject, record, log);
      const place = `${index} ${log.origin}`;
      if ((places.get(place) ?? record.rh) !== record.rh) {
        throw splitView("two receipts at one index of the log", record.jti);
      }
      places.set(place, record.rh);
      subject.logPlaces.set(record.rh, { origin: log.origin, index });
    }
  }
  const names = [...new Set([...logs.values()].map((log) => log.origin))].sort().join(", ");
  const largest = [...subject.checkpoints.values()].reduce((most, { size }) => (size > most ? size : most), 0n);
  const text = `${places.size} leaves in ${names}, under a checkpoint of ${largest}`;
  if (subject.trust.log === null) {
    return held(`${text}; the log is not pinned by the trust file`, { tier: "warning" });
  }
  return held(text);
}

/** `log.consistency`: no two checkpoints here say something different of the same log. */
export function checkConsistency(subject) {
  subject.need("log.inclusion");
  const roots = new Map();
  for (const { origin, size, root } of subject.checkpoints.values()) {
    const known = roots.get(`${size} ${origin}`);
    if (known && !sameBytes(known.root, root)) throw splitView("two roots over the same number of leaves", origin);
    roots.set(`${size} ${origin}`, { origin, root });
  }
  for (const record of subject.records) {
    const refusal = aheadOf(record.member("cps"), subject.logPlaces.get(record.rh).index, record.jti);
    if (refusal !== null) throw refusal;
  }
  if (roots.size > new Set([...roots.values()].map((each) => each.origin)).size) {
    throw new NotMade("checkpoints of several sizes, and no proof that they are of one tree");
  }
  return held("one checkpoint for each log");
}

/**
 * Why a record that names a checkpoint of `size` leaves, its own at `index` among them, is refused: its signer had seen
 * that many before it signed, so the log was set back since, or is another. Null where it is not.
 */
export function aheadOf(size, index, jti) {
  if (size === undefined || BigInt(size) <= BigInt(index)) return null;
  return splitView("a record names a checkpoint of more leaves than stand before it", jti);
}

/** The log that a gateway's keyset names, if the reader accepts it. */
export function acceptedLog(subject, log) {
  const pins = subject.trust.log;
  if (log === null) throw new NotMade("the keyset names no log");
  if (pins === null || acceptedAt(pins, log.vkey, subject.at)) return log;
  if (!acceptedAt(pins, ATTESTED, subject.at)) {
    throw new Refusal("log.not_accepted", "the trust file does not accept this log", { where: "log" });
  }
  // Attested: the key counts as far as the quote that binds it, whose platform is not judged here.
  subject.need("tee.appraisal", "key.bound", "conf.bound");
  return log;
}

async function indexOf(subject, record, log) {
  try {
    const proof = parseLogProof(subject.bundle.proofs.get(record.rh));
    const { size, root } = await verifiedCheckpoint(subject, proof, log);
    const leaf = await leafHash(record.leaf());
    await verifyInclusion(leaf, { index: proof.index, size, path: proof.path, root });
    const { note, noteText } = proof;
    subject.proven.set(record.rh, { note, noteText, log });
    return proof.index;
  } catch (error) {
    throw error instanceof Refusal ? error.at(record.jti) : error;
  }
}

/** The checkpoint of a proof, its signature verified once for each note and key. */
async function verifiedCheckpoint(subject, proof, log) {
  const name = `${log.vkey}\n${proof.noteText}`;
  if (!subject.checkpoints.has(name)) {
    await verifyNote(proof.note, log.key);
    if (proof.checkpoint.origin !== log.origin) {
      throw new Refusal("log.unbound", "a checkpoint of another log", { found: proof.checkpoint.origin.slice(0, 60) });
    }
    subject.checkpoints.set(name, proof.checkpoint);
  }
  return subject.checkpoints.get(name);
}

function splitView(message, where) {
  return new Refusal("log.split_view", message, { where });
}
