"""Errors as problem documents (RFC 9457), with the sentences that the command line prints."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

PROBLEM_TYPE = "application/problem+json"
STATUS_OF_EXIT_CODE = {2: 400, 3: 422, 70: 500}
"""HTTP status by the exit code of the command line: bad input, a model that cannot be traced, a bug."""


class ProblemError(Exception):
    """A request that is refused, with its status and sentence."""

    def __init__(
        self, status: int, detail: str, *, exit_code: int | None = None, headers: Mapping[str, str] = {}
    ) -> None:
        """Take what the answer says.

        Args:
            status: the HTTP status.
            detail: one sentence on what is wrong and what would do.
            exit_code: what the command line would exit with, where it would.
            headers: further headers of the answer.
        """
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.exit_code = exit_code
        self.headers = dict(headers)


def problem_document(status: int, detail: str, *, exit_code: int | None = None) -> dict[str, Any]:
    """Return a problem document; its title is the phrase of its status, as RFC 9457 asks of `about:blank`."""
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
    }
    return document if exit_code is None else {**document, "exit_code": exit_code}


def problem_response(error: ProblemError) -> Response:
    """Return the answer to a request that is refused."""
    document = problem_document(error.status, error.detail, exit_code=error.exit_code)
    return Response(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        status_code=error.status,
        media_type=PROBLEM_TYPE,
        headers={"Cache-Control": "no-store", **error.headers},
    )


def refused(message: str, exit_code: int) -> ProblemError:
    """Return the problem for a question without an answer.

    Args:
        message: the sentence of the command line.
        exit_code: what the command line would exit with.
    """
    return ProblemError(STATUS_OF_EXIT_CODE.get(exit_code, 400), message, exit_code=exit_code)
