"""Makes the simulated platform's keys, registers, collateral and quotes. Pure."""
