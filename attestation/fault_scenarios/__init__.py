"""Named scenarios of simulated evidence, each with one thing wrong: every error of the TDX verifier on demand.

:mod:`fault_scenarios.bench` is what evidence is made of, :mod:`fault_scenarios.scenario` what a scenario is,
:mod:`fault_scenarios.cli.catalogue` all of them; :mod:`fault_scenarios.files` writes them as files that
`affiant quote verify` and `affiant quote conformance` read. Test data: no part of the wheel.
"""
