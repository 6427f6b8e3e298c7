// Raw DEFLATE (RFC 1951), unpacked into exactly as many bytes as were announced: not one more is ever written, and all
// of the packed bytes must be used: the bits after the end, in the last byte, are zero. A browser's own decompressor stops
// at neither bound.
//
// Codes are read bit by bit along their canonical order (RFC 1951, section 3.2.2): slower than tables, and short enough
// to be read. Refused are codes that are over-subscribed, and incomplete ones but for a single code of one bit
// (section 3.2.7), symbols that mean nothing, and distances to before the beginning.

import { Refusal } from "./refusals.mjs";

const MAX_BITS = 15;
const END_OF_BLOCK = 256;
/** Length symbols 257 to 285 and distance symbols 0 to 29: the least value, and how many bits more (section 3.2.5). */
const LENGTH_BASE = [
  3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258,
];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const DISTANCE_BASE = [
  1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193,
  12289, 16385, 24577,
];
const DISTANCE_BITS = DISTANCE_BASE.map((_, symbol) => Math.max(0, (symbol >> 1) - 1));
/** The order in which the lengths of the code of code lengths are written (section 3.2.7). */
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/** Most literal and length symbols, and most distance symbols, that a block may have a code for. */
const MOST_LITERALS = 286;
const MOST_DISTANCES = 30;

/** The `size` bytes that `packed` unpacks to. Refuses (`zip.content`) any other number, and bytes or set bits after the stream. */
export function inflateRaw(packed, size) {
  const bits = new Bits(packed);
  const out = { bytes: new Uint8Array(size), at: 0 };
  let last = false;
  while (!last) {
    last = bits.take(1) === 1;
    BLOCKS[bits.take(2)](bits, out);
  }
  if (out.at !== size) throw wrong("a member is smaller than it says", size, out.at);
  if (bits.at !== packed.length) throw wrong("a member's packed bytes end elsewhere than it says");
  if (bits.held !== 0) throw wrong("a member's last byte has padding bits that are not zero");
  return out.bytes;
}

/** Bits of a byte string, each byte from its lowest on (section 3.1.1). */
class Bits {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
    this.held = 0;
    this.count = 0;
  }

  take(count) {
    while (this.count < count) {
      if (this.at === this.bytes.length) throw wrong("a member's packed bytes end before its content does");
      this.held |= this.bytes[this.at] << this.count;
      this.at += 1;
      this.count += 8;
    }
    const value = this.held & ((1 << count) - 1);
    this.held >>>= count;
    this.count -= count;
    return value;
  }

  /** The next symbol of a code; its first bit is the highest. */
  symbol({ counts, symbols }) {
    let [code, first, index] = [0, 0, 0];
    for (let length = 1; length <= MAX_BITS; length += 1) {
      code |= this.take(1);
      const count = counts[length];
      if (code - count < first) return symbols[index + (code - first)];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw wrong("a member holds bits that are no code");
  }

  /** Leaves out the rest of a byte, and takes that many whole ones. */
  whole(count) {
    this.held = 0;
    this.count = 0;
    if (this.bytes.length - this.at < count) throw wrong("a member's packed bytes end before its content does");
    this.at += count;
    return this.bytes.subarray(this.at - count, this.at);
  }
}

const BLOCKS = [stored, (bits, out) => coded(bits, out, FIXED), dynamic, unknown];

function stored(bits, out) {
  const head = bits.whole(4);
  const length = head[0] | (head[1] << 8);
  if ((head[2] | (head[3] << 8)) !== (length ^ 0xffff)) throw wrong("a stored block that contradicts its length");
  const bytes = bits.whole(length);
  demandRoom(out, length);
  out.bytes.set(bytes, out.at);
  out.at += length;
}

