"""The resources: the GPU database and the prices, as the documents of the command line."""

from urllib.parse import unquote

import mcp_types

from capplan.errors import CapplanError, UnknownNameError
from capplan.serve.planning.replies import Refusal, Task
from capplan.serve.questions import types
from capplan.serve.service import Service

GPUS, PRICES = "capplan://gpus", "capplan://prices"
ONE_GPU = "capplan://gpus/{gpu}"
_JSON = "application/json"


def resources() -> list[mcp_types.Resource]:
    """Return the resources that have one address."""
    return [
        mcp_types.Resource(name="gpus", uri=GPUS, mime_type=_JSON, description="All GPUs of the database."),
        mcp_types.Resource(
            name="prices", uri=PRICES, mime_type=_JSON, description="What GPUs cost to rent and to buy."
        ),
    ]


def templates() -> list[mcp_types.ResourceTemplate]:
    """Return the resources whose address holds a name."""
    about = "Every value of one GPU, with its source; the id as in capplan://gpus, such as l4."
    return [mcp_types.ResourceTemplate(name="gpu", uri_template=ONE_GPU, mime_type=_JSON, description=about)]


async def read_resource(service: Service, uri: str) -> mcp_types.ReadResourceResult:
    """Return the content of a resource.

    Raises:
        UnknownNameError: there is none of this address.
        CapplanError: there is no such GPU.
        BusyError: too much waits.
    """
    outcome = await service.answer(Task(question=_question(uri)))
    if isinstance(outcome, Refusal):
        raise CapplanError(outcome.message)
    content = mcp_types.TextResourceContents(uri=uri, mime_type=_JSON, text=outcome.content.decode())
    return mcp_types.ReadResourceResult(contents=[content])


def _question(uri: str) -> types.GpusQuestion | types.GpuQuestion | types.PricesQuestion:
    if uri == GPUS:
        return types.GpusQuestion()
    if uri == PRICES:
        return types.PricesQuestion()
    head, _, gpu = uri.rpartition("/")
    if head == GPUS and gpu:
        return types.GpuQuestion(gpu=unquote(gpu)[:200])
    raise UnknownNameError("resource", uri[:200], (GPUS, ONE_GPU, PRICES))
