// What a verdict calls records, uses, ends and checks; written by scripts/verifier_words.py.

export const WORDS = Object.freeze({
  titles: {
    boot: "began a chain of records",
    inference: "request to a model",
    refusal: "refused",
    tool: "let a tool call through",
    secret: "is about to use a secret",
    egress: "network request",
    approval: "recorded an approval",
    epoch: "was alive",
    end: "ended its chain of records",
    erasure: "recorded that something was erased",
    "session-start": "admitted the session",
    "session-close": "closed the session",
    snapshot: "took a snapshot",
    fork: "began a child session",
    handoff: "handed something over",
    policy: "restricted the profile",
    gap: "disclosed what a crash left unaccounted",
    hold: "recorded a legal hold",
    exec: "ran a command",
    file: "moved or removed files",
    port: "opened or closed a port",
  },
  uses: {
    command: ["command", "commands"],
    model: ["model", "models"],
    host: ["host", "hosts"],
    secret: ["secret", "secrets"],
    tool: ["tool", "tools"],
    file: ["file operation", "file operations"],
    port: ["port", "ports"],
  },
  ends: {
    done: "ended in order",
    lease: "ended when its time was over",
    lost: "was lost: its supervisor, its gateway or its machine stopped",
    killed: "was ended from outside",
    policy: "was ended by its profile",
  },
  checks: {
    "fmt.bundle": [
      "the bundle is complete and unchanged",
      "Fetch the bundle again from its source. If it is rejected again, ask the operator for it.",
    ],
    "fmt.keysets": [
      "the bundle says who signed its records",
      "Ask the operator for a bundle with the keysets of the gateway and the supervisor.",
    ],
    "bundle.objects": [
      "everything that the records name is in the bundle",
      "Ask for the bundle with its evidence, documents and profiles. Without them it cannot be judged.",
    ],
    "sig.receipts": [
      "the records were signed by the keys that the bundle names",
      "If it was rejected, do not rely on any record. Ask the operator how the bundle was made.",
    ],
    "kinds.judged": ["every record is of a kind that this verifier knows", "Verify with a newer release."],
    "erasure.authority": [
      "every erasure was ordered by an authority that you accept",
      "Name your erasure authorities in the trust file, or ask who ordered the erasure.",
    ],
    "hold.respected": ["no record under a legal hold was erased", "Verify with a bundle that has its log part."],
    "chain.ids": ["each record exists once", "Ask the operator why one id has two records."],
    "chain.time": ["the signers' clocks went forward", "Ask the operator about clock changes on that machine."],
    "chain.boot": [
      "each chain begins where its signer started",
      "Ask for the bundle with the chain from its first record on.",
    ],
    "chain.contiguous": [
      "no record is missing inside a chain",
      "Ask for the missing records, or for the order that erased them.",
    ],
    "chain.end": [
      "nothing follows the end of a chain",
      "If it was rejected, do not rely on the records after the end.",
    ],
    "chain.epochs": [
      "the gateway recorded at the promised interval that it was alive",
      "Ask the operator about interruptions in that time.",
    ],
    "chain.gaps": [
      "no crash left records unaccounted for",
      "Ask what happened at the time of the gap, and reconcile with another record (`affiant reconcile`).",
    ],
    "chain.coverage": [
      "nothing was left out of your time range",
      "Ask for a period bundle, and give your range with --from and --to.",
    ],
    "session.start": ["each session was admitted once", "Ask for the session's first record."],
    "session.order": [
      "no record of a session is missing or after its close",
      "Ask for the complete bundle of the session.",
    ],
    "session.counter": [
      "every request of the agent has a record",
      "Ask for the complete bundle, and reconcile with another record (`affiant reconcile`).",
    ],
    "session.close": [
      "the session ended, and its last records are here",
      "If it still runs, verify again after its end. If it does not, ask for its close: later records may be missing.",
    ],
    "session.peer": [
      "gateway and supervisor agree on each other's records",
      "Ask both signers' operators for their chains. If it was rejected, do not rely on this session.",
    ],
    "session.intents": [
      "every action that was begun has its outcome",
      "Treat each action without outcome as done. Ask its receiver.",
    ],
    "session.decisions": [
      "every action was decided by the profile before it began",
      "Look at the named receipts: the profile did not decide them, or their content was not inspected.",
    ],
    "session.supervisor": [
      "the supervisor's own chain is complete",
      "Gather it on the machine of the session: `affiant session recover ID --bundle FILE`.",
    ],
    "session.sealed": [
      "the session was bound to its evidence before it began",
      "Ask for a bundle with the evidence of the session.",
    ],
    "key.evidence": ["every signing key is in a TDX quote", "Ask for a bundle with its evidence."],
    "key.bound": [
      "each quote names the key that signed",
      "Ask for a bundle with its evidence. If it was rejected, do not rely on the records of that key.",
    ],
    "key.not_after": [
      "no key signed after its end",
      "If it was rejected, do not rely on the later records of that key.",
    ],
    "model.answered": [
      "the model that was asked for is the one that answered",
      "Ask the operator about the other model, or name it as an alias in the gateway's configuration (`--model-alias`).",
    ],
    "conf.bound": ["the gateway ran with the configuration in the bundle", "Ask for the gateway's configuration."],
    "conf.accepted": [
      "the gateway's configuration is one that you accept",
      "Review the configuration, and add its digest to `gateway_configs` in the trust file.",
    ],
    "pol.bound": [
      "the session ran under the profile that its records name",
      "Ask for a bundle with the session's manifest.",
    ],
    "pol.accepted": [
      "the profile is one that you accept",
      "Review it (`affiant policy report`), and add its digest to `profiles`, or its signer to `profile_signers`, in the trust file.",
    ],
    "pol.private": [
      "the agent reached no private host and trusted no extra authority",
      "Ask why private hosts were allowed, and accept the profile with them.",
    ],
    "apr.bound": [
      "each approved action was approved by the people whom you name",
      "Name your approvers in the trust file. Approvals through the operator's own page stay a warning.",
    ],
    "tee.appraisal": [
      "the quotes are of genuine, current TDX platforms",
      "Ask for a bundle with collateral, or judge with your own: `affiant verify --now --collateral DIR`.",
    ],
    "tee.class": [
      "the session ran on genuine hardware",
      "Run on TDX hardware. A simulated platform shows the process and proves nothing about the machine.",
    ],
    "peer.bound": ["gateway and session attested each other", "Ask for a bundle with both parties' evidence."],
    "peer.ear": [
      "the gateway's own appraisal of the session agrees with this one",
      "Ask for a bundle with the attestation results.",
    ],
    "iso.floor": [
      "the agent was isolated as strictly as you require",
      "Run sessions under gVisor, in a release from which no escape is known: `isolation_releases` in the trust file.",
    ],
    "rfs.accepted": [
      "the agent's root file system is one that you accept",
      "Name its digest under `rootfs` in the trust file, and run sessions with --rootfs.",
    ],
    "log.inclusion": [
      "the records are in a transparency log",
      "Ask for a bundle with proofs, and name the log in the trust file.",
    ],
    "log.consistency": [
      "the log shows the same records to every reader",
      "Ask for a bundle with proofs. If it was rejected, publish both checkpoints: the log has two histories.",
    ],
    "wit.quorum": [
      "witnesses whom you chose have seen the log",
      "Name your own witnesses in the trust file: the operator's own witness detects accidents, not its owner.",
    ],
    "time.bracket": [
      "the time of the records is known from others than their signers",
      "Ask for a bundle with cosigned checkpoints, and name the witnesses in the trust file.",
    ],
    "time.tsa": [
      "a timestamp authority saw the log",
      "Have a checkpoint stamped (`affiant log anchor`), and name the authority under `tsa_roots`.",
    ],
    "time.sigstore": [
      "a sigstore log saw the log",
      "Have a checkpoint signed (`affiant log anchor --sigstore`), and name the signer under `sigstore_root`.",
    ],
    "body.request": ["your copy of the request is the one that was sent", "Give it with --request."],
    "body.response": ["your copy of the response is the one that was returned", "Give it with --response."],
  },
});