function dynamic(bits, out) {
  const literals = bits.take(5) + 257;
  const distances = bits.take(5) + 1;
  const given = bits.take(4) + 4;
  if (literals > MOST_LITERALS || distances > MOST_DISTANCES) throw wrong("a block with more symbols than there are");
  const ofLengths = new Uint8Array(19);
  for (let index = 0; index < given; index += 1) ofLengths[CODE_ORDER[index]] = bits.take(3);
  const lengths = readLengths(bits, codeOf(ofLengths, { complete: true }), literals + distances);
  if (lengths[END_OF_BLOCK] === 0) throw wrong("a block without an end");
  coded(bits, out, {
    literals: codeOf(lengths.subarray(0, literals)),
    distances: codeOf(lengths.subarray(literals)),
  });
}

function unknown() {
  throw wrong("a block of an unknown kind");
}

/** The lengths of both codes, one after the other; 16 repeats the last, 17 and 18 repeat zero. */
function readLengths(bits, code, count) {
  const lengths = new Uint8Array(count);
  let at = 0;
  while (at < count) {
    const symbol = bits.symbol(code);
    if (symbol < 16) {
      lengths[at] = symbol;
      at += 1;
      continue;
    }
    if (symbol === 16 && at === 0) throw wrong("a repetition of nothing");
    const value = symbol === 16 ? lengths[at - 1] : 0;
    const times = symbol === 16 ? 3 + bits.take(2) : symbol === 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    if (at + times > count) throw wrong("a repetition beyond the end");
    lengths.fill(value, at, at + times);
    at += times;
  }
  return lengths;
}

/** A canonical code: how many symbols there are of each length, and the symbols by length and value. */
function codeOf(lengths, { complete = false } = {}) {
  const counts = new Uint16Array(MAX_BITS + 1);
  for (const length of lengths) counts[length] += 1;
  const unused = counts[0];
  counts[0] = 0;
  let left = 1;
  for (let length = 1; length <= MAX_BITS; length += 1) {
    left = left * 2 - counts[length];
    if (left < 0) throw wrong("a code with more symbols than it has room for");
  }
  const used = lengths.length - unused;
  const mayLack = used === 0 || (!complete && used === 1 && counts[1] === 1);
  if (left > 0 && !mayLack) throw wrong("a code with fewer symbols than it has room for");
  const offsets = new Uint16Array(MAX_BITS + 2);
  for (let length = 1; length <= MAX_BITS; length += 1) offsets[length + 1] = offsets[length] + counts[length];
  const symbols = new Uint16Array(used);
  for (const [symbol, length] of lengths.entries()) {
    if (length > 0) symbols[offsets[length]++] = symbol;
  }
  return { counts, symbols };
}

function coded(bits, out, { literals, distances }) {
  for (;;) {
    const symbol = bits.symbol(literals);
    if (symbol === END_OF_BLOCK) return;
    if (symbol < END_OF_BLOCK) {
      demandRoom(out, 1);
      out.bytes[out.at] = symbol;
      out.at += 1;
    } else {
      repeat(bits, out, symbol - 257, distances);
    }
  }
}

function repeat(bits, out, symbol, distances) {
  if (symbol >= LENGTH_BASE.length) throw wrong("a length that means nothing");
  const length = LENGTH_BASE[symbol] + bits.take(LENGTH_BITS[symbol]);
  const far = bits.symbol(distances);
  if (far >= DISTANCE_BASE.length) throw wrong("a distance that means nothing");
  const distance = DISTANCE_BASE[far] + bits.take(DISTANCE_BITS[far]);
  if (distance > out.at) throw wrong("a distance to before the beginning");
  demandRoom(out, length);
  // One by one: what is copied may be what this very copy has written.
  for (const end = out.at + length; out.at < end; out.at += 1) out.bytes[out.at] = out.bytes[out.at - distance];
}

function demandRoom(out, count) {
  if (out.bytes.length - out.at < count) throw wrong("a member is larger than it says", out.bytes.length);
}

/** The code of blocks that bring none (section 3.2.6). */
const FIXED = {
  literals: codeOf(new Uint8Array(288).fill(8, 0, 144).fill(9, 144, 256).fill(7, 256, 280).fill(8, 280)),
  distances: codeOf(new Uint8Array(32).fill(5)),
};

function wrong(message, expected, found) {
  return new Refusal("zip.content", message, { expected, found });
}
