// JSON as this profile has it (RFC 8259, RFC 8785): objects, arrays, text, integers within +-(2**53 - 1), true, false,
// null.
//
// `JSON.parse` keeps the last of two members with one name, reads floats, and says nothing of depth; so the reader is
// our own. Objects are made without a prototype: a member called `__proto__` or `constructor` is a member like others.
// A document is canonical if encoding its value again gives its very bytes: that one comparison refuses white space,
// other spellings of numbers and escapes, another order, and lone surrogates.

import { fromUtf8, sameBytes, utf8 } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_DEPTH = 32;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)/y;
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** The value of a document in any layout; `limit` in bytes. */
export function parseStrict(bytes, { limit = 1 << 20 } = {}) {
  if (bytes.length > limit) throw refused("document too large", `at most ${limit} bytes`);
  const text = fromUtf8(bytes);
  if (text === null) throw refused("not UTF-8");
  return new Reader(text).document();
}

/** The value of a document that is byte for byte its own canonical form. */
export function parseCanonical(bytes, { limit = 1 << 20 } = {}) {
  const value = parseStrict(bytes, { limit });
  if (!sameBytes(canonical(value), bytes)) {
    throw refused("not the canonical form of its own value (RFC 8785)");
  }
  return value;
}

/** The RFC 8785 bytes of a value. Members are sorted by UTF-16 code units, which is the order of `sort`. */
export function canonical(value) {
  return utf8(written(value, 0));
}

/** Whether a parsed value is an object. */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function written(value, depth) {
  if (depth > MAX_DEPTH) throw refused("nested too deep", `at most ${MAX_DEPTH} levels`);
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw refused("text holds a lone surrogate");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw refused("not an integer within 2**53 - 1");
    return String(value === 0 ? 0 : value);
  }
  if (Array.isArray(value)) return `[${value.map((item) => written(item, depth + 1)).join(",")}]`;
  if (!isObject(value)) throw refused("value has no canonical form");
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${written(name, depth)}:${written(value[name], depth + 1)}`).join(",")}}`;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.index = 0;
    this.depth = 0;
  }

  document() {
    const value = this.value();
    this.space();
    if (this.index !== this.text.length) throw this.wrong("more after the document");
    return value;
  }

  value() {
    this.space();
    const mark = this.text[this.index];
    if (mark === "{") return this.nested(() => this.object());
    if (mark === "[") return this.nested(() => this.array());
    if (mark === '"') return this.string();
    for (const [word, value] of [["true", true], ["false", false], ["null", null]]) {
      if (this.text.startsWith(word, this.index)) {
        this.index += word.length;
        return value;
      }
    }
    return this.integer();
  }

  nested(read) {
    this.depth += 1;
    if (this.depth > MAX_DEPTH) throw refused("nested too deep", `at most ${MAX_DEPTH} levels`);
    this.index += 1;
    const value = read();
    this.depth -= 1;
    return value;
  }

  object() {
    const members = Object.create(null);
    if (this.closed("}")) return members;
    for (;;) {
      this.space();
      if (this.text[this.index] !== '"') throw this.wrong("a member has no name");
      const name = this.string();
      if (name in members) throw refused("a member stands twice", undefined, name.slice(0, 40));
      this.space();
      if (this.text[this.index] !== ":") throw this.wrong("a member has no value");
      this.index += 1;
      members[name] = this.value();
      if (this.closed("}")) return members;
      this.comma();
    }
  }

  array() {
    const items = [];
    if (this.closed("]")) return items;
    for (;;) {
      items.push(this.value());
      if (this.closed("]")) return items;
      this.comma();
    }
  }

  closed(mark) {
    this.space();
    if (this.text[this.index] !== mark) return false;
    this.index += 1;
    return true;
  }

  comma() {
    if (this.text[this.index] !== ",") throw this.wrong("neither a comma nor an end");
    this.index += 1;
  }

  string() {
    this.index += 1;
    let value = "";
    for (;;) {
      value += this.run(PLAIN);
      const mark = this.text[this.index];
      this.index += 1;
      if (mark === '"') return value;
      if (mark !== "\\") throw this.wrong("text without an end, or with a control character");
      value += this.escaped();
    }
  }

  escaped() {
    const mark = this.text[this.index];
    this.index += 1;
    if (mark !== "u") {
      if (mark === undefined || !Object.hasOwn(ESCAPES, mark)) throw this.wrong("no such escape");
      return ESCAPES[mark];
    }
    const digits = this.text.slice(this.index, this.index + 4);
    if (!/^[0-9A-Fa-f]{4}$/.test(digits)) throw this.wrong("no such escape");
    this.index += 4;
    return String.fromCharCode(parseInt(digits, 16));
  }

  integer() {
    const text = this.run(NUMBER);
    if (text === "") throw this.wrong("not a value");
    if (/[.eE]/.test(this.text[this.index] ?? "")) throw refused("not an integer");
    const value = Number(text);
    if (!Number.isSafeInteger(value)) throw refused("integer beyond 2**53 - 1");
    return value === 0 ? 0 : value;
  }

  space() {
    this.run(SPACE);
  }

  run(pattern) {
    pattern.lastIndex = this.index;
    const found = pattern.exec(this.text)?.[0] ?? "";
    this.index += found.length;
    return found;
  }

  wrong(message) {
    const before = this.text.slice(0, this.index).split("\n");
    const where = `line ${before.length} column ${before.at(-1).length + 1}`;
    return new Refusal("fmt.json", `not JSON: ${message}`, { where });
  }
}

function refused(message, expected, found) {
  return new Refusal("fmt.json", message, { expected, found });
}
