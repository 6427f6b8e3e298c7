"""gVisor and bubblewrap: which of them this machine has, and how each is started."""
