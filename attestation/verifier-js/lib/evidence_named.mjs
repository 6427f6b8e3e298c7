// Which evidence a signer's records name, from which record on. A gateway's never changes. A session's changes at its
// `policy` records and nowhere else, each time to one that was not named before: the same keys, manifest and activation,
// over a nonce of its own.

import { byPlace } from "./case.mjs";
import { fromBase64url, sameBytes, toHex } from "./encoding.mjs";
import { parseEvidence } from "./evidence.mjs";
import { MAX_NARROWINGS } from "./narrowing.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { parseStatement } from "./statement.mjs";

/** The object that a 43-character link names. */
export function objectNamed(objects, linkText, what) {
  const name = `sha256:${toHex(fromBase64url(linkText, { size: 32 }))}`;
  const found = objects.get(name);
  if (found === undefined) throw new NotMade(`the bundle does not carry the ${what} ${name.slice(0, 23)}...`);
  return found;
}

/** What the records of `party` name, in their order: `[{evd, evidence, epoch, recorded, quote, root}]`. */
export async function quotedBy(subject, party) {
  const { role } = party.statement;
  if (party.records.length === 0) throw new NotMade(`a ${role} keyset without a record`);
  const found = [];
  for (const record of [...party.records].sort(byPlace)) {
    const { evd, jti, kind } = record;
    if (found.length > 0) {
      const changes = evd !== found.at(-1).evd;
      if (changes && kind !== "policy") {
        throw unbound("records of one key name different evidence, and no restriction between them", jti);
      }
      if (kind !== "policy") continue;
      if (!changes) throw unbound("a restriction without an evidence of its own", jti);
      if (found.length > MAX_NARROWINGS) {
        throw new Refusal("narrowing.event", "more restrictions than a session may have", { where: jti });
      }
      if (found.some((each) => each.evd === evd)) throw unbound("a restriction names evidence from before", jti);
    }
    found.push(quoted(evd, await read(subject, party, evd, found, jti), { epoch: found.length }));
  }
  return found;
}

/**
 * What a gateway acted on and the session's supervisor did not come to record, because it died, or did not get the gateway's
 * answer and ended the session; or null. What the gateway's records then name is for `peer.bound` to refuse.
 */
export async function quotedBeyond(subject, session) {
  const { supervisor } = session;
  for (const record of session.gateway) {
    const evd = record.member("agt", "evd");
    if (supervisor.quoted.some((each) => each.evd === evd)) continue;
    try {
      const evidence = await read(subject, supervisor, evd, supervisor.quoted, record.jti);
      return quoted(evd, evidence, { epoch: supervisor.quoted.length, recorded: false });
    } catch (error) {
      if (error instanceof Refusal || error instanceof NotMade) return null;
      throw error;
    }
  }
  return null;
}

/** The evidence of `session` that `agt` of a record names, or undefined. */
export function evidenceOf(session, record) {
  const evd = record.member("agt", "evd");
  return session.supervisor.quoted.find((each) => each.evd === evd);
}

function quoted(evd, evidence, { epoch, recorded = true }) {
  return { evd, evidence, epoch, recorded, quote: null, root: null };
}

async function read(subject, party, evd, before, where) {
  const { role, keysetDigest } = party.statement;
  const evidence = parseEvidence(objectNamed(subject.bundle.evidence, evd, "evidence"));
  if ((await parseStatement(evidence.statement)).keysetDigest !== keysetDigest) {
    throw unbound("the evidence holds another keyset", where);
  }
  if ((evidence.manifest === null) !== (role === "gateway")) {
    throw unbound("the evidence is not of this role", where);
  }
  for (const each of before) {
    const same = ["manifest", "activation"].every((part) => sameBytes(evidence[part], each.evidence[part]));
    if (!same) throw unbound("a restriction with another manifest or activation", where);
    if (sameBytes(evidence.statement, each.evidence.statement)) {
      throw unbound("a restriction's quote over a nonce from before", where);
    }
  }
  return evidence;
}

function unbound(message, where) {
  return new Refusal("key.unbound", message, { where });
}
