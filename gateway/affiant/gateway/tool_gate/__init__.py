"""The tool gate: servers of tools behind the gateway, each call judged, recorded and bounded."""
