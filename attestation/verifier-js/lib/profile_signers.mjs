// Whose signatures over profiles a gateway's configuration demands, each with its time. Read in one form.

import { areOnce, isSigner } from "./profile_signer.mjs";
import { Refusal } from "./refusals.mjs";
import { isObject } from "./strict_json.mjs";
import { parseInstant } from "./trust_file.mjs";

const PERIOD = ["from", "until", "revoked_at"];

/** Refuses (`fmt.profile`) unless `items` is a list of 1 to 16 signers, each once, each with its time. */
export function demandSigners(items, where) {
  const refusal = new Refusal("fmt.profile", "not a list of profile signers", { where });
  if (!Array.isArray(items) || items.length < 1 || items.length > 16) throw refusal;
  for (const item of items) {
    if (!isObject(item) || !("value" in item) || !isPeriod(item) || !isSigner(item.value)) throw refusal;
  }
  if (!areOnce(items.map((item) => item.value))) throw refusal;
}

function isPeriod({ value, ...period }) {
  return Object.entries(period).every(([name, text]) => PERIOD.includes(name) && isInstant(text));
}

function isInstant(text) {
  try {
    return typeof text === "string" && Number.isSafeInteger(parseInstant(text));
  } catch (error) {
    if (error instanceof Refusal) return false;
    throw error;
  }
}
