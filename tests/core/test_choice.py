"""One rule decides between cost and evidence."""

from hypothesis import given
from hypothesis import strategies as st

from capplan.core.choice import choose, evidence_rank

OPTIONS = st.lists(st.tuples(st.floats(min_value=0.01, max_value=1e6), st.booleans()), min_size=1, max_size=8)


def test_the_cheapest_of_good_evidence_is_chosen_and_a_clearly_cheaper_one_is_named() -> None:
    made = choose([(10.0, False), (12.0, False), (8.0, True)], cost=lambda each: each[0], is_weak=lambda each: each[1])
    assert made[0] == (10.0, False)
    assert made[1] == (8.0, True)


def test_a_tenth_cheaper_is_not_clearly_cheaper() -> None:
    made = choose([(10.0, False), (9.0, True)], cost=lambda each: each[0], is_weak=lambda each: each[1])
    assert made[1] is None


def test_where_no_evidence_is_good_the_cheapest_is_chosen() -> None:
    made = choose([(10.0, True), (9.0, True)], cost=lambda each: each[0], is_weak=lambda each: each[1])
    assert made[0] == (9.0, True)
    assert made[1] is None


@given(OPTIONS)
def test_the_first_in_rank_is_the_choice(options: list[tuple[float, bool]]) -> None:
    made = choose(options, cost=lambda each: each[0], is_weak=lambda each: each[1])
    assert min(options, key=lambda each: evidence_rank(cost=each[0], is_weak=each[1])) == made[0]
