// Who ran which agent under which profile, what it used, what was refused and how it ended, by count.

const USES = ["user", "agent", "profile", "model", "host", "secret", "tool", "command", "refused", "end"];
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
  const first = record.member("ph") !== "outcome";
  if (kind === "session-start") {
    const who = hidden(record, "ini.sub") ?? `(known by ${record.member("ini", "method")})`;
    const agent = hidden(record, "agt.id") || undefined;
    return [use("user", who), use("agent", agent), use("profile", record.member("pol", "dig"))];
  }
  if (kind === "session-close") return [use("end", record.member("why"))];
  if (kind === "inference") return [use("model", record.member("mdl", "id"))];
  if (kind === "refusal") {
    const named = hidden(record, "act.name") || hidden(record, "act.tgt") || record.member("req", "p");
    return [use("refused", [record.member("rsn"), named].filter(Boolean).join(" "))];
  }
  if (kind === "egress" && record.member("ph") !== "intent") return [use("host", hostOf(hidden(record, "act.tgt")))];
  if (kind === "secret") return [use("secret", hidden(record, "act.name") || hidden(record, "sec[0].ref") || undefined)];
  if (kind === "tool" && first) return [use("tool", hidden(record, "act.name") || undefined)];
  if (kind === "exec" && first) return [use("command", hidden(record, "act.name") || undefined)];
  return [];
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
