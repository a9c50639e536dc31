"""The formulas of a fleet's size, energy and money, one expression each.

Python evaluates them as they stand; `capplan.report.procurement.formulas` prints the same expressions as formulas of
the workbook and as functions of the page's script, so that the three cannot differ. Each function is therefore one
`return` of arithmetic, `min`, `max`, `ceil`, `ceil_guarded`, `pow`, a condition, or another formula of this module.

Amounts are US dollars before tax, rates samples per second, flows due at year ends.
Source of the money: Brealey, Myers, Allen, Principles of Corporate Finance (ch. 2, 6: equivalent annual cost).
"""

from math import ceil, pow

from capplan.core.numbers import ceil_guarded

HOURS_PER_YEAR = 8760
SECONDS_PER_HOUR = 3600


def gpus_needed(peak_per_s: float, growth: float, year: float, rate_per_s: float) -> float:
    """Return the GPUs that carry the peak at the end of a year; dust above a whole number is forgiven."""
    return max(1, ceil_guarded(peak_per_s * pow(1 + growth, year) / rate_per_s))


def servers_needed(need: float, slots: float, spares: float) -> float:
    """Return the servers that hold the needed GPUs, and the spare ones."""
    return ceil(need / slots) + spares


def gpus_in_servers(need: float, servers: float, spares: float, slots: float, full: float) -> float:
    """Return all GPUs of the servers, which are full where `full` is 1 and filled evenly where it is 0."""
    return servers * (slots if full == 1 else ceil(need / (servers - spares)))


def samples_of_year(mean_per_s: float, growth: float, year: float) -> float:
    """Return the samples of a year, counted from 0, at the mean rate of the first."""
    return mean_per_s * 8760 * 3600 * pow(1 + growth, year)


def working_gpus(gpus: float, servers: float, spares: float) -> float:
    """Return the GPUs of a fleet without those of its spare servers."""
    return gpus - spares * gpus / servers


def run_hours(samples: float, rate_per_s: float, working: float, start_up_s: float) -> float:
    """Return how long one run of some samples takes, from the start of the machines. [h]"""
    return start_up_s / 3600 + samples / rate_per_s / 3600 / working


def worked_hours(gpus: float, runs: float, run_hours: float, minimum_s: float) -> float:
    """Return the GPU-hours of a year's runs, each charged for the shortest time that is charged, or longer. [h]"""
    return gpus * runs * max(minimum_s / 3600, run_hours)


def hours_at_level(hours: float, starts: float, start_up_s: float) -> float:
    """Return the hours a year for which the machines of a level of load are paid, their starts included. [h]"""
    return hours + starts * start_up_s / 3600


def gpu_hours_at_level(hours: float, need: float, slots: float, spares: float) -> float:
    """Return the GPU-hours a year of the whole machines that carry a level of load, spare ones included. [h]"""
    return hours * slots * servers_needed(need, slots, spares)


def busy_share(hours: float, gpus: float) -> float:
    """Return the share of the year in which a fleet is in use."""
    return min(1, hours / (gpus * 8760))


def load_share(samples: float, gpus: float, rate_per_s: float, ceiling: float) -> float:
    """Return a year's mean load as a share of what a fleet can do with full batches."""
    return min(1, samples / (8760 * 3600) / (gpus * rate_per_s / ceiling))


def card_w(predicted_w: float, factor: float, limit_w: float) -> float:
    """Return a card's draw: the law's, times what the buyer knows of his cards, up to the power limit. [W]"""
    return min(limit_w, predicted_w * factor)


def host_w(full_w: float, idle_fraction: float, full_fraction: float, load: float) -> float:
    """Return the mean draw of a server without its GPUs, between idle and full load. [W]"""
    return full_w * (idle_fraction + (full_fraction - idle_fraction) * load)


def drawn_w(gpus: float, card_w: float, servers: float, host_w: float) -> float:
    """Return what a fleet draws: its cards and its servers. [W]"""
    return gpus * card_w + servers * host_w


def average_w(busy: float, used_w: float, idle_w: float, stays_on: float) -> float:
    """Return a fleet's mean draw over the year; out of use it idles where `stays_on` is 1, else it is off. [W]"""
    return busy * used_w + stays_on * (1 - busy) * idle_w


def kwh_per_year(average_w: float, pue: float) -> float:
    """Return the energy from the grid in a year. [kWh]"""
    return average_w / 1000 * pue * 8760


def hardware_usd(gpus: float, price_usd: float, servers: float, chassis_usd: float) -> float:
    """Return the price of the GPUs and of the servers around them."""
    return gpus * price_usd + servers * chassis_usd


def initial_usd(hardware_usd: float, network_fraction: float) -> float:
    """Return what is paid on the first day: hardware and network."""
    return hardware_usd + share_usd(hardware_usd, network_fraction)


def share_usd(amount_usd: float, fraction: float) -> float:
    """Return a share of an amount: support and network of the hardware, its residual value."""
    return amount_usd * fraction


def each_usd(count: float, usd_each: float) -> float:
    """Return what so many GPU-hours, kilowatt-hours or servers cost."""
    return count * usd_each


def running_usd(
    energy_usd: float, space_usd: float, support_usd: float, staff_usd: float, licences_usd: float
) -> float:
    """Return what is paid for a bought fleet at the end of every year."""
    return energy_usd + space_usd + support_usd + staff_usd + licences_usd


def space_usd(nameplate_w: float, usd_per_kw_month: float) -> float:
    """Return a year's rent of space and cooling."""
    return nameplate_w / 1000 * 12 * usd_per_kw_month


def total_bought_usd(initial_usd: float, running_usd: float, residual_usd: float, years: float) -> float:
    """Return total cost of ownership: all outlays less the residual value, undiscounted."""
    return initial_usd + years * running_usd - residual_usd


def discount_factor(rate_fraction: float, years: float) -> float:
    """Return the present value of 1 in n years: (1 + r)^-n."""
    return pow(1 + rate_fraction, -years)


def annuity_factor(rate_fraction: float, years: float) -> float:
    """Return the present value of 1 a year for n years: (1 - (1 + r)^-n) / r, and n if r is 0."""
    return years if rate_fraction == 0 else (1 - discount_factor(rate_fraction, years)) / rate_fraction


def present_bought_usd(
    initial_usd: float, running_usd: float, residual_usd: float, rate_fraction: float, years: float
) -> float:
    """Return the net present cost of a purchase: C0 + Σ opex/(1+r)^t - R/(1+r)^n."""
    return (
        initial_usd
        + running_usd * annuity_factor(rate_fraction, years)
        - residual_usd * discount_factor(rate_fraction, years)
    )


def present_usd(amount_usd: float, rate_fraction: float, year: float) -> float:
    """Return the present value of an amount due at the end of a year."""
    return amount_usd * discount_factor(rate_fraction, year)


def equivalent_annual(present_usd: float, rate_fraction: float, years: float) -> float:
    """Return the equivalent annual cost: the level yearly amount that is worth a present value."""
    return present_usd / annuity_factor(rate_fraction, years)


def usd_per_million(annual_usd: float, years: float, samples: float) -> float:
    """Return the cost of a million samples, of those of all years."""
    return annual_usd * years / samples * 1000000
