"""Publishes a log's copy to an object store. Published objects never change; the checkpoint comes last."""
