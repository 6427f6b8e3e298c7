// Reference values, `affiant-reference-values/1`: what a verifier has pinned of images and platforms.

import { sha256Name } from "./cryptography.mjs";
import { isHex, toHex } from "./encoding.mjs";
import { Refusal } from "./refusals.mjs";
import { canonical, isObject, parseCanonical } from "./strict_json.mjs";

/** SHA-256 of the DER key of the Intel SGX Root CA, as Intel publishes it: `hardware` is exactly this root. */
export const INTEL_ROOT = "sha256:a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e";
/** Every TCB status but `Revoked`, which can never be accepted. */
const STATUSES = [
  "UpToDate",
  "SWHardeningNeeded",
  "ConfigurationNeeded",
  "ConfigurationAndSWHardeningNeeded",
  "TDRelaunchAdvised",
  "TDRelaunchAdvisedConfigurationNeeded",
  "OutOfDate",
  "OutOfDateConfigurationNeeded",
];
const REGISTERS = ["mrtd", "rtmr0", "rtmr1", "rtmr2"];
const MAX_ENTRIES = 256;

/** `{digest, cls, images: {gateway: [text], session: [text]}, ...}`; an image is its four registers, joined. */
export async function parseReferenceValues(bytes) {
  const value = read(bytes);
  demandMembers(value, ["typ", "cls", "roots", "images", "tcb", "td_attributes", "xfam"], "document");
  if (value.typ !== "affiant-reference-values/1") throw malformed("reference values of another form", "typ");
  if (value.cls !== "hardware" && value.cls !== "simulated") throw malformed("unknown class", "cls");
  demandRoots(value.roots, value.cls);
  demandMembers(value.images, ["gateway", "session"], "images");
  demandMembers(value.tcb, ["statuses", "min_evaluation"], "tcb");
  for (const status of list(value.tcb.statuses, "tcb.statuses")) {
    if (!STATUSES.includes(status)) throw malformed("unknown TCB status, or a revoked one", "tcb.statuses");
  }
  const least = value.tcb.min_evaluation;
  if (!Number.isSafeInteger(least) || least < 0) throw malformed("not a number", "tcb.min_evaluation");
  demandHex(value.td_attributes, 8, "td_attributes");
  demandHex(value.xfam, 8, "xfam");
  return {
    digest: await sha256Name(bytes),
    cls: value.cls,
    roots: value.roots,
    images: { gateway: images(value.images, "gateway"), session: images(value.images, "session") },
    tdAttributes: value.td_attributes,
    xfam: value.xfam,
  };
}

/** The four registers of a TD as an entry of `images` has them. */
export function imageOf(body) {
  return [body.mrtd, ...body.rtmrs.slice(0, 3)].map(toHex).join();
}

function read(bytes) {
  try {
    return parseCanonical(bytes);
  } catch {
    throw malformed("reference values are not canonical JSON");
  }
}

function demandRoots(roots, cls) {
  for (const name of list(roots, "roots")) {
    if (typeof name !== "string" || !/^sha256:[0-9a-f]{64}$/.test(name)) {
      throw malformed("not a root's name", "roots");
    }
  }
  const fits = cls === "hardware" ? roots.length === 1 && roots[0] === INTEL_ROOT : !roots.includes(INTEL_ROOT);
  if (!fits) throw malformed("class and roots contradict each other", "roots");
}

function images(value, role) {
  return list(value[role], `images.${role}`).map((image) => {
    demandMembers(image, REGISTERS, `images.${role}`);
    for (const name of REGISTERS) demandHex(image[name], 48, `images.${role}.${name}`);
    return REGISTERS.map((name) => image[name]).join();
  });
}

function list(value, where) {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_ENTRIES) {
    throw malformed("an empty list accepts nothing and says nothing; a value is required", where);
  }
  if (new Set(value.map((item) => canonical(item).join())).size !== value.length) {
    throw malformed("a value stands twice", where);
  }
  return value;
}

function demandMembers(value, names, where) {
  const found = isObject(value) ? Object.keys(value) : [];
  if (found.length !== names.length || !names.every((name) => found.includes(name))) {
    throw malformed("members are missing or unknown", where);
  }
}

function demandHex(value, size, where) {
  if (!isHex(value, size)) throw malformed("not lower-case hexadecimal of its size", where);
}

function malformed(message, where) {
  return new Refusal("reference.malformed", message, { where });
}
