"""What GPUs that train together exchange, as a report takes it from a plan."""

from capplan.app.procurement.candidates import candidates_of
from capplan.core.gpus.rate_laws import DataParallelLaws
from capplan.shapes.plan import read_plan
from capplan.specs import load_gpus
from capplan.specs.fitted import load_power_law
from capplan.specs.load import read_demand
from tests.report.procurement.made_up import EXAMPLES, plan_document

LAWS = DataParallelLaws(step_share=0.02, link_share={"switched": 0.5, "mesh": 0.125, "host": 0.25, "consumer": 0.5})


def test_a_server_of_gpus_exchanges_gradients_by_the_law_that_was_fitted_to_steps() -> None:
    plan = read_plan(plan_document(mode="training"), where="toynet")
    found = {
        candidate.gpu: candidate.exchange
        for candidate in candidates_of(
            plan, load_gpus(), power_law=load_power_law(), data_parallel=LAWS,
            assumptions=read_demand(EXAMPLES / "training.load.yaml").assumptions,
        )
    }  # fmt: skip
    board, card = found["a100-sxm4-80gb"], found["t4"]
    assert board is not None
    assert card is not None
    # 25 million gradients in fp16 are 50 MB. Eight on a board move 2 · 7/8 of them, 87.5 MB, at half of 300 GB/s.
    assert (board.gradient_bytes, board.inside_name) == (50e6, "NVLink")
    assert abs(board.inside_s - 87.5e6 / 150e9) < 1e-9
    # Four cards move 2 · 3/4 of them, 75 MB, at a quarter of PCIe 3's 15.75 GB/s.
    assert card.inside_name == "PCIe"
    assert abs(card.inside_s - 75e6 / (0.25 * 15.75e9)) < 1e-4
    # A step of 0.1 s takes 2 % longer, and waits.
    assert abs(board.kept_fraction(step_s=0.1, is_across=False) - 0.1 / (0.102 + 87.5e6 / 150e9)) < 1e-9
