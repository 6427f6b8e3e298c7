"""Period bundles: ``*.affiant.zip``, the records of a stretch of time, what it takes to check them, and no trust."""
