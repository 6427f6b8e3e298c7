// `session.intents`: what was begun, and how it ended, of one signer, in one session and chain.

import { bySeq } from "./case.mjs";
import { goneOf } from "./erasure_checks.mjs";
import { BEGINS, ENDS } from "./record_table.mjs";
import { broken, joined, sameValue, warning } from "./session_words.mjs";

/** Acts of which each outcome has one intent, of its own kind; and what both say alike, where both show it. */
const ALIKE = new Map([
  ["exec", ["act.name", "act.arg"]],
  ["file", ["mov.dir", "mov.path"]],
  ["port", ["prt.num"]],
]);

/** `session.intents`: an outcome names its one intent, of its own signer; one without outcome is a warning. */
export function checkIntents(subject) {
  subject.need("session.start");
  return joined(subject.sessions.map((session) => judgeIntents(subject, session)), "every outcome follows its intent");
}

function judgeIntents(subject, session) {
  const gone = goneOf(subject, session);
  const own = judgeIntentsOf(session.supervisor.records, gone.supervisor.length);
  const gateways = judgeIntentsOf(session.gateway, gone.gateway.length);
  return own ?? gateways;
}

function judgeIntentsOf(records, erased) {
  const intents = new Map();
  const done = new Set();
  const unknown = new Set();
  const ports = new Map();
  let reopened = 0;
  for (const record of [...records].sort(bySeq)) {
    if (isIntent(record)) intents.set(record.jti, record);
    if (record.kind === "file" && said(record, "mov.n") === 0 && said(record, "mov.len") > 0) {
      throw broken("intent", "bytes of no file", record.jti);
    }
    const port = record.member("ph") === "opened" ? said(record, "prt.num") : undefined;
    if (port !== undefined) {
      if (ports.has(port) && !done.has(ports.get(port))) reopened += 1;
      if (reopened > erased) throw broken("intent", "a port that was open already", record.jti);
      ports.set(port, record.jti);
    }
    if (!ENDS.includes(record.member("ph"))) continue;
    const named = record.member("par") ?? [];
    for (const jti of named) if (!intents.has(jti)) unknown.add(jti);
    // Of an intent that is erased nothing more is known.
    const excused = unknown.size <= erased && named.some((jti) => unknown.has(jti));
    for (const jti of excused ? named : intentsOf(record, intents, done)) done.add(jti);
  }
  const open = [...intents.values()].filter(({ kind, jti }) => kind !== "file" && !done.has(jti)).map(({ jti }) => jti);
  if (open.length > 0) return warning(`${open.length} intents without outcome`, open);
  return unknown.size > 0 ? warning(`${unknown.size} outcomes whose intents may be erased ones`) : null;
}

/** Whether something begins here. A file's record stands for the whole call, unless an outcome follows. */
function isIntent(record) {
  const phase = record.member("ph");
  return BEGINS.includes(phase) || record.kind === "secret" || (record.kind === "file" && phase === undefined);
}

function intentsOf(record, intents, done) {
  const named = new Set(record.member("par") ?? []);
  for (const jti of named) {
    if (intents.get(jti)?.chn !== record.chn) {
      throw broken("intent", "an outcome that names no intent before it", record.jti);
    }
    if (done.has(jti)) throw broken("intent", "a second outcome of one intent", record.jti);
  }
  const parents = [...named].map((jti) => intents.get(jti));
  const kinds = parents.map((parent) => parent.kind);
  if (ALIKE.has(record.kind) || kinds.some((kind) => ALIKE.has(kind))) demandOwnIntent(record, parents);
  if (record.kind === "tool" && !kinds.includes("tool")) {
    throw broken("intent", "an outcome without its intent", record.jti);
  }
  const announced = parents.filter((parent) => parent.kind === "secret");
  if (!sameValue(versionsOf([record]), versionsOf(announced))) {
    throw broken("intent", "the secrets that were used are not those of its intents", record.jti);
  }
  if (isUnsafe(record) && !kinds.some((kind) => kind === "egress" || kind === "secret")) {
    throw broken("intent", "an unsafe request without its intent", record.jti);
  }
  return named;
}

/** The outcome of a command, of files or of a port has one intent, of its own kind, and speaks of the same. */
function demandOwnIntent(record, parents) {
  if (parents.length !== 1 || parents[0].kind !== record.kind) {
    throw broken("intent", "an outcome without its intent", record.jti);
  }
  for (const path of ALIKE.get(record.kind)) {
    const [before, after] = [said(parents[0], path), said(record, path)];
    if (before !== undefined && after !== undefined && before !== after) {
      throw broken("intent", `an outcome of another ${path} than its intent`, record.jti);
    }
  }
  // What one of the two does not show is undefined, and no number is more than that.
  if (["mov.n", "mov.len"].some((path) => said(record, path) > said(parents[0], path))) {
    throw broken("intent", "more was moved than was begun", record.jti);
  }
}

/** A member, clear or disclosed; undefined: neither. */
function said(record, path) {
  return record.member(...path.split(".")) ?? record.disclosed.get(path);
}

function versionsOf(records) {
  return records.flatMap((record) => (record.member("sec") ?? []).map((use) => use.ver)).sort();
}

/** An egress outcome, opened, of a method that changes things (RFC 9110, section 9.2.1). */
function isUnsafe(record) {
  const target = record.disclosed.get("act.tgt");
  if (record.kind !== "egress" || typeof target !== "string" || !target.includes(" ")) return false;
  return !["GET", "HEAD", "OPTIONS"].includes(target.split(" ", 1)[0]);
}
