// L4, as far as it can be asked without collateral: what the evidence binds is what the records say.
//
// `tee.appraisal` (`measurement_checks.mjs`) is refused or *not made*, never held, so nothing that rests on it holds here.

import { theOnly } from "./case.mjs";
import { verifyResult } from "./attestation_result.mjs";
import { fromUtf8, isAscii, sameBytes } from "./encoding.mjs";
import { begunBy, received } from "./epochs.mjs";
import { evidenceOf, objectNamed, quotedBeyond, quotedBy } from "./evidence_named.mjs";
import { parseGatewayConfig } from "./gateway_config.mjs";
import { parseActivation, parseManifest } from "./manifest.mjs";
import { parseQuote } from "./quote.mjs";
import { idOf } from "./receipt_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { reportData } from "./statement.mjs";
import { held } from "./verdict.mjs";

/**
 * `key.evidence`: every record names its signer's evidence, and that holds this very keyset. A session's changes at its
 * narrowings, each time to one that was not named before.
 */
export async function checkEvidence(subject) {
  subject.need("sig.receipts");
  for (const party of subject.parties) party.quoted = await quotedBy(subject, party);
  for (const session of subject.sessions) {
    const { quoted } = session.supervisor;
    session.manifest = await parseManifest(quoted[0].evidence.manifest);
    session.activation = await parseActivation(quoted[0].evidence.activation);
    const beyond = await quotedBeyond(subject, session);
    if (beyond !== null) quoted.push(beyond);
  }
  const more = subject.parties.reduce((count, { quoted }) => count + quoted.length - 1, 0);
  const text = `${subject.parties.length} keysets, each in the evidence that its records name`;
  return held(more > 0 ? `${text}; ${more} quoted again for restrictions` : text);
}

/** `key.bound`: REPORTDATA of each quote is SHA-512 over the keyset statement, all 64 bytes. */
export async function checkKeyBound(subject) {
  subject.need("key.evidence");
  for (const party of subject.parties) {
    for (const quoted of party.quoted) {
      if (!sameBytes(quoteOf(quoted).reportData, await reportData(quoted.evidence.statement))) {
        throw unbound(`the ${party.statement.role}'s quote does not bind its keyset`, party.records[0].jti);
      }
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
    demandAgents(session);
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

/** The gateway's configuration document, by the digest in its keyset. */
export async function configOf(subject, party) {
  const raw = subject.bundle.policies.get(party.statement.policy);
  if (raw === undefined) throw new NotMade("the bundle does not carry the gateway's configuration");
  return parseGatewayConfig(raw);
}

/** The TD report that a quote claims. */
export function quoteOf(quoted) {
  quoted.quote ??= parseQuote(quoted.evidence.quote);
  return quoted.quote;
}

function gatewayOf(subject, session) {
  const chn = session.gateway[0]?.chn;
  const found = subject.gateways.find((party) => party.statement.chn.includes(chn));
  if (found === undefined) throw new NotMade("the session's gateway is not in the bundle");
  return found;
}

/**
 * `agt` names the session's key and the evidence of its epoch: the supervisor's own, and in the gateway's records none from
 * before what was named already or received.
 */
function demandAgents(session) {
  const { supervisor } = session;
  for (const record of supervisor.records) {
    const agent = agentOf(record, supervisor);
    if (agent !== undefined && agent.evd !== record.evd) {
      throw peerUnbound("a record that names another evidence than its own", record.jti);
    }
  }
  const begun = begunBy(session);
  let least = 0;
  for (const record of session.gateway) {
    agentOf(record, supervisor);
    least = Math.max(least, received(record, begun));
    const quoted = evidenceOf(session, record);
    if (quoted === undefined) throw peerUnbound("a record that names another session key or evidence", record.jti);
    if (quoted.epoch < least || (record.member("pol", "epoch") ?? quoted.epoch) !== quoted.epoch) {
      throw peerUnbound("a record that names the evidence of another epoch", record.jti);
    }
    least = quoted.epoch;
  }
}

/** `agt` of a record, with this session's key and id; undefined: it has none. */
function agentOf(record, supervisor) {
  const agent = record.member("agt");
  if (agent === undefined) return undefined;
  if (agent.key !== supervisor.statement.signing.kid || agent.bind !== "pop") {
    throw peerUnbound("a record that names another session key or evidence", record.jti);
  }
  if (agent.ses !== idOf(supervisor)) {
    throw peerUnbound("a record of another session in this one's chain", record.jti);
  }
  return agent;
}

/** Input, starter, task label and build are those of the activation and the manifest. */
function demandActivated({ activation, manifest }, start, boot) {
  const { starter } = activation;
  const labelOf = (object) => object?._sd.join(" "); // always as many digests, sorted
  const facts = [
    ["input", start.member("inp") ?? null, activation.inp],
    ["starter's issuer", start.member("ini", "iss"), starter.iss],
    ["starter's method", start.member("ini", "method"), starter.method],
    ["starter", start.disclosed.get("ini.sub") ?? starter.sub, starter.sub],
    ["task label", labelOf(start.member("tsk")), labelOf(activation.task)],
    ["supervisor's build", boot.member("bld"), manifest.supervisor],
  ];
  for (const [what, found, expected] of facts) {
    if (found !== expected) throw peerUnbound(`the ${what} is another than was activated`, start.jti);
  }
}

/** No record anywhere uses the key or an evidence of a session in focus under another session's id. */
function demandKeysUsedOnce(subject) {
  const owners = new Map();
  for (const { id, supervisor } of subject.sessions) {
    owners.set(supervisor.statement.signing.kid, id);
    for (const { evd } of supervisor.quoted) owners.set(evd, id);
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
    evd: evidenceOf(session, record).evd,
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
