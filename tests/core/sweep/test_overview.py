"""Failures grouped, rates and remaining time."""

from capplan.core.sweep.overview import Failed, Standing, group_failures


def test_like_reasons_are_one_group_whatever_the_model() -> None:
    failures = [
        (
            f"timm:net{index}",
            Failed(kind="trace", reason=f"running timm:net{index} failed: 'x{index}' is missing; do this"),
        )
        for index in range(4)
    ]
    failures.append(("own.py:Net", Failed(kind="crash", reason="its process was killed by SIGSEGV")))
    first, second = group_failures(failures)
    assert (first.kind, first.count, first.examples) == ("trace", 4, ("timm:net0", "timm:net1", "timm:net2"))
    assert first.reason == "running … failed: … is missing"
    assert second.reason == "its process was killed by SIGSEGV"


def test_what_is_left_takes_as_long_as_what_this_run_did() -> None:
    """10 of 100 models were known; 30 took 60 s, so that the 60 that are left take 120 s."""
    standing = Standing(models=100, finished=40, kept=10, failed=1, rows=300, elapsed_s=60.0)
    assert standing.remaining_s == 120.0
    assert standing.rows_per_s == 5.0
