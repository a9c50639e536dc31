"""Plans of LLM serving over the shipped prices name machines that can be rented and wired."""

import random

import pytest

from capplan.app.deployments import Deployments, on_demand_offers, searched_gpus
from capplan.core.gpus.prices import Price, Term, current_offers
from capplan.llm.core.fleet.deployment_plan import DeploymentFit, DeploymentPlan
from capplan.llm.core.fleet.token_load import BatchJob, TokenLoad
from capplan.llm.core.search.plan import plan_deployments
from capplan.llm.core.search.search import SearchSpace
from capplan.llm.core.simulation.load_answer import LatencyLimits
from capplan.llm.read.calibrations import load_time_calibration
from capplan.specs import Gpus, load_gpus
from capplan.specs.prices import load_prices


class Market:
    """The shipped GPUs, offers and constants, loaded once."""

    def __init__(self) -> None:
        self.gpus: Gpus = load_gpus()
        self.prices = load_prices(self.gpus)
        self.rents = on_demand_offers(self.prices)
        self.deployments = Deployments(gpus=self.gpus)
        self.calibration = load_time_calibration(None)

    def plan(
        self, model: str, load: TokenLoad, limits: LatencyLimits, *, gpus: tuple[str, ...] = (), weights: str = ""
    ) -> DeploymentPlan:
        question = SearchSpace(
            model=model,
            load=load,
            limits=limits,
            gpus=gpus or searched_gpus(self.gpus, self.rents),
            rents=self.rents,
            weights=(weights,),
        )
        return plan_deployments(self.deployments.search(question, calibration=self.calibration))

    def orderable(self, fit: DeploymentFit) -> list[Price]:
        """Return the rows of the price files that are the fit's offer, looked up without the code that chose it."""
        rent = fit.rent
        return [
            price
            for price in current_offers(self.prices.hourly)
            if rent is not None
            and (price.gpu, price.provider, price.region) == (fit.gpu, rent.provider, rent.region)
            and (price.instance, price.instance_gpus) == (rent.instance, rent.instance_gpus)
            and price.term is Term.ON_DEMAND
            and price.usd_per_hour == rent.usd_per_hour
        ]


@pytest.fixture(scope="module")
def market(shipped_data: None) -> Market:
    return Market()


def assert_held(market: Market, fit: DeploymentFit) -> None:
    """Assert that the rented machines hold every replica, with the links that its times assume."""
    (offer, *_) = market.orderable(fit)
    group = fit.sharding.tensor * fit.sharding.data
    assert fit.machines is not None
    assert fit.machines * offer.instance_gpus >= fit.gpus
    assert fit.sharding.gpus <= offer.instance_gpus or offer.machine is not None
    if 1 < group <= fit.server.joined:
        assert offer.joined >= group
    assert fit.usd_per_hour == pytest.approx(fit.machines * offer.usd_per_machine_hour)


SEVEN = [
    # the questions that once named GH200 four times and V100 three times, which are rented one by one
    ("llama-3.1-70b-instruct", TokenLoad(rate_per_s=20, input_len=2000, output_len=300), (1.0, 0.040)),
    ("llama-3.1-8b-instruct", TokenLoad(rate_per_s=20, input_len=1000, output_len=200), (0.5, 0.030)),
    ("qwen3-30b-a3b", TokenLoad(rate_per_s=10, input_len=1000, output_len=200), (1.0, 0.030)),
    ("qwen3-32b", TokenLoad(rate_per_s=10, input_len=1000, output_len=200), (1.0, 0.040)),
    ("llama-3.1-70b-instruct", TokenLoad(rate_per_s=5, input_len=1000, output_len=200), (1.0, 0.030)),
    ("gpt-oss-120b", TokenLoad(concurrency=64, input_len=1000, output_len=300), (2.0, 0.050)),
    ("mistral-small-3.2-24b-2506", TokenLoad(rate_per_s=8, input_len=1500, output_len=250), (1.0, 0.030)),
]


@pytest.mark.parametrize(
    ("model", "load", "limits"),
    [
        SEVEN[0],
        *(pytest.param(*each, marks=pytest.mark.nightly) for each in SEVEN[1:]),
    ],
)
@pytest.mark.slow
def test_the_recommended_deployment_stands_in_machines_of_an_offer(
    market: Market, model: str, load: TokenLoad, limits: tuple[float, float]
) -> None:
    plan = market.plan(model, load, LatencyLimits(ttft_s=limits[0], tpot_s=limits[1]))
    assert plan.recommended is not None
    assert plan.recommended.rent is not None
    for fit in plan.fits:
        if fit.rent is not None:
            assert_held(market, fit)


