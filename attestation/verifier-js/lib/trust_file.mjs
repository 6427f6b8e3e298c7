// The trust file: what its owner accepts. A list that is absent is not pinned; a list that is empty is refused.

import { keyOfJwk, sha256Name } from "./cryptography.mjs";
import { SEQUENCE, childrenOf, readSingle } from "./der.mjs";
import { fromBase64, fromBase64url } from "./encoding.mjs";
import { parseVkey } from "./note.mjs";
import { areOnce, isSigner } from "./profile_signer.mjs";
import { RELEASE } from "./manifest.mjs";
import { parseReferenceValues } from "./reference_values.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { canonical, isObject, parseStrict } from "./strict_json.mjs";
import { parseWitnessPolicy } from "./witness_policy.mjs";

const LATER = ["approvers"];
const LISTS = [
  "tee_roots",
  "reference_values",
  "gateway_configs",
  "profiles",
  "profile_signers",
  "rootfs",
  "log",
  "witnesses",
  "tsa_roots",
  "sigstore_root",
  "erasure_authorities",
];
const PLAIN = ["typ", "isolation_floor", "isolation_releases", "clock_tolerance_s", "require", "sessions"];
const FORMS = {
  tee_roots: /^(?:intel|sha256:[0-9a-f]{64})$/,
  gateway_configs: /^sha256:[0-9a-f]{64}$/,
  profiles: /^sha384:[0-9a-f]{96}$/,
  rootfs: /^(?:host-usr|sha256:[0-9a-f]{64})$/,
};
const TRUSTED_ROOT = "application/vnd.dev.sigstore.trustedroot";
const POLICY = /^[0-2](?:\.(?:0|[1-9][0-9]{0,18})){1,20}$/;
const PEM = /^-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*$/;
/** A log's key counts because the quote of an accepted gateway binds it. */
export const ATTESTED = "attested";

/** Every code that can stand in a row, and so in `require`. */
export const CODES = Object.freeze(
  Object.entries({
    fmt: "bundle keysets",
    bundle: "objects",
    sig: "receipts",
    kinds: "judged",
    erasure: "authority",
    hold: "respected",
    chain: "ids time boot contiguous end epochs gaps coverage",
    session: "start order counter close peer intents decisions supervisor sealed",
    key: "evidence bound not_after",
    conf: "bound accepted",
    pol: "bound accepted private",
    apr: "bound",
    model: "answered",
    tee: "appraisal class",
    peer: "bound ear",
    iso: "floor",
    rfs: "accepted",
    body: "request response",
    log: "inclusion consistency",
    wit: "quorum",
    time: "bracket tsa sigstore",
  }).flatMap(([area, names]) => names.split(" ").map((name) => `${area}.${name}`)),
);

/** The trust file in `bytes`; refuses every other form. */
export async function parseTrustFile(bytes) {
  const value = parseStrict(bytes, { limit: 16 << 20 });
  if (!isObject(value) || value.typ !== "affiant-trust/1") {
    throw malformed("not a trust file", undefined, '"typ": "affiant-trust/1"');
  }
  for (const name of Object.keys(value)) {
    if (LATER.includes(name)) throw malformed("a member that this version does not read", name);
    if (!PLAIN.includes(name) && !LISTS.includes(name)) throw malformed("unknown member", name);
  }
  const trust = { digest: await sha256Name(bytes) };
  for (const name of LISTS) trust[name] = name in value ? readEntries(value[name], name) : null;
  if (trust.tee_roots === null) throw malformed("a required list is missing", "tee_roots");
  if (trust.reference_values === null) throw malformed("a required list is missing", "reference_values");
  for (const [name, form] of Object.entries(FORMS)) demandForm(trust[name], form, name);
  for (const entry of trust.reference_values) entry.reference = await parseReferenceValues(canonical(entry.value));
  for (const entry of trust.log ?? []) await demandLog(entry.value);
  for (const entry of trust.witnesses ?? []) entry.policy = await readWitnesses(entry.value);
  for (const entry of trust.tsa_roots ?? []) demandAuthority(entry.value);
  for (const entry of trust.sigstore_root ?? []) demandSigner(entry.value);
  for (const entry of trust.erasure_authorities ?? []) entry.key = await readAuthority(entry.value);
  const signers = (trust.profile_signers ?? []).map((entry) => entry.value);
  if (!signers.every(isSigner) || !areOnce(signers)) throw malformed("not signers of profiles", "profile_signers");
  trust.isolationFloor = readFloor(value.isolation_floor);
  trust.isolationReleases = readReleases(value.isolation_releases);
  trust.clockToleranceS = readTolerance(value.clock_tolerance_s);
  trust.require = readRequire(value.require);
  trust.complete = readSessions(value.sessions);
  return trust;
}

/** Whether an entry counts at `at`, seconds since 1970: from <= at < until, and at < revoked_at. */
export function countsAt(entry, at) {
  return (
    (entry.from === null || entry.from <= at) &&
    (entry.until === null || at < entry.until) &&
    (entry.revokedAt === null || at < entry.revokedAt)
  );
}

/** Whether `value` is one of `entries` at `at`. */
export function acceptedAt(entries, value, at) {
  return entries.some((entry) => entry.value === value && countsAt(entry, at));
}

/** Seconds since 1970 of `2026-11-21T03:00:00Z`; refuses every other spelling and every day that there is not. */
export function parseInstant(text) {
  const seconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ? Date.parse(text) / 1000 : NaN;
  if (Number.isNaN(seconds) || showInstant(seconds) !== text) {
    throw malformed("not a time", undefined, "2026-11-21T03:00:00Z");
  }
  return seconds;
}

