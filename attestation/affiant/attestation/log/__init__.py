"""Programs that look after a transparency log: they audit, witness, monitor and publish it."""
