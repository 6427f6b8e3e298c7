// Refusals of one rule over many records: all are counted, the first hundred named.

import { Refusal } from "./refusals.mjs";

/** Ids that a row names; it says how many more there are. */
export const MAX_WHERE = 100;

/** By the code of their row. */
export class Exceptions {
  #found = new Map();

  /** Takes one. */
  add(code, refusal) {
    if (!this.#found.has(code)) this.#found.set(code, { code, first: refusal, count: 0, where: [] });
    const found = this.#found.get(code);
    found.count += 1;
    if (refusal.where !== null && found.where.length < MAX_WHERE) found.where.push(refusal.where);
  }

  /** Throws what a row was refused for, if it was. */
  demandNone(code) {
    const found = this.#found.get(code);
    if (found !== undefined) throw new ManyRefused(found);
  }

  /** Whether a row was refused. */
  has(code) {
    return this.#found.has(code);
  }
}

/** Exceptions, thrown as one. */
class ManyRefused extends Refusal {
  #where;

  constructor({ first, count, where }) {
    super(first.code, count === 1 ? first.text : `${count} exceptions, the first: ${first.text}`);
    this.#where = where;
  }

  get places() {
    return this.#where;
  }
}
