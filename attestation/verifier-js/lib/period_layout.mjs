// The files that a period bundle can have, and how large each may be. A name that is none of these is not read.

import { parseTilePath } from "./tiles.mjs";

export const MANIFEST = "manifest.json";
export const CHECKPOINT = "log/checkpoint";
/** Lines of one file of receipts or disclosures. */
export const LINES_PER_FILE = 100_000;
/** Bytes of one line with its newline. */
export const MAX_LINE = 64 * 1024;
/** The maps of the single bundle, each a folder here, and how its files end. */
export const OBJECT_FOLDERS = Object.freeze({
  keysets: "json",
  evidence: "json",
  endorsements: "json",
  results: "jwt",
  policies: "json",
});

const MIB = 1 << 20;
const OBJECT = /^(keysets|evidence|endorsements|results|policies)\/([0-9a-f]{64})\.(json|jwt)$/;
const SIZE = "(?:0|[1-9][0-9]{0,18})";
const LIMITS = [
  [/^(?:manifest\.json|erasures\.ndjson)$/, 64 * MIB],
  [/^(?:README\.txt|log\/checkpoint)$/, MIB],
  [new RegExp(`^(?:checkpoints/${SIZE}\\.note|anchors/${SIZE}\\.(?:tsr|sigstore\\.json))$`), MIB],
  [/^(?:receipts|disclosures)\/[0-9]{6}\.ndjson$/, LINES_PER_FILE * MAX_LINE],
];

/** Bytes that the file of this name may have; null: the layout has none of this name. */
export function limitOf(name) {
  const found = LIMITS.find(([pattern]) => pattern.test(name));
  if (found !== undefined) return found[1];
  if (objectDigest(name) !== null) return 4 * MIB;
  return name.startsWith("log/") && parseTilePath(name.slice("log/".length)) !== null ? MIB : null;
}

/** The `sha256:` name that an object's name claims; null: it is no object's. */
export function objectDigest(name) {
  const found = OBJECT.exec(name);
  return found !== null && OBJECT_FOLDERS[found[1]] === found[3] ? `sha256:${found[2]}` : null;
}
