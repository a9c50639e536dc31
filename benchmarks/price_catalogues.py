"""Write the built-in offers of Azure, Google and AWS in Europe from dated public copies of their price lists.

    python benchmarks/price_catalogues.py --azure CHECKOUT --gcp CHECKOUT --aws CHECKOUT -o gpu_specs/prices

Each checkout is a clone of a public repository that keeps what the provider's price interface answered, by region:
Azure/karpenter-provider-azure and cloudpilot-ai/karpenter-provider-gcp (both Apache-2.0), tsaol/aws-gpu (no licence
file; the figures of instances.vantage.sh). The day of the prices is the one that the file states, or that of the commit
that last changed it. Taken are the machines of gpu_specs/providers whose GPUs are known, on demand, in regions of the
European Economic Area, Switzerland and the United Kingdom.
"""

import argparse
import json
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path

from capplan.core.gpus.prices import DateKind, PriceKind, PriceTier, Term
from capplan.specs.price_import import Quote, price_files
from capplan.specs.providers import load_providers

AREA = "europe"
AZURE = "pkg/providers/pricing/zz_generated.pricing.go"
GCP = "pkg/providers/pricing/initial-prices.json"
AWS = "data/all_gpu_instances.js"


def git(checkout: Path, *words: str) -> str:
    """Return what git prints in a checkout, which may be bare."""
    return subprocess.run(["git", "-C", str(checkout), *words], check=True, capture_output=True, text=True).stdout


def last_change(checkout: Path, path: str) -> tuple[str, date]:
    """Return the commit that last changed a file, and its day."""
    commit, day = git(checkout, "log", "-1", "--format=%H %cs", "--", path).split()
    return commit, date.fromisoformat(day)


def azure_prices(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield region, machine and price of the Go table."""
    region = ""
    for line in text.splitlines():
        if match := re.search(r'initialOnDemandPrices\["(\w+)"\]', line):
            region = match[1]
        elif match := re.fullmatch(r'\s*"([\w-]+)":\s+([\d.]+),', line):
            yield region, match[1], float(match[2])


def gcp_prices(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield region, machine and price of the JSON table."""
    for region, terms in json.loads(text)["prices"].items():
        for machine, usd in terms["on_demand"].items():
            yield region, machine, usd


def aws_prices(text: str) -> Iterator[tuple[str, str, float]]:
    """Yield region, machine and price of the JavaScript table."""
    table = re.search(r"const allGPUInstances = (\[.*?\n\]);", text, re.DOTALL)
    assert table is not None
    for machine in json.loads(table[1]):
        for region, prices in machine["pricing"].items():
            if prices.get("onDemand"):
                yield region, machine["apiName"], prices["onDemand"]


def quotes(provider: str, rows: Iterator[tuple[str, str, float]], day: date, source: str) -> list[Quote]:
    """Return the offers of machines that are known, in regions of Europe."""
    known = load_providers()
    found = []
    for region, name, usd in rows:
        machine = known.machine(provider, name)
        (place, *_) = known.places(provider, region)
        if machine is None or place.country is None or not place.is_in(AREA) or not machine.is_on_demand or usd <= 0:
            continue
        found.append(
            Quote(
                gpu=machine.gpu, term=Term.ON_DEMAND, provider=provider, price=round(usd, 6), gpus=machine.gpus,
                day=day, date_is=DateKind.STATED, tier=PriceTier.QUOTED, source=source, region=place.region,
                instance=name, includes_server=False, note=None, kind=PriceKind.COPY,
            )
        )  # fmt: skip
    return found


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("azure", "gcp", "aws"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    day_of = r"(?:generated at|Last updated:) (\d{4}-\d\d-\d\d)"
    sources = {
        "azure": (given.azure, "Azure/karpenter-provider-azure", AZURE, azure_prices),
        "gcp": (given.gcp, "cloudpilot-ai/karpenter-provider-gcp", GCP, gcp_prices),
        "aws": (given.aws, "tsaol/aws-gpu", AWS, aws_prices),
    }
    for provider, (checkout, repository, path, read) in sources.items():
        if checkout is None:
            continue
        commit, day = last_change(checkout, path)
        text = git(checkout, "show", f"{commit}:{path}")
        if match := re.search(day_of, text[:2000]):
            day = date.fromisoformat(match[1])
        found = quotes(provider, read(text), day, f"{repository}/{path}@{commit[:12]}")
        for name, content in price_files(found, read_on=date.today()).items():
            target = given.output / f"{Path(name).stem}-{AREA}.yaml"
            target.write_text(content, encoding="utf-8")
            print(f"{len(found)} offers in {target}")


if __name__ == "__main__":
    main()
