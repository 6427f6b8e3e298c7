// Refusals: what is thrown when a rule does not hold, with the stable code that `affiant verify` prints too.

/** A rule does not hold. `code` is part of the interface; the text may quote hostile input, bounded, not escaped. */
export class Refusal extends Error {
  /**
   * @param {string} code stable, spelled `area.reason`
   * @param {string} message one sentence without a full stop
   * @param {{expected?: unknown, found?: unknown, where?: string}} facts
   */
  constructor(code, message, { expected, found, where } = {}) {
    super(message);
    this.code = code;
    this.expected = expected;
    this.found = found;
    this.where = where ?? null;
  }

  /** Place, sentence, what was expected and found: one line. */
  get text() {
    const parts = [this.where === null ? this.message : `${this.where}: ${this.message}`];
    if (this.expected !== undefined) parts.push(`expected ${excerpt(this.expected)}`);
    if (this.found !== undefined) parts.push(`found ${excerpt(this.found)}`);
    return parts.join("; ");
  }

  /** The places that a row names. */
  get places() {
    return this.where === null ? [] : [this.where];
  }

  /** The same refusal at `where`, if it does not know a place of its own. */
  at(where) {
    this.where ??= where;
    return this;
  }
}

/** The reader asks for a session of which the bundle has no record: no verdict, but a wrong question. */
export class SessionUnknown extends Refusal {
  constructor(id) {
    super("verifier.session", "the bundle has no record of this session", { found: id });
  }
}

/** What a check needs is not there. Never shown as a refusal. */
export class NotMade extends Error {}

/** The trust file names nothing that a check could be held against: it takes no part in the tier. */
export class NotPinned extends NotMade {}

/** The trust file does not ask for a check: it takes no part in tier or level. */
export class NotAsked extends Error {}

function excerpt(value) {
  const text = typeof value === "string" ? value : String(value);
  return text.length <= 300 ? text : `${text.slice(0, 300)}...`;
}
