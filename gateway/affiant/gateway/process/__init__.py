"""The gateway's process: launch, confinement, server."""
