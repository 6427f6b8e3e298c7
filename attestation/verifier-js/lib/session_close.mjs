// `session.close`: what a close record sums up is what is here.

import { bySeq, theOnly } from "./case.mjs";
import { goneOf } from "./erasure_checks.mjs";
import { fromBase64url, toBase64url } from "./encoding.mjs";
import { rootOf } from "./merkle.mjs";
import { broken, demandSessions, joined, orderOf, sameValue, warning } from "./session_words.mjs";

/** `session.close`: count, outcomes, root and heads equal what is here; without a close it is open, or lost. */
export async function checkClose(subject) {
  subject.need("session.order");
  const findings = [];
  for (const session of demandSessions(subject)) findings.push(await judgeClose(subject, session));
  return joined(findings, "counts, root and heads equal the records");
}

/** Whether a gap record of another chain names the chain of the gateway that had this session (trust rules, 1). */
function isLost(subject, session) {
  const chains = new Set(session.gateway.map((record) => record.chn));
  const gaps = (subject.gaps ??= gapsIn(subject));
  return [...chains].some((chn) => [...(gaps.get(chn) ?? [])].some((other) => !chains.has(other)));
}

/** Chain that a gap record names -> chains of those records. */
function gapsIn({ records }) {
  const gaps = new Map();
  for (const record of records.filter(({ kind }) => kind === "gap")) {
    const named = record.member("lst", "chn");
    if (!gaps.has(named)) gaps.set(named, new Set());
    gaps.get(named).add(record.chn);
  }
  return gaps;
}

/** How a session ended: closed or lost; or open. */
export function stateOf(subject, session) {
  const close = theOnly(session, "session-close");
  if (close !== undefined) return close.member("why") === "lost" ? "lost" : "closed";
  return isLost(subject, session) ? "lost" : "open";
}

async function judgeClose(subject, session) {
  const close = theOnly(session, "session-close");
  if (close === undefined) {
    return warning(`session ${session.id} has no close: ${stateOf(subject, session)}`, [session.gateway[0].jti]);
  }
  const covered = coveredBy(session, close);
  const gone = goneOf(subject, session);
  for (const [member, value] of Object.entries(await summaryOf(session, close, covered, gone))) {
    if (!sameValue(close.member(member), value)) {
      throw broken("close", `the close record's ${member} is not that of the records`, close.jti);
    }
  }
  const erased = gone.gateway.length + gone.supervisor.length;
  if (erased > 0) {
    const which = `${erased} records of ${session.id}, closed: ${close.member("why")}`;
    return warning(`${which}, are erased; their outcomes stand in its close alone`, [close.jti]);
  }
  if (close.member("why") === "done") return null;
  const more = session.supervisor.records.length - covered.length;
  const beyond = more > 0 ? `, and ${more} records of its supervisor were never acknowledged` : "";
  return warning(`session ${session.id} closed: ${close.member("why")}${beyond}`, [close.jti]);
}

/** What the close must say: of the gateway's records before it, and of the supervisor's that it covers. */
async function summaryOf(session, close, covered, gone) {
  const before = session.gateway.filter((record) => record !== close);
  const named = gone.gateway.filter(({ number }) => number !== undefined);
  const heads = [...before.map((record) => [orderOf(record), record]), ...named.map((item) => [item.number, item])];
  const ordered = heads.sort(([one], [other]) => one - other).map(([, head]) => head);
  const last = ordered.at(-1);
  const hashes = ordered.map((record) => fromBase64url(record.rh, { size: 32 }));
  return {
    n: before.length + gone.gateway.length,
    root: toBase64url(await rootOf(hashes)),
    head: { chn: last.chn, seq: last.seq, rh: last.rh },
    out: outcomesOf(close, before, gone.gateway.length),
    sup: lastOfSupervisor(session.supervisor, covered, close, gone.supervisor),
  };
}

/** What is here; with as many more, of any outcome, as are erased. */
function outcomesOf(close, before, erased) {
  const counts = {};
  for (const record of before) counts[outcomeOf(record)] = (counts[outcomeOf(record)] ?? 0) + 1;
  const said = close.member("out");
  if (erased === 0) return counts;
  const sum = (values) => Object.values(values).reduce((total, count) => total + count, 0);
  const fits = Object.entries(counts).every(([name, count]) => (said[name] ?? 0) >= count);
  return fits && sum(said) - sum(counts) === erased ? said : counts;
}

function outcomeOf(record) {
  if (record.kind === "inference") return `inference.${record.member("res", "end")}`;
  const phase = record.member("ph");
  return typeof phase === "string" ? `${record.kind}.${phase}` : record.kind;
}

/** None was received: number 0 and the keyset digest. */
function lastOfSupervisor({ statement }, covered, close, erased) {
  const last = [...covered].sort(bySeq).at(-1);
  const named = erased.find(({ seq, rh }) => seq > (last?.seq ?? -1) && rh === close.member("sup", "rh"));
  if (named !== undefined) return { chn: named.chn, seq: named.seq, rh: named.rh, end: 0 };
  if (last === undefined) return { chn: [...statement.chn].sort()[0], seq: 0, rh: statement.keysetDigest, end: 0 };
  return { chn: last.chn, seq: last.seq, rh: last.rh, end: last.kind === "end" ? 1 : 0 };
}

/** The supervisor's records that a close speaks for: all of them; of a `lost` session what was acknowledged. */
function coveredBy({ supervisor }, close) {
  if (close.member("why") !== "lost") return supervisor.records;
  if (close.member("sup", "rh") === supervisor.statement.keysetDigest) return [];
  return supervisor.records.filter((record) => record.seq <= close.member("sup", "seq"));
}
