from __future__ import annotations

from affiant.attestation.release import platform_identity as identity


def test_what_a_hardware_policy_could_pin_is_readable_text() -> None:
    """Digests and identifiers of hardware are no ASCII texts, so no list of hardware values can hold these."""
    for value, size in ((identity.MRSEAM, 48), (identity.PPID, 16)):
        assert len(value) == size
        assert b"SIMULATED" in value
        assert value.isascii()
    assert identity.FMSPC.isascii()
    assert len(identity.FMSPC) == 6


def test_sizes_are_those_of_the_report_fields() -> None:
    enclave, module, machine = (
        identity.QuotingEnclave(),
        identity.ModuleIdentity(),
        identity.MachineIdentity(),
    )
    assert [len(enclave.cpu_svn), len(enclave.attributes), len(enclave.misc_select)] == [16, 16, 4]
    assert [len(enclave.mrenclave), len(enclave.mrsigner), len(enclave.auth_data)] == [32, 32, 32]
    assert [len(module.tee_tcb_svn), len(module.mrsignerseam), len(module.seam_attributes)] == [16, 48, 8]
    assert [len(machine.sgx_components), len(machine.platform_instance_id), len(machine.pce_id)] == [
        16,
        16,
        2,
    ]
    assert [len(identity.TD_ATTRIBUTES), len(identity.XFAM), len(identity.INTEL_VENDOR_ID)] == [8, 8, 16]
