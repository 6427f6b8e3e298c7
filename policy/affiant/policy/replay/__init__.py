"""Shows recorded decisions as events, tables and replays: `affiant policy decisions` and `simulate`."""
