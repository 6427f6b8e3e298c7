// L5: content that the reader holds is what a receipt commits to; of a request and a response, one receipt to both.

import { sha256Name } from "./cryptography.mjs";
import { placeOf } from "./erasure_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { held } from "./verdict.mjs";

/** `body.request`: the given request body is one that a receipt commits to. */
export async function checkRequest(subject) {
  subject.need("sig.receipts");
  return matched(subject, exchanges(subject), "req.dig", await sha256Name(subject.request), "request");
}

/** `body.response`: the same; where a request is given as well it is the answer to that request. */
export async function checkResponse(subject) {
  subject.need("sig.receipts");
  const records = exchanges(subject);
  const answer = await sha256Name(subject.response);
  const asked = subject.request === null ? [] : committing(records, "req.dig", await sha256Name(subject.request));
  const answers = (among) => committing(among, "res.dig", answer).length > 0;
  if (asked.length > 0 && !answers(asked) && answers(records)) {
    throw new Refusal("body.mismatch", "the response is the answer to another request");
  }
  return matched(subject, asked.length > 0 ? asked : records, "res.dig", answer, "response");
}

/** The records that commit to bodies; of signers that are judged, since a key alone proves nothing. */
function exchanges(subject) {
  const records = subject.judged.flatMap((party) => party.records);
  return records.filter((record) => record.kind === "inference" || record.kind === "refusal");
}

function committing(records, member, digest) {
  return records.filter((record) => record.disclosed.get(member) === digest);
}

function matched(subject, records, member, digest, what) {
  const orders = erasedUnder(subject);
  if (orders.length > 0 && committing(records, member, digest).length === 0) {
    const text = `no receipt here commits to this ${what}; content was erased by order, and may have been it`;
    return held(text, { tier: "warning", where: orders });
  }
  if (!records.some((record) => record.disclosed.has(member))) {
    throw new NotMade(`no receipt here discloses the digest of a ${what}`);
  }
  const where = committing(records, member, digest).map((record) => record.jti);
  if (where.length === 0) {
    throw new Refusal("body.mismatch", `no receipt commits to this ${what}`, { found: digest });
  }
  return held(`the ${what} is the one that ${where.length} receipt commits to`, { where });
}

/** Ids of the orders under which content is erased that might have been the reader's. */
function erasedUnder(subject) {
  const here = new Map(subject.records.map((record) => [placeOf(record), record]));
  const chains = new Set(subject.judged.flatMap((party) => party.statement.chn));
  const isGone = (item) => (here.get(placeOf(item))?.disclosed.size ?? (item.level === 2 ? 0 : 1)) === 0;
  const found = [...subject.erased.values()].filter((item) => chains.has(item.chn) && isGone(item));
  return [...new Set(found.map(({ order }) => order))].sort();
}
