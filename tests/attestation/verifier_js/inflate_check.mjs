// Holds the verifier's own inflate against node:zlib: what either refuses the other refuses, what both read is the same. What
// node:zlib reads although padding bits after the end are set is to be refused.
// Prints {streams, whole, padded, differing}. Usage: node inflate_check.mjs SEED STREAMS

import zlib from "node:zlib";

import { inflateRaw } from "../../../attestation/verifier-js/lib/inflate.mjs";

const MOST = 1 << 20;
const { Z_FIXED, Z_HUFFMAN_ONLY, Z_RLE, Z_DEFAULT_STRATEGY } = zlib.constants;
const WAYS = [
  { level: 0 },
  { level: 1 },
  { level: 9 },
  { strategy: Z_FIXED },
  { strategy: Z_HUFFMAN_ONLY },
  { strategy: Z_RLE },
  { level: 6, strategy: Z_DEFAULT_STRATEGY, chunkSize: 64 },
];
let state = Number(process.argv[2]);
const found = { streams: 0, whole: 0, padded: 0, differing: [] };

for (let round = 0; round < Number(process.argv[3]); round += 1) {
  const content = contentOf(round);
  const packed = zlib.deflateRawSync(content, WAYS[round % WAYS.length]);
  compare(packed);
  expect(packed, content.length, content);
  for (const size of [content.length + 1, content.length - 1]) if (size >= 0) expect(packed, size, null);
  expect(Buffer.concat([packed, Buffer.of(0)]), content.length, null);
  expect(packed.subarray(0, -1), content.length, null);
  for (let bit = 0; bit < 8; bit += 1) compare(flipped(packed, bit));
  for (const reach of [40, packed.length]) compare(spoiled(packed, reach));
  for (let hostile = 0; hostile < 20; hostile += 1) compare(hostileStream(hostile));
}
process.stdout.write(JSON.stringify({ ...found, differing: found.differing.slice(0, 5) }));

/** Random bytes, text of few letters, or long repetitions. */
function contentOf(round) {
  const bytes = Buffer.from(Array.from({ length: below(3000) }, () => below(256)));
  if (round % 3 === 0) return bytes;
  if (round % 3 === 1) return Buffer.from(bytes.map((byte) => 97 + (byte % (1 + (round % 7)))));
  return Buffer.concat(Array.from({ length: 40 }, () => bytes));
}

function spoiled(packed, reach) {
  const bytes = Buffer.from(packed);
  for (let flips = 1 + below(3); flips > 0; flips -= 1) bytes[below(Math.min(reach, bytes.length))] ^= 1 << below(8);
  return bytes;
}

/** Random bytes behind a last block of each kind: most often one whose codes are wrong. */
function hostileStream(kind) {
  const bytes = Buffer.from(Array.from({ length: 1 + below(80) }, () => below(256)));
  bytes[0] = (bytes[0] & 0xf8) | 1 | ((kind % 4 === 3 ? 2 : kind % 4) << 1);
  return bytes;
}

/** Both read the same stream: to the same bytes, and as far, or neither. */
function compare(packed) {
  found.streams += 1;
  const content = contentIn(packed);
  if (content !== null) found.whole += 1;
  const padded = content !== null && isPadded(packed, content);
  if (padded) found.padded += 1;
  const sizes = content === null ? [0, 1, 3, 10, 258] : [content.length];
  for (const size of sizes) expect(packed, size, padded ? null : content);
}

/** What node:zlib reads from a stream that ends in its last byte, or null. */
function contentIn(packed) {
  try {
    const { buffer, engine } = zlib.inflateRawSync(packed, { info: true, maxOutputLength: MOST });
    return engine.bytesWritten === packed.length ? buffer : null;
  } catch {
    return null; // Refused; where only the end is missing, so is the size that it would have.
  }
}

/**
 * Whether a bit after the end is set. Above the last bit that is read no flip changes anything, and a flip of that bit always
 * does: it ends the code of the end of the block, or the content of a stored one.
 */
function isPadded(packed, content) {
  let bit = 7;
  while (contentIn(flipped(packed, bit))?.equals(content)) bit -= 1;
  return packed.at(-1) >> (bit + 1) !== 0;
}

function flipped(packed, bit) {
  const bytes = Buffer.from(packed);
  bytes[bytes.length - 1] ^= 1 << bit;
  return bytes;
}

function expect(packed, size, content) {
  let ours = null;
  try {
    ours = Buffer.from(inflateRaw(packed, size));
  } catch (error) {
    if (error.code !== "zip.content") throw error;
  }
  const same = content === null ? ours === null : ours !== null && ours.equals(content);
  if (!same) found.differing.push({ packed: packed.toString("hex").slice(0, 400), size });
}

/** 0 to `limit` - 1 (xorshift, so that a seed names the whole run). */
function below(limit) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % Math.max(1, limit);
}
