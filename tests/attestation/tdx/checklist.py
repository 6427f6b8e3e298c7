"""The checklist and the known mistakes of verifiers in the field, each with what shows that it is kept, as data.

A reference is the name of a scenario (:mod:`fault_scenarios.cli.catalogue`), or a test as
``tests/<file>::<function>``. ``test_checklist`` resolves every one of them, so that none can outlive what it names.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MISTAKES", "POINTS", "VALUES", "Mistake", "Point"]


@dataclass(frozen=True, slots=True)
class Point:
    """What shows that a point accepts what is right, and refuses what is wrong."""

    accepts: tuple[str, ...]
    refuses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake, in a few words, and what shows that it is not made here."""

    said: str
    shown: tuple[str, ...]


CONFIGFS = "tests/attestation/quote/providers/kernel/test_configfs_tsm.py"

TDX = "tests/attestation/tdx"

POINTS: dict[int, Point] = {
    1: Point(
        ("padding-to-8000",),
        (
            "quote-empty",
            "quote-too-large",
            "tcb-info-too-large",
            "tcb-info-nested-deeply",
            "root-crl-too-large",
            "pck-crl-too-large",
            "collateral-of-garbage",
            f"{TDX}/pki/test_certificates.py::test_the_size_is_bounded_before_anything_is_read",
            f"{TDX}/quote/test_quote.py::test_every_cut_is_refused",
        ),
    ),
    2: Point(
        ("td15-extended-body",),
        ("quote-version-3", "key-type-p384", "sgx-quote", "unknown-tee", "other-vendor", "sgx-body")
        + ("body-type-unknown", "body-size-of-another-type", "tdreport"),
    ),
    3: Point(
        ("padding-70", "padding-to-8000", "padding-one-byte", "qe-auth-data-0", "qe-auth-data-1000"),
        ("auth-data-beyond-the-quote", "auth-data-too-short", "outer-type-5", "outer-size-one-more")
        + ("outer-size-one-less", "inner-size-one-less", "inner-size-beyond", "qe-auth-data-beyond"),
    ),
    4: Point(
        ("chain-without-root", "chain-ends-in-nul", "chain-with-crlf"),
        ("chain-empty", "chain-with-text", "chain-with-another-label", "chain-of-one", "chain-of-four")
        + tuple(f"certification-type-{kind}" for kind in (1, 2, 3, 4, 7)),
    ),
    5: Point(
        ("high-s", "short-r", "short-s"),
        ("attestation-key-off-the-curve", "attestation-key-zero", "quote-signature-zero")
        + ("quote-signature-of-the-order", "leaf-key-p384", "tcb-info-signature-zero")
        + (f"{TDX}/pki/test_ecdsa.py::test_r_and_s_are_in_range",),
    ),
    6: Point(
        ("chain-without-root", "another-certificate-of-the-root"),
        (
            "untrusted-root",
            "own-root-with-the-same-names",
            "another-root-in-the-chain",
            "root-of-another-name",
        )
        + ("root-is-no-authority", "root-not-self-signed", "root-hint-signed-by-another-key")
        + ("collateral-of-two-roots", "root-expired", "quoted-root-expired"),
    ),
    7: Point(
        ("processor-ca", "another-certificate-of-the-authority"),
        ("intermediate-of-another-name", "intermediate-is-no-authority", "intermediate-may-not-sign")
        + ("intermediate-signed-by-itself", "intermediate-names-another-issuer", "tcb-signer-as-intermediate")
        + ("quoted-pck-authority-expired", "quoted-pck-authority-not-yet-valid"),
    ),
    8: Point(
        ("second-machine",),
        ("leaf-of-another-name", "leaf-is-an-authority", "leaf-may-sign-certificates", "leaf-of-another-tree")
        + ("leaf-signed-by-itself", "leaf-names-another-issuer", "leaf-with-unknown-critical-extension")
        + ("leaf-key-p384", "leaf-signed-with-sha384", "pck-expired", "pck-not-yet-valid"),
    ),
    9: Point(
        ("chain-without-root",),
        ("chain-of-four", "chain-of-one", "chain-without-intermediate", "chain-in-another-order")
        + ("leaf-as-its-own-issuer", "intermediate-as-root"),
    ),
    10: Point(
        ("pck-with-unknown-member",),
        ("pck-without-extension", "pck-fmspc-twice", "pck-ppid-too-short", "pck-fmspc-too-long")
        + ("pck-pceid-too-long", "pck-15-components", "pck-without-tcb", "pck-member-is-no-pair"),
    ),
    11: Point(
        ("last-second-of-the-collateral",),
        ("root-crl-forged", "root-crl-of-another-issuer", "root-crl-expired", "root-crl-not-yet-valid")
        + ("root-crl-is-a-delta", "root-crl-is-indirect", "root-crl-is-partial", "root-crl-cut")
        + ("root-crl-with-unknown-critical-extension", "lists-exchanged")
        + (f"{TDX}/pki/test_crl.py::test_a_list_that_never_expires_is_refused",),
    ),
    12: Point(
        ("processor-ca", "last-second-of-the-collateral"),
        ("pck-crl-of-the-other-authority", "pck-crl-forged", "pck-crl-of-another-issuer", "pck-crl-expired")
        + ("pck-crl-not-yet-valid", "pck-crl-is-a-delta", "pck-crl-chain-of-the-tcb-signer")
        + ("pck-authority-not-by-the-root", "pck-authority-is-none-anywhere"),
    ),
    13: Point(
        ("pck-crl-covers-another-machine",),
        ("pck-revoked", "pck-revoked-under-the-processor-ca", "pck-authority-revoked", "tcb-signer-revoked")
        + ("renewed-tcb-signer-revoked", "root-revoked", "quoted-root-revoked", "quoted-authority-revoked")
        + ("root-crl-entry-removed", "pck-crl-entry-removed", "pck-crl-entry-of-another-issuer"),
    ),
    14: Point(
        ("up-to-date", f"{TDX}/pki/test_crl.py::test_an_empty_list_is_a_list"),
        ("root-crl-missing", "pck-crl-missing", "root-crl-empty", "pck-crl-empty"),
    ),
    15: Point(
        ("short-r-of-tcb-info",),
        ("tcb-info-edited", "tcb-info-reformatted", "qe-identity-edited", "tcb-info-signature-zero")
        + ("tcb-info-signature-too-short", "tcb-info-with-more-behind", "documents-exchanged"),
    ),
    16: Point(
        ("two-signer-certificates",),
        ("tcb-info-signed-by-pck-key", "tcb-info-signed-by-pck-authority", "tcb-info-signed-by-root")
        + ("qe-identity-signed-by-pck-key", "tcb-signer-of-another-name", "tcb-signer-is-an-authority")
        + ("tcb-signer-issued-by-the-pck-authority", "tcb-signer-signed-by-itself", "tcb-signer-revoked")
        + ("tcb-signer-expired", "tcb-signer-not-yet-valid", "tcb-info-chain-without-root"),
    ),
    17: Point(
        ("two-signer-certificates",),
        ("qe-identity-signed-by-pck-key", "renewed-tcb-signer-revoked", "collateral-of-two-roots")
        + (f"{TDX}/tcb/test_collateral.py::test_one_collateral_has_one_root_even_where_two_are_trusted",),
    ),
    18: Point(
        ("unknown-members", "fmspc-in-upper-case"),
        ("tcb-info-member-twice", "qe-identity-member-twice", "tcb-info-nested-deeply")
        + ("qe-identity-nested-deeply", "tcb-component-svn-256", "tcb-component-svn-true")
        + ("tcb-info-with-a-float", "tcb-info-date-with-an-offset", "tcb-info-date-without-zone")
        + ("qe-identity-date-of-february-30", "collateral-member-twice"),
    ),
    19: Point(
        ("last-second-of-the-collateral", "second-machine", "fmspc-in-upper-case"),
        ("tcb-info-of-sgx", "tcb-info-version-2", "tcb-info-type-1", "tcb-info-expired")
        + ("tcb-info-not-yet-valid", "tcb-info-of-another-fmspc", "tcb-info-of-another-pceid"),
    ),
    20: Point(
        ("last-second-of-the-collateral",),
        ("qe-identity-of-sgx", "qe-identity-version-1", "qe-identity-expired", "qe-identity-not-yet-valid"),
    ),
    21: Point(
        (f"{TDX}/tcb/test_collateral.py::test_the_lower_evaluation_number_counts",),
        ("evaluation-number-too-low", "lower-evaluation-number-counts"),
    ),
    22: Point(
        ("collateral-steps-forward",),
        (
            "collateral-steps-back",
            "evaluation-steps-back",
            f"{TDX}/tcb/test_rollback.py::test_what_was_kept_refuses_exactly_what_is_older_in_any_part",
        ),
    ),
    23: Point(
        ("short-r-of-qe-report",),
        ("qe-report-by-another-key", "qe-report-edited", "qe-report-signature-zero"),
    ),
    24: Point(
        ("qe-auth-data-0", "qe-auth-data-64"),
        ("qe-binds-another-key", "qe-binding-with-more-behind", "qe-auth-data-exchanged")
        + ("attestation-key-exchanged",),
    ),
    25: Point(
        ("qe-attribute-that-the-mask-omits",),
        ("qe-of-another-signer", "qe-of-another-product", "qe-with-other-attributes")
        + ("qe-with-other-miscselect", "qe-in-debug-mode", "qe-in-debug-mode-masked-out"),
    ),
    26: Point(
        ("levels-in-another-order", "qe-out-of-date-on-up-to-date"),
        ("qe-svn-too-low", "qe-without-levels", "qe-status-illegal", "qe-revoked"),
    ),
    27: Point(
        ("short-r", "short-s"),
        ("quote-by-another-key", "body-edited", "header-edited", "report-data-edited"),
    ),
    28: Point(
        ("module-major-version-0", "module-major-version-16", "module-identity-in-lower-case"),
        ("module-unknown", "no-module-identities", "module-listed-in-decimal", "tcb-info-without-module"),
    ),
    29: Point(
        ("up-to-date",),
        ("module-signer-not-zero", "module-signer-not-zero-though-listed", "module-attributes-not-zero")
        + ("module-attributes-masked-out", "module-0-of-another-signer"),
    ),
    30: Point(
        ("module-out-of-date-on-up-to-date", "levels-in-another-order"),
        ("module-svn-too-low", "module-without-levels", "module-status-illegal", "module-revoked"),
    ),
    31: Point(
        ("up-to-date", "component-lower-after-a-higher-one", "module-components-belong-to-the-module"),
        ("sgx-component-too-low", "tdx-component-too-low", "last-tdx-component-too-low", "pce-svn-too-low")
        + ("tcb-15-sgx-components", "tcb-4-tdx-components", "tcb-without-tdx-components"),
    ),
    32: Point(
        ("sw-hardening-needed", "out-of-date-configuration-needed"),
        ("no-platform-levels", "tcb-status-unknown", "tcb-level-without-status", "platform-revoked"),
    ),
    33: Point(
        ("td-relaunch-advised", "td-relaunch-advised-configuration-needed", "td-launched-newer-than-now"),
        ("module-revoked-at-launch", "module-revoked-now", "current-module-unknown")
        + ("current-module-too-low", "tcb-status-of-a-verdict"),
    ),
    34: Point(
        ("module-out-of-date-on-configuration-needed", "qe-out-of-date-on-sw-hardening-needed")
        + (f"{TDX}/tcb/test_tcb_status.py::test_the_table_has_every_cell",),
        ("platform-revoked", "module-revoked", "qe-revoked"),
    ),
    37: Point(
        ("everything-asked", "policy-holds", "policy-within-grace", "policy-advisory-excepted"),
        ("status-not-accepted", "sw-hardening-not-accepted", "relaunch-not-accepted", "policy-grace-over")
        + ("policy-advisory-open", "policy-exception-lapsed", "reference-of-hardware"),
    ),
    38: Point(
        ("td-with-pks-kl-perfmon", "everything-asked"),
        ("td-debug", "td-hgs-profiling", "td-perf-profiling", "td-pmt-profiling", "td-reserved-low-bit")
        + ("td-reserved-high-bit", "td-without-sept-ve-disable", "td-migratable", "td-service-td-extension")
        + ("td-service-td-bound", "td-attributes-not-as-pinned")
        + (f"{TDX}/quote/test_attributes.py::test_each_bit_has_its_answer",),
    ),
    39: Point(
        ("xfam-of-another-cloud", "everything-asked"),
        ("xfam-without-x87", "xfam-without-sse", "xfam-undefined-bit", "xfam-not-as-pinned"),
    ),
    40: Point(
        ("everything-asked", "policy-holds", "policy-known-tdx-module"),
        ("other-mrtd", "mix-of-two-images", "mrconfigid-unbound", "other-mrconfigid", "policy-other-image")
        + (
            "policy-other-tdx-module",
            f"{TDX}/appraise/test_reference.py::test_a_gap_or_a_contradiction_is_refused",
        ),
    ),
    41: Point(
        ("everything-asked",),
        ("other-report-data", "report-data-one-bit", "report-data-half")
        + (f"{TDX}/appraise/test_appraisal.py::test_an_expected_value_is_never_padded_or_cut",),
    ),
    42: Point(
        ("policy-flag-as-demanded", "policy-known-machine"),
        ("policy-flag-not-as-demanded", "policy-flag-not-said", "policy-other-machine"),
    ),
    43: Point(
        ("tests/gateway/admission/test_appraise_session.py::test_a_session_in_order_is_admitted",),
        ("other-report-data",)
        + ("tests/gateway/admission/test_nonces.py::test_a_nonce_is_taken_once",)
        + ("tests/gateway/admission/test_nonces.py::test_a_nonce_expires",),
    ),
    44: Point(
        ("log-replays", "dstack-log-replays"),
        ("log-lacks-the-last-event", "log-has-one-more-event", "log-in-another-order", "log-of-garbage")
        + ("log-with-another-payload", "log-without-the-kernel", "dstack-log-with-a-doubled-event")
        + ("dstack-log-with-a-late-event", "other-rtmr3"),
    ),
}
"""Point -> what shows it. Points 35, 36 and 45 say a value and refuse nothing: :data:`VALUES`."""

