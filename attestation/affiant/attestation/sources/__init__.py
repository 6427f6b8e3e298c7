"""Where quotes come from: the guest side of TDX. Not yet run on TDX hardware."""
