// L4, as far as it can be asked without collateral: what the evidence binds is what the records say.
//
// `tee.appraisal` (`measurement_checks.mjs`) is refused or *not made*, never held, so nothing that rests on it holds here.

import { bothSides, theOnly } from "./case.mjs";
import { verifyResult } from "./attestation_result.mjs";
import { fromBase64url, fromUtf8, isAscii, sameBytes, toHex } from "./encoding.mjs";
import { parseEvidence } from "./evidence.mjs";
import { parseGatewayConfig } from "./gateway_config.mjs";
import { parseActivation, parseManifest } from "./manifest.mjs";
import { parseQuote } from "./quote.mjs";
import { idOf } from "./receipt_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { parseStatement, reportData } from "./statement.mjs";
import { held } from "./verdict.mjs";

/** `key.evidence`: every record names its signer's evidence, and that holds this very keyset. */
export async function checkEvidence(subject) {
  subject.need("sig.receipts");
  for (const party of subject.parties) await readEvidence(subject, party);
  for (const session of subject.sessions) {
    session.manifest = await parseManifest(session.supervisor.evidence.manifest);
    session.activation = await parseActivation(session.supervisor.evidence.activation);
  }
  return held(`${subject.parties.length} keysets, each in the evidence that its records name`);
}

/** `key.bound`: REPORTDATA of each quote is SHA-512 over the keyset statement, all 64 bytes. */
export async function checkKeyBound(subject) {
  subject.need("key.evidence");
  for (const party of subject.parties) {
    const found = quoteOf(party).reportData;
    if (!sameBytes(found, await reportData(party.evidence.statement))) {
      throw unbound(`the ${party.statement.role}'s quote does not bind its keyset`, party.records[0].jti);
    }
  }
  return held("each quote's REPORTDATA binds its keyset");
}

/** `key.not_after`: no record was signed after the end that its keyset names. */
export function checkExpiry(subject) {
  subject.need("key.evidence");
  for (const party of subject.parties) {
    const late = party.records.find((record) => record.iat > party.statement.notAfter);
    if (late) throw new Refusal("key.expired", "signed after the keyset's end", { where: late.jti });
  }
  return held("every record within its keyset's time");
}

/**
 * `peer.bound`: a session's records name the key and evidence that the gateway appraised, its start the manifest and
 * activation, its keyset and boot record the gateway's keyset.
 */
export function checkPeerBound(subject) {
  subject.need("key.evidence", "session.start");
  for (const session of subject.sessions) {
    const { supervisor } = session;
    const { man, act, gks } = supervisor.statement;
    const keyset = gatewayOf(subject, session).statement.keysetDigest;
    const start = theOnly(session, "session-start");
    for (const record of bothSides(session)) demandAgent(record, supervisor);
    if (start.member("man", "man") !== man || start.member("man", "act") !== act) {
      throw peerUnbound("the start names another manifest or activation", start.jti);
    }
    const boot = supervisor.records.find((record) => record.kind === "boot");
    if (!boot || boot.member("gks") !== keyset || gks !== keyset) {
      throw peerUnbound("the session appraised another gateway keyset", session.id);
    }
    demandActivated(session, start, boot);
  }
  demandKeysUsedOnce(subject);
  return held("gateway and session name each other's keys and evidence");
}

/** `peer.ear`: refused where a result contradicts the records; else not made, because its tier is not judged here. */
export async function checkResults(subject) {
  subject.need("peer.bound", "key.bound", "conf.bound", "pol.bound");
  for (const session of subject.sessions) {
    const gateway = gatewayOf(subject, session);
    for (const record of session.gateway) {
      if (!["session-start", "inference"].includes(record.kind)) continue;
      const named = record.member("att", "ses");
      if (named === undefined) throw earMismatch("a record that rests on no attestation result", record);
      if (record.member("res", "end") === "complete" && (record.member("up") ?? []).length === 0) {
        throw earMismatch("an answer that came from no upstream", record);
      }
      await judgeResult(subject, session, gateway, record, named);
      const attested = (record.member("up") ?? []).some((attempt) => attempt.bind === "attested");
      if (attested && record.member("att", "ups") === undefined) {
        throw earMismatch("an upstream called attested, on the word of no result", record);
      }
    }
  }
  throw new NotMade("results agree with the records; whether their tier and TCB status are right is not judged here");
}

/** The object that a 43-character link names. */
export function objectNamed(objects, linkText, what) {
  const name = `sha256:${toHex(fromBase64url(linkText, { size: 32 }))}`;
  const found = objects.get(name);
  if (found === undefined) throw new NotMade(`the bundle does not carry the ${what} ${name.slice(0, 23)}...`);
  return found;
}

