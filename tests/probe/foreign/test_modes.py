"""A model's mode is set without running what else is called `train`."""

import pytest
import torch
from torch import Tensor, nn

from capplan.probe.foreign.preserve import set_mode


class Launcher(nn.Module):
    """Starts a training run where others take a mode, as the outermost object of ultralytics does."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())

    def train(self, trainer: object = None, **_: object) -> "Launcher":  # type: ignore[override]  # as in the wild
        raise AssertionError(f"training started with {trainer}")


class FrozenNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.drop = nn.Dropout()

    def train(self, mode: bool = True) -> "FrozenNorm":
        super().train(mode)
        self.norm.eval()
        return self


@pytest.mark.parametrize("training", [True, False])
def test_no_training_run_is_started(training: bool) -> None:
    module = nn.Sequential(Launcher())
    set_mode(module, training=training)
    assert all(part.training is training for part in module.modules())


def test_norms_that_a_model_keeps_frozen_stay_so() -> None:
    module = nn.Sequential(FrozenNorm())
    set_mode(module, training=True)
    assert (module[0].drop.training, module[0].norm.training) == (True, False)


def test_an_exported_program_takes_a_mode() -> None:
    module = torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),)).module()
    with pytest.raises(NotImplementedError):
        module.train(False)
    set_mode(module, training=False)
    out: Tensor = module(torch.zeros(1, 2))
    assert out.shape == (1, 2)
