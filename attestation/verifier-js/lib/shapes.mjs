// Shapes of JSON values as data, and a reader that refuses everything else. A shape is a JSON value itself:
//
//   {"text": 256}                                 text of 1 to 256 characters, no control characters
//   {"pattern": "..."}                            text that matches as a whole
//   {"const": v}  {"enum": [...]}                 exactly this; one of these
//   {"int": [least, most]}                        an integer
//   {"array": shape, "least": n, "most": n}
//   {"map": shape, "name": pattern, "most": n}    an object with names of one form
//   {"object": {...}, "optional": {...}, "sd": n, "hidden": {...}}   closed; always n digests under `_sd`
//   {"nullable": shape}
//   {"any": true}                                 judged by whoever reads it

import { Refusal } from "./refusals.mjs";
import { isObject } from "./strict_json.mjs";

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const patterns = new Map();

/** Refuses (`fmt.profile`) unless `value` has this shape. */
export function checkShape(shape, value, where) {
  for (const [kind, check] of Object.entries(CHECKS)) {
    if (Object.hasOwn(shape, kind)) return check(shape, value, where);
  }
  throw new TypeError("no such shape");
}

/** The shape of one member, or undefined. */
export function memberShape(shape, name) {
  if (Object.hasOwn(shape.object, name)) return shape.object[name];
  return shape.optional && Object.hasOwn(shape.optional, name) ? shape.optional[name] : undefined;
}

const CHECKS = {
  text(shape, value, where) {
    if (typeof value !== "string") throw wrong("not text", where);
    const length = value.length <= shape.text ? value.length : [...value].length;
    if (length < 1 || length > shape.text) throw wrong("not text of this size", where, `at most ${shape.text}`);
    if (CONTROL.test(value)) throw wrong("text with control characters", where);
  },
  pattern(shape, value, where) {
    if (typeof value !== "string" || !matches(shape.pattern, value)) {
      throw wrong("text of another form", where, shape.pattern);
    }
  },
  const(shape, value, where) {
    if (value !== shape.const) throw wrong("another value", where, JSON.stringify(shape.const));
  },
  enum(shape, value, where) {
    if (!shape.enum.includes(value)) throw wrong("a value outside the closed set", where, shape.enum.join(", "));
  },
  int(shape, value, where) {
    const [least, most] = shape.int;
    if (!Number.isSafeInteger(value) || value < least || value > most) {
      throw wrong("not such an integer", where, `${least} to ${most}`);
    }
  },
  array(shape, value, where) {
    if (!Array.isArray(value) || value.length < (shape.least ?? 0) || value.length > shape.most) {
      throw wrong("not such an array", where);
    }
    value.forEach((item, index) => checkShape(shape.array, item, `${where}[${index}]`));
  },
  map(shape, value, where) {
    if (!isObject(value) || Object.keys(value).length > shape.most) throw wrong("not such an object", where);
    for (const [name, item] of Object.entries(value)) {
      if (!matches(shape.name, name)) throw wrong("a member name of another form", where);
      checkShape(shape.map, item, `${where}.${name}`);
    }
  },
  object(shape, value, where) {
    if (!isObject(value)) throw wrong("not an object", where);
    for (const name of Object.keys(shape.object)) {
      if (!(name in value)) throw wrong("a required member is missing", where, name);
    }
    for (const [name, item] of Object.entries(value)) {
      if (name === "_sd" && shape.sd) continue;
      const inner = memberShape(shape, name);
      if (inner === undefined) throw wrong("a member that the profile does not list", where, undefined, name);
      checkShape(inner, item, `${where}.${name}`);
    }
    if (shape.sd) checkDigests(value._sd, shape.sd, where);
  },
  any() {},
  nullable(shape, value, where) {
    if (value !== null) checkShape(shape.nullable, value, where);
  },
};

/** `_sd`: always as many digests as the table says, sorted, so that neither number nor order tells anything. */
function checkDigests(digests, count, where) {
  if (!Array.isArray(digests) || digests.length !== count) {
    throw wrong("not the fixed number of _sd digests", where, count);
  }
  digests.forEach((digest, index) => {
    if (typeof digest !== "string" || !/^[A-Za-z0-9_-]{43}$/.test(digest)) {
      throw wrong("text of another form", `${where}._sd`);
    }
    if (index > 0 && digests[index - 1] >= digest) throw wrong("_sd digests not sorted, or repeated", where);
  });
}

function matches(pattern, text) {
  if (!patterns.has(pattern)) patterns.set(pattern, new RegExp(`^(?:${pattern})$`, "u"));
  return patterns.get(pattern).test(text);
}

function wrong(message, where, expected, found) {
  return new Refusal("fmt.profile", message, { where, expected, found: found?.slice(0, 40) });
}
