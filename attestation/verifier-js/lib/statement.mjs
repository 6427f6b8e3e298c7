// Keyset statements: which keys a TD made, as its quote binds them.

import { importP256, link, pointOfJwk, sha512, thumbprint } from "./cryptography.mjs";
import { concat, utf8 } from "./encoding.mjs";
import { parseVkey } from "./note.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { canonical, isObject, parseCanonical } from "./strict_json.mjs";

const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
const LINK = { pattern: "[A-Za-z0-9_-]{43}" };
const KEY = { object: { kid: LINK, use: { enum: ["receipt", "ear", "session", "vault-jwt"] }, jwk: { any: true } } };
const TLS = { object: { use: { const: "tls-spki" }, sha256: LINK } };
const COMMON = {
  typ: { const: "affiant-keyset/1" },
  iss: { text: 256 },
  cls: { enum: ["hardware", "simulated"] },
  chn: { array: { pattern: "[A-Za-z0-9_-]{22}" }, least: 1, most: 8 },
  keys: { array: { any: true }, least: 1, most: 8 },
  epoch_s: { int: [1, 3600] },
  wit_max_s: { int: [1, 86400] },
  nonce: { nullable: LINK },
  not_after: { int: [0, MAX_INTEGER] },
};
const SHAPES = {
  gateway: {
    object: {
      ...COMMON,
      role: { const: "gateway" },
      policy: { pattern: "sha256:[0-9a-f]{64}" },
      log: { object: { origin: { text: 256 }, vkey: { text: 512 }, kept: { enum: ["file", "sealed", "td"] } } },
    },
    optional: { cp: LINK },
  },
  session: {
    object: {
      ...COMMON,
      iss: { pattern: "urn:affiant:session:[A-Za-z0-9_-]{22}" },
      role: { const: "session" },
      man: LINK,
      act: LINK,
      gks: LINK,
      log: { const: null },
    },
  },
};
const SIGNING_USE = { gateway: "receipt", session: "session" };

/** The statement in `raw`, closed and canonical, its keys ready to verify. That a quote binds it is not said. */
export async function parseStatement(raw) {
  const value = parseCanonical(raw, { limit: 16 * 1024 });
  const role = isObject(value) ? value.role : undefined;
  if (typeof role !== "string" || !Object.hasOwn(SHAPES, role)) {
    throw profile("not a keyset statement", "statement", "role gateway or session");
  }
  checkShape(SHAPES[role], value, "statement");
  const byUse = await readKeys(value.keys);
  if (!byUse.has(SIGNING_USE[role]) || (role === "session" && byUse.size !== 1)) {
    throw profile("the keyset lacks its signing key, or has others", "statement.keys");
  }
  const { nonce: _, ...fixed } = value;
  return {
    raw,
    role,
    iss: value.iss,
    cls: value.cls,
    chn: value.chn,
    signing: byUse.get(SIGNING_USE[role]),
    ear: byUse.get("ear") ?? null,
    epochS: value.epoch_s,
    notAfter: value.not_after,
    policy: value.policy ?? null,
    log: value.log === null ? null : await logIdentity(value.log),
    /** SHA-256 of the newest cosigned note before the boot, if the statement names one. */
    cp: value.cp,
    man: value.man ?? null,
    act: value.act ?? null,
    gks: value.gks ?? null,
    /** SHA-256 of the statement without `nonce`: what records and proofs name. */
    keysetDigest: await link(canonical(fixed)),
  };
}

/** The 64 bytes of REPORTDATA that bind the statement with these bytes. */
export function reportData(raw) {
  return sha512(concat(utf8("affiant/keyset/1\n"), raw));
}

async function readKeys(keys) {
  const byUse = new Map();
  const kids = new Set();
  for (const [index, entry] of keys.entries()) {
    const where = `statement.keys[${index}]`;
    const isTls = isObject(entry) && entry.use === "tls-spki";
    checkShape(isTls ? TLS : KEY, entry, where);
    const key = isTls ? null : await readKey(entry, where);
    if (byUse.has(entry.use) || (key !== null && kids.has(key.kid))) {
      throw profile("one key per use, one use per key", "statement.keys");
    }
    byUse.set(entry.use, key);
    if (key !== null) kids.add(key.kid);
  }
  return byUse;
}

async function readKey(entry, where) {
  const point = isObject(entry.jwk) ? pointOfJwk(entry.jwk) : null;
  if (point === null) throw profile("not a P-256 public JWK", `${where}.jwk`);
  if ((await thumbprint(entry.jwk.x, entry.jwk.y)) !== entry.kid) {
    throw profile("kid is not the key's thumbprint", `${where}.kid`);
  }
  return { kid: entry.kid, verifier: await importP256(point) };
}

async function logIdentity(value) {
  const key = await parseVkey(value.vkey);
  if (key === null || !key.isLog || key.name !== value.origin) {
    throw profile("the log's key is of another kind or name", "statement.log.vkey");
  }
  return { origin: value.origin, vkey: value.vkey, key };
}

function profile(message, where, expected) {
  return new Refusal("fmt.profile", message, { where, expected });
}
