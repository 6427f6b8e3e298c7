// Policy, configuration and isolation: bound to the evidence, and accepted by the trust file (trust rules, 11).

import { bothSides, theOnly } from "./case.mjs";
import { sha384 } from "./cryptography.mjs";
import { concat, sameBytes, toHex, utf8 } from "./encoding.mjs";
import { demandEpochs, epochsOf, narrowingsOf } from "./epochs.mjs";
import { configOf, quoteOf } from "./evidence_checks.mjs";
import { isEarlier, reachesFloor } from "./manifest.mjs";
import { isSignedBy, isSigstoreBundle, readEnvelope } from "./profile_signatures.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { acceptedAt, countsAt } from "./trust_file.mjs";
import { held } from "./verdict.mjs";

// Over one profile, in one bundle: whoever makes a bundle shall not choose how long its reader works.
const MOST_SIGNATURES = 16;
// Policies of a bundle -> their profiles: every session of a period asks for its own among all of them.
const KNOWN = new WeakMap();

/** `conf.bound`: each gateway's MRCONFIGID is SHA-384 of the configuration that its keyset names; both name one log. */
export async function checkConfigBound(subject) {
  subject.need("key.evidence");
  for (const party of subject.gateways) {
    const { statement } = party;
    const config = await configOf(subject, party);
    if (!sameBytes(quoteOf(party.quoted[0]).mrconfigid, config.mrconfigid)) {
      throw configUnbound("the quote binds another configuration");
    }
    if (config.iss !== statement.iss || config.cls !== statement.cls || config.epoch_s !== statement.epochS) {
      throw configUnbound("configuration and keyset disagree on issuer, class or cadence");
    }
    if (config.origin !== statement.log?.origin) {
      throw configUnbound("configuration and keyset name different logs");
    }
    demandKnownUpstreams(party, config);
  }
  return held("the gateway's configuration is the one bound in MRCONFIGID");
}

/**
 * `pol.bound`: profile -> manifest -> initdata -> MRCONFIGID, and every record names that profile, or after a narrowing the
 * one that the supervisor's record of it names.
 */
export async function checkPolicyBound(subject) {
  subject.need("key.evidence", "session.start");
  if (subject.sessions.length === 0) throw new NotMade("no session in focus");
  for (const session of subject.sessions) {
    const { id, manifest, activation, supervisor } = session;
    const { statement } = supervisor;
    if (supervisor.quoted.some((quoted) => !sameBytes(quoteOf(quoted).mrconfigid, manifest.mrconfigid))) {
      throw policyUnbound("the quote binds another manifest");
    }
    if (statement.man !== manifest.digest || statement.act !== activation.digest || activation.ses !== id) {
      throw policyUnbound("the keyset names another manifest, activation or session", id);
    }
    session.narrowings = narrowingsOf(session);
    demandEpochs(session);
  }
  for (const session of subject.sessions) {
    for (const { dig } of epochsOf(session)) await profileOf(subject, dig);
  }
  return boundFinding(subject.sessions);
}

/** `conf.accepted`: the trust file accepts the gateway's configuration and its reference values. */
export async function checkConfigAccepted(subject) {
  subject.need("conf.bound");
  const digests = [];
  for (const party of subject.gateways) {
    const config = await configOf(subject, party);
    if (digests.includes(config.digest)) continue; // judged with the first gateway that has it
    digests.push(config.digest);
    const accepted = subject.trust.reference_values.some(
      (entry) => entry.reference.digest === config.reference && countsAt(entry, subject.at),
    );
    if (!accepted) {
      throw notAccepted("conf", "the gateway judges sessions by reference values that are not accepted");
    }
    for (const { id, manifest } of subject.sessions) {
      const wanted = manifest.gateway;
      const facts = [["config", config.digest], ["reference", config.reference], ["origin", config.origin]];
      if (facts.some(([name, value]) => wanted[name] !== value)) {
        throw notAccepted("conf", "the session was made for another gateway", id);
      }
    }
  }
  return pinned(subject, subject.trust.gateway_configs, digests, "conf", "gateway configuration");
}

