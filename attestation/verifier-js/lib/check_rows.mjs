// What becomes of a check: the row of what it found, of what it refused, or of why it was not made.

import { NotAsked, NotMade, NotPinned, Refusal } from "./refusals.mjs";
import { makeRow } from "./verdict.mjs";

/** Whether the trust file asks for the check with a code; absent requirements mean all (trust rules, 12). */
export function requirementsOf(trust) {
  return (code) => trust.require === null || trust.require.has(code);
}

/** One check of a case. */
export async function run(subject, code, level, required, check) {
  const row = await made(code, level, required, () => check(subject));
  if (row.state === "held") subject.established.add(code);
  return row;
}

/** A row from what a check found, or threw. A mistake of ours refuses the bundle, and is never passed over. */
export async function made(code, level, required, step) {
  const known = { required: required(code) };
  try {
    const { detail, tier, where, counted } = await step();
    return makeRow(code, level, "held", tier, detail, { ...known, where, counted });
  } catch (error) {
    if (error instanceof NotAsked) return notAsked(code, level, error.message, required(code));
    if (error instanceof NotMade) {
      return makeRow(code, level, "not made", error instanceof NotPinned ? null : "none", error.message, known);
    }
    const refusal = error instanceof Refusal ? error : fault(error);
    const facts = { ...known, reason: refusal.code, where: refusal.places };
    return makeRow(code, level, "refused", "contraindicated", refusal.text, facts);
  }
}

function fault(error) {
  const name = error instanceof Error ? error.constructor.name : typeof error;
  return new Refusal("verifier.fault", "the verifier failed on this bundle", { found: name });
}

/** The row of a check that nobody asks for. */
export function notAsked(code, level, detail, required) {
  return makeRow(code, level, "not asked", null, detail, { required });
}
