// C2SP tlog-tiles: which files a log has, and how they are called.
//
//   tile/<L>/<N>[.p/<W>]          256 hashes of level 8 * L; partial: the first W
//   tile/entries/<N>[.p/<W>]      the leaves under tile 0/<N>, each behind its length in 2 bytes, big-endian
//
// <N> is written in groups of three digits, all but the last after an `x`: 1234067 is `x001/x234/067`.

import { Refusal } from "./refusals.mjs";

/** Hashes of a full tile, and leaves of a full entry bundle. */
export const WIDTH = 256;
/** The level of entry bundles, as it is spelled. */
export const ENTRIES = "entries";
const PATH = /^tile\/([0-7]|entries)\/((?:x[0-9]{3}\/){0,6}[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/;

/** `{level, index, width}` of the file at `path`; null: the layout has none of that name. */
export function parseTilePath(path) {
  const found = PATH.exec(path);
  if (found === null) return null;
  const [, level, place, partial] = found;
  const tile = {
    level: level === ENTRIES ? ENTRIES : Number(level),
    index: Number(place.replaceAll(/[/x]/g, "")),
    width: partial === undefined ? WIDTH : Number(partial),
  };
  const isSpelledOtherwise = place.startsWith("x000/") || (partial !== undefined && tile.width >= WIDTH);
  return isSpelledOtherwise ? null : tile;
}

/** Where a tile or an entry bundle stands. */
export function tilePath({ level, index, width = WIDTH }) {
  const groups = [String(index % 1000).padStart(3, "0")];
  for (let rest = Math.floor(index / 1000); rest > 0; rest = Math.floor(rest / 1000)) {
    groups.unshift(`x${String(rest % 1000).padStart(3, "0")}`);
  }
  const place = groups.join("/");
  return `tile/${level}/${width === WIDTH ? place : `${place}.p/${width}`}`;
}

/** The `width` leaves in the bytes of an entry bundle, and nothing else. */
export function splitEntries(data, width, where) {
  const leaves = [];
  let at = 0;
  while (at < data.length && leaves.length < width) {
    const begin = at + 2;
    at = begin + ((data[at] << 8) | data[at + 1]);
    if (begin > data.length || at > data.length) {
      throw new Refusal("log.tile", "an entry bundle is cut short", { where, found: `${leaves.length} whole leaves` });
    }
    leaves.push(data.subarray(begin, at));
  }
  if (leaves.length !== width || at !== data.length) {
    const facts = { where, expected: `${width} leaves`, found: leaves.length };
    throw new Refusal("log.tile", "an entry bundle of another width", facts);
  }
  return leaves;
}
