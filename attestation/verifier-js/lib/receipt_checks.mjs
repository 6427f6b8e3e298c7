// L0: receipts are authentic under the keys that the bundle names.

import { bySeq } from "./case.mjs";
import { parseReceipt, verifyReceipt } from "./receipt.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { parseStatement } from "./statement.mjs";
import { held } from "./verdict.mjs";

/** Kinds whose meaning (lineage) is not checked yet. */
const UNJUDGED = ["fork", "handoff", "snapshot"];

/**
 * `fmt.keysets`: every statement in its closed form, and no two claim one key, chain or session. A second keyset of one
 * session would be a signer beside the one that is judged.
 */
export async function checkKeysets(subject) {
  if (subject.bundle.keysets.size === 0) throw new NotMade("the bundle has no keyset");
  const claimed = new Set();
  const sessions = new Set();
  for (const [name, raw] of [...subject.bundle.keysets].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const statement = await placed(`keysets.${name}`, () => parseStatement(raw));
    for (const claim of [`key ${statement.signing.kid}`, ...new Set(statement.chn.map((chn) => `chain ${chn}`))]) {
      if (claimed.has(claim)) {
        throw new Refusal("chain.broken", "two keysets claim one key or chain", { where: `keysets.${name}` });
      }
      claimed.add(claim);
    }
    if (statement.role === "session") {
      if (sessions.has(statement.iss)) {
        throw new Refusal("chain.broken", "two keysets claim one session", { where: `keysets.${name}` });
      }
      sessions.add(statement.iss);
    }
    subject.parties.push({ statement, records: [], quoted: [] });
  }
  return held(`${subject.parties.length} keysets in their closed form`);
}

/** `sig.receipts`: header, signature, canonical form, closed profile, role, disclosures of every receipt. */
export async function checkReceipts(subject) {
  subject.need("fmt.keysets");
  const verified = verifierOf(subject);
  for (const [index, text] of subject.bundle.receipts.entries()) {
    await placed(`receipts[${index}]`, async () => take(subject, await verified(text)));
  }
  findSessions(subject);
  return held(`${subject.records.length} signatures hold, each in its closed form`);
}

/** What verifies the text of one receipt: gives the record, and the party that signed it. */
export function verifierOf({ parties, table }) {
  const signers = new Map(parties.map((party) => [party.statement.signing.kid, party]));
  return async (text) => {
    const receipt = await parseReceipt(text);
    const party = signers.get(receipt.parts.kid);
    if (party === undefined) {
      throw new Refusal("sig.unknown_key", "signed by a key that no keyset here names", { found: receipt.parts.kid });
    }
    return { party, record: await verifyReceipt(receipt, party.statement, table) };
  };
}

/** Takes a verified record. */
export function take(subject, { party, record }) {
  party.records.push(record);
  subject.records.push(record);
}

/** `kinds.judged`: every record is of a kind that can be judged. */
export function checkKinds(subject) {
  subject.need("sig.receipts");
  const unjudged = UNJUDGED.filter((kind) => subject.records.some((record) => record.kind === kind));
  if (unjudged.length > 0) throw new NotMade(`records that this version does not judge: ${unjudged.join(", ")}`);
  return held("every record is of a kind that is judged here");
}

/** Each session whose supervisor's keyset is here is in focus; the others are foreign. */
export function findSessions(subject) {
  const gateway = new Map();
  const supervisors = new Map();
  for (const party of subject.parties) {
    if (party.statement.role === "session") supervisors.set(idOf(party), party);
    else for (const record of [...party.records].sort(bySeq)) addTo(gateway, record.member("agt", "ses"), record);
  }
  const wanted = [...supervisors.keys()].filter((id) => subject.onlySession === null || id === subject.onlySession);
  subject.sessions = wanted.sort().map((id) => ({
    id,
    gateway: gateway.get(id) ?? [],
    supervisor: supervisors.get(id),
    manifest: null,
    activation: null,
    narrowings: [],
  }));
  subject.foreign = new Set([...gateway.keys()].filter((id) => !wanted.includes(id)));
}

/** A session's id, from its keyset's `iss`: `urn:affiant:session:<id>`. */
export function idOf(party) {
  return party.statement.iss.split(":").at(-1);
}

function addTo(lists, name, item) {
  if (typeof name !== "string") return;
  if (!lists.has(name)) lists.set(name, []);
  lists.get(name).push(item);
}

async function placed(where, step) {
  try {
    return await step();
  } catch (error) {
    if (error instanceof Refusal) {
      error.where = error.where === null || where.startsWith("keysets.") ? where : `${where}.${error.where}`;
    }
    throw error;
  }
}
