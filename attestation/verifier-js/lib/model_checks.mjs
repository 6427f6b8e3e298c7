// L1, the models: whether each answer names the model that was asked for.

import { configOf } from "./evidence_checks.mjs";
import { held } from "./verdict.mjs";

/** Pairs of models that the row names; it counts the others. */
const SHOWN = 3;

/**
 * `model.answered`: each answer names the model that was asked for, or an alias of it in the gateway's measured
 * configuration (so only where `conf.bound` held); any other name is a warning.
 */
export async function checkAnswered(subject) {
  subject.need("sig.receipts");
  const others = new Map();
  const where = [];
  let named = 0;
  let unnamed = 0;
  for (const party of subject.gateways) {
    const aliases = subject.established.has("conf.bound") ? ((await configOf(subject, party)).model_aliases ?? {}) : {};
    for (const record of party.records.filter(({ kind }) => kind === "inference")) {
      const { id, ans } = record.member("mdl");
      if (typeof ans !== "string") {
        unnamed += isAnswer(record) ? 1 : 0;
        continue;
      }
      named += 1;
      const known = Object.hasOwn(aliases, id) ? aliases[id] : [];
      if (ans === id || known.includes(ans)) continue;
      const pair = JSON.stringify([id, ans]);
      others.set(pair, { id, ans, count: (others.get(pair)?.count ?? 0) + 1 });
      where.push(record.jti);
    }
  }
  const rest = unnamed > 0 ? `; answers that name no model: ${unnamed}` : "";
  if (others.size === 0) return held(`answers that name the model that was asked for: ${named}${rest}`);
  const told = `${where.length} of ${named} (${pairsOf(others)})${rest}`;
  const text = `answers that name another model than was asked for: ${told}`;
  return held(text, { tier: "warning", where });
}

/** Whether a whole answer of a model was passed on: an error of the upstream names none. */
function isAnswer(record) {
  const status = record.member("res", "st");
  return record.member("res", "end") === "complete" && status >= 200 && status < 300;
}

/** What was asked for and what answered, sorted. */
function pairsOf(others) {
  const pairs = [...others.values()].sort((one, other) => compare(one.id, other.id) || compare(one.ans, other.ans));
  const shown = pairs
    .slice(0, SHOWN)
    .map(({ id, ans, count }) => `asked ${cut(id)}, answered ${cut(ans)}: ${count}`);
  const more = pairs.length - SHOWN;
  return shown.join("; ") + (more > 0 ? `; more pairs: ${more}` : "");
}

function compare(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** At most 80 characters. */
function cut(text) {
  return [...text].slice(0, 80).join("");
}
