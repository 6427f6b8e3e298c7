// What a TDX quote (v4, v5) claims: its layout, and the fields that bind keys, configuration and events.
//
// Source: Intel TDX DCAP Quoting Library API, "Quote format". Nothing is verified here.

import { sameBytes, toHex } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";

const MAX_BYTES = 16 * 1024;
const HEADER_BYTES = 48;
const TEE_TDX = 0x81;
const KEY_ECDSA_P256 = 2;
const INTEL_VENDOR = "939a7233f79c4ca9940a0db3957f0607";
const BODY_BYTES = new Map([[2, 584], [3, 648], [4, 885]]);
const QE_REPORT = 6;
const PCK_CHAIN = 5;

/** A quote as claimed: the TD report's measurements (48 bytes each, `reportData` 64), what is signed, and by whom. */
export function parseQuote(bytes) {
  if (bytes.length > MAX_BYTES) throw malformed("quote too large");
  if (bytes.length === 1024 && bytes[0] === TEE_TDX) throw new Refusal("quote.local_report", "this is a TDREPORT");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [type, start, size] = locateBody(bytes, view);
  const end = start + size;
  if (bytes.length < end + 4) throw malformed("quote is cut within its body");
  const length = view.getUint32(end, true);
  if (length > bytes.length - end - 4) throw malformed("authentication data reaches beyond the quote");
  const authentication = readAuthentication(bytes.subarray(end + 4, end + 4 + length));
  return { ...readBody(bytes.subarray(start, end), type), signed: bytes.slice(0, end), authentication };
}

function locateBody(bytes, view) {
  if (bytes.length < HEADER_BYTES) throw malformed("quote is cut within its header");
  const version = view.getUint16(0, true);
  const tee = view.getUint32(4, true);
  if (tee === 0 && [3, 4, 5].includes(version)) throw new Refusal("quote.not_tdx", "this is an SGX quote");
  if (version !== 4 && version !== 5) throw unsupported("quote of an unknown version");
  if (tee !== TEE_TDX) throw new Refusal("quote.not_tdx", "quote of another TEE");
  if (view.getUint16(2, true) !== KEY_ECDSA_P256) throw unsupported("attestation key of an unsupported type");
  if (toHex(bytes.subarray(12, 28)) !== INTEL_VENDOR) throw malformed("quoting enclave of an unknown vendor");
  if (version === 4) return [2, HEADER_BYTES, BODY_BYTES.get(2)];
  if (bytes.length < 54) throw malformed("quote is cut within its header");
  const [type, size] = [view.getUint16(48, true), view.getUint32(50, true)];
  if (type === 1) throw new Refusal("quote.not_tdx", "quote v5 with an SGX body");
  if (BODY_BYTES.get(type) !== size) throw malformed("unknown body type, or not of its size");
  return [type, 54, size];
}

function readBody(body, type) {
  const rtmrs = [0, 1, 2, 3].map((number) => body.slice(328 + 48 * number, 376 + 48 * number));
  return {
    tdAttributes: body.slice(120, 128),
    xfam: body.slice(128, 136),
    mrtd: body.slice(136, 184),
    mrconfigid: body.slice(184, 232),
    rtmrs,
    reportData: body.slice(520, 584),
    serviceTd: type >= 3 ? body.slice(600, 648) : null,
  };
}

/** Every length reaches exactly the end of what holds it, and the innermost data is a PCK chain. */
function readAuthentication(auth) {
  if (auth.length < 584) throw malformed("authentication data is cut short");
  const view = new DataView(auth.buffer, auth.byteOffset, auth.length);
  if (view.getUint16(128, true) !== QE_REPORT) throw malformed("outer certification data of another type");
  if (view.getUint32(130, true) !== auth.length - 134) {
    throw malformed("outer certification data of another length");
  }
  const end = 584 + view.getUint16(582, true);
  if (auth.length < end + 6) {
    throw malformed("authentication data of the quoting enclave reaches beyond its container");
  }
  if (view.getUint32(end + 2, true) !== auth.length - end - 6) {
    throw malformed("inner certification data of another length");
  }
  if (view.getUint16(end, true) !== PCK_CHAIN) {
    throw new Refusal("quote.no_pck_chain", "the quote carries no PCK certificate chain");
  }
  return {
    signature: auth.slice(0, 64),
    attestationKey: auth.slice(64, 128),
    qeReport: auth.slice(134, 518),
    qeReportSignature: auth.slice(518, 582),
    qeAuthData: auth.slice(584, end),
    pckChain: auth.slice(end + 6),
  };
}

/** Whether a register was never extended. */
export function isZero(register) {
  return sameBytes(register, new Uint8Array(register.length));
}

function malformed(message) {
  return new Refusal("quote.malformed", message);
}

function unsupported(message) {
  return new Refusal("quote.unsupported", message);
}
