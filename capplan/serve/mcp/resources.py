"""The resources: the GPU database and the prices as the documents of the command line, and pages of documentation."""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

import mcp_types

from capplan.docs_pages import docs_pages
from capplan.errors import CapplanError, UnknownNameError
from capplan.serve.planning.messages import Refusal, Task
from capplan.serve.service import PlanningService
from capplan.verbs.gpus import GpuQuestion, GpusQuestion
from capplan.verbs.prices import PricesQuestion

GPUS, PRICES, DOCS = "capplan://gpus", "capplan://prices", "capplan://docs/"
ONE_GPU = "capplan://gpus/{gpu}"
_JSON, _MARKDOWN = "application/json", "text/markdown"


def resources() -> list[mcp_types.Resource]:
    """Return the resources that have one address."""
    return [
        mcp_types.Resource(name="gpus", uri=GPUS, mime_type=_JSON, description="All GPUs of the database."),
        mcp_types.Resource(
            name="prices", uri=PRICES, mime_type=_JSON, description="What GPUs cost to rent and to buy."
        ),
        *(
            mcp_types.Resource(
                name=f"docs/{page.name}",
                uri=DOCS + page.name,
                title=page.title,
                mime_type=_MARKDOWN,
                description=page.summary,
            )
            for page in docs_pages().values()
        ),
    ]


def templates() -> list[mcp_types.ResourceTemplate]:
    """Return the resources whose address holds a name."""
    about = "Every value of one GPU, with its source; the id as in capplan://gpus, such as l4."
    return [mcp_types.ResourceTemplate(name="gpu", uri_template=ONE_GPU, mime_type=_JSON, description=about)]


async def read_resource(answering: Callable[[], Awaitable[PlanningService]], uri: str) -> mcp_types.ReadResourceResult:
    """Return the content of a resource.

    Args:
        answering: returns the service that answers, for all but pages.
        uri: the resource's address.

    Raises:
        UnknownNameError: there is none of this address.
        CapplanError: there is no such GPU.
        BusyError: too much waits.
    """
    page = docs_pages().get(uri.removeprefix(DOCS)) if uri.startswith(DOCS) else None
    if page is not None:
        return _contents(uri, _MARKDOWN, page.text)
    question = _question(uri)
    outcome = await (await answering()).answer(Task(question=question))
    if isinstance(outcome, Refusal):
        raise CapplanError(outcome.message)
    return _contents(uri, _JSON, outcome.content.decode())


def _contents(uri: str, kind: str, text: str) -> mcp_types.ReadResourceResult:
    content = mcp_types.TextResourceContents(uri=uri, mime_type=kind, text=text)
    return mcp_types.ReadResourceResult(contents=[content])


def _question(uri: str) -> GpusQuestion | GpuQuestion | PricesQuestion:
    if uri == GPUS:
        return GpusQuestion()
    if uri == PRICES:
        return PricesQuestion()
    head, _, gpu = uri.rpartition("/")
    if head == GPUS and gpu:
        return GpuQuestion(gpu=unquote(gpu)[:200])
    raise UnknownNameError("resource", uri[:200], (GPUS, ONE_GPU, PRICES, *(DOCS + name for name in docs_pages())))
