// Who did what, when and under which rule, session by session; within a session every record after its causes.

import { WORDS } from "./words.mjs";

/** Records that the page shows. */
export const MAX_MOMENTS = 5000;

/** `[session, records]` in the order in which the sessions began; an empty name: the gateway's own records. */
export function sessionsIn(records) {
  const sessions = new Map();
  for (const record of [...records].sort(byClock)) {
    const name = sessionOf(record);
    if (!sessions.has(name)) sessions.set(name, []);
    sessions.get(name).push(record);
  }
  return [...sessions].map(([name, those]) => [name, byCause(those)]);
}

/** What the record is about, in our words. */
export function titleOf(record) {
  const phase = record.member("ph");
  return (WORDS.titles[record.kind] ?? record.kind) + (typeof phase === "string" ? ` (${phase})` : "");
}

/** `[name, value]` of what a reader asks for first; names and values are the record's, and hostile. */
export function factsOf(record) {
  const shown = [
    ...["rsn", "tsk.workflow", "tsk.task", "mdl.id", "act.name", "act.tgt", "act.end", "mov.dir", "mov.path", "mov.n"],
    ...["prt.num", "res.st", "res.end", "sec[0].ref", "agt.id", "why"],
  ];
  const valueOf = (path) => record.member(...path.split(".")) ?? record.disclosed.get(path);
  const isPlain = ([, value]) => typeof value === "string" || typeof value === "number";
  return shown.map((path) => [path, valueOf(path)]).filter(isPlain);
}

function byClock(one, other) {
  if (one.iat !== other.iat) return one.iat < other.iat ? -1 : 1;
  if (one.chn !== other.chn) return one.chn < other.chn ? -1 : 1;
  return one.seq < other.seq ? -1 : Number(one.seq > other.seq);
}

function sessionOf(record) {
  const named = record.member("agt", "ses");
  if (typeof named === "string") return named;
  return record.role === "session" ? String(record.member("iss")).split(":").at(-1) : "";
}

/** Where links run in a circle, which no honest signer makes, the clock decides. */
function byCause(records) {
  const places = new Map(records.map(({ chn, seq }, number) => [`${chn}:${seq}`, number]));
  const effects = records.map(() => []);
  const causes = records.map(() => 0);
  const last = new Map();
  const alongChains = records.map((_, number) => number).sort((a, b) => byChain(records[a], records[b]));
  for (const number of alongChains) {
    const record = records[number];
    const peer = places.get(`${record.member("peer", "chn")}:${record.member("peer", "seq")}`);
    for (const cause of [last.get(record.chn), peer]) {
      if (cause === undefined || cause === number) continue;
      effects[cause].push(number);
      causes[number] += 1;
    }
    last.set(record.chn, number);
  }
  const ready = causes.flatMap((count, number) => (count === 0 ? [number] : [])); // their order is the clock's
  const done = new Set();
  let waiting = 0;
  while (done.size < records.length) {
    if (ready.length === 0) {
      while (done.has(waiting)) waiting += 1;
      ready.push(waiting);
    }
    const number = ready.shift();
    done.add(number);
    for (const effect of effects[number]) {
      causes[effect] -= 1;
      if (causes[effect] === 0 && !done.has(effect)) insert(ready, effect);
    }
  }
  return [...done].map((number) => records[number]);
}

function byChain(one, other) {
  if (one.chn !== other.chn) return one.chn < other.chn ? -1 : 1;
  return one.seq < other.seq ? -1 : Number(one.seq > other.seq);
}

/** Puts `number` into `sorted`, in its place. */
function insert(sorted, number) {
  let [begin, end] = [0, sorted.length];
  while (begin < end) {
    const middle = (begin + end) >> 1;
    if (sorted[middle] < number) begin = middle + 1;
    else end = middle;
  }
  sorted.splice(begin, 0, number);
}
