"""A witness of transparency logs (C2SP tlog-witness): it cosigns trees that grow from what it has seen."""
