"""What `torch.cuda` and `torch.accelerator` answer while a model is traced as on a CUDA device."""

import pytest
import torch

from capplan.probe.foreign.machine.cuda import cuda_present


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="PyTorch 2.6 brought torch.accelerator")
def test_an_optimizer_of_a_cuda_build_finds_a_stream_that_records_no_graph() -> None:
    """As `Optimizer._accelerator_graph_capture_health_check` asks where PyTorch is built for CUDA."""
    real = torch.accelerator.current_stream
    with cuda_present(lambda _: None):
        assert torch.accelerator.current_stream().is_capturing() is False
    assert torch.accelerator.current_stream is real
