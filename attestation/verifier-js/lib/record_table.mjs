// The closed profile of records, from `records.json`: the normative table, written by the Python side.

import { memberShape } from "./shapes.mjs";

/** Values of `ph` of what begins; and of what ends it, and names it in `par`. */
export const BEGINS = ["intent", "opened"];
export const ENDS = ["outcome", "closed", "failed", "aborted"];

/** The table as given: kinds, the common members, and those of a session's records. */
export class RecordTable {
  constructor(document) {
    if (document.typ !== "affiant-record-table/1") throw new TypeError("not the table of records");
    this.document = document;
    this.shapes = new Map();
  }

  /** Whether there is such a kind. */
  has(kind) {
    return typeof kind === "string" && Object.hasOwn(this.document.kinds, kind);
  }

  /** The leaf code and the signers of a kind. */
  row(kind) {
    return this.document.kinds[kind];
  }

  /** The kind with a leaf code, or undefined. */
  kindOf(code) {
    return Object.keys(this.document.kinds).find((kind) => this.document.kinds[kind].leaf === code);
  }

  /** The closed shape of a kind's payload, for a signer's role and an evidence class. */
  shapeOf(kind, role, cls) {
    const key = `${kind} ${role} ${cls}`;
    if (!this.shapes.has(key)) this.shapes.set(key, this.#compose(kind, role, cls));
    return this.shapes.get(key);
  }

  #compose(kind, role, cls) {
    const { common, session, profiles } = this.document;
    const row = this.row(kind);
    const object = {
      ...common.object,
      eat_profile: { const: profiles[cls] },
      kind: { const: kind },
      cls: { const: cls },
      role: { const: role },
      ...row.object,
    };
    const optional = { ...common.optional, ...row.optional };
    if (row.of_session) {
      (kind === "refusal" ? optional : object).agt = session.agt;
      optional.peer = session.peer;
    }
    if (row.of_session || [...Object.values(object), ...Object.values(optional)].some((shape) => shape.sd)) {
      object._sd_alg = { const: "sha-256" };
    }
    return row.of_session ? { object, optional, sd: session.sd, hidden: session.hidden } : { object, optional };
  }
}

/** Every object in `payload` that carries `_sd`, depth first: `{path, digests, shape}`. */
export function objectsWithDigests(payload, shape, path = "") {
  const found = shape.sd ? [{ path, digests: payload._sd, shape }] : [];
  for (const [name, value] of Object.entries(payload)) {
    const inner = name === "_sd" ? undefined : memberShape(shape, name);
    const here = path === "" ? name : `${path}.${name}`;
    if (inner?.object) {
      found.push(...objectsWithDigests(value, inner, here));
    } else if (inner?.array?.object) {
      value.forEach((item, index) => found.push(...objectsWithDigests(item, inner.array, `${here}[${index}]`)));
    }
  }
  return found;
}
