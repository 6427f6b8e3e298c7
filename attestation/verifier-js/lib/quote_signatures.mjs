// Who signed a quote: attestation key, quoting enclave, PCK certificate and its chain up to a root that the trust file
// pins. What this does not ask: revocation, the collateral, the enclave's identity, and the TCB level. A quote whose
// signatures hold may come from a platform that is revoked or out of date.

import { isAuthority, isEndEntity, isIssuedBy, parseChain } from "./certificates.mjs";
import { holdsP256, importP256, isPoint, sha256, sha256Name } from "./cryptography.mjs";
import { concat, sameBytes } from "./encoding.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { INTEL_ROOT } from "./reference_values.mjs";

const ROOT_NAME = "Intel SGX Root CA";
const LEAF_NAME = "Intel SGX PCK Certificate";
const AUTHORITY_NAMES = ["Intel SGX PCK Platform CA", "Intel SGX PCK Processor CA"];

/**
 * The root that a parsed quote chains to, `{name, cls}`: class `hardware` or `simulated`. Refuses what does not hold.
 *
 * `roots`: accepted `sha256:` names of root keys; `at`: seconds since 1970 that certificates must be valid at.
 */
export async function verifyQuoteSignatures(quote, { roots, at }) {
  const [leaf, intermediate, root] = parseChain(quote.authentication.pckChain);
  if (intermediate === undefined) throw chainInvalid("PCK chain is too short");
  if (root === undefined) throw new NotMade("the quote does not carry its root certificate");
  const name = await sha256Name(root.spki);
  await verifyRoot(root, name, roots);
  await verifyBelow(leaf, intermediate, root);
  for (const certificate of [leaf, intermediate, root]) demandTime(certificate, at);
  await verifyQuote(quote, leaf);
  return { name, cls: name === INTEL_ROOT ? "hardware" : "simulated" };
}

async function verifyRoot(root, name, roots) {
  if (!roots.includes(name)) {
    throw new Refusal("root.untrusted", "the chain ends in a root that is not trusted", { found: name });
  }
  if (root.commonName !== ROOT_NAME || !isAuthority(root) || !(await isIssuedBy(root, root))) {
    throw chainInvalid("the root certificate is not a self-signed authority named as expected");
  }
}

async function verifyBelow(leaf, intermediate, root) {
  if (!AUTHORITY_NAMES.includes(intermediate.commonName) || !isAuthority(intermediate)) {
    throw chainInvalid("the certificate above the PCK certificate is no PCK authority");
  }
  if (!(await isIssuedBy(intermediate, root))) throw chainInvalid("the PCK authority is not signed by the root");
  if (leaf.commonName !== LEAF_NAME || !isEndEntity(leaf)) throw chainInvalid("the leaf is not a PCK certificate");
  if (!(await isIssuedBy(leaf, intermediate))) {
    throw chainInvalid("the PCK certificate is not signed by the authority above it");
  }
}

function demandTime({ commonName, notBefore, notAfter }, at) {
  if (at < notBefore) throw new Refusal("cert.not_yet_valid", `certificate '${commonName}' is not valid yet`);
  if (at > notAfter) throw new Refusal("cert.expired", `certificate '${commonName}' has expired`);
}

/** PCK key -> report of the quoting enclave -> attestation key -> header and body. */
async function verifyQuote({ signed, authentication }, leaf) {
  const { qeReport, qeReportSignature, attestationKey, qeAuthData, signature } = authentication;
  if (!(await holdsP256(await importP256(leaf.point), qeReport, qeReportSignature))) {
    throw new Refusal("qe.report_signature", "the PCK key did not sign the report of the quoting enclave");
  }
  const binding = concat(await sha256(concat(attestationKey, qeAuthData)), new Uint8Array(32));
  if (!sameBytes(qeReport.subarray(320, 384), binding)) {
    throw new Refusal("qe.binding", "the quoting enclave's report does not name this attestation key");
  }
  if (!isPoint(attestationKey)) throw new Refusal("quote.malformed", "the attestation key is not a point of P-256");
  if (!(await holdsP256(await importP256(attestationKey), signed, signature))) {
    throw new Refusal("quote.signature", "the attestation key did not sign this header and body");
  }
}

function chainInvalid(message) {
  return new Refusal("pck.chain", message);
}