ALONE = [
    # of these each once named a pipeline over machines of one GPU, rented one by one
    (
        "deepseek-v3.1",
        TokenLoad(rate_per_s=2, input_len=1024, output_len=256),
        LatencyLimits(tpot_s=0.05),
        "mi300x",
        "",
    ),
    (
        "qwen3-32b",
        TokenLoad(rate_per_s=2, input_len=1024, output_len=256),
        LatencyLimits(ttft_s=10.0, tpot_s=0.2),
        "l40s",
        "fp8",
    ),
    (
        "qwen3-8b",
        TokenLoad(rate_per_s=5, input_len=1024, output_len=256),
        LatencyLimits(ttft_s=10.0, tpot_s=0.2),
        "rtx-4090",
        "",
    ),
    (
        "qwen3-32b",
        TokenLoad(rate_per_s=1e6 / 86400, input_len=3000, output_len=300, job=BatchJob(prompts=10**6, within_s=86400)),
        LatencyLimits(),
        "gh200-96gb",
        "fp8",
    ),
]


@pytest.mark.parametrize("asked", ALONE)
def test_no_replica_spans_machines_without_a_network(
    market: Market, asked: tuple[str, TokenLoad, LatencyLimits, str, str]
) -> None:
    model, load, limits, gpu, weights = asked
    plan = market.plan(model, load, limits, gpus=(gpu,), weights=weights)
    assert plan.recommended is not None
    assert plan.recommended.rent is not None
    for fit in plan.fits:
        if fit.rent is not None and fit.sharding.gpus > fit.rent.instance_gpus:
            assert fit.rent.machine is not None
            assert fit.rent.machine.network_bytes_per_s
    if gpu != "mi300x":  # one GPU holds the model, so that whole replicas carry as much at the price of a pipeline
        assert plan.recommended.sharding.gpus == 1


@pytest.mark.slow
def test_eight_h200_cost_what_a_machine_of_eight_costs(market: Market) -> None:
    # Rented one by one they are 2.50 USD each; the cheapest machine of eight asks 32 USD an hour.
    load = TokenLoad(concurrency=64, input_len=1000, output_len=300)
    plan = market.plan("deepseek-v3", load, LatencyLimits(tpot_s=0.05), gpus=("h200-sxm-141gb",))
    assert plan.recommended is not None
    assert plan.recommended.usd_per_hour is not None
    assert plan.recommended.usd_per_hour >= 32.0


def test_v100_in_one_machine_of_eight_cost_what_the_files_ask(market: Market) -> None:
    # 6.32 USD an hour for Lambda's eight, not eight times 0.17.
    offers = [rent for rent in market.rents["v100-sxm2-16gb"] if rent.instance_gpus == 8]
    assert min(rent.usd_per_machine_hour for rent in offers) == pytest.approx(6.32)


@pytest.mark.parametrize(
    ("seed", "questions"), [(31, 2), *(pytest.param(seed, 8, marks=pytest.mark.nightly) for seed in range(31, 36))]
)
def test_no_random_question_names_machines_that_cannot_be_rented(market: Market, seed: int, questions: int) -> None:
    """Ask random questions of two GPUs each; offers must hold whatever carries the load."""
    random_source = random.Random(seed)
    names = searched_gpus(market.gpus, market.rents)
    models = ["llama-3.1-8b-instruct", "qwen3-32b", "llama-3.1-70b-instruct", "qwen3-30b-a3b", "gpt-oss-20b"]
    held = 0
    for _ in range(questions):
        load = TokenLoad(
            rate_per_s=random_source.choice([0.5, 2, 8, 30]),
            input_len=random_source.choice([200, 1000, 4000]),
            output_len=random_source.choice([50, 300]),
        )
        limits = LatencyLimits(ttft_s=random_source.choice([0.5, 2.0]), tpot_s=random_source.choice([0.03, 0.1]))
        chosen = tuple(random_source.sample(names, 2))
        for fit in market.plan(random_source.choice(models), load, limits, gpus=chosen).fits:
            if fit.rent is not None:
                assert_held(market, fit)
                held += 1
    assert held > questions
