"""Formulas of the workbook's money: every formula is the one that Python used, over defined names and a row's cells."""

from collections.abc import Mapping
from dataclasses import dataclass

from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.report.procurement.types import OptionRow, Report
from capplan.units import SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """The formulas of one option's row; None for what is stated rather than computed.

    `row` counts from 1, `last_row` is that of the last option. `places` maps a column's key to its letters, `names` an
    assumption's key to its defined name.
    """

    report: Report
    option: OptionRow
    row: int
    places: Mapping[str, str]
    last_row: int = 0
    names: Mapping[str, str]

    def formula(self, key: str) -> str | None:
        """Return the formula of a column's cell."""
        if key == "best":
            return self._best()
        if key == "finish":
            return f"={self._finish()}"
        if key == "rate" and isinstance(self.report.demand.load, TrainingPurchase):
            return f"={self._rate_beside_others()}"
        stem = key.rstrip("0123456789")
        if key[len(stem) :] and stem in ("need", "servers", "gpus", "samples", "hours"):
            return None if self._one_gpu else f"={self._of_year(stem, int(key[len(stem) :]))}"
        if self.option.offer.price_usd is None and key != "kwh":
            return None
        spelled = self._bought() if self.option.offer.term == Term.BUY else self._rented()
        found = spelled.get(key)
        return f"={found}" if found else None

    @property
    def _one_gpu(self) -> bool:
        return isinstance(self.report.demand.load, OneGpu)

    @property
    def _years(self) -> int:
        return self.report.demand.money.years

    def _cell(self, key: str) -> str:
        return f"${self.places[key]}{self.row}"

    def _of_year(self, stem: str, year: int) -> str:
        growth = f"(1+{self.names['growth_per_year']})" if "growth_per_year" in self.names else "1"
        need, servers, gpus = (self._cell(f"{name}{year}") for name in ("need", "servers", "gpus"))
        rate, spares = self._cell("rate"), self.names["spares"]
        if stem == "need":
            grown = self._signed_for(year)
            wanted = f"{self.names['peak_per_s']}*{growth}^{grown}/{rate}"
            return f"MAX(1,ROUNDUP({wanted}-0.000000001*MAX(1,{wanted}),0))"
        if stem == "servers":
            return f"ROUNDUP({need}/{self._cell('slots')},0)+{spares}"
        if stem == "gpus":
            spread = f"ROUNDUP({need}/({servers}-{spares}),0)"
            return f'{servers}*IF({self._cell("full")}="yes",{self._cell("slots")},{spread})'
        if stem == "samples":
            return f"{self.names['mean_per_s']}*8760*3600*{growth}^{year}"
        if isinstance(self.report.demand.load, Service) or self._commitment:
            return f"{gpus}*8760"
        return self._worked(year)

    def _rate_beside_others(self) -> str:
        """Write the formula for one GPU's rate in the smallest fleet that keeps the deadline."""
        peak, slots = self.names["peak_per_s"], self._cell("slots")
        alone, within, across = (self._cell(key) for key in ("alone", "within", "across"))
        is_one = f'AND({peak}<={alone}*1.000000001,OR({slots}=1,{self._cell("full")}="no"))'
        wanted = f"{peak}/{within}"
        fits = f"AND({slots}>1,ROUNDUP({wanted}-0.000000001*MAX(1,{wanted}),0)<={slots})"
        return f"IF({is_one},{alone},IF({fits},{within},{across}))"

    def _finish(self) -> str:
        """Write the formula for the hours that the first year's fleet takes for one run, without its spare servers."""
        load = self.report.demand.load
        deadline_h = load.deadline_s / SECONDS["h"] if isinstance(load, Job | TrainingPurchase) else 0.0
        growth = f"*(1+{self.names['growth_per_year']})" if "growth_per_year" in self.names else ""
        gpus, servers = self._cell("gpus0"), self._cell("servers0")
        working = f"({gpus}-{self.names['spares']}*{gpus}/{servers})"
        return f"{self.names['peak_per_s']}{growth}*{deadline_h!r}/({working}*{self._cell('rate')})"

    def _best(self) -> str:
        """Write the formula for whether this option is the cheapest recommendable one, up to rounding."""
        worth, column = self._cell("worth"), self.places["worth"]
        least = f"MIN(${column}$4:${column}${self.last_row})"
        return f"=IF(ISNUMBER({worth}),IF({worth}<={least}*1.000000000001,1,0),0)"

    @property
    def _commitment(self) -> int:
        return COMMITMENT_YEARS.get(Term(self.option.offer.term), 0) if self.option.offer.term in list(Term) else 0

    def _signed_for(self, year: int) -> int:
        """Return the year, counted from 1, whose peak a year's fleet is sized for."""
        if self.option.offer.term == Term.BUY:
            return self._years
        years = self._commitment or 1
        return min(self._years, year // years * years + years)

    def _worked(self, year: int) -> str:
        """Write the formula of the GPU-hours that a job's work takes, redundancy included."""
        servers, gpus = self._cell(f"servers{year}"), self._cell(f"gpus{year}")
        lost = f"{self.names['spares']}*{gpus}/{servers}"
        return f"{self._cell(f'samples{year}')}/{self._cell('rate')}/3600*{gpus}/({gpus}-{lost})"

    def _energy(self, year: int) -> str:
        n, gpus = self.names, self._cell(f"gpus{year}")
        is_job = not isinstance(self.report.demand.load, Service | OneGpu)
        hours = self._worked(year) if self._commitment and is_job else self._cell(f"hours{year}")
        busy = f"MIN(1,{hours}/({gpus}*8760))"
        idle, load = n["idle_power_fraction"], "1"
        if isinstance(self.report.demand.load, Service):
            ceiling = self.report.demand.load.utilization_ceiling_fraction
            most = f"({gpus}*{self._cell('rate')}/{ceiling!r})"
            load = f"MIN(1,{self._cell(f'samples{year}')}/(8760*3600)/{most})"
        used = f"({idle}+({n['power_fraction']}-{idle})*{load})"
        unused = idle if self.option.offer.term == Term.BUY or self._commitment else "0"
        share = f"({busy}*{used}+(1-{busy})*{unused})"
        return f"{gpus}*{self._cell('tdp')}*{n['server_power_factor']}*{share}/1000*{n['pue']}*8760"

    def _nameplate_kw(self, year: int) -> str:
        return f"{self._cell(f'gpus{year}')}*{self._cell('tdp')}*{self.names['server_power_factor']}/1000"

    def _bought(self) -> dict[str, str]:
        n, last, rate = self.names, self._years - 1, self.names["discount_fraction"]
        chassis = n["chassis_usd_sxm" if self.option.count.full_servers else "chassis_usd_pcie"]
        around = "0" if self.option.offer.includes_server else f"{self._cell(f'servers{last}')}*{chassis}"
        price = f"{self._cell('price')}*{n['purchase_price_factor']}"
        hardware = f"({self._cell(f'gpus{last}')}*{price}+{around})"
        initial, running, residual = (self._cell(key) for key in ("initial", "running", "residual"))
        return {
            "kwh": self._energy(last),
            "initial": f"{hardware}*(1+{n['network_fraction']})",
            "running": (
                f"{self._cell('kwh')}*{n['usd_per_kwh']}+{hardware}*{n['support_fraction']}"
                f"+{self._nameplate_kw(last)}*12*{n['space_usd_per_kw_month']}"
                f"+{self._cell(f'servers{last}')}*{n['staff_usd_per_server_year']}"
                f"+{self._cell(f'gpus{last}')}*{n['licence_usd_per_gpu_year']}"
            ),
            "residual": f"{hardware}*{n['residual_fraction']}",
            "total": f"{initial}+{self._years}*{running}-{residual}",
            "present": f"{initial}+PV({rate},{self._years},-{running})-{residual}/(1+{rate})^{self._years}",
            **self._shared(),
        }

    def _rented(self) -> dict[str, str]:
        rate = self.names["discount_fraction"]
        price = f"{self._cell('price')}*{self.names['rent_price_factor']}"
        hours = [self._cell(f"hours{year}") for year in range(self._years)]
        return {
            "kwh": self._energy(0),
            "running": f"{hours[0]}*{price}",
            "total": f"({'+'.join(hours)})*{price}",
            "present": "+".join(f"{cell}*{price}/(1+{rate})^{year}" for year, cell in enumerate(hours, start=1)),
            **self._shared(),
        }

    def _shared(self) -> dict[str, str]:
        samples = "+".join(self._cell(f"samples{year}") for year in range(self._years))
        return {
            "annual": f"PMT({self.names['discount_fraction']},{self._years},-{self._cell('present')})",
            "million": f"{self._cell('annual')}*{self._years}/({samples})*1000000",
            "worth": f'IF({self._cell("may")}="yes",{self._cell("million" if self._one_gpu else "annual")},"no")',
        }
