"""`affiant policy decisions` and `simulate`: recorded decisions as events, tables and replays."""
