// Who ran which agent under which profile, what it used, what was refused and how it ended, by count.

import { ENDS } from "./record_table.mjs";

/** What a session belongs to, where its starter says so. */
export const TASK_LABEL = ["workflow", "task", "attempt", "parent"];
const USES = [
  ...["user", "known_by", "agent", "profile", ...TASK_LABEL],
  ...["model", "host", "secret", "tool", "command", "file", "port", "refused", "end"],
];
/** A gateway's record has a digest in a name's place: the gateway is not told names. */
const COMMITMENT = /^[A-Za-z0-9_-]{43}$/;
const MAX_EACH = 100;
const MAX_TEXT = 255;
const UNDISCLOSED = "(not disclosed)";

/** The member `summary` of the verdict document, of records that are all authentic. */
export function summaryOf(records) {
  const counts = new Map();
  const more = {};
  for (const record of records) {
    for (const [what, name] of usesOf(record)) {
      if (!counts.has(what)) counts.set(what, new Map());
      const names = counts.get(what);
      if (names.has(name) || names.size < MAX_EACH) names.set(name, (names.get(name) ?? 0) + 1);
      else more[what] = (more[what] ?? 0) + 1;
    }
  }
  const times = records.map(({ iat }) => iat);
  const least = (one, other) => (other < one ? other : one);
  const most = (one, other) => (other > one ? other : one);
  return {
    began: times.length === 0 ? null : times.reduce(least),
    ended: times.length === 0 ? null : times.reduce(most),
    uses: Object.fromEntries(
      USES.filter((what) => counts.has(what)).map((what) => [what, Object.fromEntries(counts.get(what))]),
    ),
    more,
  };
}

/** What one record says was used, refused or ended: pairs of one of `USES` and a name. */
function usesOf(record) {
  const { kind } = record;
  const begins = !ENDS.includes(record.member("ph"));
  if (kind === "session-start") {
    const named = namesIn(record, { user: "ini.sub", agent: "agt.id" }).filter(([, name]) => !COMMITMENT.test(name));
    const label = TASK_LABEL.filter((what) => record.disclosed.has(`tsk.${what}`));
    return [
      use("known_by", record.member("ini", "method")),
      use("profile", record.member("pol", "dig")),
      ...named,
      ...label.map((what) => use(what, record.disclosed.get(`tsk.${what}`))),
    ];
  }
  if (kind === "session-close") return [use("end", record.member("why"))];
  if (kind === "inference") return [use("model", record.member("mdl", "id"))];
  if (kind === "refusal") {
    const named = hidden(record, "act.name") || hidden(record, "act.tgt") || record.member("req", "p");
    return [use("refused", [record.member("rsn"), named].filter(Boolean).join(" "))];
  }
  if (kind === "egress" && record.member("ph") !== "intent") return [use("host", hostOf(hidden(record, "act.tgt")))];
  if (kind === "secret") return [use("secret", hidden(record, "act.name") || hidden(record, "sec[0].ref") || undefined)];
  if (kind === "tool" && begins) return [use("tool", hidden(record, "act.name") || undefined)];
  if (kind === "exec" && begins) {
    const named = namesIn(record, { user: "agt.user", agent: "agt.id" });
    return [use("command", hidden(record, "act.name") || undefined), ...named];
  }
  if (kind === "file" && begins) return [use("file", record.member("mov", "dir"))];
  if (kind === "port" && begins) return [use("port", record.disclosed.get("prt.num"))];
  return [];
}

/** What is disclosed of `members`: use -> path. */
function namesIn(record, members) {
  return Object.entries(members)
    .filter(([, path]) => hidden(record, path) !== undefined)
    .map(([what, path]) => use(what, hidden(record, path)));
}

function use(what, name) {
  return [what, name === undefined ? UNDISCLOSED : [...String(name)].slice(0, MAX_TEXT).join("")];
}

/** A disclosed text, or undefined. */
function hidden(record, path) {
  const value = record.disclosed.get(path);
  return typeof value === "string" ? value : undefined;
}

/** The host of `METHOD https://host/path` or `host:port`. */
function hostOf(target) {
  if (target === undefined) return undefined;
  const address = target.slice(target.lastIndexOf(" ") + 1);
  const past = address.indexOf("://") + 3;
  const authority = ((past > 2 && address.slice(past)) || address).split(/[/?#]/)[0];
  const bare = authority.slice(authority.lastIndexOf("@") + 1);
  const host = bare.startsWith("[") ? bare.slice(1).split("]")[0] : bare.split(":")[0];
  return host.toLowerCase() || address;
}
