// Receipts: `JWS~disclosure~...~`. The receipt hash is SHA-256 of the JWS alone.

import { link } from "./cryptography.mjs";
import { openDisclosures } from "./disclosures.mjs";
import { fromBase64url, isAscii, utf8 } from "./encoding.mjs";
import { splitJws, verifyJws } from "./jws.mjs";
import { Refusal } from "./refusals.mjs";
import { checkShape } from "./shapes.mjs";

const MAX_SDJWT = 64 * 1024;

/** A receipt taken apart: `{rh, disclosures, parts}`; nothing in it is trusted. */
export async function parseReceipt(text) {
  if (text.length > MAX_SDJWT || !isAscii(text)) {
    throw malformed("not a receipt", `at most ${MAX_SDJWT} ASCII characters`);
  }
  const [jws, ...rest] = text.split("~");
  if (rest.length === 0 || rest.at(-1) !== "") {
    throw malformed("not an SD-JWT", "a '~' after the JWS and after each disclosure");
  }
  const disclosures = rest.slice(0, -1);
  disclosures.forEach((disclosure) => fromBase64url(disclosure));
  return { rh: await link(utf8(jws)), disclosures, parts: splitJws(jws, "eat+jwt") };
}

/** The record in a receipt, verified under a keyset statement: signature, closed shape, agreement, disclosures. */
export async function verifyReceipt(receipt, statement, table) {
  if (receipt.parts.kid !== statement.signing.kid) throw role("signed by another key");
  const payload = await verifyJws(receipt.parts, statement.signing);
  const { kind } = payload;
  if (!table.has(kind)) {
    throw new Refusal("fmt.profile", "a kind that the profile does not list", { where: "kind" });
  }
  if (!table.row(kind).signers.includes(statement.role)) {
    throw role(`a record of kind ${kind} signed by a ${statement.role} key`);
  }
  if (payload.role !== statement.role || payload.cls !== statement.cls) {
    throw role("role or class differs from the keyset's");
  }
  const shape = table.shapeOf(kind, statement.role, statement.cls);
  checkShape(shape, payload, kind);
  if (payload.iss !== statement.iss || !statement.chn.includes(payload.chn)) {
    throw role("issuer or chain is not in the keyset");
  }
  const disclosed = await openDisclosures(payload, shape, receipt.disclosures);
  return new VerifiedRecord(receipt.rh, payload, disclosed, table.row(kind).leaf);
}

/** A record whose signature, form and agreement with its keyset were verified; made only here. */
export class VerifiedRecord {
  constructor(rh, payload, disclosed, leafCode) {
    Object.assign(this, { rh, payload, disclosed, leafCode });
    for (const name of ["kind", "role", "cls", "chn", "seq", "prev", "jti", "iat", "evd"]) this[name] = payload[name];
    Object.freeze(this);
  }

  /** A clear member by its path, or undefined. */
  member(...path) {
    let value = this.payload;
    for (const name of path) {
      if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
      value = value[name];
    }
    return value;
  }

  /** The 66 bytes of the log's leaf: 0x01, kind, chn, seq, iat, rh; numbers big-endian. */
  leaf() {
    const leaf = new Uint8Array(66);
    const view = new DataView(leaf.buffer);
    leaf[0] = 1;
    leaf[1] = this.leafCode;
    leaf.set(fromBase64url(this.chn, { size: 16 }), 2);
    view.setBigUint64(18, BigInt(this.seq));
    view.setBigUint64(26, BigInt(this.iat));
    leaf.set(fromBase64url(this.rh, { size: 32 }), 34);
    return leaf;
  }
}

function malformed(message, expected) {
  return new Refusal("fmt.receipt", message, { expected });
}

function role(message) {
  return new Refusal("sig.role", message);
}
