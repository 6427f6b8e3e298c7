// L1, the sessions: both signers' accounts agree and leave nothing out (trust rules, 7).

import { bothSides, theOnly } from "./case.mjs";
import { Count, counting } from "./counted.mjs";
import { goneOf } from "./erasure_checks.mjs";
import { broken, demandSessions, isEnded, joined, orderOf, tailIsOpen, warning } from "./session_words.mjs";
import { held } from "./verdict.mjs";

const SHOWN = 3;

/** `session.start`: exactly one start record, and it is the session's first. */
export function checkStart(subject) {
  subject.need("sig.receipts");
  for (const session of demandSessions(subject)) {
    const starts = session.gateway.filter((record) => record.kind === "session-start");
    if (starts.length !== 1) throw broken("start", "not exactly one start record", session.id);
    if (session.gateway[0] !== starts[0] || starts[0].member("agt", "seq") !== 0) {
      throw broken("start", "a record of the session before its start", session.gateway[0].jti);
    }
  }
  return counting(new Count(subject.sessions.length, "sessions, each with one start"));
}

/** `session.order`: the gateway's numbers are 0, 1, 2 ... without gap; of an erased record the order names its number. */
export function checkOrder(subject) {
  subject.need("session.start");
  for (const session of subject.sessions) {
    const erased = goneOf(subject, session).gateway.filter(({ number }) => number !== undefined);
    const known = [...session.gateway.map(orderOf), ...erased.map(({ number }) => number)];
    const numbers = known.sort((one, other) => one - other);
    const wrong = numbers.findIndex((number, index) => number !== index);
    if (wrong >= 0) throw broken("order", "the session's numbers have a gap or a repetition", session.id);
  }
  return held("every session's records numbered without gap");
}

/** `session.counter`: every request that the supervisor signed has a record of one side or the other. */
export function checkCounter(subject) {
  subject.need("session.start");
  return joined(subject.sessions.map((session) => countRequests(subject, session)), "every signed request has its record");
}

/** `session.sealed`: no record after the close, and none after the session's expiry. */
export function checkSealed(subject) {
  subject.need("session.order", "pol.bound");
  for (const session of demandSessions(subject)) {
    const close = theOnly(session, "session-close");
    const expires = session.activation.exp + subject.trust.clockToleranceS;
    for (const record of bothSides(session)) {
      if (close && record.role === "gateway" && record.seq > close.seq) {
        throw broken("after_close", "a record after the close", record.jti);
      }
      if (record.iat > expires && record !== close) {
        throw broken("after_close", "a record after the session's expiry", record.jti);
      }
    }
  }
  return held("nothing after close or expiry");
}

/** `session.decisions`: nothing denied was done, nothing rewritten unsaid; what was not inspected is a warning. */
export function checkDecisions(subject) {
  subject.need("session.start");
  return joined(subject.sessions.map(judgeDecisions), "nothing denied was done, nothing rewritten unsaid");
}

/** `session.supervisor`: the supervisor's own chain is ended; else it is open, a warning. */
export function checkSupervisor(subject) {
  subject.need("chain.contiguous", "session.start");
  const findings = subject.sessions.map(({ id, supervisor }) => {
    if (supervisor.records.length === 0) return warning(`no record of the supervisor of ${id}`, [id]);
    return isEnded(supervisor) ? null : warning(`the supervisor's chain of ${id} is open`, [id]);
  });
  return joined(findings, "every supervisor's chain is here from boot to end");
}

