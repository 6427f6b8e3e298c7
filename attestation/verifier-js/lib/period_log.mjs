// The log of a period bundle under its checkpoint: which leaves it shows, and which other checkpoints are of its tree.

import { fromUtf8, sameBytes } from "./encoding.mjs";
import { parseLeaf } from "./log_leaf.mjs";
import { parseCheckpoint } from "./log_proof.mjs";
import { LogTree, pathsOf, readPart } from "./log_tree.mjs";
import { leafHash } from "./merkle.mjs";
import { parseNote, verifyNote } from "./note.mjs";
import { CHECKPOINT } from "./period_layout.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { ENTRIES, WIDTH, parseTilePath, splitEntries, tilePath } from "./tiles.mjs";

/** Bytes of a leaf behind its length. */
const BUNDLED = 2 + 66;
const FOLDER = "log/";

/** The log that every gateway here names: `{origin, vkey, key}`. */
export function oneLogOf(gateways) {
  const logs = new Map();
  for (const { statement } of gateways) {
    if (statement.log === null) throw new NotMade("a keyset of a gateway names no log");
    logs.set(`${statement.log.origin} ${statement.log.vkey}`, statement.log);
  }
  if (logs.size === 0) throw new NotMade("a keyset of a gateway names no log");
  if (logs.size > 1) throw new NotMade("gateways of several logs, or log keys, in one archive: this version judges one");
  return logs.values().next().value;
}

/** The log part of an archive as `log` has signed it: `{log, newest, size, tree}`. */
export async function openLog(period, log) {
  const bytes = period.read(CHECKPOINT);
  if (bytes === undefined) throw new NotMade("the archive has no checkpoint of the log");
  const newest = await notedIn(bytes, log);
  const size = Number(newest.checkpoint.size);
  if (!Number.isSafeInteger(size)) throw new NotMade("a log of more than 2**53 leaves is not read");
  const tree = new LogTree(size, (path) => period.read(`${FOLDER}${path}`));
  await tree.demandRoot(newest.checkpoint.root);
  return { log, newest, size, tree };
}

/**
 * The leaves that are shown, in their order: `{index, stretch, data, ...leaf}`, each held against the tree. Leaves of one
 * `stretch` stand side by side in the log.
 */
export async function leavesOf(period, { tree, size }, table) {
  const leaves = [];
  let stretch = -1;
  let before = null;
  for (const index of shownBundles(period, tree, size)) {
    if (before === null || index !== before + 1) stretch += 1;
    before = index;
    const width = Math.min(WIDTH, size - index * WIDTH);
    for (const [at, data] of (await bundleOf(period, tree, { level: ENTRIES, index, width })).entries()) {
      leaves.push({ index: index * WIDTH + at, stretch, data, ...parseLeaf(data, table) });
    }
  }
  return leaves;
}

/**
 * The checkpoints beside the newest one: `{noted, refusals, undecided}`. `noted`: of this tree; `refusals`: of those
 * that are not; `undecided`: how many cannot be told.
 */
export async function otherCheckpoints(period, { log, tree, size }) {
  const found = { noted: [], refusals: [], undecided: 0 };
  for (const [name, claimed] of checkpointNames(period)) {
    try {
      const noted = await notedIn(period.read(name), log);
      if (noted.checkpoint.size !== claimed) {
        const facts = { expected: claimed, found: noted.checkpoint.size };
        throw new Refusal("log.unbound", "a checkpoint of another size than its name says", facts);
      }
      await demandOneTree(tree, size, noted.checkpoint);
      found.noted.push(noted);
    } catch (error) {
      if (error instanceof NotMade) found.undecided += 1;
      else if (error instanceof Refusal) found.refusals.push(error);
      else throw error;
    }
  }
  return found;
}

async function demandOneTree(tree, size, checkpoint) {
  if (checkpoint.size > BigInt(size)) throw new NotMade("a checkpoint that is newer than the archive's log");
  const older = Number(checkpoint.size);
  if (older > 0 && !sameBytes(await tree.rootAt(older), checkpoint.root)) {
    const facts = { found: `${older} leaves`, where: checkpoint.origin };
    throw new Refusal("log.split_view", "two roots over the same number of leaves", facts);
  }
}

/** A note that `log` has signed: `{bytes, note, noteText, checkpoint}`. */
async function notedIn(bytes, log) {
  const note = parseNote(bytes);
  await verifyNote(note, log.key);
  const checkpoint = parseCheckpoint(note.text);
  if (checkpoint.origin !== log.origin) {
    throw new Refusal("log.unbound", "a checkpoint of another log", { found: checkpoint.origin.slice(0, 60) });
  }
  return { bytes, note, noteText: fromUtf8(bytes), checkpoint };
}

/** `checkpoints/<size>.note` with its size, ascending. */
function checkpointNames(period) {
  const names = period.named("checkpoints/").map((name) => [name, BigInt(/[0-9]+/.exec(name)[0])]);
  return names.sort(([, one], [, other]) => (one < other ? -1 : 1));
}

/** The entry bundles that are here with every tile that leads to the root, ascending. */
function shownBundles(period, tree, size) {
  const named = period.named(`${FOLDER}tile/${ENTRIES}/`).map((name) => parseTilePath(name.slice(FOLDER.length)));
  const indices = [...new Set(named.map(({ index }) => index))].sort((one, other) => one - other);
  return indices.filter((index) => {
    const width = Math.min(WIDTH, size - index * WIDTH);
    if (width <= 0 || !tree.shows(index)) return false;
    return pathsOf({ level: ENTRIES, index, width }).some((path) => period.read(`${FOLDER}${path}`) !== undefined);
  });
}

async function bundleOf(period, tree, bundle) {
  const { bytes, width } = readPart((path) => period.read(`${FOLDER}${path}`), bundle, BUNDLED);
  const where = tilePath(bundle);
  const leaves = splitEntries(bytes, width, where).slice(0, bundle.width);
  const hashes = await tree.tile(0, bundle.index);
  for (const [at, leaf] of leaves.entries()) {
    if (!sameBytes(await leafHash(leaf), hashes[at])) {
      const place = `${where}, leaf ${bundle.index * WIDTH + at}`;
      throw new Refusal("log.leaf", "an entry bundle holds another leaf than the tree", { where: place });
    }
  }
  return leaves;
}
