"""Rows of SkyPilot's public catalogue become the offers that they are.

Rows are of https://github.com/skypilot-org/skypilot-catalog, catalogs/v8, read on 2026-11-27 at the commits that stand
beside them; rows of Google's accelerators have the form of its columns, with round figures.
"""

from datetime import date
from pathlib import Path

import pytest

from capplan.core.gpus.prices import Price, Term
from capplan.specs import load_gpus
from capplan.specs.price_import import ImportedPrices, import_quotes
from capplan.specs.prices import load_price_file

DAY = date(2026, 11, 20)
GPUS = load_gpus()


def imported(folder: Path, cloud: str, *lines: str) -> ImportedPrices:
    (folder / cloud).mkdir()
    path = folder / cloud / "vms.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return import_quotes(path, GPUS, read_on=DAY)


def offers(folder: Path, cloud: str, *lines: str) -> list[Price]:
    found: list[Price] = []
    for name, text in imported(folder, cloud, *lines).files.items():
        (folder / name).write_text(text, encoding="utf-8")
        found += load_price_file(folder / name, GPUS).hourly
    return found


def info(name: str, count: int, mib: int, total: int) -> str:
    return (
        f"\"{{'Gpus': [{{'Name': '{name}', 'Count': {count}, 'MemoryInfo': {{'SizeInMiB': {mib}}}}}], "
        f"'TotalGpuMemoryInMiB': {total}}}\""
    )


VAST = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region"


@pytest.mark.parametrize(
    ("card", "name", "count", "mib", "place", "offer"),  # catalogs/v8/vast/vms.csv@01b8cdda2878
    [
        ("A100_PCIE", "A100", 1, 81920, "Oklahoma, US, NA", ("a100-pcie-80gb", "us", "Oklahoma")),
        ("A100_SXM4", "A100", 1, 40960, "Bavaria, DE, EU", ("a100-sxm4-40gb", "de", "Bavaria")),
        ("H200", "H200", 2, 287542, "France, FR, EU", ("h200-sxm-141gb", "fr", "France")),
        ("H100_NVL", "H100", 1, 95830, "Bulgaria, BG, EU", ("h100-nvl-94gb", "bg", "Bulgaria")),
        ("H100_SXM", "H100", 4, 326236, ", US, NA", ("h100-sxm5-80gb", "us", "us")),
        ("RTX_4070S_Ti", "RTX4070", 2, 32752, "Bulgaria, BG, EU", ("rtx-4070-ti-super", "bg", "Bulgaria")),
        ("RTX_4060_Ti", "RTX4060", 1, 16380, "United Kingdom, GB, EU", ("rtx-4060-ti-16gb", "gb", "United Kingdom")),
        ("RTX_PRO_6000_S", "RTXPRO6000S", 1, 97887, "New York, US, NA",
         ("rtx-pro-6000-blackwell-server", "us", "New York")),
    ],
)  # fmt: skip
def test_a_marketplace_s_card_is_that_of_its_memory_and_form(  # noqa: PLR0917
    tmp_path: Path, card: str, name: str, count: int, mib: int, place: str, offer: tuple[str, str, str]
) -> None:
    row = f'{count}x-{card}-32-65536,{name},{count},32,64.0,{info(name, count, mib, mib)},2.50,0.00,"{place}"'
    (found,) = offers(tmp_path, "vast", VAST, row)
    assert (found.gpu, found.country, found.region) == offer
    assert (found.instance_gpus, found.usd_per_machine_hour) == (count, pytest.approx(2.5))
    assert (found.provider, found.is_marketplace) == ("vast.ai", True)


def test_a_card_of_another_memory_size_is_another_card(tmp_path: Path) -> None:
    changed, unknown = (
        f'1x-RTX_4090-32-65536,RTX4090,1,32,64.0,{info("RTX4090", 1, mib, mib)},0.40,0.00,"Hong Kong, HK, AS"'
        for mib in (49140, 98280)
    )
    made = imported(tmp_path, "vast", VAST, changed, unknown)
    assert [quote.gpu for quote in made.quotes] == ["rtx-4090-modified-48gb"]
    assert "of 96 GiB" in made.left_out[0].reason


GCP = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice"