function countRequests(subject, session) {
  const { gateway, supervisor } = session;
  const uncounted = gateway.find((record) => record.kind === "inference" && !isCount(record.member("agt", "cseq")));
  if (uncounted) throw broken("counter", "an inference that no supervisor signed for", uncounted.jti);
  const byGateway = new Map();
  for (const record of gateway.filter(isCounted)) {
    const number = record.member("agt", "cseq");
    if (byGateway.has(number)) throw broken("counter", "one counter in two gateway records", record.jti);
    byGateway.set(number, record);
  }
  const own = supervisor.records.filter(isCounted);
  const found = accountsOfBoth(session, byGateway, own);
  const seen = new Set([...byGateway.keys(), ...own.map((record) => record.member("agt", "cseq"))]);
  const last = lastCounter(supervisor) ?? [...seen].reduce((most, number) => Math.max(most, number), -1);
  const beyond = [...seen].filter((number) => number > last).length;
  const missing = last + 1 - (seen.size - beyond) + beyond;
  const gone = goneOf(subject, session);
  if (missing > 0 && beyond === 0 && missing <= gone.gateway.length + gone.supervisor.length) {
    found.push(warning(`${missing} requests of ${session.id} whose records may be erased ones`));
  } else if (missing > 0 && !tailIsOpen(session)) {
    throw broken("counter", "requests without a record, or beyond the last", session.id);
  } else if (missing > 0) {
    found.push(warning(`${missing} requests without a record when ${session.id} was interrupted`));
  }
  return found.length > 0 ? joined(found, "") : null;
}

/**
 * Requests of which the gateway has a record and the supervisor another, as when an answer was interrupted: both are shown. The
 * gateway received the request, so its record says how it ended.
 */
function accountsOfBoth({ id }, byGateway, own) {
  const both = own.filter((record) => byGateway.has(record.member("agt", "cseq")));
  if (both.length === 0) return [];
  const pairs = both.map((record) => [byGateway.get(record.member("agt", "cseq")), record]);
  const told = ([one, other]) => `request ${other.member("agt", "cseq")}: ${accountOf(one)}; ${accountOf(other)}`;
  const more = pairs.length > SHOWN ? `; and ${pairs.length - SHOWN} more` : "";
  const text = `${pairs.length} requests of ${id} that both sides recorded; the gateway's record counts`;
  const where = pairs.flat().map(({ jti }) => jti);
  return [warning(`${text}: ${pairs.slice(0, SHOWN).map(told).join("; ")}${more}`, where)];
}

/** Who says what of a request: kind, end or reason, decision. */
function accountOf(record) {
  const end = record.member("rsn") ?? record.member("res", "end") ?? record.member("act", "end");
  const said = [record.kind, end, record.member("pol", "dec")].filter((each) => each !== undefined);
  return `${record.role === "gateway" ? "gateway" : "supervisor"} ${said.join(" ")}`;
}

function lastCounter(supervisor) {
  const end = supervisor.records.find((record) => record.kind === "end");
  if (end === undefined) return null;
  if (!isCount(end.member("cseq"))) throw broken("counter", "the supervisor's end names no last counter", end.jti);
  return end.member("cseq");
}

function isCounted(record) {
  return ["inference", "refusal", "tool"].includes(record.kind) && isCount(record.member("agt", "cseq"));
}

function isCount(value) {
  return typeof value === "number";
}

function judgeDecisions(session) {
  const opaque = [];
  for (const record of bothSides(session)) {
    const denied = ["deny", "ask"].includes(record.member("pol", "dec"));
    if (denied && isDone(record)) throw broken("decision", "done although it was denied", record.jti);
    if (isRewritten(record) && !saysSo(record)) {
      throw broken("decision", "another request was forwarded than was received", record.jti);
    }
    if ((record.member("lim") ?? []).includes("tls-passthrough")) opaque.push(record.jti);
  }
  return opaque.length > 0 ? warning("connections whose content was not inspected", opaque) : null;
}

/** An answer that began reached somebody, unless policy cut it off; a secret's record comes before its use. */
function isDone(record) {
  if (record.kind === "inference") return record.member("res", "end") !== "policy_stop";
  return record.kind === "secret" || (record.kind !== "refusal" && record.member("act", "end") === "complete");
}

/** Whether what was forwarded is not what was received, where both are opened. */
function isRewritten(record) {
  const [received, forwarded] = [record.disclosed.get("req.dig"), record.disclosed.get("req.fwd")];
  return received !== undefined && forwarded !== undefined && received !== forwarded;
}

/** One record has one decision, the last: where tools were taken out and the answer was stopped, it is `deny`. */
function saysSo(record) {
  const [decision, end] = [record.member("pol", "dec"), record.member("res", "end")];
  return decision === "redact" || (decision === "deny" && end === "policy_stop");
}
