"""Finds receipts that rest on something which has since been broken."""
