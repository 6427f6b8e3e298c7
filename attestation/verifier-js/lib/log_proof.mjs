// A proof of inclusion that stands alone (C2SP tlog-proof), and the checkpoint that it carries (C2SP tlog-checkpoint).

import { fromBase64, isAscii, toHex, utf8 } from "./encoding.mjs";
import { isPrintable, parseNote } from "./note.mjs";
import { Refusal } from "./refusals.mjs";

const HEADER = "c2sp.org/tlog-proof@v1";
const MAX_BYTES = 1 << 20;
const MAX_PATH = 63;
const MAX_SIZE = (1n << 63n) - 1n;
const MAX_EXTENSIONS = 16;
const EMPTY_ROOT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/** The proof in `text`: `{index, path, note, noteText, checkpoint}`; nothing in it is verified. */
export function parseLogProof(text) {
  if (utf8(text).length > MAX_BYTES) throw malformed("a proof is too large");
  const end = text.indexOf("\n\n");
  const head = end < 0 ? text : text.slice(0, end);
  if (!isAscii(head)) throw malformed("a proof that is not ASCII before its checkpoint");
  const [header, index, ...hashes] = head.split("\n");
  if (end < 0 || header !== HEADER || !index?.startsWith("index ")) throw malformed("not a proof of inclusion");
  if (hashes.length > MAX_PATH) throw malformed("too many hashes");
  const path = hashes.map(hash);
  const number = parseSize(index.slice("index ".length));
  if (number === null) throw malformed("an index that is no number");
  const noteText = text.slice(end + 2);
  if (!noteText.isWellFormed()) throw new Refusal("note.malformed", "a note is not UTF-8");
  const note = parseNote(utf8(noteText));
  return { index: number, path, note, noteText, checkpoint: parseCheckpoint(note.text) };
}

/** The checkpoint in a note's text: `{origin, size, root}`; `size` is a BigInt. */
export function parseCheckpoint(text) {
  const [origin, sizeText, rootText, ...extensions] = text.slice(0, -1).split("\n");
  const size = sizeText === undefined ? null : parseSize(sizeText);
  const root = rootText === undefined ? null : fromBase64(rootText);
  const lines = [origin, ...extensions];
  if (
    !text.endsWith("\n") ||
    size === null ||
    root?.length !== 32 ||
    lines.some((line) => line === "" || !isPrintable(line)) ||
    utf8(origin).length > 255 ||
    extensions.length > MAX_EXTENSIONS ||
    (size === 0n && toHex(root) !== EMPTY_ROOT)
  ) {
    throw new Refusal("checkpoint.malformed", "not a checkpoint", { expected: "origin, size, root" });
  }
  return { origin, size, root };
}

function parseSize(text) {
  const size = /^(?:0|[1-9][0-9]{0,18})$/.test(text) ? BigInt(text) : null;
  return size === null || size > MAX_SIZE ? null : size;
}

function hash(line) {
  const digest = fromBase64(line);
  if (digest?.length !== 32) throw malformed("a hash that is not base64 of 32 bytes");
  return digest;
}

function malformed(message) {
  return new Refusal("log.proof", message);
}
