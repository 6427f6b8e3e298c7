"""The plan of one sandbox: root file system, mounts, limits, as a document for the runner."""
