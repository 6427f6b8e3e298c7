// L1, the models: whether each answer names the model that was asked for.

import { questioned } from "./case.mjs";
import { Answers, counting } from "./counted.mjs";
import { configOf } from "./evidence_checks.mjs";

/**
 * `model.answered`: each answer names the model that was asked for, or an alias of it in the gateway's measured
 * configuration (so only where `conf.bound` held); any other name is a warning. Of the sessions in question.
 */
export async function checkAnswered(subject) {
  subject.need("sig.receipts");
  const found = new Answers();
  const where = [];
  const wanted = questioned(subject);
  for (const party of subject.gateways) {
    const aliases = subject.established.has("conf.bound") ? ((await configOf(subject, party)).model_aliases ?? {}) : {};
    for (const record of party.records) {
      if (record.kind !== "inference" || !wanted.has(record.member("agt", "ses"))) continue;
      const { id, ans } = record.member("mdl");
      if (typeof ans !== "string") {
        found.unnamed += isAnswer(record) ? 1 : 0;
        continue;
      }
      found.named += 1;
      const known = Object.hasOwn(aliases, id) ? aliases[id] : [];
      if (ans === id || known.includes(ans)) continue;
      found.other(id, ans);
      where.push(record.jti);
    }
  }
  return counting(found, { tier: where.length > 0 ? "warning" : "affirming", where });
}

/** Whether a whole answer of a model was passed on: an error of the upstream names none. */
function isAnswer(record) {
  const status = record.member("res", "st");
  return record.member("res", "end") === "complete" && status >= 200 && status < 300;
}
