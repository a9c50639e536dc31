"""Exports of prices that hold anything end in an answer that is read again, or in one sentence."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.errors import CapplanError
from capplan.specs import load_gpus
from capplan.specs.price_import import import_quotes
from capplan.specs.prices import load_price_file
from tests.fuzz.mutations import bent, many
from tests.specs.test_price_exports import AWS_PRODUCT, gcp_sku

AZURE = {
    "currencyCode": "USD", "armRegionName": "westeurope", "armSkuName": "Standard_NC24ads_A100_v4", "retailPrice": 4.7,
    "productName": "Virtual Machines NCADS_A100_v4 Series", "unitOfMeasure": "1 Hour", "type": "Consumption",
    "skuName": "NC24ads A100 v4",
}  # fmt: skip
SPOT = {
    "AvailabilityZone": "us-east-1a", "InstanceType": "p5.48xlarge", "ProductDescription": "Linux/UNIX",
    "SpotPrice": "9.5", "Timestamp": "2026-11-19T10:00:00Z",
}  # fmt: skip
SHADEFORM = {
    "cloud": "hyperstack", "shade_instance_type": "H100_sxm5x8", "cloud_instance_type": "n3-H100-SXM5x8",
    "configuration": {"gpu_type": "H100", "interconnect": "sxm5", "num_gpus": 8}, "hourly_price": 1920,
    "availability": [{"region": "montreal-canada-2", "available": True}],
}  # fmt: skip
GCP = [
    gcp_sku("Nvidia L4 GPU running in Virginia", "OnDemand", 560_000_000, "us-east4"),
    gcp_sku("G2 Instance Core running in Virginia", "OnDemand", 25_000_000, "us-east4"),
    gcp_sku("G2 Instance Ram running in Virginia", "OnDemand", 3_000_000, "us-east4"),
]
RUNPOD = {"id": "NVIDIA H100 80GB HBM3", "securePrice": 2.69, "communityPrice": 2.2, "secureSpotPrice": None}
DOCUMENTS: dict[str, Any] = {
    "aws": {"PriceList": [AWS_PRODUCT]},
    "spot": {"SpotPriceHistory": [SPOT, {**SPOT, "AvailabilityZone": "us-east-1b", "SpotPrice": "20"}]},
    "azure": {"Items": [AZURE, {**AZURE, "type": "Reservation", "reservationTerm": "1 Year", "retailPrice": 87600}]},
    "runpod": {"data": {"gpuTypes": [RUNPOD]}},
    "gcp": json.loads(json.dumps({"skus": GCP})),
    "shadeform": {"instance_types": [SHADEFORM]},
}
GPUS = load_gpus()


def check_import(path: Path) -> None:
    """Import a file; what is written must be read again, and what is refused must be refused in a sentence."""
    try:
        made = import_quotes(path, GPUS, read_on=date(2026, 11, 20))
    except CapplanError:
        return
    folder = path.parent / "prices"
    folder.mkdir(exist_ok=True)
    for name, text in made.files.items():
        (folder / name).write_bytes(text.encode())
        load_price_file(folder / name, GPUS)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_bent_export_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    check_import(saved(tmp_path, DOCUMENTS[kind]))

    @many
    @given(document=bent(DOCUMENTS[kind]))
    def bend(document: Any) -> None:
        check_import(saved(tmp_path, document))

    bend()


CELL = st.one_of(st.sampled_from(["l4", "spot", "acme", "0,70", "1e-7", "2026-10-01", "8", ""]), st.text(max_size=20))


def test_a_table_of_anything_is_read_or_refused(tmp_path: Path) -> None:
    @many
    @given(provider=CELL, price=CELL, gpus=CELL, region=CELL, note=CELL)
    def bend(**cells: str) -> None:
        row = {"gpu": "l4", "term": "spot", "date": "2026-10-01", **cells}
        path = tmp_path / "quotes.csv"
        quoted = ",".join('"' + cell.replace('"', '""') + '"' for cell in row.values())
        path.write_bytes(f"{','.join(row)}\n{quoted}\n".encode(errors="replace"))
        check_import(path)

    bend()


@pytest.mark.parametrize(
    "content",
    [
        '{"data": {"gpuTypes": [{"id": 5, "securePrice": 0.4}]}}',
        '{"data": {"gpuTypes": [{"id": ["l4"], "securePrice": 0.4}]}}',
        json.dumps({"PriceList": ["[" * 100_000]}),
        json.dumps({"SpotPriceHistory": [{**SPOT, "Timestamp": [1]}]}),
        json.dumps({"Items": [{**AZURE, "armRegionName": {"a": 1}}]}),
    ],
)
def test_a_value_of_another_type_is_refused_in_a_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(content)
    with pytest.raises(CapplanError, match="but not in its form"):
        import_quotes(path, GPUS, read_on=date(2026, 11, 20))


def saved(folder: Path, document: Any) -> Path:
    path = folder / "export.json"
    path.write_text(json.dumps(document))
    return path