/** The gateway's configuration document, by the digest in its keyset. */
export async function configOf(subject, party) {
  const raw = subject.bundle.policies.get(party.statement.policy);
  if (raw === undefined) throw new NotMade("the bundle does not carry the gateway's configuration");
  return parseGatewayConfig(raw);
}

/** The TD report that a party's quote claims. */
export function quoteOf(party) {
  party.quote ??= parseQuote(party.evidence.quote);
  return party.quote;
}

async function readEvidence(subject, party) {
  const { role, keysetDigest } = party.statement;
  const [first] = party.records;
  if (first === undefined) throw new NotMade(`a ${role} keyset without a record`);
  party.evidence = parseEvidence(objectNamed(subject.bundle.evidence, first.evd, "evidence"));
  if ((await parseStatement(party.evidence.statement)).keysetDigest !== keysetDigest) {
    throw unbound("the evidence holds another keyset", first.jti);
  }
  const other = party.records.find((record) => record.evd !== first.evd);
  if (other) throw unbound("records of one key name different evidence", other.jti);
  if ((party.evidence.manifest === null) !== (role === "gateway")) {
    throw unbound("the evidence is not of this role", first.jti);
  }
}

function gatewayOf(subject, session) {
  const chn = session.gateway[0]?.chn;
  const found = subject.gateways.find((party) => party.statement.chn.includes(chn));
  if (found === undefined) throw new NotMade("the session's gateway is not in the bundle");
  return found;
}

function demandAgent(record, supervisor) {
  const agent = record.member("agt");
  if (agent === undefined) return;
  const sameKey = agent.key === supervisor.statement.signing.kid && agent.evd === supervisor.records[0].evd;
  if (!sameKey || agent.bind !== "pop") {
    throw peerUnbound("a record that names another session key or evidence", record.jti);
  }
  if (agent.ses !== idOf(supervisor)) {
    throw peerUnbound("a record of another session in this one's chain", record.jti);
  }
}

/** Input, starter and build are those of the activation and the manifest. */
function demandActivated({ activation, manifest }, start, boot) {
  const { starter } = activation;
  const facts = [
    ["input", start.member("inp") ?? null, activation.inp],
    ["starter's issuer", start.member("ini", "iss"), starter.iss],
    ["starter's method", start.member("ini", "method"), starter.method],
    ["starter", start.disclosed.get("ini.sub") ?? starter.sub, starter.sub],
    ["supervisor's build", boot.member("bld"), manifest.supervisor],
  ];
  for (const [what, found, expected] of facts) {
    if (found !== expected) throw peerUnbound(`the ${what} is another than was activated`, start.jti);
  }
}

/** No record anywhere uses the key or the evidence of a session in focus under another session's id. */
function demandKeysUsedOnce(subject) {
  const owners = new Map();
  for (const { id, supervisor } of subject.sessions) {
    owners.set(supervisor.statement.signing.kid, id).set(supervisor.records[0].evd, id);
  }
  for (const record of subject.records) {
    for (const name of ["key", "evd"]) {
      const owner = owners.get(record.member("agt", name));
      if (owner !== undefined && record.member("agt", "ses") !== owner) {
        throw peerUnbound("a session's key under another session's id", record.jti);
      }
    }
  }
}

async function judgeResult(subject, session, gateway, record, named) {
  const raw = objectNamed(subject.bundle.results, named.ear, "attestation result");
  const text = fromUtf8(raw);
  if (text === null || !isAscii(text)) throw earMismatch("an attestation result that is no text", record);
  if (gateway.statement.ear === null) throw new NotMade("the gateway's keyset names no key for results");
  const result = await verifyResult(text, gateway.statement.ear);
  const expected = {
    peer: "session",
    evd: session.supervisor.records[0].evd,
    cls: session.supervisor.statement.cls,
    policy: (await configOf(subject, gateway)).reference,
  };
  for (const [member, value] of Object.entries(expected)) {
    if (result[member] !== value) throw earMismatch(`the attestation result's ${member} is another`, record);
  }
  if (result.until < record.iat) throw earMismatch("the attestation result had expired", record);
  if (named.tier !== result.tier) throw earMismatch("the record repeats another tier than its result", record);
}

function unbound(message, where) {
  return new Refusal("key.unbound", message, { where });
}

function peerUnbound(message, where) {
  return new Refusal("peer.unbound", message, { where });
}

function earMismatch(message, record) {
  return new Refusal("peer.ear_mismatch", message, { where: record.jti });
}
