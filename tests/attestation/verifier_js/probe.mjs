// Calls one function of the second verifier for each line of standard input: {"op", "data": base64, ...}.
// Answers {"ok": ...} or {"code": ...}; anything else that is thrown ends the process.

import { createInterface } from "node:readline";

import { readApprovers, readStatement } from "../../../attestation/verifier-js/lib/approval_statement.mjs";
import { importP256, isPoint, verifyES256 } from "../../../attestation/verifier-js/lib/cryptography.mjs";
import { fromBase64, fromBase64url, fromUtf8, toHex } from "../../../attestation/verifier-js/lib/encoding.mjs";
import { parseGatewayConfig } from "../../../attestation/verifier-js/lib/gateway_config.mjs";
import { inflateRaw } from "../../../attestation/verifier-js/lib/inflate.mjs";
import { holdsMLDSA44 } from "../../../attestation/verifier-js/lib/mldsa44.mjs";
import { parseNote, parseVkey, verifyNote } from "../../../attestation/verifier-js/lib/note.mjs";
import { openPeriod } from "../../../attestation/verifier-js/lib/period_archive.mjs";
import { receiptsIn } from "../../../attestation/verifier-js/lib/period_lines.mjs";
import { printable, quoted } from "../../../attestation/verifier-js/lib/printable.mjs";
import { parseQuote } from "../../../attestation/verifier-js/lib/quote.mjs";
import { verifyQuoteSignatures } from "../../../attestation/verifier-js/lib/quote_signatures.mjs";
import { Refusal } from "../../../attestation/verifier-js/lib/refusals.mjs";
import { shake128, shake256 } from "../../../attestation/verifier-js/lib/shake.mjs";
import { parseReceipt, verifyReceipt } from "../../../attestation/verifier-js/lib/receipt.mjs";
import { parseStatement } from "../../../attestation/verifier-js/lib/statement.mjs";
import { canonical, parseCanonical, parseStrict } from "../../../attestation/verifier-js/lib/strict_json.mjs";
import { parseInstant, parseTrustFile } from "../../../attestation/verifier-js/lib/trust_file.mjs";
import { parseTilePath } from "../../../attestation/verifier-js/lib/tiles.mjs";
import { cosignedBy, parseWitnessPolicy } from "../../../attestation/verifier-js/lib/witness_policy.mjs";
import { recordTable } from "../../../attestation/verifier-js/own_files.mjs";

const table = recordTable();
const statements = new Map();
const policies = new Map();

const OPS = {
  strict: (data) => toHex(canonical(parseStrict(data))),
  canonical: (data) => toHex(canonical(parseCanonical(data))),
  base64url: (data) => toHex(fromBase64url(fromUtf8(data))),
  base64: (data) => hexOrNull(fromBase64(fromUtf8(data))),
  instant: (data) => parseInstant(fromUtf8(data)),
  point: (data) => isPoint(data),
  printable: (data) => printable(fromUtf8(data)),
  quoted: (data) => quoted(fromUtf8(data)),
  trust: async (data) => (await parseTrustFile(data)).digest,
  config: async (data) => (await parseGatewayConfig(data)).digest,
  async es256(data, { point, signature }) {
    await verifyES256(await importP256(bytes(point)), data, bytes(signature));
    return true;
  },
  async receipt(data, { statement }) {
    if (!statements.has(statement)) statements.set(statement, await parseStatement(bytes(statement)));
    const record = await verifyReceipt(await parseReceipt(fromUtf8(data)), statements.get(statement), table);
    return [record.rh, toHex(record.leaf()), [...record.disclosed].map(([path]) => path).sort()];
  },
  async statement(data) {
    return (await parseStatement(data)).keysetDigest;
  },
  async approval(data) {
    const { kid, action, approves, made, expires, via } = await readStatement(fromUtf8(data));
    return [kid, action, approves, made, expires, via];
  },
  approvers(data) {
    const named = readApprovers(data);
    return named === null ? null : [[...named.kids].sort(), named.quorum];
  },
  async quote(data, { roots, at }) {
    const quote = parseQuote(data);
    return (await verifyQuoteSignatures(quote, { roots: roots.split(" "), at: parseInstant(at) })).cls;
  },
  mldsa44: (data, { key, signature }) => holdsMLDSA44(bytes(key), data, bytes(signature)),
  shake(data, { name, reads }) {
    const stream = { shake128, shake256 }[name](data);
    return toHex(Buffer.concat(reads.split(" ").map((count) => stream.read(Number(count)))));
  },
  async cosigned(data, { policy, vkey }) {
    if (!policies.has(policy)) policies.set(policy, await parseWitnessPolicy(fromUtf8(bytes(policy))));
    const seen = await cosignedBy(parseNote(data), policies.get(policy), await parseVkey(vkey));
    if (seen === null) return null;
    const { size, times, independent, notBefore, notAfter } = seen;
    return [size, [...times].sort(), independent, notBefore, notAfter].map(String);
  },
  inflate: (data, { size }) => toHex(inflateRaw(data, Number(size))),
  tile: (data) => parseTilePath(fromUtf8(data)),
  async period(data) {
    const period = await openPeriod(data);
    const receipts = [];
    for await (const { where, text } of receiptsIn(period)) receipts.push([where, text]);
    if (period.damage !== null) throw period.damage;
    return { receipts, unknown: period.unknown, absent: period.absent, count: period.count };
  },
  async note(data, { vkey }) {
    const key = await parseVkey(vkey);
    if (key === null) throw new Refusal("note.malformed", "no key");
    await verifyNote(parseNote(data), key);
    return true;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { op, data, ...more } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await answer(op, bytes(data), more))}\n`);
}

async function answer(op, data, more) {
  try {
    return { ok: await OPS[op](data, more) };
  } catch (error) {
    if (error instanceof Refusal) return { code: error.code };
    throw error;
  }
}

function bytes(text) {
  return new Uint8Array(Buffer.from(text, "base64"));
}

function hexOrNull(found) {
  return found === null ? null : toHex(found);
}
