"""Proves: TDX quotes, collateral, event logs, keysets, receipts, bundles and verdicts. No I/O in the core."""