def test_google_s_rows_of_hosts_and_accelerators_are_joined_into_machines(tmp_path: Path) -> None:
    host = "europe-west4,europe-west4-a"
    found = offers(
        tmp_path, "gcp", GCP,
        f"a2-highgpu-1g,12.0,85.0,,,,{host},0.81406,0.31824",  # catalogs/v8/gcp/vms.csv@006059e0f18a
        f"a2-ultragpu-1g,12.0,170.0,,,,{host},1.2105,0.47328",
        f"g2-standard-96,96.0,384.0,,,,{host},3.0,1.0",
        "g2-standard-96,96.0,384.0,,,,europe-west3,europe-west3-a,3.5,1.0",
        f",,,A100,1,,{host},3.0,1.5",
        f",,,A100-80GB,1,,{host},4.0,2.0",
        f",,,L4,8,,{host},5.0,",
        f",,,T4,1,,{host},0.35,0.11",
        f"n1-standard-8,8.0,30.0,,,,{host},0.4,0.1",
    )  # fmt: skip
    prices = {(offer.instance, offer.term): (offer.gpu, offer.usd_per_machine_hour) for offer in found}
    assert prices == {
        ("a2-highgpu-1g", Term.ON_DEMAND): ("a100-sxm4-40gb", pytest.approx(3.81406)),
        ("a2-highgpu-1g", Term.SPOT): ("a100-sxm4-40gb", pytest.approx(1.81824)),
        ("a2-ultragpu-1g", Term.ON_DEMAND): ("a100-sxm4-80gb", pytest.approx(5.2105)),
        ("a2-ultragpu-1g", Term.SPOT): ("a100-sxm4-80gb", pytest.approx(2.47328)),
        ("g2-standard-96", Term.ON_DEMAND): ("l4", pytest.approx(8.0)),
    }


def test_a_machine_that_google_does_not_sell_on_demand_is_no_offer(tmp_path: Path) -> None:
    """A3 High below eight GPUs is sold as spot and flex-start.

    https://cloud.google.com/compute/docs/accelerator-optimized-machines#consumption_option_availability_by_machine_type
    """
    zone = "europe-west4,europe-west4-b"
    found = offers(
        tmp_path, "gcp", GCP,
        f"a3-highgpu-1g,26.0,234.0,,,,{zone},1.24163,0.28434",
        f"a3-highgpu-8g,208.0,1872.0,,,,{zone},9.93306,2.27469",
        f",,,H100,1,,{zone},9.0,2.0",
        f",,,H100,8,,{zone},72.0,16.0",
    )  # fmt: skip
    assert {(offer.instance, offer.term, offer.is_orderable) for offer in found} == {
        ("a3-highgpu-1g", Term.ON_DEMAND, False),
        ("a3-highgpu-1g", Term.SPOT, True),
        ("a3-highgpu-8g", Term.ON_DEMAND, True),
        ("a3-highgpu-8g", Term.SPOT, True),
    }


def test_runpod_s_memory_is_in_gib_and_its_region_a_country(tmp_path: Path) -> None:
    row = "AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,SpotPrice,Price,AvailabilityZone,GpuInfo"
    found = offers(  # catalogs/v8/runpod/vms.csv@01acdfd419ce
        tmp_path, "runpod", f"InstanceType,{row}",
        f'1x_A100-80GB_SECURE,A100-80GB,1.0,8.0,117.0,CZ,1.39,1.39,EU-CZ-1,{info("A100 PCIe", 1, 80, 80)}',
        f'2x_A100-80GB_SECURE,A100-80GB,2.0,16.0,234.0,NO,2.78,2.78,EUR-NO-1,{info("A100 PCIe", 2, 80, 160)}',
        f'2x_A100-80GB_SECURE,A100-80GB,2.0,16.0,234.0,NO,2.78,2.78,EUR-NO-2,{info("A100 PCIe", 2, 80, 160)}',
    )  # fmt: skip
    assert [(offer.gpu, offer.instance_gpus, offer.usd_per_hour, offer.country, offer.term) for offer in found] == [
        ("a100-pcie-80gb", 1, 1.39, "cz", Term.ON_DEMAND),
        ("a100-pcie-80gb", 2, 1.39, "no", Term.ON_DEMAND),
    ]


