// The tree of one checkpoint, out of tiles that count for nothing by themselves (RFC 9162, section 2.1; C2SP tlog-tiles).
//
// 1. The partial tiles are the tree's right edge, at most one on each level: together they determine the root, and are
//    held against the checkpoint's first.
// 2. A full tile counts if the root over its 256 hashes is the hash that the tile above has for it, which counts itself.

import { sameBytes } from "./encoding.mjs";
import { nodeHash } from "./merkle.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { WIDTH, tilePath } from "./tiles.mjs";

const HASH = 32;
const LEVELS = 8;

/** A tree of `size` leaves, a number; `read(path)`: the bytes of a file of the log, or undefined. */
export class LogTree {
  #tiles = new Map();
  #read;

  constructor(size, read) {
    this.size = size;
    this.#read = read;
  }

  /** Refuses unless the right edge leads to `root` (1). Asked first. */
  async demandRoot(root) {
    if (this.size === 0) return; // the form of a checkpoint says which root that has
    const found = await this.rootAt(this.size);
    if (!sameBytes(found, root)) throw new Refusal("log.root", "the tiles are those of another tree");
  }

  /** The root over the first `size` leaves. */
  async rootAt(size) {
    const subtrees = [];
    let begin = 0;
    for (let width = 2 ** 52; width >= 1; width /= 2) {
      if (size - begin < width) continue;
      subtrees.push(await this.#subtree(begin, width));
      begin += width;
    }
    let root = subtrees.pop();
    while (subtrees.length > 0) root = await nodeHash(subtrees.pop(), root);
    return root;
  }

  /** The hashes of a tile of this tree. */
  async tile(level, index) {
    const name = `${level} ${index}`;
    if (!this.#tiles.has(name)) this.#tiles.set(name, await this.#verified(level, index));
    return this.#tiles.get(name);
  }

  /** Whether every tile is here that leads from the `index`-th of level 0 to the root. */
  shows(index) {
    let at = index;
    for (let level = 0; level < LEVELS; level += 1) {
      const width = this.#widthOf(level, at);
      if (width <= 0) return level > 0;
      if (pathsOf({ level, index: at, width }).every((path) => this.#read(path) === undefined)) return false;
      at = Math.floor(at / WIDTH);
    }
    return true;
  }

  async #verified(level, index) {
    const width = this.#widthOf(level, index);
    const hashes = this.#hashesOf({ level, index, width });
    if (width < WIDTH) return hashes;
    const above = (await this.tile(level + 1, Math.floor(index / WIDTH)))[index % WIDTH];
    if (!sameBytes(await rootOver(hashes), above)) {
      const where = tilePath({ level, index });
      throw new Refusal("log.root", "a tile is not the one that the tree has at its place", { where });
    }
    return hashes;
  }

  #hashesOf(tile) {
    const { bytes, width } = readPart(this.#read, tile, HASH);
    if (bytes.length !== width * HASH) {
      const facts = { where: tilePath(tile), expected: `${width * HASH} bytes`, found: bytes.length };
      throw new Refusal("log.tile", "a tile of another size", facts);
    }
    return Array.from({ length: tile.width }, (_, at) => bytes.subarray(at * HASH, (at + 1) * HASH));
  }

  /** The root of the complete subtree of `width` leaves, a power of two, from leaf `begin` on. */
  async #subtree(begin, width) {
    let [level, first, count] = [0, begin, width];
    for (; count >= WIDTH; level += 1) [first, count] = [first / WIDTH, count / WIDTH];
    const hashes = await this.tile(level, Math.floor(first / WIDTH));
    return rootOver(hashes.slice(first % WIDTH, (first % WIDTH) + count));
  }

  #widthOf(level, index) {
    return Math.min(WIDTH, Math.floor(this.size / WIDTH ** level) - index * WIDTH);
  }
}

/**
 * `{bytes, width}` of a tile or an entry bundle, of at most `each` bytes for one of its parts. A log may remove a partial
 * one once the full one stands: then that.
 */
export function readPart(read, tile, each) {
  for (const [path, width] of [[tilePath(tile), tile.width], [tilePath({ ...tile, width: WIDTH }), WIDTH]]) {
    const bytes = read(path);
    if (bytes === undefined) continue;
    if (bytes.length > width * each) {
      const facts = { where: path, expected: `at most ${width * each} bytes` };
      throw new Refusal("zip.too_large", "a file of the log is too large", facts);
    }
    return { bytes, width };
  }
  throw new NotMade(`the archive lacks a tile of the log: ${tilePath(tile)}`);
}

/** Where a tile may stand: under its own name, or as the full one that replaced it. */
export function pathsOf(tile) {
  return [tilePath(tile), tilePath({ ...tile, width: WIDTH })];
}

/** The root over a power of two of hashes. */
async function rootOver(hashes) {
  let row = hashes;
  while (row.length > 1) {
    const above = [];
    for (let at = 0; at < row.length; at += 2) above.push(nodeHash(row[at], row[at + 1]));
    row = await Promise.all(above);
  }
  return row[0];
}
