"""Evidence providers of the Linux kernel: configfs-tsm, the TDX guest device and RTMR files."""
