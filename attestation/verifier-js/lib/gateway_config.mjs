// The gateway's configuration document: everything that decides trust in it. MRCONFIGID is its SHA-384.

import { keyOfJwk, sha256Name, sha384 } from "./cryptography.mjs";
import { demandSigners } from "./profile_signers.mjs";
import { checkShape } from "./shapes.mjs";
import { Refusal } from "./refusals.mjs";
import { parseCanonical } from "./strict_json.mjs";
import { parseWitnessPolicy } from "./witness_policy.mjs";

const SHA256 = { pattern: "sha256:[0-9a-f]{64}" };
const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
const SECONDS = { int: [1, 86400] };
const UPSTREAM = {
  object: {
    id: { pattern: "[a-z0-9][a-z0-9-]{0,62}" },
    url: { pattern: "https?://[\\x21-\\x7e]{1,500}" },
    bind: { enum: ["attested", "tls", "none"] },
    roots: { array: SHA256, most: 8 },
  },
  optional: {
    key: { text: 128 },
    concurrent: { int: [1, 4096] },
    head_s: SECONDS,
    idle_s: SECONDS,
    total_s: SECONDS,
  },
};
const JWK = { object: { crv: { const: "P-256" }, kty: { const: "EC" }, x: { text: 43 }, y: { text: 43 } } };
const MCP_SERVER = {
  object: {
    // tools about sessions are the gateway's own
    id: { pattern: "(?!affiant-sessions$)[a-z0-9][a-z0-9-]{0,62}" },
    timeout_s: { int: [1, 600] },
    concurrent: { int: [1, 64] },
  },
  optional: {
    url: { pattern: "https?://[\\x21-\\x7e]{1,500}" },
    roots: { array: SHA256, least: 1, most: 8 },
    header: { pattern: "[A-Za-z][A-Za-z0-9-]{0,62}" },
    key: { text: 128 },
    command: { array: { text: 1024 }, least: 1, most: 64 },
    env: { map: { text: 128 }, name: "[A-Za-z_][A-Za-z0-9_]{0,63}", most: 32 },
    folders: { array: { pattern: "(?:/(?!\\.\\.?(?:/|$))[A-Za-z0-9._@+-]{1,255}){1,16}" }, least: 1, most: 8 },
  },
};
const MODEL = { pattern: "[\\x21-\\x7e]{1,200}" };
const CHAT_MEMBER = {
  pattern:
    "(?:request|message|part|function|response|choice|response_message|response_part|annotation|reasoning)" +
    "\\.[\\x21-\\x7e]{1,64}",
};
const MEMBER = { pattern: "[a-z][a-z_]{0,39}( [a-z][a-z_]{0,39}){0,3}\\.[\\x21-\\x7e]{1,64}" };
const DIALECTS = "completions|embeddings|messages|moderations|rerank|responses";
const CONFIG = {
  object: {
    typ: { const: "affiant-gateway-config/1" },
    iss: { text: 256 },
    cls: { enum: ["hardware", "simulated"] },
    origin: { pattern: "[!-*,-~]{1,255}" },
    reference: SHA256,
    upstreams: { array: UPSTREAM, least: 1, most: 16 },
    epoch_s: { int: [1, 3600] },
    session_max_s: { int: [1, MAX_INTEGER] },
    body_max: { int: [1, MAX_INTEGER] },
  },
  optional: {
    mcp_servers: { array: MCP_SERVER, least: 1, most: 16 },
    model_aliases: { map: { array: MODEL, least: 1, most: 16 }, name: MODEL.pattern, most: 64 },
    chat_members: { array: CHAT_MEMBER, least: 1, most: 64 },
    members: { map: { array: MEMBER, least: 1, most: 64 }, name: DIALECTS, most: 6 },
    witnesses: { array: { text: 4096 }, least: 1, most: 256 },
    erasure_authorities: { array: JWK, least: 1, most: 16 },
    profile_signers: { any: true },
    floor: { pattern: "sha384:[0-9a-f]{96}" },
    event_max: { int: [65536, 67108864] },
  },
};

/** The configuration in `raw`: its members, `digest` as a `sha256:` name, `mrconfigid` of 48 bytes. */
export async function parseGatewayConfig(raw) {
  const value = parseCanonical(raw, { limit: 64 * 1024 });
  checkShape(CONFIG, value, "config");
  if (value.mcp_servers !== undefined) demandServers(value.mcp_servers);
  if (value.witnesses !== undefined) await demandWitnesses(value.witnesses);
  if (value.erasure_authorities !== undefined) await demandAuthorities(value.erasure_authorities);
  if (value.profile_signers !== undefined) demandSigners(value.profile_signers, "config.profile_signers");
  return { ...value, digest: await sha256Name(raw), mrconfigid: await sha384(raw) };
}

/** Servers of tools: each at an address or a command, one of them; a key in a header, over https; ids once. */
function demandServers(servers) {
  for (const { url, roots, header, key, command, env, folders } of servers) {
    const remote = url !== undefined;
    const local = env !== undefined || folders !== undefined;
    const plain = remote ? !local : roots === undefined && header === undefined && key === undefined;
    const paired = (header === undefined) === (key === undefined);
    const secured = (roots === undefined && key === undefined) || (remote && url.startsWith("https:"));
    if (remote === (command !== undefined) || !plain || !paired || !secured) {
      throw new Refusal("fmt.profile", "not a server of tools", { where: "config.mcp_servers" });
    }
  }
  if (new Set(servers.map(({ id }) => id)).size !== servers.length) {
    throw new Refusal("fmt.profile", "two servers of one id", { where: "config.mcp_servers" });
  }
}

/** Whose orders to erase and to hold are carried out: P-256 keys, each once. */
async function demandAuthorities(jwks) {
  const refusal = new Refusal("fmt.profile", "not keys of authorities", { where: "config.erasure_authorities" });
  const keys = [];
  for (const jwk of jwks) {
    const key = await keyOfJwk(jwk).catch((error) => {
      throw error instanceof Refusal ? refusal : error;
    });
    if (key === null) throw refusal;
    keys.push(key.kid);
  }
  if (new Set(keys).size !== keys.length) throw refusal;
}

/** Whom the gateway asks to cosign its own log: each with an address, and a quorum. */
async function demandWitnesses(lines) {
  const refusal = new Refusal("fmt.profile", "not a gateway's witnesses", { where: "config.witnesses" });
  const policy = await parseWitnessPolicy(lines.join("\n")).catch((error) => {
    throw error instanceof Refusal ? refusal : error;
  });
  const asked = [...policy.witnesses.values()].every(({ url }) => /^https?:\/\/[!-~]{1,500}$/.test(url ?? ""));
  if (policy.logs.length > 0 || policy.quorum === "none" || !asked) throw refusal;
}
