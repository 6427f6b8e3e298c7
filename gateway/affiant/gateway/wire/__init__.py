"""HTTP at the gateway's edge: requests, bounded bodies, TLS, error responses."""
