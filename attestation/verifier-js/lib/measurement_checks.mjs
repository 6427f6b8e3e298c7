// The part of `tee.appraisal` that needs no collateral: a quote that no pinned root's platform has signed, or whose
// measurements, registers or events contradict what was pinned, is refused. One that does not is *not made*: whether its
// platform is revoked or out of date is not judged here.

import { sameBytes, toHex } from "./encoding.mjs";
import { eventDigest, parseEventLog, replay } from "./event_log.mjs";
import { configOf, quoteOf } from "./evidence_checks.mjs";
import { sessionEvents } from "./manifest.mjs";
import { eventOf } from "./narrowing.mjs";
import { isZero } from "./quote.mjs";
import { verifyQuoteSignatures } from "./quote_signatures.mjs";
import { INTEL_ROOT, imageOf } from "./reference_values.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { countsAt } from "./trust_file.mjs";

const DEBUG = 1; // bit 0 of TD_ATTRIBUTES

/** `tee.appraisal`: refused, or not made; never held. */
export async function checkAppraisal(subject) {
  subject.need("key.bound", "conf.bound", "pol.bound");
  const accepted = subject.trust.tee_roots.filter((entry) => countsAt(entry, subject.at));
  if (accepted.length === 0) throw new Refusal("roots.empty", "no root is accepted at this time");
  const roots = accepted.map((entry) => (entry.value === "intel" ? INTEL_ROOT : entry.value));
  const references = subject.trust.reference_values.filter((entry) => countsAt(entry, subject.at));
  if (references.length === 0) {
    const where = "trust.reference_values";
    throw new Refusal("trust.not_accepted", "no reference values are accepted at this time", { where });
  }
  for (const party of subject.judged) {
    for (const quoted of party.quoted) {
      quoted.root = await verifyQuoteSignatures(quoteOf(quoted), { roots, at: subject.at });
      await demandOneAgrees(references, quoted, await expectedOf(subject, party, quoted));
    }
  }
  throw new NotMade(
    "a pinned root's platform signed the quotes; image, registers and events agree with the reference values; " +
      "revocation, collateral and TCB status are not judged by this verifier",
  );
}

/** `tee.class`: refused where root, keysets and manifests disagree; else not made: only an appraisal confirms it. */
export function checkClass(subject) {
  subject.need("key.bound");
  const said = new Set(subject.parties.map((party) => party.statement.cls));
  for (const { manifest } of subject.sessions) said.add(manifest.cls);
  for (const { root } of subject.parties.flatMap(({ quoted }) => quoted)) if (root !== null) said.add(root.cls);
  if (said.size > 1) throw new Refusal("tee.class_mismatch", "evidence class disagrees");
  throw new NotMade("root, keysets and manifests name one class; no quote was appraised that could confirm it");
}

async function expectedOf(subject, party, { epoch }) {
  if (party.statement.role === "gateway") {
    return { image: "gateway", mrconfigid: (await configOf(subject, party)).mrconfigid, events: [] };
  }
  const { manifest, activation, narrowings } = subject.sessions.find((session) => session.supervisor === party);
  const later = narrowings.slice(0, epoch).map(eventOf);
  return { image: "session", mrconfigid: manifest.mrconfigid, events: sessionEvents(manifest, activation), later };
}

async function demandOneAgrees(references, quoted, wanted) {
  let refusal = null;
  for (const { reference } of references) {
    try {
      return await demandAgrees(reference, quoted, wanted);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refusal = error;
    }
  }
  throw refusal;
}

async function demandAgrees(reference, quoted, wanted) {
  const body = quoteOf(quoted);
  if (reference.cls !== quoted.root.cls) throw refused("evidence_class", "evidence of another class than was pinned");
  if (!reference.roots.includes(quoted.root.name)) throw refused("root", "another root than the reference values name");
  demandConfiguration(body, reference);
  if (!reference.images[wanted.image].includes(imageOf(body))) {
    throw refused("image", `the TD runs no accepted ${wanted.image} image`);
  }
  if (isZero(body.mrconfigid)) throw refused("mrconfigid_unbound", "MRCONFIGID is all zero: nothing is bound");
  if (!sameBytes(body.mrconfigid, wanted.mrconfigid)) {
    throw refused("mrconfigid", "MRCONFIGID is not the expected digest");
  }
  const log = parseEventLog(quoted.evidence.eventlog);
  await demandReplay(body, log);
  const events = log.filter((event) => event.rtmr === 3);
  if (wanted.image === "gateway") {
    if (events.length > 0 || !isZero(body.rtmrs[3])) throw refused("rtmr3", "a gateway extends nothing into RTMR3");
  } else {
    await demandEvents(events, wanted.events, wanted.later);
  }
}

function demandConfiguration(body, reference) {
  const attributes = toHex(body.tdAttributes);
  if (body.tdAttributes[0] & DEBUG) throw refused("debug", "the TD is debuggable: its host can read its memory");
  if (attributes !== reference.tdAttributes) {
    throw refused("td_attributes", "TD_ATTRIBUTES differ from the reference");
  }
  if (body.serviceTd !== null && !isZero(body.serviceTd)) {
    throw refused("service_td", "a service TD is bound to this TD");
  }
  if (toHex(body.xfam) !== reference.xfam) throw refused("xfam", "XFAM differs from the reference");
}

/** What the log says of a register must give that register; RTMR3 also where it says nothing. */
async function demandReplay(body, log) {
  for (const rtmr of [0, 1, 2, 3]) {
    const events = log.filter((event) => event.rtmr === rtmr);
    if ((events.length > 0 || rtmr === 3) && !sameBytes(await replay(events), body.rtmrs[rtmr])) {
      throw new Refusal("eventlog.replay", `the event log does not replay to RTMR${rtmr}`);
    }
  }
}

/** RTMR3 holds exactly the session's events up to the barrier, and after it exactly the narrowings until then. */
async function demandEvents(events, boot, later) {
  const wanted = [...boot, ...later];
  const names = (all) => all.slice(0, boot.length).map(({ name }) => name).join();
  if (names(events) !== names(boot)) throw refused("rtmr3", "RTMR3 does not begin with the session's events in their order");
  if (events.length !== wanted.length) throw refused("rtmr3", "more or fewer events after the barrier than records tell");
  for (const [index, event] of events.entries()) {
    if (!sameBytes(await eventDigest(event), await eventDigest(wanted[index]))) {
      throw refused("rtmr3", "an event in RTMR3 is not the expected one", event.name);
    }
  }
}

function refused(name, message, where) {
  return new Refusal(`appraisal.${name}`, message, { where });
}
