"""``sigv4`` of a secret: requests to one service in one region that are signed with AWS Signature Version 4.

Both are written out and never guessed from a host: they are what a signature is good for, and so part of the authority
that a profile gives.

>>> SigV4(region="eu-central-1", service="s3").surface
'sigv4:eu-central-1/s3'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from affiant.policy.canonical.request_names import check_aws_name

__all__ = ["CLIENT_SETTING", "MINTING_SERVICES", "SigV4", "parse_sigv4", "signing_variables"]

_LABEL: Final = re.compile(r"sigv4:([^/]*)/([^/]*)\Z")

CLIENT_SETTING: Final = "AWS_REQUEST_CHECKSUM_CALCULATION"
"""The variable by which clients are told not to sign in pieces; it stands beside every key that signs."""

MINTING_SERVICES: Final = frozenset(
    {
        *(
            "cognito-identity",
            "codeartifact",
            "ecr",
            "ecr-public",
            "iam",
            "redshift",
            "rolesanywhere",
            "s3express",
        ),
        *("secretsmanager", "ssm", "sso", "sts"),
    }
)
"""Services whose answers are, or hold, credentials: an agent that may ask for them holds them."""


@dataclass(frozen=True, slots=True)
class SigV4:
    """Service and region as in AWS's credential scope: lower-case letters, digits and hyphens, at most 64."""

    service: str
    region: str

    def __post_init__(self) -> None:
        check_aws_name(self.service)
        check_aws_name(self.region)

    @property
    def surface(self) -> str:
        """The name of the place: ``sigv4:eu-central-1/s3``."""
        return f"sigv4:{self.region}/{self.service}"


def parse_sigv4(surface: str) -> SigV4 | None:
    """What the name of a place says, if it is one of a key that signs."""
    match = _LABEL.match(surface)
    return None if match is None else SigV4(service=match[2], region=match[1])


def signing_variables(name: str) -> tuple[str, ...]:
    """The variables that the secret ``name`` has beside its own, by which clients of AWS find a key."""
    return (f"{name}_ACCESS_KEY_ID", f"{name}_SECRET_ACCESS_KEY")
