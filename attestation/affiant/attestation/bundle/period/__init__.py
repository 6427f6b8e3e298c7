"""Period bundles (`*.affiant.zip`): the records of a span of time as one archive."""
