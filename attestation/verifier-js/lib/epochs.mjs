// The epochs of a session's profile: which one is in force at which record of either signer. Epoch 0 is the profile of the
// manifest; each `policy` record of the supervisor begins the next, the gateway follows at the latest where it had it.

import { byPlace } from "./case.mjs";
import { parseEventLog } from "./event_log.mjs";
import { sessionEvents } from "./manifest.mjs";
import { bindingOf, demandNext, parseNarrowings } from "./narrowing.mjs";
import { Refusal } from "./refusals.mjs";

/** Every epoch of a session whose narrowings are known: `[{dig, fil, bind}]`. */
export function epochsOf({ manifest, narrowings }) {
  return [manifest.profile, ...narrowings].map(({ dig, fil }, epoch) => ({ dig, fil, bind: bindingOf(epoch) }));
}

/** What the `policy` records tell; and the event log, of a last one that the supervisor did not come to record. */
export function narrowingsOf(session) {
  const { manifest, activation, supervisor, id } = session;
  const first = manifest.profile.dig;
  const told = [];
  for (const record of policyRecords(session)) {
    const { dig, fil, epoch } = record.member("pol");
    const narrowing = { dig, epoch, fil, old: record.member("old") };
    demandNext(narrowing, told, first, record.jti);
    told.push(narrowing);
  }
  const last = supervisor.quoted.at(-1);
  if (last.recorded) return told;
  const events = parseEventLog(last.evidence.eventlog).filter((event) => event.rtmr === 3);
  const logged = parseNarrowings(events.slice(sessionEvents(manifest, activation).length), first);
  if (!sameNarrowings(logged.slice(0, -1), told)) {
    throw new Refusal("narrowing.order", "the event log has other restrictions than the records", { where: id });
  }
  return logged;
}

/** Chain of the supervisor -> numbers of its `policy` records, in order. */
export function begunBy(session) {
  const begun = new Map();
  for (const { chn, seq } of policyRecords(session)) begun.set(chn, [...(begun.get(chn) ?? []), seq]);
  return begun;
}

/** How many of the supervisor's `policy` records a gateway record follows, by its `peer`. */
export function received(record, begun) {
  const peer = record.member("peer");
  if (peer === undefined) return 0;
  return (begun.get(peer.chn) ?? []).filter((seq) => seq <= peer.seq).length;
}

/** Each decision of either signer names the profile of its epoch, and no chain goes back to an earlier one. */
export function demandEpochs(session) {
  const epochs = epochsOf(session);
  const last = epochs.length - 1;
  let epoch = 0;
  for (const record of [...session.supervisor.records].sort(byPlace)) {
    if (record.kind === "policy") epoch += 1;
    demandEpoch(record, epoch, epoch, epochs);
  }
  const begun = begunBy(session);
  let least = 0;
  for (const record of session.gateway) {
    least = Math.max(least, received(record, begun));
    const most = record.kind === "session-start" ? 0 : last; // what was admitted is epoch 0
    least = demandEpoch(record, least, most, epochs) ?? least;
  }
}

/** The epoch that a record names, between `least` and `most`; undefined: it decides nothing. */
function demandEpoch(record, least, most, epochs) {
  const policy = record.member("pol");
  if (policy === undefined) return undefined;
  const { epoch } = policy;
  if (epoch < least || epoch > most) throw unbound("a record of another epoch than is in force", record.jti);
  if (["dig", "fil", "bind"].some((name) => policy[name] !== epochs[epoch][name])) {
    throw unbound("a record judged under another profile or binding", record.jti);
  }
  return epoch;
}

function policyRecords({ supervisor }) {
  return supervisor.records.filter((record) => record.kind === "policy").sort(byPlace);
}

function sameNarrowings(one, other) {
  const members = ["dig", "epoch", "fil", "old"];
  return one.length === other.length && one.every((each, at) => members.every((name) => each[name] === other[at][name]));
}

function unbound(message, where) {
  return new Refusal("pol.unbound", message, { where });
}
