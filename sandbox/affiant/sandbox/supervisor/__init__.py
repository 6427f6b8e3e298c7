"""The supervisor: the trusted half of a session, measured with the image, between the agent and everything else."""
