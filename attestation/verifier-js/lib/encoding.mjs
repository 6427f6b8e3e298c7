// Base64url, base64 and hexadecimal, each with exactly one accepted spelling (RFC 4648, section 3.5).
//
// `atob` ignores spaces and unused bits, and `parseInt` stops where it likes; every decoder here encodes again and
// compares, so that two different texts never mean the same bytes.

import { Refusal } from "./refusals.mjs";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64URL = `${ALPHABET}-_`;
const BASE64 = `${ALPHABET}+/`;
const VALUES = { [BASE64URL]: valuesOf(BASE64URL), [BASE64]: valuesOf(BASE64) };
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** The bytes of unpadded base64url `text`; `size` demands a number of bytes. */
export function fromBase64url(text, { size } = {}) {
  const bytes = decode(text, BASE64URL);
  if (bytes === null) {
    throw new Refusal("fmt.encoding", "not base64url: unused bits are set or a character is foreign");
  }
  if (size !== undefined && bytes.length !== size) {
    throw new Refusal("fmt.encoding", "base64url of another size", {
      expected: `${size} bytes`,
      found: `${bytes.length} bytes`,
    });
  }
  return bytes;
}

/** Base64url without padding (RFC 7515, section 2). */
export function toBase64url(bytes) {
  return encode(bytes, BASE64URL);
}

/** The bytes of padded standard base64 (RFC 4648, section 4), at least one; null: another spelling. */
export function fromBase64(text) {
  const end = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = text.length % 4 === 0 ? decode(text.slice(0, text.length - end), BASE64) : null;
  return bytes === null || bytes.length === 0 || (3 - (bytes.length % 3)) % 3 !== end ? null : bytes;
}

/** Standard base64, padded. */
export function toBase64(bytes) {
  return encode(bytes, BASE64) + "=".repeat((3 - (bytes.length % 3)) % 3);
}

/** Lower-case hexadecimal. */
export function toHex(bytes) {
  let text = "";
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** Whether `text` is lower-case hexadecimal of `size` bytes. */
export function isHex(text, size) {
  return typeof text === "string" && text.length === 2 * size && /^[0-9a-f]*$/.test(text);
}

/** The bytes of UTF-8 text; lone surrogates become U+FFFD, so whoever must tell them apart asks before. */
export function utf8(text) {
  return new TextEncoder().encode(text);
}

/** The text of UTF-8 bytes, or null: overlong forms, surrogates and cut sequences are no text. */
export function fromUtf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Whether every character is below 128. */
export function isAscii(text) {
  return /^[\x00-\x7f]*$/.test(text);
}

/** Whether two byte strings are the same. */
export function sameBytes(one, other) {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

/** One byte string after another. */
export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

function valuesOf(alphabet) {
  const values = new Int16Array(128).fill(-1);
  for (let value = 0; value < 64; value += 1) values[alphabet.charCodeAt(value)] = value;
  return values;
}

function decode(text, alphabet) {
  if (text.length % 4 === 1) return null;
  const values = VALUES[alphabet];
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let held = 0;
  let bits = 0;
  let length = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    const value = code < 128 ? values[code] : -1;
    if (value < 0) return null;
    held = (held << 6) | value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[length] = (held >> bits) & 0xff;
      length += 1;
      held &= (1 << bits) - 1;
    }
  }
  return held === 0 ? bytes : null;
}

function encode(bytes, alphabet) {
  let text = "";
  let held = 0;
  let bits = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 6) {
      bits -= 6;
      text += alphabet[(held >> bits) & 63];
      held &= (1 << bits) - 1;
    }
  }
  return bits > 0 ? text + alphabet[(held << (6 - bits)) & 63] : text;
}
