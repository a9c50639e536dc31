"""Word what the Hugging Face Hub refuses, and what keeps it from being asked."""

from collections.abc import Iterable
from typing import Any, ClassVar

from capplan.errors import UsageError, nearest_names

_TOKEN = "run `hf auth login`, or set HF_TOKEN"


class HubError(UsageError):
    """The Hub refuses a name, or cannot be asked."""


class TooLargeError(HubError):
    """A file of the Hub is larger than what is read."""


class NotOnHubError(HubError):
    """The Hub has no such repository, or does not show it."""


class UnreachableError(HubError):
    """The Hub cannot be asked now: what was fetched earlier may answer in its place."""

    exit_code: ClassVar[int] = 5


def with_nearest(error: HubError, words: str, known: Iterable[str]) -> HubError:
    """Return the error with the names nearest to what was asked for, of those that are built in."""
    nearest = nearest_names(words, known)
    return type(error)(f"{error} Of what is built in, did you mean {', '.join(nearest)}?") if nearest else error


def missing_library(name: str) -> UnreachableError:
    """Return the error where the Hub's library is not installed."""
    return UnreachableError(
        f"{name} is a name of the Hugging Face Hub, whose library is not installed: pip install huggingface_hub, or "
        "save its config.json and write hf:config.json."
    )


def offline(name: str) -> UnreachableError:
    """Return the error where the Hub's offline switch is set."""
    return UnreachableError(
        f"{name} is not in the local cache, and HF_HUB_OFFLINE forbids to ask the Hugging Face Hub: unset it to fetch "
        "its configuration (some kB, no weights), or save its config.json and write hf:config.json."
    )


def unreachable(name: str, endpoint: str, reason: str) -> UnreachableError:
    """Return the error where no connection comes about."""
    line = (reason.strip().splitlines() or ["no reason given"])[0].rstrip(".")[:200]
    return UnreachableError(
        f"{name} needs its configuration (some kB, no weights) from {endpoint}, which cannot be reached: "
        f"{line}; save its config.json and write hf:config.json to do without."
    )


def cut_off(name: str) -> UnreachableError:
    """Return the error where an answer ends early."""
    return UnreachableError(f"{name}: the Hub's answer was cut off, and nothing was kept of it; try again.")


def refusal_of_status(answer: Any, name: str, *, has_token: bool) -> HubError:
    """Return the error that a status of HTTP stands for.

    Private and missing repositories are both answered 401 without a token, and 404 with one that may not see them:
    https://huggingface.co/docs/huggingface_hub (errors), looked up in its source, release 2.4.
    """
    status, code = answer.status_code, answer.headers.get("X-Error-Code", "")
    host = f"{answer.request.url.scheme}://{answer.request.url.netloc.decode()}"
    repository = name.partition("@")[0].partition(":")[0]
    if code == "GatedRepo":
        sent = "the token that was sent is of an account without access" if has_token else f"then {_TOKEN}"
        return HubError(
            f"{repository} is gated: accept its conditions at {host}/{repository}; {sent}. Its built-in entry, where "
            "`capplan llm models` lists one, needs neither."
        )
    if code == "RevisionNotFound":
        return HubError(f"{name}: {repository} has no such revision; leave it out for the main branch.")
    if code == "EntryNotFound":
        return HubError(f"{name}: {repository} has no {str(answer.request.url.path).rpartition('/')[2]}.")
    if status in (401, 403) and has_token:
        return NotOnHubError(
            f"{repository}: the Hub refuses the token that was sent ({status}): it is not valid, or may not read this "
            f"repository; {_TOKEN} of an account that may."
        )
    if status in (401, 404):
        private = "" if has_token else f" A private one needs a token: {_TOKEN}."
        return NotOnHubError(f"{repository} is neither here nor on the Hugging Face Hub.{private}")
    if status == 403:
        return HubError(f"{repository}: the Hub refuses access (403); {_TOKEN} of an account that may read it.")
    if status == 429:
        wait = answer.headers.get("Retry-After", "")
        when = f"in {wait} s" if wait.isdigit() else "later"
        known = "" if has_token else f", or {_TOKEN}, which raises the limit"
        return UnreachableError(
            f"{name}: the Hub answers no more requests from here for now (429): ask again {when}{known}."
        )
    return UnreachableError(f"{name}: {host} answers {status}; try again later.")
