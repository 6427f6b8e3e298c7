// Erasures and legal holds: only by an accepted authority, only when logged, never of what was held (trust rules, 21).
// An order proves that it was ordered. That something was deleted is never said.

import { byPlace } from "./case.mjs";
import { demandOrder } from "./orders.mjs";
import { Refusal } from "./refusals.mjs";
import { countsAt } from "./trust_file.mjs";
import { held } from "./verdict.mjs";

/** `erasure.authority`: each erasure and hold is logged, and signed by an accepted authority for exactly what it says. */
export async function checkAuthority(subject) {
  subject.need("sig.receipts");
  const here = new Map(subject.records.map((record) => [placeOf(record), record]));
  const found = new Map();
  const pruned = new Map();
  const orders = [];
  let holds = 0;
  for (const party of subject.gateways) {
    const given = party.records.filter(({ kind }) => kind === "erasure" || kind === "hold");
    for (const record of given.sort(byPlace)) {
      await demandAuthority(subject, party, record);
      if (record.kind === "hold") {
        holds += 1;
        continue;
      }
      orders.push(record.jti);
      for (const item of itemsOf(record)) {
        demandNamed(subject, party, item, here);
        if (item.level === 3) take(pruned, item.chn, item);
        else take(found, placeOf(item), item);
      }
    }
  }
  subject.erased = found;
  subject.pruned = pruned;
  if (orders.length > 0) return held(tell(found, pruned, here), { tier: "warning", where: orders });
  return held(holds > 0 ? `no erasure; ${holds} holds by accepted authorities` : "no erasure, no hold");
}

/** `hold.respected`: nothing was ordered to be erased between a hold and its end, in the order of the log. */
export function checkHolds(subject) {
  subject.need("erasure.authority");
  const all = subject.records.filter(({ kind }) => kind === "hold");
  const holds = all.filter((record) => record.member("rel") === undefined);
  if (holds.length === 0) return held("no hold");
  if (!subject.alongLog) subject.need("log.inclusion");
  const erasures = subject.records.filter(({ kind }) => kind === "erasure");
  for (const hold of holds) {
    const within = spanOf(subject, hold, all);
    const target = hold.member("tgt");
    for (const erasure of erasures) {
      const hit = within(erasure) && itemsOf(erasure).some((item) => isHeld(subject, item, target));
      if (hit) throw new Refusal("hold.broken", "a held record was ordered to be erased", { where: erasure.jti });
    }
  }
  return held(`${holds.length} holds, and nothing held was ordered to be erased`);
}

/** Chain and number as one text: what `subject.erased` is keyed by. */
export function placeOf({ chn, seq }) {
  return `${chn} ${seq}`;
}

/** What of a session is erased by order and not here, by the signer's role. */
export function goneOf(subject, session) {
  if (subject.erased.size === 0) return { gateway: [], supervisor: [] };
  const absent = (subject.absent ??= absentIn(subject));
  const chains = [...new Set(session.gateway.map(({ chn }) => chn))].sort();
  return {
    gateway: chains.flatMap((chn) => absent.get(`${chn} ${session.id}`) ?? []),
    supervisor: session.supervisor.statement.chn.flatMap((chn) => absent.get(chn) ?? []),
  };
}

/** Chain, and chain and session -> what was ordered to be erased and is not here. */
function absentIn({ erased, records }) {
  const here = new Set(records.map(placeOf));
  const absent = new Map();
  for (const [place, item] of erased) {
    if (item.level !== 2 || here.has(place)) continue;
    for (const name of [item.chn, `${item.chn} ${item.session}`]) {
      if (!absent.has(name)) absent.set(name, []);
      absent.get(name).push(item);
    }
  }
  return absent;
}

/** Asked once of each record, in however many cases it stands. */
async function demandAuthority(subject, party, record) {
  const known = subject.authorized;
  if (!known.has(record)) known.set(record, await refusalOf(() => judgeAuthority(subject, party, record)));
  if (known.get(record) !== null) throw known.get(record);
}

async function refusalOf(step) {
  try {
    await step();
    return null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error;
  }
}

