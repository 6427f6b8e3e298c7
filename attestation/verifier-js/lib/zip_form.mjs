// The one ZIP form of a period bundle (PKWARE APPNOTE 6.3.10, narrowed until each archive has one spelling): every header
// is made again from the values that it claims, and has to be those very bytes. Numbers are little-endian.

import { utf8 } from "./encoding.mjs";

/** Bytes of the fixed part of each record, by APPNOTE's sections 4.3.7, 4.3.12, 4.3.16, 4.3.14 and 4.3.15. */
export const LOCAL_SIZE = 30;
export const CENTRAL_SIZE = 46;
export const END_SIZE = 22;
const END64_SIZE = 56;
const LOCATOR64_SIZE = 20;
/** Bytes that can stand after the directory. */
export const MOST_END = END64_SIZE + LOCATOR64_SIZE + END_SIZE;

export const CENTRAL_SIGNATURE = 0x02014b50;
/** What a field says whose value stands in one of 64 bits. */
export const FULL32 = 0xffffffff;
const FULL16 = 0xffff;
export const DEFLATE = 8;
/** A regular file, mode 0644, in the upper half of the external attributes. */
export const REGULAR = 0o100644 * 0x10000;
const VERSION = 20;
const VERSION64 = 45;
const MADE_BY_UNIX = 3 << 8;
/** 1980-01-01, the first day that the format knows; the time is 0. */
const DATE = (1 << 5) | 1;

/** The header before a member's packed bytes. */
export function localHeader({ name, crc, packed, size }) {
  return written([4, 0x04034b50], [2, VERSION], ...commonFields(crc, packed, size), [2, name.length], [2, 0], name);
}

/** A member's entry in the directory; an offset that 32 bits do not hold stands in an extra field. */
export function centralHeader({ name, offset, crc, packed, size }) {
  const wide = offset >= FULL32;
  const version = wide ? VERSION64 : VERSION;
  return written(
    [4, CENTRAL_SIGNATURE],
    [2, MADE_BY_UNIX | version],
    [2, version],
    ...commonFields(crc, packed, size),
    [2, name.length],
    [2, wide ? 12 : 0],
    [2, 0], // comment
    [2, 0], // disk
    [2, 0], // internal attributes
    [4, REGULAR],
    [4, wide ? FULL32 : offset],
    name,
    ...(wide ? [[2, 1], [2, 8], [8, offset]] : []),
  );
}

/** What stands after a directory: the end record, and before it those of 64 bits exactly where they are needed. */
export function endRecords({ count, directory, length }) {
  const short = [
    [4, 0x06054b50],
    [2, 0],
    [2, 0],
    [2, Math.min(count, FULL16)],
    [2, Math.min(count, FULL16)],
    [4, Math.min(length, FULL32)],
    [4, Math.min(directory, FULL32)],
    [2, 0],
  ];
  if (count < FULL16 && length < FULL32 && directory < FULL32) return written(...short);
  return written(
    [4, 0x06064b50],
    [8, END64_SIZE - 12],
    [2, MADE_BY_UNIX | VERSION64],
    [2, VERSION64],
    [4, 0],
    [4, 0],
    [8, count],
    [8, count],
    [8, length],
    [8, directory],
    [4, 0x07064b50],
    [4, 0],
    [8, directory + length],
    [4, 1],
    ...short,
  );
}

/** The numbers of an end record that begins at `at`: of 16 and 32 bits, or of 64. */
export function endFields(view, at) {
  const [length, directory] = [12, 16].map((offset) => view.getUint32(at + offset, true));
  return { count: view.getUint16(at + 10, true), length, directory };
}

/** The same of an end record of 64 bits; numbers beyond 2**53 become ones that fit no file. */
export function endFields64(view, at) {
  const number = (offset) => Number(view.getBigUint64(at + offset, true));
  return { count: number(32), length: number(40), directory: number(48) };
}

/** Flags, method, time, date, checksum and sizes: the same in both headers. */
function commonFields(crc, packed, size) {
  return [[2, 0], [2, DEFLATE], [2, 0], [2, DATE], [4, crc], [4, packed], [4, size]];
}

/** Fields `[bytes, number]`, and text, one after the other. */
function written(...fields) {
  const texts = fields.map((field) => (typeof field === "string" ? utf8(field) : null));
  const bytes = new Uint8Array(fields.reduce((sum, field, index) => sum + (texts[index]?.length ?? field[0]), 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const [index, field] of fields.entries()) {
    if (texts[index] !== null) bytes.set(texts[index], at);
    else if (field[0] === 2) view.setUint16(at, field[1], true);
    else if (field[0] === 4) view.setUint32(at, field[1], true);
    else view.setBigUint64(at, BigInt(field[1]), true);
    at += texts[index]?.length ?? field[0];
  }
  return bytes;
}
