// The leaves of the log: 66 bytes that say that a record exists, and nothing of what it says. Big-endian.
//
//   0x01 | kind u8 | chn 16 | seq u64 | iat u64 | rh 32

import { toBase64url } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const SIZE = 66;
const VERSION = 1;

/** `{kind, chn, seq, iat, rh}` of a leaf, chain and hash as records spell them. `table`: of record kinds. */
export function parseLeaf(data, table) {
  if (data.length !== SIZE) throw malformed("a leaf of another size", `${SIZE} bytes`, data.length);
  if (data[0] !== VERSION) throw malformed("a leaf of another version", VERSION, data[0]);
  const kind = table.kindOf(data[1]);
  if (kind === undefined) throw malformed("a leaf of an unknown kind", undefined, data[1]);
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const [seq, iat] = [18, 26].map((at) => Number(view.getBigUint64(at)));
  if (!Number.isSafeInteger(seq) || !Number.isSafeInteger(iat)) throw malformed("a number that no record can have");
  return { kind, chn: toBase64url(data.subarray(2, 18)), seq, iat, rh: toBase64url(data.subarray(34)) };
}

function malformed(message, expected, found) {
  return new Refusal("log.entry", message, { expected, found });
}