def test_verda_s_machines_are_known_by_their_names(tmp_path: Path) -> None:
    head = (
        "InstanceType,UpstreamCloudId,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,Price,SpotPrice"
    )
    gpu = '"{{""Gpus"": [{{""Name"": ""{0}"", ""Count"": {1}}}], ""TotalGpuMemoryInMiB"": {2}}}"'
    found = offers(  # catalogs/v8/verda/vms.csv@000c1d0bf246
        tmp_path, "verda", head,
        f'1H100.80S.32V,1H100.80S.32V,32.0,185.0,H100,1.0,{gpu.format("H100", 1, 81920)},FIN-02,2.29,0.8015',
        f'1A100.22V,1A100.22V,22.0,120.0,A100-80GB,1.0,{gpu.format("A100-80GB", 1, 81920)},FIN-01,1.29,0.4515',
        f'2B300.60V,2B300.60V,60.0,550.0,B300,2.0,{gpu.format("B300", 2, 537600)},FIN-03,,4.893',
        f'1V100.6V,1V100.6V,6.0,23.0,V100,1.0,{gpu.format("V100", 1, 16384)},FIN-01,0.1381,',
        f'1RTXPRO6000.30V,x,30.0,90.0,RTX-PRO-6000,1.0,{gpu.format("RTX-PRO-6000", 1, 98304)},FIN-03,1.69,0.5915',
        "CPU.4V.16G,CPU.4V.16G,4.0,16.0,,,,FIN-01,0.0279,0.0098",
    )  # fmt: skip
    assert {(offer.gpu, offer.term, round(offer.usd_per_machine_hour, 4)) for offer in found} == {
        ("h100-sxm5-80gb", Term.ON_DEMAND, 2.29), ("h100-sxm5-80gb", Term.SPOT, 0.8015),
        ("a100-sxm4-80gb", Term.ON_DEMAND, 1.29), ("a100-sxm4-80gb", Term.SPOT, 0.4515),
        ("b300-sxm-288gb", Term.SPOT, 4.893), ("v100-sxm2-16gb", Term.ON_DEMAND, 0.1381),
        ("rtx-pro-6000-blackwell-server", Term.ON_DEMAND, 1.69), ("rtx-pro-6000-blackwell-server", Term.SPOT, 0.5915),
    }  # fmt: skip
    assert {offer.country for offer in found} == {"fi"}


def test_oracle_s_shapes_name_their_v100(tmp_path: Path) -> None:
    zone = "eu-frankfurt-1,EU-FRANKFURT-1-AD-1"
    found = offers(  # catalogs/v8/oci/vms.csv@058875118382
        tmp_path, "oci", f"{VAST},AvailabilityZone",
        f'VM.GPU3.1,V100,1,12,90,{info("V100", 1, 16384, 16384)},2.95,1.475,{zone}',
        f'BM.GPU.A100-v2.8,A100-80GB,8,256,2048,{info("A100-80GB", 8, 81920, 655360)},32,,{zone}',
        f"VM.Standard.E4.Flex$_2_8,,,2,8,,0.037,0.0185,{zone}",
    )  # fmt: skip
    assert {(offer.gpu, offer.term, offer.usd_per_machine_hour, offer.country) for offer in found} == {
        ("v100-sxm2-16gb", Term.ON_DEMAND, 2.95, "de"),
        ("v100-sxm2-16gb", Term.SPOT, 1.475, "de"),
        ("a100-sxm4-80gb", Term.ON_DEMAND, 32.0, "de"),
    }


def test_spot_prices_of_zones_are_one_offer_with_their_span(tmp_path: Path) -> None:
    found = offers(
        tmp_path, "aws", f"{VAST},AvailabilityZone",
        "g6.xlarge,L4,1.0,4.0,16.0,,0.8048,0.31,us-east-1,us-east-1a",
        "g6.xlarge,L4,1.0,4.0,16.0,,0.8048,0.42,us-east-1,us-east-1b",
        "g6.xlarge,L4,1.0,4.0,16.0,,0.8048,0.8048,us-east-1,us-east-1c",
    )  # fmt: skip
    assert [(offer.term, offer.usd_per_hour, offer.zones_usd) for offer in found] == [
        (Term.ON_DEMAND, 0.8048, None),
        (Term.SPOT, 0.31, (0.31, 0.42)),
    ]
