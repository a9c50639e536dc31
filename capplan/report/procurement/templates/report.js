"use strict";
(() => {
  document.documentElement.classList.add("js");
  const HOURS = 8760, SECONDS = 3600;

  /* The formulas below are those of capplan/core: cost_flows, cost, fleet, fleet_response, decision_options. */
  const ceilGuarded = (value) => Math.ceil(value - 1e-9 * Math.max(1, Math.abs(value)));
  const discount = (rate, years) => (1 + rate) ** -years;
  const annuity = (rate, years) => rate === 0 ? years : (1 - discount(rate, years)) / rate;

  function makeFleet(need, spares, slots, full) {
    const servers = Math.ceil(need / slots) + spares;
    const perServer = full ? slots : Math.ceil(need / (servers - spares));
    return { need, servers, perServer, gpus: servers * perServer };
  }

  function interpolate(x, xs, ys) {
    if (x <= xs[0]) return ys[0];
    for (let i = 1; i < xs.length; i++) {
      if (x <= xs[i]) return ys[i - 1] + (ys[i] - ys[i - 1]) * (x - xs[i - 1]) / (xs[i] - xs[i - 1]);
    }
    return ys[ys.length - 1];
  }

  function percentile(pick, rate) {
    const load = rate / pick.capacity;
    return load > pick.loads[pick.loads.length - 1] * (1 + 1e-9) ? null : interpolate(load, pick.loads, pick.percentiles);
  }

  /* What an option is and costs under the page's settings; null where the picked batch cannot carry the load. */
  function evaluate(option, data, s) {
    const pick = s.batch === "best" ? null : (data.picks[option.gpu] || {})[s.batch];
    if (s.batch !== "best" && !pick) return null;
    const rate = pick ? pick.rate : option.rate;
    const one = data.kind === "one-gpu";
    const grown = Array.from({ length: s.years }, (_, i) => (1 + data.growth) ** (i + 1));
    const yearly = grown.map((g) => one ? { need: 1, servers: 1, perServer: 1, gpus: 1 }
      : makeFleet(Math.max(1, ceilGuarded(data.peak * s.load * g / rate)), data.spares, option.slots, option.full));
    const span = option.term === "buy" ? s.years : option.commitment || 1;
    const fleets = yearly.map((_, i) => yearly[Math.min(s.years - 1, Math.floor(i / span) * span + span - 1)]);
    const samples = grown.map((g) => one ? rate * HOURS * SECONDS : data.mean * s.load * HOURS * SECONDS * g / (1 + data.growth));
    const always = data.kind === "service" || one || (option.commitment > 0 && option.term !== "buy");
    const spares = one ? 0 : data.spares;
    const hoursOf = (fleet, i) => always ? fleet.gpus * HOURS
      : samples[i] / rate / SECONDS * fleet.gpus / (fleet.gpus - spares * fleet.perServer);
    const today = one ? 1 : Math.max(1, ceilGuarded(data.peak * s.load / rate));
    const found = { fleet: fleets[0], last: fleets[s.years - 1], batch: pick ? pick.batch : option.batch, latency: option.latency };
    if (data.kind === "service" && (pick || s.load !== 1)) {
      const curve = pick || (data.picks[option.gpu] || {})[option.batch];
      found.latency = curve ? percentile(curve, data.peak * s.load / today) : null;
    } else if (pick) {
      found.latency = pick.time;
    }
    found.headroom = one ? 0 : (found.fleet.gpus - spares * found.fleet.perServer) * rate / (data.peak * s.load * grown[0]) - 1;
    if (option.price === null) return found;
    const price = s.prices[option.key] ?? option.price;
    if (option.term === "buy") {
      const bought = found.last, hours = hoursOf(bought, s.years - 1);
      const chassis = option.includesServer ? 0 : bought.servers * (option.full ? s.chassis_usd_sxm : s.chassis_usd_pcie);
      const hardware = bought.gpus * price * s.purchaseFactor + chassis;
      const busy = Math.min(1, hours / (bought.gpus * HOURS));
      const most = bought.gpus * rate / data.ceiling, idle = data.money.idle_power_fraction;
      const load = data.kind === "service" ? Math.min(1, samples[s.years - 1] / (HOURS * SECONDS) / most) : 1;
      const share = busy * (idle + (s.power_fraction - idle) * load) + (1 - busy) * idle;
      const kwh = bought.gpus * option.tdp * data.money.server_power_factor * share / 1000 * s.pue * HOURS;
      const space = bought.gpus * option.tdp * data.money.server_power_factor / 1000 * 12 * data.money.space_usd_per_kw_month;
      const running = kwh * s.usd_per_kwh + space + hardware * s.support_fraction + bought.servers * s.staff_usd_per_server_year
        + bought.gpus * data.money.licence_usd_per_gpu_year;
      const residual = hardware * s.residual_fraction;
      const initial = hardware + hardware * s.network_fraction;
      found.total = initial + s.years * running - residual;
      found.present = initial + running * annuity(s.discount_fraction, s.years) - residual * discount(s.discount_fraction, s.years);
    } else {
      const rents = fleets.map((fleet, i) => hoursOf(fleet, i) * price * s.rentFactor);
      found.total = rents.reduce((a, b) => a + b, 0);
      found.present = rents.reduce((sum, rent, i) => sum + rent * discount(s.discount_fraction, i + 1), 0);
    }
    found.perYear = found.present / annuity(s.discount_fraction, s.years);
    found.perMillion = found.perYear * s.years / samples.reduce((a, b) => a + b, 0) * 1e6;
    return found;
  }

  /* As capplan/units.py and report/figures.py write them. */
  function significant(v) {
    if (v === 0) return "0";
    const whole = Math.abs(v) >= 1 ? String(Math.trunc(Math.abs(v))).length : 0;
    return whole ? v.toFixed(Math.max(0, 3 - whole)) : String(Number(v.toPrecision(3)));
  }
  const money = (v) => v === undefined || v === null ? "unknown"
    : Math.abs(v) >= 100 ? Math.round(v).toLocaleString("en-US")
    : Math.abs(v) >= 1 || v === 0 ? v.toFixed(2) : significant(v);
  const time = (v) => v === null || v === undefined ? "overload"
    : v >= 1 ? `${significant(v)} s` : v >= 1e-3 ? `${significant(v * 1e3)} ms` : `${significant(v * 1e6)} µs`;
  const percent = (v) => `${significant(100 * v)} %`;

  for (const section of document.querySelectorAll("section[data-model]")) {
    const data = JSON.parse(section.querySelector("script.data").textContent);
    const form = section.querySelector("form.controls");
    const table = section.querySelector("table.options");
    const live = section.querySelector(".live");
    const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.key, row]));
    const perSample = data.kind === "one-gpu";

    function settings() {
      const s = { prices: {}, years: data.money.years };
      for (const input of form.elements) {
        if (!input.name) continue;
        if (input.tagName === "SELECT") s[input.name] = input.name === "load" ? Number(input.value) : input.value;
        else s[input.name] = Number(input.value) * (input.dataset.scale ? Number(input.dataset.scale) : 1);
      }
      for (const input of table.querySelectorAll("input[data-price]")) {
        const value = Number(input.value);
        input.setAttribute("aria-invalid", String(!(value > 0)));
        if (value > 0 && input.value !== input.defaultValue) s.prices[input.dataset.price] = value;
      }
      return s;
    }

    function update() {
      const s = settings();
      let best = null, bestCost = Infinity;
      for (const option of data.options) {
        const row = rows.get(option.key), found = evaluate(option, data, s);
        const set = (name, words, value) => {
          const cell = row.querySelector(`[data-cell="${name}"]`);
          cell.textContent = words;
          cell.dataset.value = value === undefined || value === null || !Number.isFinite(value) ? "" : String(value);
        };
        set("batch", found ? found.batch : "–", found?.batch);
        set("gpus", found ? found.fleet.gpus.toLocaleString("en-US") : "–", found?.fleet.gpus);
        set("latency", found ? time(found.latency) : "cannot", found?.latency);
        set("headroom", found ? percent(found.headroom) : "–", found?.headroom);
        set("year", found ? money(found.perYear) : "–", found?.perYear);
        set("total", found ? money(found.total) : "–", found?.total);
        set("million", found ? money(found.perMillion) : "–", found?.perMillion);
        const cost = found && found.perYear !== undefined ? (perSample ? found.perMillion : found.perYear) : Infinity;
        if (option.eligible && cost < bestCost) { best = option; bestCost = cost; }
      }
      for (const [key, row] of rows) row.classList.toggle("choice", best !== null && key === best.key);
      live.textContent = best
        ? `Cheapest with these settings: ${best.name} ${best.term}, ${money(bestCost)} USD per ${perSample ? "million samples" : "year"}.`
        : "No priced option carries the load with these settings.";
    }

    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => {
      for (const input of table.querySelectorAll("input[data-price]")) input.value = input.defaultValue;
      setTimeout(update, 0);
    });
    table.addEventListener("input", update);

    for (const [index, head] of [...table.tHead.rows[0].cells].entries()) {
      const button = head.querySelector("button");
      if (!button) continue;
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const numeric = head.classList.contains("n");
        const value = (row) => {
          const cell = row.cells[index];
          const raw = cell.dataset.value ?? cell.querySelector("input")?.value ?? cell.textContent.trim();
          return numeric ? (raw === "" ? NaN : Number(raw)) : raw.toLowerCase();
        };
        const sorted = [...rows.values()].sort((a, b) => {
          const x = value(a), y = value(b);
          if (numeric) return Number.isNaN(x) ? (Number.isNaN(y) ? 0 : 1) : Number.isNaN(y) ? -1 : up ? x - y : y - x;
          return up ? x.localeCompare(y) : y.localeCompare(x);
        });
        sorted.forEach((row, place) => row.classList.toggle("more", place >= data.shown));
        table.tBodies[0].append(...sorted);
      });
    }

    const filter = section.querySelector("input.filter"), terms = section.querySelector("select.terms");
    const more = section.querySelector("button.more"), shown = section.querySelector(".shown");
    const count = () => {
      const seen = [...rows.values()].filter((row) => row.offsetParent !== null).length;
      shown.textContent = `${seen} of ${rows.size} options shown`;
    };
    const narrow = () => {
      const words = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const any = words.length > 0 || terms.value !== "";
      for (const row of rows.values()) {
        const text = row.dataset.search;
        row.classList.toggle("filtered", !(words.every((w) => text.includes(w)) && (!terms.value || row.dataset.term === terms.value)));
      }
      table.classList.toggle("all", any || more?.getAttribute("aria-expanded") === "true");
      count();
    };
    filter.addEventListener("input", narrow);
    terms.addEventListener("change", narrow);
    more?.addEventListener("click", () => {
      const open = more.getAttribute("aria-expanded") !== "true";
      more.setAttribute("aria-expanded", String(open));
      more.textContent = open ? `Show the first ${data.shown}` : "Show all";
      narrow();
    });
    update();
    count();
  }

  const tip = Object.assign(document.createElement("div"), { id: "tip", hidden: true });
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  document.addEventListener("pointermove", (event) => {
    const words = event.target.closest?.("[data-tip]")?.dataset.tip;
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 10)}px`;
  });
})();
