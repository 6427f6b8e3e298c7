"""Collects evidence from the Linux kernel: configfs-tsm, the TDX guest device and RTMR files."""
