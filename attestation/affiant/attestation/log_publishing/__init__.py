"""A log's copy in a store of objects: what stands there is never changed, and its checkpoint comes last."""
