"""The session's chain: each record signed in order, durable, then held by the gateway."""
