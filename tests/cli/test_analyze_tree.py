"""`capplan analyze` as users of fvcore's `flop_count_table` expect it: a tree with totals, shares and parameters."""

import json
import warnings
from pathlib import Path

import pytest

import capplan
from capplan.core.ops.module_tree import ModuleNode, module_tree, parameters_by_dtype
from capplan.core.workload import Configuration
from capplan.probe.foreign.libraries import import_torchvision
from tests.cli.conftest import NET, Run
from tests.seen import at_least


@pytest.mark.zoo
def test_the_tree_counts_what_fvcore_counts() -> None:
    import torch

    with warnings.catch_warnings():  # other libraries' deprecations
        warnings.simplefilter("ignore")
        from fvcore.nn import ActivationCountAnalysis, FlopCountAnalysis, parameter_count

        model, image = import_torchvision().models.resnet18().eval(), torch.zeros(1, 3, 224, 224)
        flops = FlopCountAnalysis(model, image).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        activations = ActivationCountAnalysis(model, image).unsupported_ops_warnings(False)
        activations = activations.uncalled_modules_warnings(False)
        macs, written = flops.by_module_and_operator(), activations.by_module()
    nodes = {node.path: node for node in _tree("torchvision:resnet18")}
    parameters = parameter_count(model)
    for path, node in at_least(60, nodes.items()):
        assert node.parameters == parameters[path]
        # fvcore calls a multiply-accumulate one flop, and adds norms and pooling, which are no products
        assert node.macs == sum(macs[path][each] for each in ("conv", "linear"))
        assert node.activations == written[path]


def _tree(words: str) -> tuple[ModuleNode, ...]:
    trace = capplan.trace(words)
    return module_tree(trace, configuration=Configuration(), batch=1)


def test_a_module_holds_all_below_it() -> None:
    trace = capplan.trace(NET, inputs=["x=3x224x224"])
    nodes = module_tree(trace, configuration=Configuration(), batch=4)
    whole, paths = nodes[0], {node.path: node for node in nodes}
    assert whole.path == ""
    assert whole.parameters == trace.parameter_count
    for path, node in paths.items():
        children = [each for each in nodes if each.path and each.path.rpartition(".")[0] == path and each is not node]
        assert node.flops >= sum(child.flops for child in children)
    # the head is one product of 256 features and 10 classes for each of 4 images, with a bias
    assert (paths["head"].macs, paths["head"].parameters) == (4 * 256 * 10, 2570)
    assert paths["head"].own_parameters == (("weight", (10, 256)), ("bias", (10,)))
    # 4 images of 64 × 112², 128 × 56² and 256 × 28² positions, and 10 scores
    written = 4 * (64 * 112**2 + 128 * 56**2 + 256 * 28**2 + 10)
    assert whole.activations == written


def test_parameters_by_dtype_say_what_other_dtypes_take() -> None:
    (share,) = parameters_by_dtype(capplan.trace(NET, inputs=["x=3x224x224"]))
    assert share.dtype == "float32"
    assert share.size_bytes == 4 * share.parameters == share.bytes_as("float32")
    assert share.bytes_as("float16") == 2 * share.parameters
    assert share.bytes_as("int8") == share.parameters
    assert share.bytes_as("int4") == share.parameters // 2


def test_tables_have_totals_and_shares(run: Run, net_trace: Path) -> None:
    text = run("analyze", net_trace).stdout
    tree = text[text.index("Modules, each with all below it") : text.index("By operator")].splitlines()
    model, stages = (next(line for line in tree if line.strip().startswith(name)) for name in ("Net", "stages"))
    assert model.count("100 %") == 2
    assert stages.startswith("  stages")
    by_operator = text[text.index("By operator") : text.index("By module and operator")]
    assert by_operator.rstrip().splitlines()[-1].startswith("total")
    assert "as float16" in text
    assert "aten.convolution" in text[text.index("By module and operator") :]


def test_depth_and_top_narrow_the_tables(run: Run, net_trace: Path) -> None:
    shallow = run("analyze", net_trace, "--depth", "1", "--top", "0").stdout
    assert "    weight" in shallow or "  stages" in shallow
    assert "\n    0 " not in shallow
    assert "By module and operator" not in shallow
    assert "the first 1 of " in run("analyze", net_trace, "--top", "1").stdout
    assert "| · head" in run("analyze", net_trace, "--format", "md").stdout


def test_json_holds_the_tree_and_what_other_dtypes_take(run: Run, net_trace: Path) -> None:
    document = json.loads(run("analyze", net_trace, "--json").stdout)
    whole, *below = document["tree"]
    for key in ("macs", "flops", "params", "bytes"):
        assert whole[key] == document[key]
    children = [node for node in below if node["depth"] == 1]
    assert sum(node["params_fraction"] for node in children) == pytest.approx(1)
    (share,) = document["params_by_dtype"]
    assert share["bytes_as"] == {
        "float32": 4 * share["params"], "float16": 2 * share["params"], "float8": share["params"],
        "int8": share["params"], "int4": share["params"] // 2,
    }  # fmt: skip
    shallow = json.loads(run("analyze", net_trace, "--json", "--depth", "1").stdout)
    assert max(node["depth"] for node in shallow["tree"]) == 1


def test_what_no_formula_counts_is_named_once_with_its_share_of_the_bytes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pairs.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.ones(1, 7, 3))\n\n"
        "    def forward(self, x):\n        return torch.conv_tbc(x, self.weight, self.weight[0, 0]) + 1\n"
    )
    said = run("analyze", f"{tmp_path}/pairs.py:Net", "--input", "x=5x7").stdout
    # the convolution reads 5 x 7, 7 x 3 and 3 numbers and writes 5 x 3, of 4 bytes: 296 B; the addition reads and
    # writes 15: 120 B
    assert f"{100 * 120 / 416:.1f} % of bytes counted; uncounted: 1 × aten::conv_tbc;" in said
