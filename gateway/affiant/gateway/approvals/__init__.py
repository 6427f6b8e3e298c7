"""The approval queue over HTTP, for sessions and for approvers."""
