"""A small TPM 2.0 client, as far as vTPM evidence needs one."""
