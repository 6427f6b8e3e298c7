// What a session's TD is launched for: manifest, its initdata (MRCONFIGID), activation, and the events of RTMR3.

import { link, sha384 } from "./cryptography.mjs";
import { fromUtf8, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { parseCanonical } from "./strict_json.mjs";

const LINK = { pattern: "[A-Za-z0-9_-]{43}" };
const SHA256 = { pattern: "sha256:[0-9a-f]{64}" };
const CLASS = { enum: ["hardware", "simulated"] };
const SHORT = { text: 256 };
/** The date and number of a release of gVisor. */
export const RELEASE = { pattern: "20[0-9]{6}\\.[0-9]{1,4}" };
/** The task label: salted digests, the same in the activation and in the start record. */
const TASK = { object: {}, sd: 4 };
const MANIFEST = {
  object: {
    typ: { const: "affiant-manifest/1" },
    cls: CLASS,
    profile: { object: { dig: { pattern: "sha384:[0-9a-f]{96}" }, fil: SHA256 } },
    supervisor: SHA256,
    rootfs: { pattern: "host-usr|sha256:[0-9a-f]{64}" },
    runtime: { nullable: SHA256 },
    isolation_floor: { enum: ["userspace-kernel", "namespace"] },
    gateway: { object: { origin: SHORT, reference: SHA256, config: SHA256, cls: CLASS } },
    vault: { nullable: { object: { address: SHORT, ca: SHA256 } } },
    hosts: {
      map: { array: { text: 64 }, least: 1, most: 8 },
      name: "[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
      most: 64,
    },
    upstream_roots: { array: SHA256, most: 16 },
  },
};
const ACTIVATION = {
  object: {
    typ: { const: "affiant-activation/1" },
    ses: { pattern: "[A-Za-z0-9_-]{22}" },
    agent: LINK,
    inp: { nullable: SHA256 },
    iso: { enum: ["gvisor", "bwrap-landlock", "vm", "none"] },
    challenge: LINK,
    exp: { int: [0, Number.MAX_SAFE_INTEGER] },
    starter: { object: { iss: SHORT, method: { text: 32 }, sub: LINK } },
    openings: { nullable: LINK },
  },
  optional: { rel: RELEASE, task: TASK },
};
const STRENGTH = { none: 0, "bwrap-landlock": 1, gvisor: 2, vm: 3 };
const FLOORS = { namespace: 1, "userspace-kernel": 2 };
/** The Confidential Containers agent policy of every session: no exec, copy or stream from the host. */
const AGENT_POLICY = `package agent_policy
default AllowRequestsFailingPolicy := false
default CreateContainerRequest := true
default StartContainerRequest := true
default ExecProcessRequest := false
default CopyFileRequest := false
default ReadStreamRequest := false
default WriteStreamRequest := false
`;

/** The manifest in `raw`: its members, `digest`, and `mrconfigid`, 48 bytes. */
export async function parseManifest(raw) {
  const value = parseCanonical(raw, { limit: 64 * 1024 });
  checkShape(MANIFEST, value, "manifest");
  const roots = value.upstream_roots;
  if (roots.some((root, index) => index > 0 && roots[index - 1] >= root)) {
    throw profile("not sorted, or repeated", "manifest.upstream_roots");
  }
  if (value.gateway.cls !== value.cls) {
    throw profile("the gateway's evidence class differs from the session's", "manifest.gateway.cls");
  }
  return { ...value, digest: await link(raw), mrconfigid: await sha384(initdata(raw)) };
}

/** The activation in `raw`: its members, and `digest`. */
export async function parseActivation(raw) {
  const value = parseCanonical(raw, { limit: 16 * 1024 });
  checkShape(ACTIVATION, value, "activation");
  return { ...value, digest: await link(raw) };
}

/** Name and payload of the five events of RTMR3 up to the barrier, in order. */
export function sessionEvents(manifest, activation) {
  const { supervisor, rootfs, runtime } = manifest;
  return [
    { name: "affiant-manifest", payload: { man: manifest.digest } },
    { name: "affiant-profile", payload: { dig: manifest.profile.dig, fil: manifest.profile.fil } },
    { name: "affiant-images", payload: { supervisor, rootfs, runtime } },
    { name: "affiant-activate", payload: { act: activation.digest } },
    { name: "affiant-ready", payload: { ses: activation.ses } },
  ];
}

/** Whether an isolation is a floor or better. */
export function reachesFloor(isolation, floor) {
  return STRENGTH[isolation] >= FLOORS[floor];
}

/** The initdata document: TOML text of one fixed form, with the manifest in a literal string. */
function initdata(raw) {
  const text = fromUtf8(raw);
  if (text.includes("'''")) throw profile("manifest cannot stand in a TOML literal string", "manifest");
  return utf8(
    'algorithm = "sha384"\nversion = "0.1.0"\n\n[data]\n' +
      `"affiant-manifest.json" = '''${text}'''\n` +
      `"policy.rego" = '''\n${AGENT_POLICY}'''\n`,
  );
}

function profile(message, where) {
  return new Refusal("fmt.profile", message, { where });
}

/** Whether release `one` of gVisor came before `other`. */
export function isEarlier(one, other) {
  const [[date, number], [otherDate, otherNumber]] = [one, other].map((each) => each.split(".").map(Number));
  return date < otherDate || (date === otherDate && number < otherNumber);
}
