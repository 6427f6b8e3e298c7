// The event log: what was extended into the RTMRs, in order. Digests are computed from name and payload, never carried.

import { sha384 } from "./cryptography.mjs";
import { concat } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { canonical, isObject, parseCanonical } from "./strict_json.mjs";

const MAX_EVENTS = 10_000;
const MAX_BYTES = 8 * 1024 * 1024;

/** The events in `bytes`: `[{rtmr, name, payload}]`; a claim until they replay to a quote's registers. */
export function parseEventLog(bytes) {
  const { typ, events, ...more } = read(bytes);
  if (typ !== "affiant-eventlog/1" || Object.keys(more).length > 0) throw malformed("event log of another form");
  if (!Array.isArray(events) || events.length > MAX_EVENTS) throw malformed("events are no array, or too many");
  return events.map((entry, index) => {
    const where = `events[${index}]`;
    if (!isObject(entry) || Object.keys(entry).sort().join() !== "name,payload,rtmr") {
      throw malformed("event of another form", where);
    }
    const { rtmr, name, payload } = entry;
    if (typeof name !== "string" || !/^[a-z0-9][a-z0-9.-]{0,63}$/.test(name) || !isObject(payload)) {
      throw malformed("name of another form, or payload no object", where);
    }
    if (![0, 1, 2, 3].includes(rtmr)) throw malformed("no such register", where);
    return { rtmr, name, payload };
  });
}

/** The 48 bytes that are extended for an event. */
export function eventDigest({ name, payload }) {
  return sha384(canonical({ typ: "affiant-event/1", name, payload }));
}

/** The 48 bytes that a register holds after `events`: R = SHA-384(R || digest), from zero. */
export async function replay(events) {
  let register = new Uint8Array(48);
  for (const event of events) register = await sha384(concat(register, await eventDigest(event)));
  return register;
}

function read(bytes) {
  let value = null;
  try {
    value = parseCanonical(bytes, { limit: MAX_BYTES });
  } catch {
    // The refusal below says it.
  }
  if (!isObject(value)) throw malformed("event log is not canonical JSON");
  return value;
}

function malformed(message, where) {
  return new Refusal("eventlog.malformed", message, { where });
}
