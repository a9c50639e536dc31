"""The shape of a machine's acceptance."""

from typing import Final

from capplan.core.measurement.acceptance import Acceptance, MachineFinding
from capplan.shapes.common import VERSIONED
from capplan.shapes.shape import Shape, figure
from capplan.shapes.shape import column as shown

# fmt: off
FINDING: Final = Shape("FindingDocument", MachineFinding, "One thing that was compared, in words.", (
    figure("what", show=shown("what", csv="expected")),
    figure("planned", show=shown("planned", csv="expected")),
    figure("found", show=shown("found", csv="expected")),
    figure("mark", meaning="as planned, remark or refused", show=shown("", csv="expected")),
    figure("source", meaning="the file, machine or day that states it", show=shown("by", csv="expected", rank=1)),
))
ACCEPTANCE: Final = Shape("AcceptanceDocument", Acceptance, "What `capplan accept --json` writes: a delivered machine compared with its plan.", (
    *VERSIONED,
    figure("plan"),
    figure("machine"),
    figure("verdict", meaning="accepted, accepted with remarks or refused"),
    figure("decided_by", FINDING, "the finding that decided; null where none did"),
    figure("findings", FINDING),
    figure("missing", meaning="what could not be compared"),
))
# fmt: on
