"""A session from its plan to its bundle: `async with Session(...)`."""
