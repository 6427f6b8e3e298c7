"""The verdict: checks, codes, time bounds, actors and the trust file that the reader writes."""
