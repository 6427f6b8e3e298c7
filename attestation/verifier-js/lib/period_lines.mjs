// Lines of `receipts/` and `disclosures/`, each bounded and of one spelling, and what they are together: SD-JWT texts.

import { link } from "./cryptography.mjs";
import { utf8 } from "./encoding.mjs";
import { LINES_PER_FILE, MAX_LINE } from "./period_layout.mjs";
import { Refusal } from "./refusals.mjs";

const RECEIPT = /^"([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)"$/;
const DISCLOSURES = /^\["[A-Za-z0-9_-]{43}"(?:,"[A-Za-z0-9_-]{1,22000}"){1,64}\]$/;
const NEWLINE = 0x0a;

/** The lines in `data`, without their newlines, each byte a character. */
function* linesOf(data, where) {
  let number = 0;
  for (let at = 0; at < data.length; ) {
    const end = data.indexOf(NEWLINE, at);
    number += 1;
    const tooLong = (end < 0 ? data.length : end) - at >= MAX_LINE;
    if (tooLong || number > LINES_PER_FILE) {
      throw malformed("a line is too long, or there are too many", `${where}:${number}`);
    }
    if (end < 0) throw malformed("the last line has no newline", where);
    yield latin1(data.subarray(at, end));
    at = end + 1;
  }
}

/** How many lines there are. */
export function countLines(data) {
  let count = 0;
  for (let at = data.indexOf(NEWLINE); at >= 0; at = data.indexOf(NEWLINE, at + 1)) count += 1;
  return count;
}

/** Every receipt of an archive in the order of its log: `{where, text}`; nothing is verified. */
export async function* receiptsIn(period) {
  for (const shard of period.named("receipts/")) {
    const opened = shard.replace("receipts/", "disclosures/");
    let number = 0;
    for await (const text of receiptsOf(period.read(shard), shard, period.read(opened) ?? null, opened)) {
      number += 1;
      yield { where: `${shard}:${number}`, text };
    }
  }
}

/**
 * The receipts of a file as SD-JWT texts: each JWS with the disclosures that stand under its hash, in the same order.
 * `opened`: the file of disclosures of the same number, or null.
 */
async function* receiptsOf(data, where, opened, openedWhere) {
  const pairs = opened === null ? [].values() : disclosuresOf(opened, openedWhere);
  let next = pairs.next();
  let number = 0;
  for (const line of linesOf(data, where)) {
    number += 1;
    const jws = RECEIPT.exec(line)?.[1];
    if (jws === undefined) throw malformed("not a receipt", `${where}:${number}`, '"<JWS>"');
    if (!next.done && next.value.rh === (await link(utf8(jws)))) {
      yield [jws, ...next.value.disclosures, ""].join("~");
      next = pairs.next();
    } else {
      yield `${jws}~`;
    }
  }
  if (!next.done) throw malformed("disclosures of a receipt that is not here, or out of order", openedWhere);
}

function* disclosuresOf(data, where) {
  let number = 0;
  for (const line of linesOf(data, where)) {
    number += 1;
    if (!DISCLOSURES.test(line)) {
      throw malformed("not a line of disclosures", `${where}:${number}`, '["<hash>","<disclosure>",...]');
    }
    const [rh, ...disclosures] = line.slice(2, -2).split('","');
    yield { rh, disclosures };
  }
}

/** One character for each byte: what is no ASCII matches nothing that is accepted. */
function latin1(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return text;
}

function malformed(message, where, expected) {
  return new Refusal("period.line", message, { where, expected });
}
