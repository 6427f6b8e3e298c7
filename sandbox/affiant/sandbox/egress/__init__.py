"""The egress proxy: decides each request of the agent, records it, and passes it on."""
