// Signed notes (C2SP signed-note) and the log's key. Stricter than the format demands, as the specification is: base64
// in its one spelling, at most 64 lines, no two lines of one key.

import { holdsEd25519, sha256 } from "./cryptography.mjs";
import { concat, fromBase64, fromUtf8, toHex, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_BYTES = 512 * 1024;
const MAX_SIGNATURES = 64;
const LOG_ED25519 = 0x01;
/** The kinds of a witness's key. */
export const COSIGNATURE_ED25519 = 0x04;
export const COSIGNATURE_MLDSA44 = 0x06;
const KEY_SIZES = new Map([[LOG_ED25519, 32], [COSIGNATURE_ED25519, 32], [COSIGNATURE_MLDSA44, 1312]]);
/** Control, format, surrogate, private and unassigned characters, and every separator but the plain space. */
const UNPRINTABLE = /(?! )[\p{C}\p{Z}]/u;

/** Whether every character of `text` can be seen on a line. */
export function isPrintable(text) {
  return !UNPRINTABLE.test(text);
}

/** The verifier key `<name>+<id>+<base64>`: `{name, id, kind, publicKey, isLog}`; null: it is none. */
export async function parseVkey(text) {
  const found = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/su.exec(text);
  const data = found && fromBase64(found[3]);
  if (!data) return null;
  const [, name, id] = found;
  if (KEY_SIZES.get(data[0]) !== data.length - 1 || !isName(name) || (await keyId(name, data)) !== id) return null;
  return { name, id, kind: data[0], publicKey: data.slice(1), isLog: data[0] === LOG_ED25519 };
}

/** The note in `bytes`: `{text, signatures: [{name, id, signature}]}`; nothing in it counts yet. */
export function parseNote(bytes) {
  if (bytes.length > MAX_BYTES) throw malformed("a note is too large");
  const content = fromUtf8(bytes);
  if (content === null) throw malformed("a note is not UTF-8");
  if (/[\u0000-\u0009\u000b-\u001f]/.test(content)) throw malformed("a control character in a note");
  const end = content.lastIndexOf("\n\n");
  const [text, lines] = [content.slice(0, end + 1), content.slice(end + 2)];
  if (end < 1 || lines === "") throw malformed("not a signed note");
  return { text, signatures: parseLines(lines) };
}

/** Refuses unless `key`, a log's, has signed the note. A line that names it and does not hold refuses. */
export async function verifyNote(note, key) {
  const line = note.signatures.find((each) => each.name === key.name && each.id === key.id);
  if (line === undefined) {
    throw unsigned("no known key has signed", note.signatures.map((each) => each.name).join(", "));
  }
  if (!(await holdsEd25519(key.publicKey, utf8(note.text), line.signature))) {
    throw unsigned("the signature of a known key does not hold", line.name);
  }
}

function parseLines(lines) {
  if (!lines.endsWith("\n")) throw malformed("the last signature line has no end");
  const rows = lines.slice(0, -1).split("\n");
  if (rows.length > MAX_SIGNATURES) throw malformed("too many signatures");
  const signatures = rows.map(parseLine);
  if (new Set(signatures.map((each) => `${each.id} ${each.name}`)).size !== signatures.length) {
    throw malformed("two signature lines of one key");
  }
  return signatures;
}

function parseLine(row) {
  const [dash, name, encoded, ...more] = row.split(" ");
  const data = dash === "\u2014" && encoded !== undefined && more.length === 0 ? fromBase64(encoded) : null;
  if (data === null || data.length <= 4 || !isName(name)) throw malformed("not a signature line");
  return { name, id: toHex(data.subarray(0, 4)), signature: data.slice(4) };
}

function isName(name) {
  return /^[^\s+]+$/u.test(name) && [...name].length <= 255 && isPrintable(name);
}

async function keyId(name, keyed) {
  return toHex((await sha256(concat(utf8(`${name}\n`), keyed))).subarray(0, 4));
}

function malformed(message) {
  return new Refusal("note.malformed", message);
}

function unsigned(message, found) {
  return new Refusal("note.signature", message, { found });
}
