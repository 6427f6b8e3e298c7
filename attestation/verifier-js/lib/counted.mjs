// What checks count. Of a period each case has its own counts; they add up, and no text is read for it.

/** Pairs of models that a row names. */
const PAIRS = 3;

/** How many of one thing. `shared`: names of what several cases may have, each counted once. */
export class Count {
  constructor(number, what, shared = []) {
    Object.assign(this, { number, what, shared: new Set(shared) });
  }

  /** The row's words. */
  get text() {
    return `${this.number + this.shared.size} ${this.what}`;
  }

  /** What the same check counted in several cases. */
  static sum(counts) {
    const sum = new Count(0, counts[0].what);
    for (const { number, shared } of counts) {
      sum.number += number;
      for (const name of shared) sum.shared.add(name);
    }
    return sum;
  }
}

/** Answers of models, by the model that each names: the first pairs by their names, whose counts are whole. */
export class Answers {
  named = 0;
  unnamed = 0;
  others = 0;
  /** `{asked, answered, count}`, sorted. */
  pairs = [];

  /** The row's words. */
  get text() {
    const rest = this.unnamed > 0 ? `; answers that name no model: ${this.unnamed}` : "";
    if (this.others === 0) return `answers that name the model that was asked for: ${this.named}${rest}`;
    const shown = this.pairs.map(({ asked, answered, count }) => `asked ${cut(asked)}, answered ${cut(answered)}: ${count}`);
    if (this.left > 0) shown.push(`others: ${this.left}`);
    const told = `${this.others} of ${this.named} (${shown.join("; ")})${rest}`;
    return `answers that name another model than was asked for: ${told}`;
  }

  /** How many of `others` are of pairs that are not kept. */
  get left() {
    return this.others - this.pairs.reduce((sum, { count }) => sum + count, 0);
  }

  /** Counts an answer that names another model. */
  other(asked, answered) {
    this.others += 1;
    this.#keep([{ asked, answered, count: 1 }]);
  }

  /** What the same check counted in several cases. */
  static sum(counts) {
    const sum = new Answers();
    for (const each of counts) {
      sum.named += each.named;
      sum.unnamed += each.unnamed;
      sum.others += each.others;
      sum.#keep(each.pairs);
    }
    return sum;
  }

  /** A pair that is left out has smaller ones for good. */
  #keep(pairs) {
    const same = ({ asked, answered }, pair) => asked === pair.asked && answered === pair.answered;
    for (const pair of pairs) {
      const known = this.pairs.find((each) => same(each, pair));
      if (known === undefined) this.pairs.push({ ...pair });
      else known.count += pair.count;
    }
    const byNames = (one, other) => compare(one.asked, other.asked) || compare(one.answered, other.answered);
    this.pairs = this.pairs.sort(byNames).slice(0, PAIRS);
  }
}

/** A finding that is a count. */
export function counting(counted, { tier = "affirming", where = [] } = {}) {
  return { detail: counted.text, tier, where, counted };
}

function compare(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** At most 80 characters. */
function cut(text) {
  return [...text].slice(0, 80).join("");
}
