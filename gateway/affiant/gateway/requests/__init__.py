"""What every request of a session passes: proof, policy, account, receipt."""