/** The time that checks take, whole seconds since 1970, of a clock's milliseconds. */
export function wholeSeconds(milliseconds) {
  return Math.floor(milliseconds / 1000);
}

/** An instant as RFC 3339, UTC, whole seconds. */
export function showInstant(seconds) {
  return `${new Date(Math.floor(seconds) * 1000).toISOString().slice(0, 19)}Z`;
}

function readEntries(items, name) {
  if (!Array.isArray(items) || items.length === 0) {
    throw malformed("an empty list accepts nothing; leave it out or fill it", name);
  }
  return items.map((item, index) => {
    const where = `${name}[${index}]`;
    if (!isObject(item) || !("value" in item)) throw malformed("not an entry", where, '{"value": ...}');
    if (Object.keys(item).some((key) => !["value", "from", "until", "revoked_at"].includes(key))) {
      throw malformed("unknown member of an entry", where);
    }
    return {
      value: item.value,
      from: readInstant(item.from, `${where}.from`),
      until: readInstant(item.until, `${where}.until`),
      revokedAt: readInstant(item.revoked_at, `${where}.revoked_at`),
    };
  });
}

function readInstant(value, where) {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string") throw malformed("not a time", where);
  return parseInstant(value);
}

function demandForm(entries, form, name) {
  for (const entry of entries ?? []) {
    if (typeof entry.value !== "string" || !form.test(entry.value)) {
      throw malformed("not such a value", name, form.source);
    }
  }
}

async function demandLog(value) {
  const key = value === ATTESTED || typeof value !== "string" ? null : await parseVkey(value);
  if (value !== ATTESTED && !key?.isLog) throw malformed("not a log", "log", "attested, or an Ed25519 vkey");
}

async function readWitnesses(value) {
  if (typeof value !== "string") throw malformed("not a witness policy", "witnesses");
  const policy = await parseWitnessPolicy(value);
  if (policy.quorum === "none") throw malformed("`quorum none` asks nobody; leave `witnesses` out", "witnesses");
  return policy;
}

/** `{certificate, policy?}` in its form: one certificate, PEM or base64url of DER; it is not judged here. */
function demandAuthority(value) {
  const names = isObject(value) ? Object.keys(value) : [];
  const closed = names.includes("certificate") && names.every((name) => ["certificate", "policy"].includes(name));
  if (!closed || typeof value.certificate !== "string") throw malformed("not a timestamp authority", "tsa_roots");
  if ("policy" in value && !(typeof value.policy === "string" && POLICY.test(value.policy))) {
    throw malformed("not an OID", "tsa_roots", "dotted, 1.2.3");
  }
  if (!isCertificate(certificateBytes(value.certificate))) throw malformed("not a certificate", "tsa_roots");
}

/** `{trusted_root, identity, issuer}` in its form; nothing is verified under it here. */
function demandSigner(value) {
  const names = isObject(value) ? Object.keys(value).sort().join(" ") : "";
  const root = names === "identity issuer trusted_root" ? value.trusted_root : null;
  const named = isObject(root) && typeof root.mediaType === "string" && root.mediaType.startsWith(TRUSTED_ROOT);
  const texts = named ? [value.identity, value.issuer] : [null];
  const shown = (text) => typeof text === "string" && text.length > 0 && text.length <= 1024 && text.trim() === text;
  if (!texts.every(shown)) throw malformed("not a signer by sigstore", "sigstore_root");
}

function certificateBytes(text) {
  if (text.startsWith("-----")) {
    const body = PEM.exec(text)?.[1].replace(/\s/g, "");
    return body === undefined ? null : fromBase64(body);
  }
  try {
    return fromBase64url(text);
  } catch {
    return null;
  }
}

function isCertificate(bytes) {
  try {
    return bytes !== null && childrenOf(readSingle(bytes, SEQUENCE)).length === 3;
  } catch {
    return false;
  }
}

async function readAuthority(jwk) {
  const refusal = malformed("not an authority's key", "erasure_authorities", "a P-256 public key as a JWK");
  if (!isObject(jwk)) throw refusal;
  const key = await keyOfJwk(jwk).catch((error) => {
    throw error instanceof Refusal ? refusal : error;
  });
  if (key === null) throw refusal;
  return key;
}

function readFloor(value) {
  if (value === undefined || value === null) return null;
  if (value !== "userspace-kernel" && value !== "namespace") {
    throw malformed("not a minimum isolation", "isolation_floor", "userspace-kernel or namespace");
  }
  return value;
}

function readReleases(value = {}) {
  if (!isObject(value) || Object.keys(value).some((name) => name !== "gvisor")) {
    throw malformed("not releases of isolations", "isolation_releases", '{"gvisor": "20250101.0"}');
  }
  for (const release of Object.values(value)) {
    try {
      checkShape(RELEASE, release, "isolation_releases.gvisor");
    } catch {
      throw malformed("not a release of gVisor", "isolation_releases.gvisor", "20250101.0");
    }
  }
  return value;
}

function readTolerance(value = 60) {
  if (!Number.isSafeInteger(value) || value < 0 || value > 3600) {
    throw malformed("not a tolerance", "clock_tolerance_s", "0 to 3600 seconds");
  }
  return value;
}

function readRequire(value) {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value) || value.length === 0) {
    throw malformed("an empty list requires nothing; leave it out to require all", "require");
  }
  if (!value.every((code) => CODES.includes(code))) throw malformed("no such check", "require");
  return new Set(value);
}

/** Whether a session without a signed end falls short of what the reader demands. */
function readSessions(value) {
  if (![undefined, null, "complete"].includes(value)) {
    throw malformed("not a requirement for sessions", "sessions", '"complete"');
  }
  return value === "complete";
}

function malformed(message, where, expected) {
  return new Refusal("trust.malformed", message, { where, expected });
}