/**
 * `pol.accepted`: the trust file accepts every session's profile, by its digest or by one who signed it. A narrowed profile
 * is accepted with the one that it was narrowed from: supervisor and gateway compared them, and here nobody does.
 */
export async function checkPolicyAccepted(subject) {
  subject.need("pol.bound");
  const finding = await profilesAccepted(subject);
  const count = countOf(subject.sessions);
  if (count === 0) return finding;
  const text = "as supervisor and gateway compared the profiles; they are not compared here";
  return { ...finding, detail: `${finding.detail}; restricted ${times(count)} since, ${text}` };
}

async function profilesAccepted(subject) {
  const { profiles, profile_signers: signers } = subject.trust;
  const named = subject.sessions.map((session) => session.manifest.profile);
  if (signers === null) return pinned(subject, profiles, named.map(({ dig }) => dig), "pol", "profile");
  const others = named.filter(({ dig }) => !acceptedAt(profiles ?? [], dig, subject.at));
  for (const profile of others) {
    if (await isSigned(subject, profile, signers)) continue;
    throw notAccepted("pol", "the trust file accepts neither this profile nor anybody who signed it", null, profile.dig);
  }
  if (others.length > 0) return held("profile signed by one whom the trust file accepts");
  return held("profile accepted by the trust file");
}

/** Whether one of `signers`, by a plain key, signed the profile; what sigstore signed cannot be judged here. */
async function isSigned(subject, { dig, fil }, signers) {
  const objects = [...subject.bundle.policies.values()];
  const envelopes = objects
    .map(readEnvelope)
    .filter((each) => each?.claimed.profiles.includes(dig) && each.claimed.source === fil)
    .filter(({ claimed }) => claimed.semantics === "affiant.policy/1");
  for (const envelope of envelopes.slice(0, MOST_SIGNATURES)) {
    for (const entry of signers) {
      const { key } = entry.value;
      if (key !== undefined && countsAt(entry, subject.at) && (await isSignedBy(envelope, key))) return true;
    }
  }
  if (signers.some(({ value }) => value.key === undefined) && objects.some(isSigstoreBundle)) {
    throw new NotMade("a signature by sigstore is not verified here");
  }
  return false;
}

/** `pol.private`: names that mean private addresses and added certificate authorities are a warning. */
export function checkPrivate(subject) {
  subject.need("pol.bound");
  const names = [...new Set(subject.sessions.flatMap((session) => Object.keys(session.manifest.hosts)))].sort();
  const roots = new Set(subject.sessions.flatMap((session) => session.manifest.upstream_roots));
  if (names.length === 0 && roots.size === 0) return held("no private host, no certificate authority added");
  const shown = names.slice(0, 8).join(", ") || "none";
  return held(`private hosts: ${shown}; certificate authorities added: ${roots.size}`, { tier: "warning" });
}

/** `iso.floor`: every session's isolation is its manifest's floor or better, and the trust file's. */
export function checkIsolation(subject) {
  subject.need("pol.bound");
  const kinds = new Set();
  const releases = new Set();
  for (const session of subject.sessions) {
    const start = theOnly(session, "session-start");
    const isolation = start.member("iso");
    for (const record of bothSides(session)) {
      const named = [record.member("agt", "iso"), record.member("iso")].filter((value) => value !== undefined);
      if (named.some((value) => value !== isolation)) {
        throw tooWeak("a record names another isolation than the start", record);
      }
    }
    if (isolation !== session.activation.iso) {
      throw tooWeak("the start names another isolation than the activation", start);
    }
    const floors = [session.manifest.isolation_floor, subject.trust.isolationFloor ?? "namespace"];
    if (!floors.every((floor) => reachesFloor(isolation, floor))) {
      throw tooWeak("isolated less than demanded", start);
    }
    const release = start.member("rel");
    if (release !== session.activation.rel) throw tooWeak("the start names another release than the activation", start);
    kinds.add(isolation);
    if (isolation === "gvisor") releases.add(release ?? "");
  }
  const named = [...releases].filter((each) => each !== "").sort((one, other) => (isEarlier(one, other) ? -1 : 1));
  const ours = named.length === 0 ? "" : ` (gVisor ${named.join(", ")})`;
  const shown = `agent isolated by ${[...kinds].sort().join(", ")}${ours}`;
  const least = subject.trust.isolationReleases.gvisor;
  if (least !== undefined && [...releases].some((each) => each === "" || isEarlier(each, least))) {
    const more = releases.has("") ? ", and not every session names its release" : "";
    const text = `${shown}; the trust file knows escapes from releases before ${least}${more}`;
    return held(text, { tier: "warning" });
  }
  return held(shown, { tier: kinds.has("bwrap-landlock") ? "warning" : "affirming" });
}

