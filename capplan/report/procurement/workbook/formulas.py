"""Formulas of the workbook's money: every formula is the one that Python used, over defined names and a row's cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from capplan.core import formulas as money
from capplan.core.gpus.prices import COMMITMENT_YEARS, Term
from capplan.core.serving.load import Job, OneGpu, Service, TrainingPurchase
from capplan.report.procurement.formulas import spreadsheet
from capplan.report.procurement.types import Report
from capplan.shapes.procurement import is_bought
from capplan.shapes.types import OptionRow

FIRST_ROW = 4
"""The row of the first option in the sheet of options, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """The formulas of one option's row.

    `row` counts from 1, `last_row` is that of the last option. `places` maps a column's key to its letters, `names` an
    assumption's key to its defined name.
    """

    report: Report
    option: OptionRow
    row: int
    places: Mapping[str, str]
    last_row: int
    names: Mapping[str, str]

    def of_row(self) -> dict[str, str]:
        """Return the formulas of the row's cells that are computed, by the key of their column."""
        amounts = self._bought() if self.option.term == Term.BUY else self._rented()
        if self.option.price_usd is None:
            amounts = {key: amounts[key] for key in ("kwh", "used")}
        found = {"best": self._best(), **amounts}
        if "finish" in self.places:
            load = self.report.demand.load
            deadline_s = load.deadline_s if isinstance(load, Job | TrainingPurchase) else 0.0
            growth = f"*(1+{self.names['growth_per_year']})" if "growth_per_year" in self.names else ""
            found["finish"] = self._run_hours(0, f"{self._peak()}{growth}*({deadline_s!r}-{self.names['start_up']})")
        if isinstance(self.report.demand.load, TrainingPurchase):
            peak, slots = self._sized_for(), self._cell("slots")
            alone, within, across = (self._cell(key) for key in ("alone", "within", "across"))
            is_one = f'AND({peak}<={alone}*1.000000001,OR({slots}=1,{self._cell("full")}="no"))'
            wanted = f"{peak}/{within}"
            fits = f"AND({slots}>1,ROUNDUP({wanted}-0.000000001*MAX(1,{wanted}),0)<={slots})"
            found["rate"] = f"IF({is_one},{alone},IF({fits},{within},{across}))"
        if not self._one_gpu:
            for stem in ("need", "servers", "gpus", "samples", "hours"):
                found |= {f"{stem}{year}": self._of_year(stem, year) for year in range(self._years)}
        return {key: f"={formula}" for key, formula in found.items() if key in self.places}

    @property
    def _one_gpu(self) -> bool:
        return isinstance(self.report.demand.load, OneGpu)

    @property
    def _spares(self) -> str:
        """The spare servers: an input, or as many as this option's availability takes."""
        load = self.report.demand.load
        if isinstance(load, Service) and load.availability_fraction is not None:
            return str(self.option.spares)
        return self.names["spares"]

    @property
    def _years(self) -> int:
        return self.report.demand.money.years

    def _cell(self, key: str) -> str:
        return f"${self.places[key]}{self.row}"

    def _of_year(self, stem: str, year: int) -> str:
        growth = self.names.get("growth_per_year", "0")
        need, servers, gpus = (self._cell(f"{name}{year}") for name in ("need", "servers", "gpus"))
        spares, slots = self._spares, self._cell("slots")
        if stem == "need":
            grown = str(self._signed_for(year))
            return spreadsheet(money.gpus_needed, self._sized_for(), growth, grown, self._cell("rate"))
        if stem == "servers":
            return spreadsheet(money.servers_needed, need, slots, spares)
        if stem == "gpus":
            full = f'IF({self._cell("full")}="yes",1,0)'
            return spreadsheet(money.gpus_in_servers, need, servers, spares, slots, full)
        if stem == "samples":
            return spreadsheet(money.samples_of_year, self.names["mean_per_s"], growth, str(year))
        load = self.report.demand.load
        if isinstance(load, Service) and load.levels and self._is_by_hour:
            return self._hours_of_use(load, year)
        if isinstance(load, Service) or self._commitment:
            return f"{gpus}*{money.HOURS_PER_YEAR}"
        return self._worked(year)

    @property
    def _is_by_hour(self) -> bool:
        """Return True for what is rented by the hour, and so may follow a service's hours of use."""
        return not (is_bought(self.option) or self._commitment or self.option.price_usd is None)

    def _hours_of_use(self, load: Service, year: int) -> str:
        """Write the GPU-hours of whole machines that follow the levels of a service's load."""

        def of_levels(field: str) -> str:
            return f"{{{';'.join(f'{getattr(level, field):.12g}' for level in load.levels)}}}"

        in_arrays = partial(spreadsheet, of_arrays=True)
        hours = in_arrays(
            money.hours_at_level, of_levels("hours_per_year"), of_levels("starts_per_year"), self.names["start_up"]
        )
        peak = f"{self._sized_for()}*{of_levels('peak_fraction')}"
        need = in_arrays(
            money.gpus_needed, peak, self.names["growth_per_year"], str(self._signed_for(year)), self._cell("rate")
        )
        return f"SUMPRODUCT({in_arrays(money.gpu_hours_at_level, hours, need, self._cell('slots'), self._spares)})"

    def _sized_for(self) -> str:
        """Write the peak rate with the reserve that the fleet has for estimates that are off."""
        return f"{self._peak()}*{self._cell('reserve')}"

    def _peak(self) -> str:
        """Write the peak rate; that of a job rises with the time that machines need until they work."""
        load = self.report.demand.load
        if not isinstance(load, Job | TrainingPurchase):
            return self.names["peak_per_s"]
        stated = repr(load.deadline_s - load.start_up_s)
        return f"({self.names['peak_per_s']}*{stated}/({load.deadline_s!r}-{self.names['start_up']}))"

    def _run_hours(self, year: int, samples: str) -> str:
        """Write the formula for the hours that a year's fleet takes for one run of some samples, start-up included."""
        gpus, servers = (self._cell(f"{name}{year}") for name in ("gpus", "servers"))
        working = spreadsheet(money.working_gpus, gpus, servers, self._spares)
        return spreadsheet(money.run_hours, samples, self._cell("rate"), working, self.names["start_up"])

    def _best(self) -> str:
        """Write the formula for whether this option is the cheapest recommendable one, up to rounding."""
        worth, column = self._cell("worth"), self.places["worth"]
        least = f"MIN(${column}${FIRST_ROW}:${column}${self.last_row})"
        return f"IF(ISNUMBER({worth}),IF({worth}<={least}*1.000000000001,1,0),0)"

    @property
    def _commitment(self) -> int:
        return COMMITMENT_YEARS.get(Term(self.option.term), 0) if self.option.term in list(Term) else 0

    def _signed_for(self, year: int) -> int:
        """Return the year, counted from 1, whose peak a year's fleet is sized for."""
        if self.option.term == Term.BUY:
            return self._years
        years = self._commitment or 1
        return min(self._years, year // years * years + years)

    def _worked(self, year: int) -> str:
        """Write the formula of the GPU-hours that a job's work takes, redundancy included."""
        runs, minimum_s = self.names["runs_per_year"], repr(self.option.minimum_s or 0.0)
        run = self._run_hours(year, f"{self._cell(f'samples{year}')}/{runs}")
        return spreadsheet(money.worked_hours, self._cell(f"gpus{year}"), runs, run, minimum_s)

    @property
    def _counted_year(self) -> int:
        """The year whose fleet's energy is counted, from 0: the last one's for what is bought."""
        return self._years - 1 if is_bought(self.option) else 0

    def _used_card_w(self) -> str:
        """Write the formula of a GPU's mean draw while in use: its curve over the rates of the day's hours."""
        load, count = self.report.demand.load, len(self.option.card_watts)
        if not count:
            return self._cell("tdp")
        rate, hours = self._cell("rate"), "1"
        if isinstance(load, Service):
            year = self._counted_year
            seconds = money.HOURS_PER_YEAR * money.SECONDS_PER_HOUR
            follows = self._is_by_hour and bool(load.levels)
            rate = f"({self._cell(f'samples{year}')}/{seconds}/{self._gpus_up(year)})"
            if len(load.daily_shares) > 1 and not follows:
                hours = f"{{{';'.join(f'{share:.12g}' for share in load.daily_shares)}}}"
        knots = f"{self._cell('knot0')}:{self._cell(f'knot{count - 1}')}"
        turns = f"{self._cell('turn0')}:{self._cell(f'turn{count - 1}')}"
        at = f"{rate}*{hours}"
        mean = 1 if hours == "1" else len(load.daily_shares) if isinstance(load, Service) else 1
        return f"{self._cell('idle')}+SUMPRODUCT(({at}>{knots})*({at}-{knots})*{turns})/{mean}"

    def _gpus_up(self, year: int) -> str:
        """Write the GPUs of a service that are up in the mean over a year, fewer where they follow its hours."""
        load = self.report.demand.load
        follows = self._is_by_hour and isinstance(load, Service) and bool(load.levels)
        return f"({self._cell(f'hours{year}')}/{money.HOURS_PER_YEAR})" if follows else self._cell(f"gpus{year}")

    def _servers(self, year: int) -> str:
        """Write the servers around a year's fleet: a rented instance is a part of one."""
        if is_bought(self.option):
            return self._cell(f"servers{year}")
        return f"{self._cell(f'gpus{year}')}/{self.names[f'gpus_per_server_{self._kind}']}"

    @property
    def _kind(self) -> str:
        return "sxm" if self.option.is_board else "pcie"

    def _energy(self) -> str:
        names, year = self.names, self._counted_year
        load_given, gpus = self.report.demand.load, self._cell(f"gpus{year}")
        is_job = not isinstance(load_given, Service | OneGpu)
        hours = self._worked(year) if self._commitment and is_job else self._cell(f"hours{year}")
        busy, load = spreadsheet(money.busy_share, hours, gpus), "1"
        if isinstance(load_given, Service):
            ceiling = repr(load_given.utilization_ceiling_fraction)
            samples, up = self._cell(f"samples{year}"), self._gpus_up(year)
            load = spreadsheet(money.load_share, samples, up, self._cell("rate"), ceiling)

        def drawn(card: str, share: str) -> str:
            host = (names[f"host_w_{self._kind}"], names["idle_power_fraction"], names["power_fraction"], share)
            card_w = spreadsheet(money.card_w, self._cell(card), names["card_power_factor"], self._cell("tdp"))
            return spreadsheet(money.drawn_w, gpus, card_w, self._servers(year), spreadsheet(money.host_w, *host))

        stays_on = "1" if is_bought(self.option) or self._commitment else "0"
        mean_w = spreadsheet(money.average_w, busy, drawn("used", load), drawn("idle", "0"), stays_on)
        return spreadsheet(money.kwh_per_year, mean_w, names["pue"])

    def _bought(self) -> dict[str, str]:
        names, last, years = self.names, self._years - 1, str(self._years)
        gpus, servers = self._cell(f"gpus{last}"), self._cell(f"servers{last}")
        chassis = "0" if self.option.includes_server else names[f"chassis_usd_{self._kind}"]
        price = f"{self._cell('price')}*{names['purchase_price_factor']}"
        hardware = spreadsheet(money.hardware_usd, gpus, price, servers, chassis)
        nameplate = spreadsheet(money.drawn_w, gpus, self._cell("tdp"), servers, names[f"host_w_{self._kind}"])
        initial, running, residual = (self._cell(key) for key in ("initial", "running", "residual"))
        parts = (
            spreadsheet(money.each_usd, self._cell("kwh"), names["usd_per_kwh"]),
            spreadsheet(money.space_usd, nameplate, names["space_usd_per_kw_month"]),
            spreadsheet(money.share_usd, hardware, names["support_fraction"]),
            spreadsheet(money.each_usd, servers, names["staff_usd_per_server_year"]),
            spreadsheet(money.each_usd, gpus, names["licence_usd_per_gpu_year"]),
        )
        rate = names["discount_fraction"]
        return {
            "used": self._used_card_w(),
            "kwh": self._energy(),
            "initial": spreadsheet(money.initial_usd, hardware, names["network_fraction"]),
            "running": spreadsheet(money.running_usd, *parts),
            "residual": spreadsheet(money.share_usd, hardware, names["residual_fraction"]),
            "total": spreadsheet(money.total_bought_usd, initial, running, residual, years),
            "present": spreadsheet(money.present_bought_usd, initial, running, residual, rate, years),
            **self._shared(),
        }

    def _rented(self) -> dict[str, str]:
        price = f"{self._cell('price')}*{self.names['rent_price_factor']}"
        hours = [self._cell(f"hours{year}") for year in range(self._years)]
        rents = [spreadsheet(money.each_usd, cell, price) for cell in hours]
        rate = self.names["discount_fraction"]
        return {
            "used": self._used_card_w(),
            "kwh": self._energy(),
            "running": rents[0],
            "total": spreadsheet(money.each_usd, "+".join(hours), price),
            "present": "+".join(
                spreadsheet(money.present_usd, rent, rate, str(year)) for year, rent in enumerate(rents, start=1)
            ),
            **self._shared(),
        }

    def _shared(self) -> dict[str, str]:
        samples = "+".join(self._cell(f"samples{year}") for year in range(self._years))
        years, rate = str(self._years), self.names["discount_fraction"]
        return {
            "annual": spreadsheet(money.equivalent_annual, self._cell("present"), rate, years),
            "million": spreadsheet(money.usd_per_million, self._cell("annual"), years, samples),
            "worth": (
                f'IF({self._cell("may")}="yes",{self._cell("million" if self._one_gpu else "annual")}'
                f'*{self.option.aged_factor!r},"no")'
            ),
        }
