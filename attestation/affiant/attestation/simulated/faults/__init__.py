"""Every refusal of the TDX verifier on demand: named scenarios of simulated evidence, each with one thing wrong.

:mod:`.bench` is what evidence is made of, :mod:`.scenario` what a scenario is, :mod:`.catalogue` all of them;
:mod:`.folder` writes them as files that `affiant quote verify` and `affiant quote conformance` read.
"""
