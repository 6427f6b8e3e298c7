// L5: content that the reader holds is what a receipt commits to; of a request and a response, one receipt to both.

import { sha256Name } from "./cryptography.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { held } from "./verdict.mjs";

/** `body.request`: the given request body is one that a receipt commits to. */
export async function checkRequest(subject) {
  subject.need("sig.receipts");
  return matched(exchanges(subject), "req.dig", await sha256Name(subject.request), "request");
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
  return matched(asked.length > 0 ? asked : records, "res.dig", answer, "response");
}

/** The records that commit to bodies; of signers that are judged, since a key alone proves nothing. */
function exchanges(subject) {
  const records = subject.judged.flatMap((party) => party.records);
  return records.filter((record) => record.kind === "inference" || record.kind === "refusal");
}

function committing(records, member, digest) {
  return records.filter((record) => record.disclosed.get(member) === digest);
}

function matched(records, member, digest, what) {
  if (!records.some((record) => record.disclosed.has(member))) {
    throw new NotMade(`no receipt here discloses the digest of a ${what}`);
  }
  const where = committing(records, member, digest).map((record) => record.jti);
  if (where.length === 0) {
    throw new Refusal("body.mismatch", `no receipt commits to this ${what}`, { found: digest });
  }
  return held(`the ${what} is the one that ${where.length} receipt commits to`, { where });
}
