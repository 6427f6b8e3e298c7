"""FORMAT.md: its example loads, and its lists of codes are complete."""

import re
from pathlib import Path

from affiant.errors import AffiantError
from affiant.policy.canonical import errors as refusals
from affiant.policy.error_codes import ERROR_CODES
from affiant.policy.loading.load import load_profiles

PAGE = (Path(__file__).parents[2] / "policy" / "FORMAT.md").read_text()


def test_the_example_of_the_page_loads() -> None:
    match = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    profiles = load_profiles(match.group(1).encode(), floor=b"tools: [{deny: rm}]")
    profile = profiles.profile("deployment_agent")
    assert len(profile.policy.tools) == 4
    assert len(profile.policy.secrets) == 2


def test_every_refusal_has_a_code_of_its_own_that_the_page_lists() -> None:
    classes = [
        found
        for name in refusals.__all__
        if isinstance(found := getattr(refusals, name), type) and issubclass(found, AffiantError)
    ]
    of_other_formats = {
        "approval.unknown",
        "policy.decision_event",
        "policy.narrow_unenforced",
        "tool.method",
    }
    codes = [found.code for found in classes] + sorted(ERROR_CODES.keys() - of_other_formats)
    assert len(set(codes)) == len(codes)
    assert sorted(re.findall(r"`(policy\.[a-z_]+)`", PAGE.partition("## Refusals")[2])) == sorted(codes)
