// What the checks of sessions share: which there are, how a record is numbered, and how a finding is said.

import { theOnly } from "./case.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { canonical } from "./strict_json.mjs";
import { held } from "./verdict.mjs";

/** The sessions in focus; none is no answer. */
export function demandSessions(subject) {
  if (subject.sessions.length === 0) throw new NotMade("no session whose supervisor's records are here");
  return subject.sessions;
}

/** A gateway record's number within its session. */
export function orderOf(record) {
  const number = record.member("agt", "seq");
  if (typeof number !== "number") throw broken("order", "a gateway record of a session without its number", record.jti);
  return number;
}

/** Whether a supervisor's chain has its end. */
export function isEnded(supervisor) {
  return supervisor.records.some((record) => record.kind === "end");
}

/** Whether neither side ended it in order: no `end` of the supervisor's, and no close or a `lost` one. */
export function tailIsOpen(session) {
  const close = theOnly(session, "session-close");
  return !isEnded(session.supervisor) && (close === undefined || close.member("why") === "lost");
}

/** Whether two JSON values are the same. */
export function sameValue(one, other) {
  return one !== undefined && canonical(one).join() === canonical(other).join();
}

/** A finding that is no contradiction. */
export function warning(detail, where = []) {
  return held(detail, { tier: "warning", where });
}

/** Every finding in one; none: `good`. */
export function joined(findings, good) {
  const found = findings.filter((finding) => finding !== null);
  if (found.length === 0) return held(good);
  return warning(found.map((finding) => finding.detail).join("; "), found.flatMap((finding) => finding.where));
}

/** The refusal `session.<name>`. */
export function broken(name, message, where) {
  return new Refusal(`session.${name}`, message, { where });
}
