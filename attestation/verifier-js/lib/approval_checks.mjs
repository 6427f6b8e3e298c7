// Approvals: every one that a record names was signed by approvers of the session's profile, and used once. The action itself
// is in no bundle: that what was done is that action, and that nothing else needed an approval, is not judged. An approval
// came after what a supervisor began if the gateway had its record by then, or dated it a minute later. Nor judged are
// statements of identities, which are sigstore bundles: where one is named, nothing is said but what is wrong with the others.

import { isByIdentity, readApprovers, readStatement } from "./approval_statement.mjs";
import { bothSides } from "./case.mjs";
import { Count, counting } from "./counted.mjs";
import { epochsOf } from "./epochs.mjs";
import { goneOf } from "./erasure_checks.mjs";
import { profileOf } from "./policy_checks.mjs";
import { NotMade, Refusal } from "./refusals.mjs";
import { held } from "./verdict.mjs";

// Seconds by which an approver's clock may differ from the one that made the record.
const TOLERANCE = 60;

/** `apr.bound`: each statement is an approver's, about that action, in time; each action has its quorum first, and is done once. */
export async function checkApprovals(subject) {
  subject.need("session.order", "pol.bound");
  const onPage = [];
  const done = new Set();
  for (const session of subject.sessions) {
    const naming = bothSides(session).filter((record) => record.member("apr") !== undefined);
    if (naming.length === 0) continue;
    const byKey = naming.filter((record) => !isByIdentity(record.member("apr").sig));
    const found = [];
    for (const record of byKey) {
      found.push({ record, statement: await statementIn(record), acts: record.kind !== "approval" });
    }
    const approvers = await approversOf(subject, session);
    const then = ({ record }) => approvers[record.member("pol", "epoch")];
    for (const each of found) judge(each, then(each));
    if (found.length < naming.length) {
      throw new NotMade("approved by an identity through sigstore, whose signatures are not verified here");
    }
    const kept = keptIn(found);
    for (const each of found) if (each.acts) judgeUse(subject, session, each, kept, then(each), done);
    const paged = found.filter(({ statement }) => statement.approves && statement.via === "console");
    onPage.push(...paged.map(({ record }) => record.jti));
  }
  if (onPage.length > 0) {
    return held("approved on a page that the operator serves (console)", { tier: "warning", where: onPage });
  }
  return counting(new Count(done.size, "actions done by approval, each with its quorum and once"));
}

/** Who may approve, by the profile of each epoch. */
async function approversOf(subject, session) {
  const all = [];
  for (const { dig } of epochsOf(session)) all.push(readApprovers(await profileOf(subject, dig)));
  if (all.includes(null)) throw new NotMade("the profile's normal form does not say here who may approve");
  return all;
}

/** The statement that `apr` holds, if its other members say the same. */
async function statementIn(record) {
  const { dig, kid, sig, exp, via } = record.member("apr");
  let statement;
  try {
    statement = await readStatement(sig);
  } catch (error) {
    throw error instanceof Refusal ? error.at(record.jti) : error;
  }
  if (statement.action !== dig) throw refusal("approval.other_action", "a statement about another action", record);
  if (statement.kid !== kid || statement.expires !== exp || statement.via !== via) {
    throw unbound("key, end or way are not the statement's", record);
  }
  return statement;
}

/** Who signed, when, and whether the record draws from it what was said. */
function judge({ record, statement, acts }, { kids }) {
  if (!kids.has(statement.kid)) {
    throw refusal("approval.not_an_approver", "signed by nobody whom the profile lets approve", record);
  }
  if (record.iat < statement.made - TOLERANCE || record.iat > statement.expires + TOLERANCE) {
    throw refusal("approval.stale", "recorded outside the statement's time", record);
  }
  const decision = record.member("pol", "dec");
  if (acts) {
    if (decision !== "allow" || record.member("ph") === "outcome") {
      throw unbound("an approval is in the record that allows an action to begin", record);
    }
    if (!statement.approves) throw unbound("done by a statement that denies it", record);
    return;
  }
  const kept = `${decision} ${record.member("act", "end")}`;
  if (kept !== (statement.approves ? "allow complete" : "deny refused")) {
    throw unbound("recorded as another decision than was signed", record);
  }
}

/** What records of the kind `approval` keep of one session: by their ids, and by action. */
function keptIn(found) {
  const kept = { byId: new Map(), byAction: new Map() };
  for (const each of found.filter(({ acts }) => !acts)) {
    const { action } = each.statement;
    kept.byId.set(each.record.jti, each);
    if (!kept.byAction.has(action)) kept.byAction.set(action, []);
    kept.byAction.get(action).push(each);
  }
  return kept;
}

/**
 * That the action was begun once, and by the recorded statements of as many approvers as must agree, by the profile that it
 * names: what was agreed before a narrowing was about another action, which names another profile.
 */
function judgeUse(subject, session, { record, statement }, { byId, byAction }, approvers, done) {
  if (done.has(statement.action)) throw refusal("apr.repeated", "a second use of one approval", record);
  done.add(statement.action);
  const named = new Set(record.member("par") ?? []);
  const ofAction = byAction.get(statement.action) ?? [];
  demandOrder(record, [...named].map((jti) => byId.get(jti)).filter((kept) => kept !== undefined), ofAction);
  const epoch = record.member("pol", "epoch");
  const basis = ofAction.filter(
    (kept) => named.has(kept.record.jti) && kept.statement.approves && kept.record.member("pol", "epoch") === epoch,
  );
  const standing = basis.filter((kept) => record.iat <= kept.statement.expires + TOLERANCE);
  const kids = new Set(standing.map((kept) => kept.statement.kid));
  if (basis.length === named.size && kids.has(statement.kid) && kids.size >= approvers.quorum) return;
  if (goneOf(subject, session).gateway.length > 0) throw new NotMade("records of approvals may be erased ones");
  throw refusal("apr.quorum", "its approvals are not the recorded ones, or too few", record);
}

/**
 * That the approvals which `record` names came before it; and where the gateway made it, that no denial did. What a
 * supervisor begins and a denial may be under way at once.
 */
function demandOrder(record, named, ofAction) {
  if (!named.every((kept) => precedes(kept.record, record))) {
    throw refusal("apr.order", "an approval that was recorded after what rests on it", record);
  }
  if (record.role !== "gateway") return;
  if (ofAction.some((kept) => !kept.statement.approves && precedes(kept.record, record))) {
    throw refusal("apr.denied", "begun after an approver denied it", record);
  }
}

/** Whether the gateway's record of a statement was made before `record`, as far as the chains tell. */
function precedes(kept, record) {
  if (record.role === kept.role) return kept.member("agt", "seq") < record.member("agt", "seq");
  const heard = kept.member("peer", "chn") === record.chn && kept.member("peer", "seq") >= record.seq;
  return !heard && kept.iat <= record.iat + TOLERANCE;
}

function unbound(message, record) {
  return refusal("apr.unbound", message, record);
}

function refusal(code, message, record) {
  return new Refusal(code, message, { where: record.jti });
}
