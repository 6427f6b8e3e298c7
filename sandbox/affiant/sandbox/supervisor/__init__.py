"""The supervisor: the trusted half of a session, between the agent and everything else."""
