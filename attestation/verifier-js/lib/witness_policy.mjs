// Which witnesses make a checkpoint count (C2SP tlog-policy).

import { isCosignatureKey, timeOfCosignature } from "./cosignature.mjs";
import { utf8 } from "./encoding.mjs";
import { parseCheckpoint } from "./log_proof.mjs";
import { parseVkey, verifyNote } from "./note.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_BYTES = 1 << 20;
const MAX_LINES = 1024;
const NONE = "none";
/** The name of a witness that is run by whoever runs the log. */
const SELF = "self";

/** The policy in `text`: `{logs, witnesses: Map(name -> key with url), groups, quorum}`; refuses other text. */
export async function parseWitnessPolicy(text) {
  if (utf8(text).length > MAX_BYTES || /[\u0000-\u0008\u000b-\u001f\u007f]/.test(text) || !text.isWellFormed()) {
    throw malformed("not a witness policy");
  }
  const rows = text.split("\n");
  if (rows.length > MAX_LINES) throw malformed("too many lines");
  const policy = { logs: [], witnesses: new Map(), groups: [], members: new Set(), quorum: null };
  for (const row of rows) {
    const words = row.split(/[ \t]+/).filter((word) => word !== "");
    if (words.length > 0 && !words[0].startsWith("#")) await readLine(policy, words);
  }
  if (policy.quorum === null) throw malformed("a policy without a quorum");
  return policy;
}

/** Whether the witnesses named in `cosigned`, a set, are a quorum. */
export function satisfied(policy, cosigned) {
  const counted = new Set(cosigned);
  for (const { name, threshold, members } of policy.groups) {
    if (members.filter((member) => counted.has(member)).length >= threshold) counted.add(name);
  }
  return policy.quorum === NONE || counted.has(policy.quorum);
}

/**
 * `{size, times, independent, notBefore, notAfter}` of a note that `logKey` has signed and the policy's quorum has cosigned;
 * null where too few have. Times are BigInts, seconds since 1970. `independent`: the quorum stands without SELF.
 */
export async function cosignedBy(note, policy, logKey) {
  const checkpoint = parseCheckpoint(note.text);
  if (checkpoint.origin !== logKey.name) throw new Refusal("note.signature", "no known key has signed");
  await verifyNote(note, logKey);
  const times = new Map();
  for (const line of note.signatures) {
    for (const [name, key] of policy.witnesses) {
      if (key.name !== line.name || key.id !== line.id) continue;
      times.set(name, await timeOfCosignature(note.text, checkpoint, key, line));
    }
  }
  if (!satisfied(policy, times.keys())) return null;
  const ascending = [...new Set(times.values())].sort((one, other) => (one < other ? -1 : 1));
  const backed = (candidates, side) =>
    candidates.find((time) => satisfied(policy, [...times].filter(([, each]) => side(each, time)).map(([name]) => name)));
  return {
    size: checkpoint.size,
    times,
    independent: satisfied(
      policy,
      [...times.keys()].filter((name) => name !== SELF),
    ),
    notBefore: backed(ascending.toReversed(), (each, time) => each >= time),
    notAfter: backed(ascending, (each, time) => each <= time),
  };
}

async function readLine(policy, words) {
  const [verb, ...rest] = words;
  if (verb === "log" && (rest.length === 1 || rest.length === 2)) return readLog(policy, rest[0]);
  if (verb === "witness" && (rest.length === 2 || rest.length === 3)) return readWitness(policy, rest);
  if (verb === "group" && rest.length >= 3) return readGroup(policy, rest);
  if (verb === "quorum" && rest.length === 1) return readQuorum(policy, rest[0]);
  throw malformed("not a line of a witness policy");
}

async function readLog(policy, vkey) {
  const key = await parseVkey(vkey);
  if (!key?.isLog || policy.logs.some((known) => same(known, key))) throw malformed("not a log's key, or one twice");
  policy.logs.push(key);
}

async function readWitness(policy, [name, vkey, url]) {
  const key = await parseVkey(vkey);
  if (!key || !isCosignatureKey(key)) throw malformed("not a witness's key");
  if ([...policy.witnesses.values()].some((known) => same(known, key))) throw malformed("a witness's key stands twice");
  demandNew(policy, name);
  policy.witnesses.set(name, { ...key, url: url ?? null });
}

function readGroup(policy, [name, word, ...members]) {
  demandNew(policy, name);
  for (const member of members) {
    demandKnown(policy, member);
    if (policy.members.has(member)) throw malformed("a member of two groups");
    policy.members.add(member);
  }
  const words = { any: 1, all: members.length };
  if (!Object.hasOwn(words, word) && !/^[1-9][0-9]{0,3}$/.test(word)) throw malformed("not a threshold");
  const threshold = Object.hasOwn(words, word) ? words[word] : Number(word);
  if (threshold > members.length) throw malformed("a threshold over the number of members");
  policy.groups.push({ name, threshold, members });
}

function readQuorum(policy, name) {
  if (policy.quorum !== null) throw malformed("a second quorum");
  if (name !== NONE) demandKnown(policy, name);
  policy.quorum = name;
}

function demandNew(policy, name) {
  if (name === NONE || isKnown(policy, name)) throw malformed("a name that is taken");
}

function demandKnown(policy, name) {
  if (!isKnown(policy, name)) throw malformed("a name that does not stand above");
}

function isKnown(policy, name) {
  return policy.witnesses.has(name) || policy.groups.some((group) => group.name === name);
}

function same(one, other) {
  return one.publicKey.length === other.publicKey.length && one.publicKey.every((byte, at) => byte === other.publicKey[at]);
}

function malformed(message) {
  return new Refusal("trust.malformed", message, { where: "witnesses" });
}
