// The members of an archive that anybody may have made, compared with the one form. Every byte of the file is accounted
// for, and nothing is unpacked yet. Another reader, which believes the local headers, or the first of two names, or the
// last end record that it finds, sees the same files (CWE-436).

import { sameBytes } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import {
  CENTRAL_SIGNATURE,
  CENTRAL_SIZE,
  DEFLATE,
  END_SIZE,
  FULL32,
  LOCAL_SIZE,
  MOST_END,
  REGULAR,
  centralHeader,
  endFields,
  endFields64,
  endRecords,
  localHeader,
} from "./zip_form.mjs";

const MAX_MEMBERS = 200_000;
const MAX_TOTAL = 64 * 2 ** 30;
/** Unpacked bytes for each packed one, of one member. */
const MAX_RATIO = 100;
const MAX_NAME = 160;
const MAX_EXTRA = 12;
/** No absolute path, no `..`, no hidden file; no backslash, colon, space or dot at an end (Windows); ASCII alone. */
const SEGMENT = "[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?";
/** The pattern of a whole name. */
export const SAFE_NAME = `(?=.{1,${MAX_NAME}}$)${SEGMENT}(?:/${SEGMENT})*`;
const SAFE = new RegExp(`^${SAFE_NAME}$`);
/** Encrypted, strongly encrypted, or with an encrypted directory (APPNOTE, 4.4.4). */
const ENCRYPTED = 0x2041;

/** Whether these bytes are meant as an archive, by their beginning. */
export function isArchive(data) {
  return data[0] === 0x50 && data[1] === 0x4b && ((data[2] === 3 && data[3] === 4) || (data[2] === 5 && data[3] === 6));
}

/** The members in their order: `{name, offset, content, packed, size, crc}`; `content`: where the packed bytes begin. */
export function readDirectory(data) {
  const { count, directory, length } = readEnd(data);
  if (count > MAX_MEMBERS || length > count * (CENTRAL_SIZE + MAX_NAME + MAX_EXTRA)) {
    throw refused("too_large", "too many members", { expected: `at most ${MAX_MEMBERS}`, found: count });
  }
  const members = readEntries(data.subarray(directory, directory + length), count);
  demandNames(members);
  demandSizes(members);
  let at = 0;
  for (const member of members) {
    const end = member.content + member.packed;
    if (member.offset !== at || end > directory) {
      throw refused("structure", "members overlap, or leave bytes between them", { where: member.name });
    }
    if (!sameBytes(data.subarray(at, member.content), localHeader(member))) {
      throw refused("header", "the header before a member is not that of the directory", { where: member.name });
    }
    at = end;
  }
  if (at !== directory) throw refused("structure", "bytes between the last member and the directory");
  return members;
}

/** Count, place and length of the directory, as the end record says that stands at the very end. */
function readEnd(data) {
  if (data.length < END_SIZE) throw refused("structure", "not an archive", { found: `${data.length} bytes` });
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let found = endFields(view, data.length - END_SIZE);
  let expected = endRecords(found);
  if (expected.length > END_SIZE) {
    if (data.length < MOST_END) throw refused("zip64", "sizes of 64 bits are announced and not there");
    found = endFields64(view, data.length - MOST_END);
    const fits = Object.values(found).every((value) => Number.isSafeInteger(value));
    expected = fits ? endRecords(found) : new Uint8Array(0);
    if (!sameBytes(expected, data.subarray(data.length - MOST_END))) {
      throw refused("zip64", "the end records of 32 and 64 bits contradict each other, or 64 are not needed");
    }
  }
  if (!sameBytes(expected, data.subarray(data.length - expected.length))) {
    const facts = { expected: "no comment, nothing after it" };
    throw refused("structure", "the archive does not end with its end record", facts);
  }
  if (found.directory + found.length + expected.length !== data.length) {
    throw refused("structure", "the directory does not end where the end record begins");
  }
  return found;
}