/** `rfs.accepted`: the trust file accepts the agent's root file system; `host-usr` is a warning. */
export function checkRootfs(subject) {
  subject.need("pol.bound");
  const kinds = subject.sessions.map((session) => {
    const start = theOnly(session, "session-start");
    if (start.member("rfs") !== session.manifest.rootfs) {
      throw notAccepted("rfs", "the start names another root file system than the manifest", start.jti);
    }
    return session.manifest.rootfs;
  });
  const finding = pinned(subject, subject.trust.rootfs, kinds, "rfs", "root file system");
  if (!kinds.includes("host-usr")) return finding;
  return held("the agent ran on the host's /usr (host-usr)", { tier: "warning" });
}

/** The bytes of the normal form that has this digest. */
export async function profileOf(subject, digest) {
  const found = (await profilesIn(subject)).get(digest);
  if (found === undefined) throw new NotMade("the bundle does not carry the profile's normal form");
  return found;
}

/** Digest, as records name a profile -> its normal form: of whatever lies among a bundle's policies. */
export async function profilesIn({ bundle }) {
  const digestOf = async (raw) => `sha384:${toHex(await sha384(concat(utf8("affiant.policy/1\n"), raw)))}`;
  if (!KNOWN.has(bundle.policies)) {
    const found = [...bundle.policies.values()].map(async (raw) => [await digestOf(raw), raw]);
    KNOWN.set(bundle.policies, new Map(await Promise.all(found)));
  }
  return KNOWN.get(bundle.policies);
}

function boundFinding(sessions) {
  const count = countOf(sessions);
  const plain = "profile digest bound in MRCONFIGID, and named by every decision";
  if (count === 0) return held(plain);
  const text = `${plain}; restricted ${times(count)}, bound in RTMR3 and named by every decision from there on`;
  const without = sessions.filter(({ supervisor }) => !supervisor.quoted.at(-1).recorded);
  if (without.length === 0) return held(text);
  return held(`${text}; of ${without.length} sessions the supervisor did not come to record the last one`, {
    tier: "warning",
    where: without.map(({ gateway }) => gateway[0].jti),
  });
}

/** How many narrowings there were in all. */
function countOf(sessions) {
  return sessions.reduce((count, { narrowings }) => count + narrowings.length, 0);
}

function times(count) {
  return count === 1 ? "once" : `${count} times`;
}

function pinned(subject, entries, values, area, what) {
  if (entries === null) return held(`no ${what} is pinned in the trust file`, { tier: "warning" });
  for (const value of values) {
    if (!acceptedAt(entries, value, subject.at)) {
      throw notAccepted(area, `the trust file does not accept this ${what}`, null, value);
    }
  }
  return held(`${what} accepted by the trust file`);
}

/** A gateway asks the upstreams of its configuration, as they are bound there, and no other. */
function demandKnownUpstreams(party, config) {
  const known = config.upstreams.map(({ id, url, bind }) => [id, /^[^:]+:\/\/([^/?#]*)/.exec(url)[1], bind].join(" "));
  for (const record of party.records) {
    for (const { id, host, bind } of record.member("up") ?? []) {
      if (!known.includes([id, host, bind].join(" "))) {
        throw configUnbound("an upstream that the configuration does not have", record.jti);
      }
    }
  }
}

function configUnbound(message, where) {
  return new Refusal("conf.unbound", message, { where });
}

function policyUnbound(message, where) {
  return new Refusal("pol.unbound", message, { where });
}

function notAccepted(area, message, where, found) {
  return new Refusal(`${area}.not_accepted`, message, { where, found });
}

function tooWeak(message, record) {
  return new Refusal("iso.too_weak", message, { where: record.jti });
}
