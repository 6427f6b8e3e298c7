// A reader for DER (ITU-T X.690, section 10): definite, minimal lengths and one-byte tags. It walks and never recurses.
// What is no DER throws a RangeError, which the caller turns into a refusal of its own.

export const SEQUENCE = 0x30;

/** The elements that fill `content` exactly: `{tag, content, encoded}`. */
export function childrenOf(content) {
  const elements = [];
  for (let offset = 0; offset < content.length; ) {
    const element = readElement(content, offset);
    elements.push(element);
    offset += element.encoded.length;
  }
  return elements;
}

/** The content of `bytes`, which is exactly one element with this tag. */
export function readSingle(bytes, tag) {
  const element = readElement(bytes, 0);
  if (element.tag !== tag || element.encoded.length !== bytes.length) throw new RangeError("another element");
  return element.content;
}

/** The value of a non-negative, minimal INTEGER, as a BigInt. */
export function unsigned(content) {
  const padded = content.length > 1 && content[0] === 0 && (content[1] & 0x80) === 0;
  if (content.length === 0 || (content[0] & 0x80) !== 0 || padded) throw new RangeError("not a natural number");
  return content.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

function readElement(bytes, offset) {
  let start = offset + 2;
  if (bytes.length < start) throw new RangeError("element is cut short");
  const tag = bytes[offset];
  let length = bytes[offset + 1];
  if ((tag & 0x1f) === 0x1f) throw new RangeError("tag of more than one byte");
  if (length >= 0x80) {
    const count = length & 0x7f;
    if (count < 1 || count > 3 || bytes.length < start + count) throw new RangeError("length of another form");
    length = bytes.subarray(start, start + count).reduce((value, byte) => value * 256 + byte, 0);
    start += count;
    if (length < 0x80 || length < 256 ** (count - 1)) throw new RangeError("length is not minimal");
  }
  const end = start + length;
  if (bytes.length < end) throw new RangeError("element is cut short");
  return { tag, content: bytes.subarray(start, end), encoded: bytes.subarray(offset, end) };
}