function readEntries(data, count) {
  const members = [];
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = 0;
  while (members.length < count) {
    if (at + CENTRAL_SIZE > data.length) {
      const facts = { expected: `${count} members`, found: members.length };
      throw refused("structure", "the directory is cut short", facts);
    }
    const { member, end } = readEntry(data, view, at);
    if (!sameBytes(data.subarray(at, end), centralHeader(member))) throw reasonAgainst(view, at, member);
    members.push(member);
    at = end;
  }
  if (at !== data.length) throw refused("structure", "the directory holds more than its members");
  return members;
}

/** The values that one entry claims, and where it ends. */
function readEntry(data, view, at) {
  const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
  const begin = at + CENTRAL_SIZE;
  const end = begin + nameLength + extraLength + commentLength;
  if (view.getUint32(at, true) !== CENTRAL_SIGNATURE || end > data.length) {
    throw refused("structure", "not an entry of the directory");
  }
  const name = readName(data.subarray(begin, begin + nameLength));
  let offset = view.getUint32(at + 42, true);
  if (offset === FULL32) {
    const wide = extraLength === MAX_EXTRA && view.getUint32(begin + nameLength, true) === 0x00080001;
    if (!wide) throw refused("zip64", "an offset of 64 bits is announced and not there", { where: name });
    offset = Number(view.getBigUint64(begin + nameLength + 4, true));
    if (offset < FULL32) throw refused("zip64", "an offset of 64 bits that is not needed", { where: name });
    if (!Number.isSafeInteger(offset)) throw refused("structure", "an offset beyond every file", { where: name });
  }
  const [crc, packed, size] = [16, 20, 24].map((place) => view.getUint32(at + place, true));
  return { member: { name, offset, content: offset + LOCAL_SIZE + name.length, packed, size, crc }, end };
}

function readName(bytes) {
  const name = String.fromCharCode(...bytes.subarray(0, MAX_NAME + 1));
  if (bytes.length > MAX_NAME || !SAFE.test(name)) {
    throw refused("name", "a name of another pattern", { found: name.slice(0, 60) });
  }
  return name;
}

/** What makes an entry another than its values make: the most telling first. */
function reasonAgainst(view, at, { name }) {
  const where = { where: name };
  const method = view.getUint16(at + 10, true);
  const attributes = view.getUint32(at + 38, true);
  const [packed, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
  const extra = view.getUint16(at + 30, true);
  if (view.getUint16(at + 8, true) & ENCRYPTED) return refused("encrypted", "an encrypted member", where);
  if (method !== DEFLATE) {
    return refused("method", "a member that is not deflated", { ...where, expected: DEFLATE, found: method });
  }
  if (attributes !== REGULAR) {
    const found = `mode ${(attributes >>> 16).toString(8)}`;
    return refused("kind", "a member that is no regular file", { ...where, found });
  }
  if (extra > 0 || packed === FULL32 || size === FULL32) {
    return refused("zip64", "fields of 64 bits, or other extra fields", where);
  }
  return refused("header", "an entry with fields that the form does not have", where);
}

/** Sorted; no two alike, also not by case; none a folder of another. */
function demandNames(members) {
  const seen = new Set();
  let before = "";
  for (const { name } of members) {
    const folded = name.toLowerCase();
    if (seen.has(folded)) throw refused("duplicate", "two members of one name", { where: name });
    if (name < before) throw refused("structure", "members that are not in the order of their names", { where: name });
    seen.add(folded);
    before = name;
  }
  for (const name of seen) {
    for (let end = name.lastIndexOf("/"); end > 0; end = name.lastIndexOf("/", end - 1)) {
      if (seen.has(name.slice(0, end))) throw refused("duplicate", "a file and a folder of one name", { where: name });
    }
  }
}

function demandSizes(members) {
  let total = 0;
  for (const { name, packed, size } of members) {
    if (size > MAX_RATIO * packed) {
      const facts = { expected: `at most ${MAX_RATIO} times its packed size`, found: `${packed} -> ${size} bytes` };
      throw refused("ratio", "a member unpacks to too much", { where: name, ...facts });
    }
    total += size;
  }
  if (total > MAX_TOTAL) {
    const facts = { expected: `at most ${MAX_TOTAL} bytes`, found: total };
    throw refused("too_large", "the archive unpacks to too much", facts);
  }
}

function refused(name, message, facts) {
  return new Refusal(`zip.${name}`, message, facts);
}
