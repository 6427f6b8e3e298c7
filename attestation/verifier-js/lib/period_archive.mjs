// A period bundle taken apart: every file of the layout unpacked, and compared with its headers, its name and the manifest.
// Nothing in it is a trust anchor.
//
// A file that is not as it is listed spoils the archive, and the checks that read it; the others are made all the same.

import { parseManifestFiles } from "./period_manifest.mjs";
import { crc32 } from "./crc32.mjs";
import { sha256, sha256Name } from "./cryptography.mjs";
import { toHex } from "./encoding.mjs";
import { inflateRaw } from "./inflate.mjs";
import { MANIFEST, OBJECT_FOLDERS, limitOf, objectDigest } from "./period_layout.mjs";
import { countLines } from "./period_lines.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { readDirectory } from "./zip_directory.mjs";

/** Bytes that the files of the layout may unpack to together: all of them are in memory. */
const MAX_UNPACKED = 512 * 1024 * 1024;
/** Receipts of the largest one, and leaves that it shows of the log, of 68 bytes each. */
const MAX_RECEIPTS = 100_000;
const MAX_LEAVES = 500_000;
const LEAF_BYTES = 68;

/** The archive in `data`; refuses what is not of the one form, and says *not made* beyond the bounds above. */
export async function openPeriod(data) {
  const members = readDirectory(data);
  const held = new Map(members.map((member) => [member.name, member]));
  if (!held.has(MANIFEST)) {
    throw new Refusal("period.manifest", "the archive has no manifest", { expected: MANIFEST });
  }
  for (const { name, size } of members) {
    const limit = limitOf(name);
    if (limit !== null && size > limit) {
      throw new Refusal("zip.too_large", "a file is too large", { where: name, expected: `at most ${limit} bytes` });
    }
  }
  const listed = parseManifestFiles(unpacked(data, held.get(MANIFEST)));
  const unknown = members.map(({ name }) => name).filter((name) => limitOf(name) === null);
  const known = members.filter(({ name }) => limitOf(name) !== null && name !== MANIFEST);
  demandListed(held, listed, known);
  demandBounded(known);
  const period = new Period({ count: members.length, unknown, absent: absentOf(held, listed) });
  for (const member of known) await period.take(data, member, listed.get(member.name));
  demandAtMost(MAX_RECEIPTS, period.receiptCount, "receipts");
  return period;
}

/** What is in an archive: names, bytes, and what is wrong with them. */
class Period {
  #files = new Map();

  /** `count`: files; `unknown`: names that the layout does not have; `absent`: listed, and not there. */
  constructor({ count, unknown, absent }) {
    Object.assign(this, { count, unknown, absent });
    /** The first file that is not as it says, or null. */
    this.damage = null;
  }

  /** Unpacks one file, and remembers what is wrong with it. */
  async take(data, member, entry) {
    const file = { bytes: null, refusal: null };
    try {
      file.bytes = unpacked(data, member);
      await demandAsListed(file.bytes, member.name, entry);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      file.refusal = error;
      this.damage ??= error;
    }
    this.#files.set(member.name, file);
  }

  /** The bytes of a file; undefined where there is none. Refuses one that is not as it says. */
  read(name) {
    const file = this.#files.get(name);
    if (file !== undefined && file.refusal !== null) throw file.refusal;
    return file?.bytes;
  }

  /** The names that begin like this, in their order. */
  named(prefix) {
    return [...this.#files.keys()].filter((name) => name.startsWith(prefix));
  }

  /** Objects by `sha256:` name, as in a single bundle, for each of its maps. */
  get objects() {
    return Object.fromEntries(Object.keys(OBJECT_FOLDERS).map((folder) => [folder, this.#objectsOf(folder)]));
  }

  #objectsOf(folder) {
    const names = this.named(`${folder}/`).map((name) => [objectDigest(name), name]);
    return new Objects(this, new Map(names));
  }

  /** How many receipts there are, by their lines; of files that cannot be read none. */
  get receiptCount() {
    const sound = this.named("receipts/").map((name) => this.#files.get(name)).filter(({ refusal }) => refusal === null);
    return sound.reduce((sum, { bytes }) => sum + countLines(bytes), 0);
  }
}

/** One map of objects: what a check asks for and is not as its name says is refused there. */
class Objects {
  #period;
  #names;

  constructor(period, names) {
    this.#period = period;
    this.#names = names;
  }

  /** Whether there is one of this name. */
  has(digest) {
    return this.#names.has(digest);
  }

  get size() {
    return this.#names.size;
  }

  get(digest) {
    return this.#names.has(digest) ? this.#period.read(this.#names.get(digest)) : undefined;
  }

  *values() {
    for (const digest of this.#names.keys()) yield this.get(digest);
  }

  *[Symbol.iterator]() {
    for (const digest of this.#names.keys()) yield [digest, this.get(digest)];
  }
}

/** A member's content: of the size and with the checksum that its headers say. */
function unpacked(data, { name, content, packed, size, crc }) {
  let bytes;
  try {
    bytes = inflateRaw(data.subarray(content, content + packed), size);
  } catch (error) {
    throw error instanceof Refusal ? error.at(name) : error;
  }
  if (crc32(bytes) !== crc) {
    throw new Refusal("zip.content", "a member has another checksum than it says", { where: name });
  }
  return bytes;
}

async function demandAsListed(bytes, name, entry) {
  const digest = toHex(await sha256(bytes));
  if (digest !== entry.sha256) {
    const facts = { where: name, expected: entry.sha256, found: digest };
    throw new Refusal("period.digest", "a file is not the one that is listed", facts);
  }
  const claimed = objectDigest(name);
  if (claimed !== null && (await sha256Name(bytes)) !== claimed) {
    throw new Refusal("period.digest", "an object is not what its name says", { where: name });
  }
}

/** The manifest lists every file of the layout, in its size. */
function demandListed(held, listed, known) {
  const foreign = known.find(({ name }) => !listed.has(name));
  if (foreign !== undefined) {
    const facts = { where: foreign.name };
    throw new Refusal("period.manifest", "a file of the layout that the manifest does not list", facts);
  }
  for (const [name, { size }] of listed) {
    const found = held.get(name)?.size ?? size;
    if (found !== size) {
      const facts = { where: name, expected: size, found };
      throw new Refusal("period.digest", "a file of another size than is listed", facts);
    }
  }
}

function demandBounded(members) {
  const sizeOf = (chosen) => chosen.reduce((sum, { size }) => sum + size, 0);
  demandAtMost(MAX_UNPACKED, sizeOf(members), "bytes, unpacked");
  const entries = members.filter(({ name }) => name.startsWith("log/tile/entries/"));
  demandAtMost(MAX_LEAVES, Math.ceil(sizeOf(entries) / LEAF_BYTES), "leaves");
}

/** More is no forgery: it is *not made*, and the reader told who reads it. */
function demandAtMost(most, count, what) {
  if (count > most) {
    throw new NotMade(`an archive of ${count} ${what}: this verifier reads at most ${most}, \`affiant verify\` reads more`);
  }
}

function absentOf(held, listed) {
  return [...listed.keys()].filter((name) => !held.has(name)).sort();
}
