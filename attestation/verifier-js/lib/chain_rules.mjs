// The rules of one signer's chain, each in one place: what of a list of links, in their order, breaks it.
//
// A link is a record, or what the log says of one that is not here: `{chn, seq, rh, kind, iat, prev, jti, named}`. There
// `prev` is null, and `jti` how it is named to a reader. `named`: of a boot the keyset digest, of an epoch its count.
// Each rule yields `{link, refusal}` for every link that breaks it; who judges one bundle throws the first.

import { Refusal } from "./refusals.mjs";

/** The link that a verified record is. */
export function linkOf(record) {
  const { chn, seq, rh, kind, iat, prev, jti } = record;
  const named = kind === "boot" ? record.member("ks") : kind === "epoch" ? record.member("n") : undefined;
  return { chn, seq, rh, kind, iat, prev, jti, named };
}

/** Self-asserted times do not go back, and none lies after `at`, the instant judged at. */
export function* outOfTime(chain, { at, tolerance }) {
  let highest = -Infinity; // a record that breaks the rule says nothing about the next
  for (const link of chain) {
    if (link.iat < highest - tolerance) {
      yield broken(link, "chain.time", "a record dated before the one it follows", link.jti);
    } else if (link.iat > at + tolerance) {
      yield broken(link, "chain.time", "a record dated after the time of judgement", link.jti, { found: link.iat });
    } else {
      highest = Math.max(highest, link.iat);
    }
  }
}

/** Of what is here, the first record is the boot record of the keyset with this digest, and the only one. */
export function* withoutBoot(chain, keysetDigest) {
  const [first, ...rest] = chain.filter((link) => link.prev !== null);
  if (first === undefined) return;
  const begins = first.seq === 0 && first.kind === "boot";
  if (!begins) yield broken(first, "chain.no_boot", "the chain does not begin with a boot record", first.chn);
  if (begins && (first.named !== keysetDigest || first.prev !== keysetDigest)) {
    yield broken(first, "chain.no_boot", "the boot record names another keyset", first.jti);
  }
  for (const link of rest) {
    if (link.kind === "boot") yield broken(link, "chain.no_boot", "a second boot record in one chain", link.chn);
  }
}

/** No number missing or twice, but for `skipped` links that are left out; each link names the record before it. */
export function* brokenLinks(chain) {
  for (const [at, link] of chain.entries()) {
    const before = chain[at - 1];
    if (before === undefined || link.skipped > 0) continue;
    if (link.seq !== before.seq + 1) {
      const facts = { expected: `seq ${before.seq + 1}`, found: `seq ${link.seq}` };
      yield broken(link, "chain.gap", "records are missing or repeated", link.jti, facts);
    } else if (link.prev !== null && link.prev !== before.rh) {
      const facts = { expected: before.rh, found: link.prev };
      yield broken(link, "chain.gap", "the link names another record", link.jti, facts);
    }
  }
}

/** Nothing stands after an end record. */
export function* afterEnd(chain) {
  const end = chain.findIndex((link) => link.kind === "end");
  if (end < 0) return;
  for (const link of chain.slice(end + 1)) {
    yield broken(link, "chain.after_end", "a record after the end of its chain", link.jti);
  }
}

/**
 * Between boot, epochs and any record is no more time than the keyset's cadence; each epoch record counts the records
 * before it. `anew(link)`: records before `link` are left out, so that the rhythm begins there.
 */
export function* offRhythm(chain, { epochS, tolerance, anew = () => false }) {
  let last = chain[0]?.iat;
  for (const link of chain) {
    if (anew(link)) last = link.iat;
    if (link.iat - last > epochS + tolerance) {
      yield broken(link, "chain.missing_epoch", "no epoch record in time", link.jti, { expected: `every ${epochS} s` });
      continue;
    }
    if (link.kind === "epoch" && link.prev !== null && link.named !== link.seq) {
      const message = "an epoch record counts other records than there are";
      yield broken(link, "chain.missing_epoch", message, link.jti, { expected: link.seq });
      continue;
    }
    if (link.kind === "boot" || link.kind === "epoch") last = link.iat;
  }
}

/** Throws the first refusal of any of these. */
export function demandNone(...broken) {
  for (const each of broken) for (const { refusal } of each) throw refusal;
}

function broken(link, code, message, where, facts = {}) {
  return { link, refusal: new Refusal(code, message, { ...facts, where }) };
}
