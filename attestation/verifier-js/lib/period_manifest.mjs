// `manifest.json`: which files the exporter says there are, and what it says it was asked for. Nothing in it is believed:
// the range that it claims decides nothing about what is complete.

import { MANIFEST } from "./period_layout.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";
import { parseCanonical } from "./strict_json.mjs";
import { SAFE_NAME } from "./zip_directory.mjs";

const NUMBER = { int: [0, Number.MAX_SAFE_INTEGER] };
const INSTANT = { nullable: { pattern: "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z" } };
const SHAPE = {
  object: {
    typ: { const: "affiant-period/1" },
    exporter: { text: 200 },
    range: {
      object: {
        from: INSTANT,
        to: INSTANT,
        origin: { text: 255 },
        first: NUMBER,
        end: NUMBER,
        sessions: { nullable: { array: { pattern: "[A-Za-z0-9_-]{22}" }, least: 1, most: 100_000 } },
      },
    },
    files: {
      map: { object: { size: NUMBER, sha256: { pattern: "[0-9a-f]{64}" } } },
      name: SAFE_NAME,
      most: 200_000,
    },
  },
};

/** Path -> `{size, sha256}` of every file that a manifest lists. */
export function parseManifestFiles(bytes) {
  let value;
  try {
    value = parseCanonical(bytes, { limit: 64 << 20 });
    checkShape(SHAPE, value, "manifest");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw malformed(`not a manifest: ${error.text}`);
  }
  if (value.range.first > value.range.end || MANIFEST in value.files) {
    throw malformed("a range that ends before it begins, or a manifest of itself");
  }
  return new Map(Object.entries(value.files));
}

function malformed(message) {
  return new Refusal("period.manifest", message, { where: MANIFEST });
}
