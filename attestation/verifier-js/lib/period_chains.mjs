// L1 over a period: chains are judged along the log. A leaf whose record is not here is no gap: the log says its kind,
// number, time and hash, so that a chain is whole over what was withheld, and the link over it is still compared.

import { signersByChain } from "./case.mjs";
import { afterEnd, brokenLinks, linkOf, offRhythm, outOfTime, withoutBoot } from "./chain_rules.mjs";
import { fromBase64url, toHex } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

/**
 * Judges every chain whose signer is here; what breaks a rule goes to `exceptions`, in the order of the log. `beside`: leaves
 * and records, as `placed` gives them. Gives the chains: `{party, links}`.
 */
export function judgeChains(subject, beside, exceptions) {
  const chains = chainsOf(subject, beside);
  const tolerance = subject.trust.clockToleranceS;
  const found = [];
  for (const { party, links } of chains.values()) {
    const { keysetDigest, epochS } = party.statement;
    const anew = (link) => link.skipped > 0;
    const rules = {
      "chain.boot": withoutBoot(links, keysetDigest),
      "chain.contiguous": brokenLinks(links),
      "chain.end": afterEnd(links),
      "chain.time": outOfTime(links, { at: subject.at, tolerance }),
      "chain.epochs": offRhythm(links, { epochS, tolerance, anew }),
    };
    for (const [code, broken] of Object.entries(rules)) for (const each of broken) found.push({ code, ...each });
  }
  found.sort((one, other) => one.link.index - other.link.index);
  for (const { code, refusal } of found) exceptions.add(code, refusal);
  return [...chains.values()];
}

/** `chain.ids`: no two records have one id. */
export function judgeIds(records, exceptions) {
  const seen = new Set();
  const twice = [];
  for (const { jti } of records) {
    if (seen.has(jti)) twice.push(jti);
    seen.add(jti);
  }
  const byBytes = (jti) => toHex(fromBase64url(jti, { size: 16 }));
  for (const jti of twice.sort((one, other) => (byBytes(one) < byBytes(other) ? -1 : 1))) {
    exceptions.add("chain.ids", new Refusal("chain.repeated_id", "one id in two records", { where: jti }));
  }
}

/** `peer.bound`, over everything: no key and no evidence of a session stands under another session's id. */
export function judgeOwners(records, exceptions) {
  const owners = new Map();
  for (const record of records) {
    const agent = record.member("agt");
    if (agent === undefined) continue;
    for (const name of [agent.key, agent.evd]) {
      if (!owners.has(name)) owners.set(name, agent.ses);
      if (owners.get(name) === agent.ses) continue;
      const facts = { where: record.jti };
      exceptions.add("peer.bound", new Refusal("peer.unbound", "a session's key under another session's id", facts));
      break;
    }
  }
}

/** How a record that is not here is named to a reader. */
export function nameOfLeaf({ chn, seq }) {
  return `${chn}:${seq}`;
}

/** Chain -> its signer and its links in the order of the log, each with its `index`, `stretch` and what it `skipped`. */
function chainsOf(subject, beside) {
  const signers = signersByChain(subject);
  const chains = new Map();
  for (const { leaf, record } of beside) {
    const party = signers.get(leaf.chn);
    if (party === undefined) continue;
    if (!chains.has(leaf.chn)) chains.set(leaf.chn, { party, links: [] });
    const { links } = chains.get(leaf.chn);
    const { index, stretch } = leaf;
    const skipped = skippedBy(links.at(-1), leaf);
    links.push({ ...(record === null ? ofLeaf(leaf) : linkOf(record)), index, stretch, skipped });
  }
  return chains;
}

function ofLeaf(leaf) {
  const { chn, seq, rh, kind, iat } = leaf;
  return { chn, seq, rh, kind, iat, prev: null, jti: nameOfLeaf(leaf) };
}

/** How many records of its chain were left out before a leaf: only where leaves of the log are left out between them. */
function skippedBy(before, leaf) {
  if (before === undefined || before.stretch === leaf.stretch) return 0;
  return Math.max(0, leaf.seq - before.seq - 1);
}