async function judgeAuthority(subject, { statement }, record) {
  const accepted = (subject.trust.erasure_authorities ?? []).filter((entry) => countsAt(entry, subject.at));
  try {
    if (statement.log === null) throw unauthorized("the keyset names no log");
    await demandOrder(record.kind, record.payload, {
      origin: statement.log.origin,
      authorities: accepted.map((entry) => entry.key),
      latest: record.iat + subject.trust.clockToleranceS,
    });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw unauthorized(`a record of kind ${record.kind} without an accepted authority: ${error.text}`, record.jti);
  }
  if (!subject.bundle.proofs.has(record.rh)) {
    throw unauthorized(`a record of kind ${record.kind} that is not shown to be logged`, record.jti);
  }
}

function itemsOf(record) {
  return record.member("del").map(({ chn, seq, rh, lvl, agt }) => ({
    chn,
    seq,
    rh,
    level: lvl,
    session: agt?.ses,
    number: agt?.seq,
    order: record.jti,
  }));
}

/** What is here under that number is what was named, and of the same log. */
function demandNamed(subject, party, item, here) {
  for (const other of subject.parties) {
    if (other.statement.chn.includes(item.chn) && originOf(subject, other) !== originOf(subject, party)) {
      throw unauthorized("an erasure of a record of another log", item.order);
    }
  }
  const record = here.get(placeOf(item));
  if (record !== undefined && record.rh !== item.rh) {
    throw unauthorized("an erasure names another record than stands there", item.order);
  }
}

/** The log of a gateway, or of the gateway that a session names. */
function originOf(subject, { statement }) {
  const wanted = statement.gks ?? statement.keysetDigest;
  return subject.gateways.find((party) => party.statement.keysetDigest === wanted)?.statement.log?.origin ?? null;
}

/** Keeps an item where nothing of its name is kept: of records the higher level, of chains the longer stretch. */
function take(kept, name, item) {
  const before = kept.get(name);
  if (before !== undefined && before.seq === item.seq && before.rh !== item.rh) {
    throw unauthorized("two erasures name two records of one number", item.order);
  }
  const isMore = before === undefined || before.seq < item.seq || (before.seq === item.seq && before.level < item.level);
  if (isMore) kept.set(name, item);
}

function tell(found, pruned, here) {
  const records = [...found.values()].filter(({ level }) => level === 2);
  const contents = [...found.values()].filter(({ level }) => level === 1);
  const chains = pruned.size > 0 ? `; ${pruned.size} chains to be pruned` : "";
  const text = `ordered to be erased: ${records.length} records, and the content of ${contents.length}${chains}`;
  const kept = records.filter((item) => here.has(placeOf(item))).length;
  const open = contents.filter((item) => here.get(placeOf(item))?.disclosed.size > 0).length;
  const whole = [...pruned.values()].filter((item) => [...here.values()].some((record) => reaches(item, record)));
  const left = kept + open + whole.length;
  return left > 0 ? `${text}; of ${left} it is still here` : text;
}

/** Whether a record stands in the log between a hold and its end. */
function spanOf(subject, hold, holds) {
  const begin = subject.logPlaces.get(hold.rh);
  const ends = holds
    .filter((record) => record.member("rel") === hold.rh && record.member("tgt") === hold.member("tgt"))
    .map((record) => subject.logPlaces.get(record.rh))
    .filter(({ origin, index }) => origin === begin.origin && index > begin.index);
  return (record) => {
    const { origin, index } = subject.logPlaces.get(record.rh);
    return origin === begin.origin && begin.index < index && ends.every((end) => index < end.index);
  };
}

function isHeld(subject, item, target) {
  if (target === item.rh || target === item.session) return true;
  const whole = item.level === 3;
  if (whole && subject.records.some((record) => record.rh === target && reaches(item, record))) return true;
  return subject.sessions.some(({ id, supervisor, gateway }) => {
    const ofGateway = whole && gateway.some((record) => reaches(item, record));
    return id === target && (ofGateway || supervisor.statement.chn.includes(item.chn));
  });
}

/** Whether the chain that is pruned holds a record. */
function reaches(item, record) {
  return record.chn === item.chn && record.seq <= item.seq;
}

function unauthorized(message, where) {
  return new Refusal("chain.gap", message, { where });
}
