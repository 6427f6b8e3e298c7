"""Known hosts that anyone can use, files that other programs run, and words that mean a change.

No such list is complete. A warning is a question to the reviewer, and its absence is no answer.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CHANGING", "HOOKS", "PUBLIC_HOSTS", "READING", "SHARED_HOSTS", "STORING_REQUESTS", "SYSTEM"]

SHARED_HOSTS: Final = (
    *("amazonaws.com", "storage.googleapis.com", "blob.core.windows.net", "digitaloceanspaces.com"),
    *("r2.cloudflarestorage.com", "r2.dev", "backblazeb2.com", "wasabisys.com", "aliyuncs.com"),
    *("gist.github.com", "gist.githubusercontent.com", "raw.githubusercontent.com"),
    *("pastebin.com", "paste.rs", "dpaste.com", "hastebin.com", "transfer.sh", "file.io", "0x0.st"),
    *("webhook.site", "requestbin.com", "pipedream.net", "ngrok.io", "ngrok-free.app", "trycloudflare.com"),
    *("firebaseio.com", "web.app", "workers.dev", "pages.dev", "vercel.app", "netlify.app", "github.io"),
    *("drive.google.com", "docs.google.com", "dropbox.com", "dropboxusercontent.com", "hooks.slack.com"),
)
"""Object stores, pastes, sites and tunnels: hosts at which anyone can have an account."""

STORING_REQUESTS: Final = (
    ("api.github.com", "/gists"),
    ("gitlab.com", "/api/v4/snippets"),
    ("api.bitbucket.org", "/2.0/snippets"),
    ("huggingface.co", "/api/repos/create"),
)
"""Hosts at which anyone can store data with one request: a POST there."""

PUBLIC_HOSTS: Final = (
    *("github.com", "api.github.com", "gitlab.com", "bitbucket.org", "api.bitbucket.org", "huggingface.co"),
    *("pypi.org", "files.pythonhosted.org", "registry.npmjs.org", "crates.io", "rubygems.org", "docker.io"),
    *("wikipedia.org", "stackoverflow.com", "reddit.com", "x.com", "medium.com", "news.ycombinator.com"),
    *("googleapis.com", "slack.com", "discord.com", "atlassian.net", "notion.so"),
)
"""Hosts that serve what anyone may have written: issues, packages, pages, messages."""

HOOKS: Final = (
    ".git/hooks",
    ".git/config",
    ".github/workflows",
    ".gitlab-ci.yml",
    ".circleci",
    "Jenkinsfile",
    ".pre-commit-config.yaml",
    ".envrc",
    ".vscode",
    ".devcontainer",
    ".husky",
)
"""Below a folder of the agent's: what other people's tools run, or build from."""

SYSTEM: Final = ("/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/root", "/sbin", "/usr")
"""Where the image keeps its programs."""

CHANGING: Final = frozenset(
    {
        *(
            "write",
            "edit",
            "create",
            "update",
            "patch",
            "put",
            "set",
            "delete",
            "remove",
            "rm",
            "drop",
            "purge",
        ),
        *("apply", "deploy", "release", "publish", "push", "merge", "commit", "rollback", "scale", "restart"),
        *("exec", "execute", "run", "shell", "bash", "eval", "spawn", "kill", "terraform", "kubectl", "ssh"),
        *(
            "send",
            "post",
            "email",
            "mail",
            "message",
            "notify",
            "upload",
            "transfer",
            "pay",
            "invite",
            "grant",
        ),
    }
)
"""Words in the name of a tool that changes or sends something."""
READING: Final = frozenset(
    {"test", "tests", "lint", "check", "checks", "plan", "get", "list", "read", "show", "describe"}
)
"""Words that say that what the others name is looked at: ``run_tests``, ``kubectl_get``."""
