"""Tests of profiles: inline and external tests, coverage, mutations."""
