"""Model servers: HTTP/1.1 client, routing, the upstream queue, redaction of the gateway's key."""
