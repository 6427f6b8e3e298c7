// This verifier's own files, read by Node: the record table, and the digest that says which verifier it is.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";

import { RecordTable } from "./lib/record_table.mjs";

const HERE = new URL("./", import.meta.url);

/** Path -> bytes of everything that decides: the modules of `lib/` and the table, sorted by path. */
export function ownFiles() {
  const names = readdirSync(new URL("lib/", HERE)).filter((name) => name.endsWith(".mjs")).sort();
  return new Map(["records.json", ...names.map((name) => `lib/${name}`)].sort().map((path) => [path, read(path)]));
}

/** `sha256:` over one line of digest and path for each of them, as `sha256sum` writes it. */
export function buildName() {
  const lines = [...ownFiles()].map(([path, bytes]) => `${digest(bytes)}  ${path}\n`);
  return `sha256:${digest(lines.join(""))}`;
}

/** The table of records. */
export function recordTable() {
  return new RecordTable(JSON.parse(read("records.json")));
}

function read(path) {
  return readFileSync(new URL(path, HERE));
}

function digest(data) {
  return createHash("sha256").update(data).digest("hex");
}
