// `bundle.objects`: whether a bundle holds what its records and documents name by digest. Of a bundle from which objects were
// taken, or in which they were exchanged for others, nothing is refused, and nothing can be judged. Of the sessions beside
// those that are judged a bundle holds the gateway's records alone.

import { isByIdentity } from "./approval_statement.mjs";
import { verifyResult } from "./attestation_result.mjs";
import { bothSides, questioned } from "./case.mjs";
import { Count, counting } from "./counted.mjs";
import { fromBase64url, fromUtf8, isAscii, toHex } from "./encoding.mjs";
import { profilesIn } from "./policy_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";

const SHOWN = 4;
/** Sorts of which no two sessions name the same object; of evidence only gateways' is named by several. */
const OF_ONE = ["keyset of key", "attestation result", "approver's signature"];

/** Every keyset, evidence, endorsement, result, configuration, profile and approver's signature that is named is here. */
export async function checkObjects(subject) {
  subject.need("sig.receipts");
  const places = await placesIn(subject);
  const lacking = [];
  const shared = [];
  let own = 0;
  const gateways = new Set(subject.gateways.flatMap(({ records }) => records.map(({ evd }) => evd)));
  for (const [what, names] of Object.entries(await namedIn(subject))) {
    for (const name of names) {
      if (!places[what].has(name)) lacking.push(`${what} ${name.slice(0, 23)}`);
      if (OF_ONE.includes(what) || (what === "evidence" && !gateways.has(name))) own += 1;
      else shared.push(`${what} ${name}`);
    }
  }
  if (lacking.length === 0) {
    return counting(new Count(own, "objects that records and documents name, each in the bundle", shared));
  }
  const more = lacking.length > SHOWN ? ` and ${lacking.length - SHOWN} more` : "";
  throw new NotMade(`not in the bundle, though its records name them: ${lacking.slice(0, SHOWN).join(", ")}${more}`);
}

/** Sort of object -> what there is of it, as records name it. */
async function placesIn({ bundle, parties }) {
  const linked = (objects) => ({ has: (name) => objects.has(`sha256:${toHex(fromBase64url(name, { size: 32 }))}`) });
  return {
    "gateway's configuration": bundle.policies,
    keyset: new Set(parties.map(({ statement }) => statement.keysetDigest)),
    "keyset of key": new Set(parties.map(({ statement }) => statement.signing.kid)),
    evidence: linked(bundle.evidence),
    endorsements: linked(bundle.endorsements),
    "attestation result": linked(bundle.results),
    profile: await profilesIn({ bundle }),
    "approver's signature": bundle.policies,
  };
}

/** Sort of object -> the names of it: of signers that are judged, and of the sessions in question. */
async function namedIn(subject) {
  const named = {};
  const add = (what, name) => {
    if (name !== undefined) (named[what] ??= new Set()).add(name);
  };
  for (const { statement, records } of subject.judged) {
    const kept = records.filter(({ chn, seq }) => !(seq <= (subject.pruned.get(chn)?.seq ?? -1)));
    if (records.length > 0 && kept.length === 0) continue;
    if (statement.role === "gateway") add("gateway's configuration", statement.policy);
    else add("keyset", statement.gks);
    for (const record of kept) {
      add("evidence", record.evd);
      add("keyset", record.member("gks"));
      if (record.kind === "boot") add("endorsements", record.member("col"));
    }
  }
  const gateways = new Map(subject.gateways.flatMap(({ statement }) => statement.chn.map((chn) => [chn, statement])));
  const ofResults = new Map();
  for (const record of sessionRecords(subject)) {
    add("evidence", record.member("agt", "evd"));
    add("keyset of key", record.member("agt", "key"));
    add("profile", record.member("pol", "dig"));
    for (const { ear } of Object.values(record.member("att") ?? {})) {
      add("attestation result", ear);
      ofResults.set(`${ear} ${record.chn}`, [ear, gateways.get(record.chn)]);
    }
    const signature = record.member("apr", "sig");
    if (signature !== undefined && isByIdentity(signature)) add("approver's signature", signature);
  }
  for (const [ear, gateway] of ofResults.values()) add("endorsements", await endorsementsOf(subject, ear, gateway));
  return named;
}

/** Of the sessions in question; where none of them is in focus, the gateway's alone. */
function sessionRecords(subject) {
  const { sessions, gateways } = subject;
  if (sessions.length > 0) return sessions.flatMap(bothSides);
  const wanted = questioned(subject);
  return gateways.flatMap(({ records }) => records.filter((record) => wanted.has(record.member("agt", "ses"))));
}

/** The link of what a result rests on; undefined of one that is not here, or not its gateway's: that is refused elsewhere. */
async function endorsementsOf({ bundle }, ear, gateway) {
  const raw = bundle.results.get(`sha256:${toHex(fromBase64url(ear, { size: 32 }))}`);
  const text = raw === undefined ? null : fromUtf8(raw);
  if (text === null || !isAscii(text) || !gateway?.ear) return undefined;
  try {
    return (await verifyResult(text, gateway.ear)).col;
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}
