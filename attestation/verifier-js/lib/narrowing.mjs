// Narrowings of a running session's profile: what follows the barrier in its RTMR3, one event each. Whether a profile is
// narrower than the one before is not judged: the measured supervisor and the measured gateway compared the two.

import { Refusal } from "./refusals.mjs";

export const MAX_NARROWINGS = 64; // of one session

const EVENT = "affiant-policy";
const MEMBERS = {
  dig: (value) => isName(value, /^sha384:[0-9a-f]{96}$/),
  epoch: (value) => Number.isInteger(value) && value >= 1 && value <= MAX_NARROWINGS,
  fil: (value) => isName(value, /^sha256:[0-9a-f]{64}$/),
  old: (value) => isName(value, /^sha384:[0-9a-f]{96}$/),
};

/** Where the profile of an epoch is bound: `pol.bind` of its records. */
export function bindingOf(epoch) {
  return epoch === 0 ? "mrconfigid" : "rtmr3";
}

/** The event of a narrowing `{dig, epoch, fil, old}`. */
export function eventOf({ dig, epoch, fil, old }) {
  return { name: EVENT, payload: { dig, epoch, fil, old } };
}

/** The narrowings that these events are, in order; `first`: digest of the profile that the manifest binds. */
export function parseNarrowings(events, first) {
  if (events.length > MAX_NARROWINGS) throw new Refusal("narrowing.event", "more restrictions than a session may have");
  const narrowings = [];
  for (const [index, { name, payload }] of events.entries()) {
    const where = `narrowings[${index + 1}]`;
    if (name !== EVENT) {
      throw new Refusal("narrowing.event", "an event after the barrier that is no restriction", { where, found: name });
    }
    if (Object.keys(payload).sort().join() !== Object.keys(MEMBERS).join()) {
      throw new Refusal("narrowing.malformed", "a restriction of another form", { where });
    }
    const wrong = Object.keys(MEMBERS).find((member) => !MEMBERS[member](payload[member]));
    if (wrong) throw new Refusal("narrowing.malformed", `not such a value: ${wrong}`, { where });
    demandNext(payload, narrowings, first, where);
    narrowings.push(payload);
  }
  return narrowings;
}

/** Refuses a narrowing that may not follow those before it. */
export function demandNext({ dig, epoch, old }, before, first, where) {
  if (before.length === MAX_NARROWINGS) {
    throw new Refusal("narrowing.event", "more restrictions than a session may have", { where });
  }
  const had = [first, ...before.map((each) => each.dig)];
  if (epoch !== had.length) throw outOfOrder("not the next epoch", where);
  if (old !== had.at(-1)) throw outOfOrder("replaces another profile than the one in force", where);
  if (had.includes(dig)) throw outOfOrder("a profile that the session had before", where);
}

function outOfOrder(message, where) {
  return new Refusal("narrowing.order", message, { where });
}

function isName(value, form) {
  return typeof value === "string" && form.test(value);
}
