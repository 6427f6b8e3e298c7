// `session.peer`: each side's links name records that the other made, only forward, and never past each other.

import { bySeq } from "./case.mjs";
import { goneOf } from "./erasure_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { held } from "./verdict.mjs";

/** `session.peer`, for every session in focus. */
export function checkPeer(subject) {
  subject.need("session.order");
  if (subject.sessions.length === 0) throw new NotMade("no session whose supervisor's records are here");
  for (const session of subject.sessions) judgeLinks(session, goneOf(subject, session));
  return held("links between the two chains agree, in both directions");
}

function judgeLinks(session, gone) {
  const sides = { gateway: session.gateway, session: session.supervisor.records };
  const byHash = new Map(Object.values(sides).flat().map((record) => [record.rh, record]));
  const erased = { gateway: gone.supervisor, session: gone.gateway };
  const heard = { gateway: heardBefore(sides.gateway), session: heardBefore(sides.session) };
  for (const records of Object.values(sides)) {
    const highest = new Map();
    for (const record of [...records].sort(bySeq)) {
      const peer = record.member("peer");
      if (record.kind === "session-close") demandClosingLink(record, session);
      if (peer === undefined) {
        demandMayLack(record, session, highest.size > 0);
        continue;
      }
      if (erased[record.role].some(({ chn, seq, rh }) => rh === peer.rh && chn === peer.chn && seq === peer.seq)) {
        demandForward(peer, highest, record);
        continue;
      }
      const named = byHash.get(peer.rh);
      if (!named || named.role === record.role || named.chn !== peer.chn || named.seq !== peer.seq) {
        throw mismatch("a link to a record that the other side did not make", record);
      }
      demandForward(peer, highest, record);
      if ((heard[named.role].get(named.seq) ?? -1) >= record.seq) {
        throw mismatch("two records that each claim to follow the other", record);
      }
    }
  }
}

function demandForward(peer, highest, record) {
  if (peer.seq < (highest.get(peer.chn) ?? -1)) throw mismatch("a link that goes back", record);
  highest.set(peer.chn, peer.seq);
}

/** A link is left out only before the other side was heard: by the gateway, until it acknowledged the supervisor's first. */
function demandMayLack(record, session, afterOne) {
  if (record.member("agt") === undefined) return;
  const closing = record.kind === "session-close" && hasHeard(record, session);
  if (record.role === "session" || afterOne || closing) {
    throw mismatch("a record without a link to the other side", record);
  }
}

/** Whether the gateway had received a record of the supervisor, by its close. */
function hasHeard(close, { supervisor }) {
  return close.member("sup", "rh") !== supervisor.statement.keysetDigest;
}

/** A `lost` close links to the record that it calls the supervisor's last, or to none where it had received none. */
function demandClosingLink(close, session) {
  if (close.member("why") !== "lost") return;
  const { chn, seq, rh } = hasHeard(close, session) ? close.member("sup") : {};
  const peer = close.member("peer") ?? {};
  if (peer.chn !== chn || peer.seq !== seq || peer.rh !== rh) {
    throw mismatch("a close that links to another record than it calls the last", close);
  }
}

/** `seq` -> the highest `seq` of the other side that the signer had received by then. */
function heardBefore(records) {
  const heard = new Map();
  let highest = -1;
  for (const record of [...records].sort(bySeq)) {
    highest = Math.max(highest, record.member("peer", "seq") ?? -1);
    heard.set(record.seq, highest);
  }
  return heard;
}

function mismatch(message, record) {
  return new Refusal("session.peer", message, { where: record.jti });
}