VALUES: dict[int, tuple[str, ...]] = {
    35: (
        "advisories-of-all-parts",
        f"{TDX}/verify/test_verify.py::test_dates_are_the_earliest_of_all_matched_levels",
    ),
    36: (
        f"{TDX}/test_checklist.py::test_the_first_part_that_ends_is_the_expiry",
        f"{TDX}/verify/test_verify.py::test_the_expiry_is_exact",
    ),
    45: (
        f"{TDX}/test_checklist.py::test_the_result_names_what_it_rests_on",
        f"{TDX}/verify/test_verify.py::test_the_result_names_every_input",
        f"{TDX}/verify/test_verify.py::test_every_point_of_the_checklist_is_held_or_said_to_be_open",
    ),
}

MISTAKES: dict[int, Mistake] = {
    1: Mistake("QE Identity not verified at all", ("qe-of-another-signer", "qe-identity-edited")),
    2: Mistake("components compared like words", ("component-lower-after-a-higher-one",)),
    3: Mistake("Revoked accepted", ("platform-revoked", "module-revoked", "qe-revoked")),
    4: Mistake(
        "revocation lists not asked",
        ("pck-revoked", "pck-authority-revoked", "tcb-signer-revoked", "root-crl-missing", "pck-crl-missing"),
    ),
    5: Mistake("root taken from the quote", ("own-root-with-the-same-names", "untrusted-root")),
    6: Mistake("vendor of the quoting enclave not asked", ("other-vendor",)),
    7: Mistake("order of levels trusted", ("levels-in-another-order",)),
    8: Mistake(
        "module identity not read",
        ("module-unknown", "module-signer-not-zero", "module-signer-not-zero-though-listed"),
    ),
    9: Mistake(
        "short arrays cut or padded",
        ("tcb-15-sgx-components", "tcb-4-tdx-components", "tcb-without-tdx-components"),
    ),
    10: Mistake("debug enclave accepted where the mask omits it", ("qe-in-debug-mode-masked-out",)),
    11: Mistake("revocation list not authenticated", ("root-crl-forged", "pck-crl-forged")),
    12: Mistake("crash without a chain", ("chain-empty", "chain-of-garbage")),
    13: Mistake(
        "checks of TLS can be turned off",
        (
            f"{TDX}/test_checklist.py::test_nothing_turns_the_checks_of_tls_off",
            "tests/attestation/quote/collateral/test_fetch.py::test_an_authority_that_was_not_named_is_not_believed",
            "tests/attestation/quote/collateral/test_fetch.py::test_collateral_of_another_root_is_refused",
        ),
    ),
    14: Mistake("old enclave hides a configuration need", ("qe-out-of-date-on-configuration-needed",)),
    15: Mistake("PCEID not compared", ("tcb-info-of-another-pceid",)),
    16: Mistake(
        "collateral signed in another role",
        ("tcb-info-signed-by-pck-key", "qe-identity-signed-by-pck-key", "tcb-info-with-a-pck-chain")
        + ("tcb-info-signed-by-pck-authority", "qe-identity-signed-by-pck-authority"),
    ),
    17: Mistake(
        "outer type and junk not asked", ("outer-type-5", "outer-size-one-more", "inner-size-one-less")
    ),
    18: Mistake("any leaf is a PCK certificate", ("leaf-of-another-name", "tcb-signer-as-leaf")),
    19: Mistake("list of tomorrow accepted", ("root-crl-not-yet-valid", "pck-crl-not-yet-valid")),
    20: Mistake("only 32 bytes of authentication data", ("qe-auth-data-0", "qe-auth-data-64")),
    21: Mistake(
        "module's status replaces the platform's",
        (
            "out-of-date",
            f"{TDX}/verify/test_verify.py::test_an_up_to_date_module_does_not_hide_the_platform",
        ),
    ),
    22: Mistake(
        "lax by default",
        ("td-debug", "processor-ca", "root-crl-missing", "policy-holds", "module-signer-not-zero"),
    ),
    23: Mistake(
        "module version in decimal, case, or not zero",
        ("module-major-version-16", "module-listed-in-decimal", "module-identity-in-lower-case")
        + ("module-major-version-0",),
    ),
    24: Mistake(
        "the other authority's list, deltas, tomorrow's documents, a revoked root, no module, illegal statuses",
        ("pck-crl-of-the-other-authority", "pck-crl-is-a-delta", "root-crl-is-a-delta", "root-revoked")
        + ("tcb-info-not-yet-valid", "qe-identity-not-yet-valid", "tcb-info-without-module")
        + ("qe-status-illegal", "module-status-illegal"),
    ),
    25: Mistake(
        "lesser statuses pass unseen",
        (
            "sw-hardening-not-accepted",
            f"{TDX}/appraise/test_appraisal.py::test_a_status_that_was_not_accepted_is_refused",
        ),
    ),
    26: Mistake("old enclave overwritten by advice to relaunch", ("td-relaunch-and-old-qe",)),
    27: Mistake(
        "a link of the chain is missing",
        (
            "chain-without-intermediate",
            "leaf-signed-by-itself",
            "leaf-as-its-own-issuer",
            "leaf-of-another-tree",
        ),
    ),
    28: Mistake(
        "one of both authorities never covered",
        ("processor-ca", "pck-revoked", "pck-revoked-under-the-processor-ca"),
    ),
    29: Mistake(
        "expected values padded or cut",
        (
            "report-data-half",
            f"{TDX}/appraise/test_appraisal.py::test_an_expected_value_is_never_padded_or_cut",
        ),
    ),
    30: Mistake(
        "out of date a claim only, no event log a warning only",
        ("status-not-accepted", "log-empty")
        + (f"{TDX}/appraise/test_appraisal.py::test_a_log_that_does_not_replay_proves_nothing",),
    ),
    31: Mistake(
        "debuggable TD a claim only",
        (
            "td-debug",
            f"{TDX}/policy/test_reference_policy.py::test_a_debuggable_td_is_refused_without_being_asked",
        ),
    ),
    32: Mistake("another list replayed than the one judged", ("dstack-log-with-another-payload",)),
    33: Mistake("event of another type bypasses its hash", ("dstack-log-with-another-type",)),
    34: Mistake(
        "log and register in different orders",
        (
            "tests/attestation/quote/providers/kernel/test_rtmr.py::test_a_hundred_events_of_many_threads_replay_to_the_register",
            "tests/attestation/simulated/served/test_client.py::test_threads_may_share_a_td_and_no_extension_is_lost",
        ),
    ),
    35: Mistake(
        "delimiter between name and payload",
        (
            "dstack-log-with-a-delimiter",
            f"{TDX}/event_log/test_eventlog.py::test_name_and_payload_cannot_be_confused",
        ),
    ),
    36: Mistake(
        "quadratic replay",
        (
            f"{TDX}/event_log/test_runtime_log.py::test_a_hundred_thousand_events_take_linear_time",
            f"{TDX}/event_log/test_ccel.py::test_a_hundred_thousand_events_take_linear_time",
        ),
    ),
    37: Mistake(
        "settings of the host decide",
        (
            "tests/attestation/quote/collateral/test_fetch.py::test_the_environment_changes_nothing",
            "tests/attestation/verifier/test_verify_bundle.py::test_nothing_in_a_bundle_is_a_trust_anchor",
            f"{TDX}/quote/test_errors.py::test_the_core_reads_no_clock_no_network_and_no_environment",
        ),
    ),
    38: Mistake(
        "register extended without an entry",
        ("log-lacks-the-last-event", "dstack-log-lacks-an-event", "gateway-extended-rtmr3")
        + (
            "tests/attestation/quote/providers/kernel/test_rtmr.py::test_an_extension_without_an_entry_is_refused",
        ),
    ),
    39: Mistake(
        "verdict computed, then dropped",
        (
            "tests/gateway/admission/test_appraise_session.py::test_one_wrong_fact_is_refused",
            "tests/gateway/admission/test_appraise_session.py::test_a_platform_whose_key_is_revoked_admits_nobody",
            "tests/gateway/admission/test_appraise_session.py::test_another_platforms_quote_is_refused",
        ),
    ),
    40: Mistake(
        "fields at wrong offsets",
        (
            f"{TDX}/quote/test_quote.py::test_every_field_of_every_genuine_quote_is_at_its_offset",
            "tests/attestation/simulated/platform/test_quote_format.py::test_the_verifier_reads_back_every_register",
        ),
    ),
    41: Mistake(
        "nested JSON exhausts the stack",
        ("tcb-info-nested-deeply", "qe-identity-nested-deeply")
        + ("tests/attestation/encoding/test_canonical.py::test_deep_nesting_is_refused_before_it_is_parsed",),
    ),
    42: Mistake(
        "module version compared like a component; the chain of whoever sent it",
        ("module-components-belong-to-the-module", "td-relaunch-advised", "own-root-with-the-same-names"),
    ),
    43: Mistake(
        "no nonce",
        (
            "other-report-data",
            "tests/gateway/admission/test_nonces.py::test_a_nonce_is_taken_once",
            "tests/gateway/admission/test_appraise_session.py::test_evidence_is_admitted_once",
        ),
    ),
    44: Mistake(
        "recursive delete on configfs",
        (f"{CONFIGFS}::test_each_request_has_a_directory_of_its_own_that_is_gone_afterwards",),
    ),
    45: Mistake(
        "short integers of signatures",
        ("short-r", "short-s", "short-r-of-qe-report", "short-r-of-tcb-info")
        + (f"{TDX}/pki/test_ecdsa.py::test_leading_zeros_are_kept",),
    ),
    46: Mistake("another kind of evidence not told apart", ("tdreport", "sgx-quote", "sgx-body")),
    47: Mistake(
        "Python: falsy lists, last of two members, spaces in hexadecimal, times without zone",
        ("tcb-info-member-twice", "tcb-info-fmspc-with-a-space", "collateral-crl-not-hexadecimal")
        + (f"{TDX}/pki/test_crl.py::test_an_empty_list_is_a_list",)
        + (f"{TDX}/verify/test_verify.py::test_a_time_without_a_zone_is_refused",),
    ),
}
"""Mistakes that verifiers in the field have made, or still make, by number."""
