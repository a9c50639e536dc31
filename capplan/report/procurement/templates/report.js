"use strict";
(() => {
  if (!window.DecompressionStream) return;  // the short list stands as it is printed
  document.documentElement.classList.add("js");
  const HOURS = 8760, SECONDS = 3600;
  const ceilGuarded = (value) => Math.ceil(value - 1e-9 * Math.max(1, Math.abs(value)));
  /*FORMULAS*/

  /* `formulas` is printed above from capplan/core/formulas.py; only what is no arithmetic is written here. */
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

  /* The parts of a cost over all years, as capplan/core/economics/cost.py names them. */
  const PARTS = ["GPUs", "chassis", "network", "energy", "space", "support", "staff", "licences", "rent", "residual value"];

  /* One GPU's rate; that of a training depends on how many train together, and whether they share a server. */
  function rateOf(held, option, demand) {
    if (!held.rates) return held.rate;
    const [alone, within, across] = held.rates;
    if (demand <= alone * (1 + 1e-9) && (option.slots === 1 || !option.full)) return alone;
    return option.slots > 1 && ceilGuarded(demand / within) <= option.slots ? within : across;
  }

  /* A GPU's power over its rate with batches up to a largest: linear between the rates of full batches. */
  function drawAt(option, data, batch, rates) {
    const xs = [0], ys = [option.idle];
    for (const [size, rate, watts] of data.draws[option.gpu] || []) {
      if (size <= batch && rate > xs[xs.length - 1]) { xs.push(rate); ys.push(watts); }
    }
    return rates.reduce((sum, rate) => sum + interpolate(rate, xs, ys), 0) / rates.length;
  }

  /* What an option is and costs under the page's settings; null where the picked batch cannot carry the load. */
  function evaluate(option, data, s) {
    const pick = s.batch === "best" ? null : (data.picks[option.gpu] || {})[s.batch];
    if (s.batch !== "best" && !pick) return null;
    const one = data.kind === "one-gpu", service = data.kind === "service", full = option.full ? 1 : 0;
    const start = s.startUp === undefined ? data.startUp : 60 * s.startUp;  // minutes on the page
    const peak = data.peak * s.load * (data.deadline ? (data.deadline - data.startUp) / (data.deadline - start) : 1);
    const sizedFor = option.reserve * peak, rate = rateOf(pick || option, option, sizedFor);
    const growth = s.growth ?? data.growth, spares = one ? 0 : (s.spares ?? data.spares) === data.spares ? option.spares : s.spares;
    const sized = (year) => {
      if (one) return { servers: 1, gpus: 1 };
      const need = formulas.gpus_needed(sizedFor, growth, year + 1, rate), servers = formulas.servers_needed(need, option.slots, spares);
      return { servers, gpus: formulas.gpus_in_servers(need, servers, spares, option.slots, full) };
    };
    const years = Array.from({ length: s.years }, (_, year) => year);
    const span = option.term === "buy" ? s.years : option.commitment || 1;
    const fleets = years.map((year) => sized(Math.min(s.years - 1, Math.floor(year / span) * span + span - 1)));
    const samples = years.map((year) => one ? rate * HOURS * SECONDS : formulas.samples_of_year(data.mean * s.load, growth, year));
    const byHour = service && data.levels.length > 0 && option.term !== "buy" && !option.commitment;
    const ofLevel = (year, [share, hours, starts]) => formulas.gpu_hours_at_level(formulas.hours_at_level(hours, starts, start),
      formulas.gpus_needed(sizedFor * share, growth, year + 1, rate), option.slots, spares);
    const worked = (year) => byHour ? data.levels.reduce((sum, level) => sum + ofLevel(year, level), 0)
      : service || one ? fleets[year].gpus * HOURS
      : formulas.worked_hours(fleets[year].gpus, data.runs, runHours(fleets[year], samples[year] / data.runs), option.term === "buy" ? 0 : data.minimums[option.provider] || 0);
    const runHours = ({ gpus, servers }, count) => formulas.run_hours(count, rate, formulas.working_gpus(gpus, servers, spares), start);
    const committed = option.commitment > 0 && option.term !== "buy";
    const found = { fleet: fleets[0], last: fleets[s.years - 1], batch: pick ? pick.batch : option.batch, latency: option.latency };
    const today = one ? 1 : formulas.gpus_needed(peak, 0, 0, rate);
    if (service && (pick || s.load !== 1)) {
      const curve = pick || (data.picks[option.gpu] || {})[option.batch];
      found.latency = curve ? percentile(curve, data.peak * s.load / today) : null;
    } else if (pick) {
      found.latency = pick.time;
    }
    const working = formulas.working_gpus(found.fleet.gpus, found.fleet.servers, spares);
    if (data.deadline) found.latency = SECONDS * runHours(found.fleet, peak * (data.deadline - start) * (1 + growth));
    found.headroom = one ? 0 : working * rate / (peak * (1 + growth)) - 1;
    if (option.price === null) return found;
    found.parts = PARTS.map(() => 0);
    if (option.term === "buy") {
      const { gpus, servers } = found.last, last = s.years - 1;
      const price = option.price * s.purchaseFactor, chassis = option.includesServer ? 0 : option.board ? s.chassis_usd_sxm : s.chassis_usd_pcie;
      const hostFull = option.board ? s.host_w_sxm : s.host_w_pcie;
      const load = service ? formulas.load_share(samples[last], gpus, rate, data.ceiling) : 1;
      const rates = service ? data.hours.map((share) => samples[last] / (HOURS * SECONDS) / gpus * share) : [rate];
      const drawn = (watts, share) => formulas.drawn_w(gpus, formulas.card_w(watts, s.card_power_factor, option.tdp), servers,
        formulas.host_w(hostFull, data.money.idle_power_fraction, data.money.power_fraction, share));
      const used = drawn(drawAt(option, data, found.batch, rates), load);
      const mean = formulas.average_w(formulas.busy_share(worked(last), gpus), used, drawn(option.idle, 0), 1);
      const energy = formulas.each_usd(formulas.kwh_per_year(mean, s.pue), s.usd_per_kwh);
      const space = formulas.space_usd(formulas.drawn_w(gpus, option.tdp, servers, hostFull), s.space_usd_per_kw_month);
      const hardware = formulas.hardware_usd(gpus, price, servers, chassis);
      const yearly = [energy, space, formulas.share_usd(hardware, s.support_fraction), formulas.each_usd(servers, s.staff_usd_per_server_year),
        formulas.each_usd(gpus, data.money.licence_usd_per_gpu_year)];
      const running = formulas.running_usd(...yearly), residual = formulas.share_usd(hardware, s.residual_fraction);
      const initial = formulas.initial_usd(hardware, s.network_fraction);
      found.total = formulas.total_bought_usd(initial, running, residual, s.years);
      found.yearly = [initial, ...years.map((year) => running - (year === last ? residual : 0))];
      found.parts = [gpus * price, servers * chassis, initial - hardware, ...yearly.map((usd) => s.years * usd), 0, -residual];
      found.present = formulas.present_bought_usd(initial, running, residual, s.discount_fraction, s.years);
    } else {
      const hours = years.map((year) => committed ? fleets[year].gpus * HOURS : worked(year));
      const rents = hours.map((count) => formulas.each_usd(count, option.price * s.rentFactor));
      found.total = rents.reduce((a, b) => a + b, 0);
      found.yearly = [0, ...rents];
      found.parts[8] = found.total;
      found.present = rents.reduce((sum, rent, year) => sum + formulas.present_usd(rent, s.discount_fraction, year + 1), 0);
    }
    found.perYear = formulas.equivalent_annual(found.present, s.discount_fraction, s.years);
    found.perMillion = formulas.usd_per_million(found.perYear, s.years, samples.reduce((a, b) => a + b, 0));
    return found;
  }

  /* As capplan/units.py and capplan/report/procurement/figures.py write them. */
  function significant(v) {
    if (v === 0) return "0";
    const whole = Math.abs(v) >= 1 ? String(Math.trunc(Math.abs(v))).length : 0;
    return whole ? v.toFixed(Math.max(0, 3 - whole)) : String(Number(v.toPrecision(3)));
  }
  const money = (v) => v === undefined || v === null ? "unknown"
    : Math.abs(v) >= 100 ? Math.round(v).toLocaleString("en-US")
    : Math.abs(v) >= 1 || v === 0 ? v.toFixed(2) : significant(v);
  const headline = (v) => v === undefined || Math.abs(v) < 1000 ? money(v)
    : (Math.round(v / 10 ** (Math.floor(Math.log10(Math.abs(v))) - 2)) * 10 ** (Math.floor(Math.log10(Math.abs(v))) - 2)).toLocaleString("en-US");
  const fixed = (v, digits) => v === undefined || v === null ? "unknown"
    : v.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const pace = (v, scale) => v === null || v === undefined ? "overload" : `${fixed(v / scale.unit_s, scale.digits)} ${scale.unit}`;

  /* Labels beside their points, so that none covers another label or point; as capplan/report/charts/look.py does. */
  function placeLabels(points, [wide, high], W, limit, front) {
    const H = 320, LETTER = 7, LINE = 15 / H, GAP = 8 / W, taken = [];
    const share = (value, [low, end]) => Math.log(value / low) / Math.log(end / low);
    const wall = limit === null ? -1 : share(limit, wide);
    const dots = points.map((each) => [share(each.x, wide), share(each.usd, high)]);
    const corners = front.map((each) => [share(each.x, wide), share(each.usd, high)]);
    const crossed = ([left, low, right, top]) => corners.slice(1).some(([x, y], place) => {
      const [before, above] = corners[place], middle = LINE / 2;
      return (left < x && before < right && low - middle < above && above < top - middle)
        || (left < x && x < right && low - middle < above && y < top - middle);
    });
    points.forEach((each, index) => {
      const [across, up] = dots[index], length = each.label.length * LETTER / W;
      const boxOf = (step, left) => {
        const start = across - (left ? GAP + length : -GAP);
        return [start, up + step * LINE, start + length, up + (step + 1) * LINE];
      };
      let best = { covered: Infinity, step: 0, left: false };
      for (const step of each.label ? [0, 1, -1, 2, -2, 3, -3] : []) {
        for (const left of [false, true]) {
          const box = boxOf(step, left);
          if (box[0] < 0 || box[2] > 1 || (box[0] < wall && wall < box[2]) || taken.some((o) => box[0] < o[2] && o[0] < box[2] && box[1] < o[3] && o[1] < box[3])) continue;
          const covered = Number(crossed(box)) + 2 * dots.filter(([u, v]) => box[0] < u && u < box[2] && box[1] < v + LINE / 2 && v + LINE / 2 < box[3]).length;
          if (covered < best.covered) best = { covered, step, left };
        }
      }
      if (best.covered === Infinity) each.label = "";  // a narrow chart has no room for it: the table below has the name
      if (each.label) taken.push(boxOf(best.step, best.left));
      each.labelUsd = each.usd * (high[1] / high[0]) ** (best.step * LINE);
      each.left = best.left;
    });
  }

  /* The names at the ends of the lines of cost, each two lines of text, above the one below. */
  function yearLabels(rows) {
    const last = Math.max(...rows.map((row) => row.year)), top = Math.max(...rows.map((row) => row.usd));
    const apart = 0.085 * Math.max(...rows.map((row) => row.bar.split("|").length)) * top;
    let below = -Infinity;
    return rows.filter((row) => row.year === last).sort((a, b) => a.usd - b.usd).map((row) => {
      below = Math.max(row.usd, below + apart);
      return { name: row.name, bar: row.bar, year: last, labelUsd: below };
    });
  }

  /* What is read on demand travels compressed: figures, the rows beyond the first, long tables, and Vega. */
  async function unpacked(name) {
    const packed = Uint8Array.from(atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  /* Where Vega cannot be unpacked the still pictures stay. */
  const starts = [];
  async function startCharts() {
    const script = document.createElement("script");
    script.textContent = await unpacked("vega");
    document.head.append(script);
    if (window.vegaEmbed) for (const start of starts) await start();
    document.documentElement.classList.add("is-drawn");
  }

  /* Draws a figure as wide as its place, anew when that changes; where it cannot be drawn the still picture stays. */
  async function drawIn(figure, spec, resized = () => {}) {
    const holder = figure.querySelector(".picture"), still = [...holder.childNodes];
    if (!spec) return null;
    holder.replaceChildren();
    try {
      const { view } = await vegaEmbed(holder, spec, { mode: "vega", renderer: "svg", actions: false, logLevel: 0 });
      holder.setAttribute("role", "img");
      holder.setAttribute("aria-label", holder.dataset.words);
      addEventListener("resize", async () => { await view.width(holder.clientWidth).runAsync(); resized(); });
      return view;
    } catch {
      holder.replaceChildren(...still);
      return null;
    }
  }

  async function start() {
    const page = JSON.parse(await unpacked("figures"));
    const fleet = document.getElementById("fleet");
    if (fleet) starts.push(async () => {
      for (const figure of fleet.querySelectorAll("figure[data-chart]")) await drawIn(figure, page.fleet[figure.dataset.chart]);
    });
    for (const details of document.querySelectorAll("details[data-table]")) {
      details.addEventListener("toggle", () => details.insertAdjacentHTML("beforeend", page.tables[details.dataset.table]), { once: true });
    }
    for (const section of document.querySelectorAll("section[data-model]")) {
      section.querySelector("table.options").tBodies[0].insertAdjacentHTML("beforeend", page.tables[`${section.id}-rows`] ?? "");
      startSection(section, page[section.id]);
    }
    document.documentElement.classList.add("is-live");
    await startCharts().catch(() => {});
  }

  function startSection(section, { data, specs }) {
    const form = section.querySelector("form.controls");
    const table = section.querySelector("table.options");
    const live = section.querySelector(".live"), banner = section.querySelector(".changed");
    const rows = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.key, row]));
    const order = [...rows.keys()];
    const perSample = data.kind === "one-gpu";
    const byKey = new Map(data.options.map((option) => [option.key, option]));
    let sorted = null;
    /* What a filter finds an option by: its GPU, term and badges, then its offer. */
    for (const option of data.options) {
      const badges = [...rows.get(option.key).querySelectorAll(".tag:not([data-tag])")].map((tag) => tag.textContent).join(" ");
      option.search = `${option.gpu} ${option.name} ${option.term} ${option.termWords} ${badges} | ${option.offer}`.toLowerCase();
      for (const offer of option.others) offer.words = [offer.provider, offer.instance, offer.region].filter(Boolean).join(", ");
    }

    /* Changed prices, as typed, each of one offer: OWN is that of the option, else the place among its other offers. */
    const OWN = -1, edits = new Map();
    const editOf = (key, place) => edits.get(`${key} ${place}`);
    const priceOf = (key, place, listed) => { const edit = editOf(key, place); return edit === undefined ? listed : Number(edit.value); };
    function keepEdit(input) {
      const key = input.dataset.price, place = Number(input.dataset.place ?? OWN);
      if (input.value === input.defaultValue) edits.delete(`${key} ${place}`);
      else edits.set(`${key} ${place}`, { key, place, value: input.value });
    }

    /* A field is refused in place: it must hold a number between its limits. Returns what is wrong, or "". */
    function problemOf(input) {
      const value = input.value.trim() === "" ? NaN : Number(input.value);
      const low = Number(input.min), high = input.max === "" ? Infinity : Number(input.max);
      if (!Number.isFinite(value)) return "enter a number";
      if (input.dataset.price !== undefined ? !(value > 0) : value < low || value > high) {
        return input.dataset.price !== undefined ? "must be above 0" : `from ${low} to ${high}`;
      }
      return input.step === "1" && !Number.isInteger(value) ? "a whole number" : "";
    }

    function check(input) {
      const problem = problemOf(input), place = input.parentElement.querySelector(".problem");
      input.setAttribute("aria-invalid", String(problem !== ""));
      input.title = problem;
      if (place) { place.textContent = problem; place.hidden = problem === ""; }
      return problem === "";
    }

    const inputs = () => [...form.querySelectorAll("input[name]"), ...table.querySelectorAll("input[data-price]")];

    function settings() {
      const s = { years: data.money.years, load: 1, space_usd_per_kw_month: data.money.space_usd_per_kw_month };
      for (const input of form.elements) {
        if (!input.name) continue;
        s[input.name] = input.tagName === "SELECT" ? input.value
          : Number(input.value) * (input.dataset.scale ? Number(input.dataset.scale) : 1);
      }
      return s;
    }

    const changes = () => [
      ...[...form.elements].filter((each) => each.name && (each.tagName === "SELECT" ? each.value !== "best" : each.value !== each.defaultValue))
        .map((each) => `${each.closest("label").firstChild.textContent.trim()}: ${each.value}`),
      ...[...edits.values()].map(({ key, place, value }) => {
        const option = byKey.get(key), offer = place === OWN ? "" : ` (${option.others[place].words})`;
        return `Price of ${nameOf(option)}${offer}: ${value}`;
      }),
    ];

    /* The words and terms that narrow what may be recommended. Where an option's own offer does not match, its cheapest
       that does stands in for it, and so does one whose price was changed to less. */
    const filter = section.querySelector("input.filter"), terms = section.querySelector("select.terms");
    const words = () => filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);

    function matching(option) {
      const asked = words(), stem = option.search.split("|")[0];
      if (terms.value && option.term !== terms.value) return null;
      const others = option.others.map((offer, place) => ({ offer, place }))
        .filter(({ offer }) => asked.every((word) => `${stem} ${offer.words}`.toLowerCase().includes(word)));
      const listed = others.reduce((least, each) => least === null || each.offer.price < least.offer.price ? each : least, null);
      const isOwn = asked.every((word) => option.search.includes(word));
      if (!isOwn && listed === null) return null;
      const held = others.filter(({ place }) => editOf(option.key, place) !== undefined);
      let best = isOwn ? { ...option, place: OWN, listed: option.price } : withOffer(option, listed);
      best.price = priceOf(option.key, best.place, best.price);
      for (const each of held) {
        const price = priceOf(option.key, each.place, each.offer.price);
        if (price < best.price) best = { ...withOffer(option, each), price };
      }
      return best;
    }

    const withOffer = (option, { offer, place }) => ({
      ...option, place, provider: offer.provider, price: offer.price, listed: offer.price, slots: offer.slots, offerWords: offer.words, offerDay: offer.day,
      eligible: offer.sound && (option.eligible || option.eligibleElsewhere),
    });

    /* Day, price and badges of the offer that a row shows: its own, or another that a filter found. */
    function showPriceOf(row, own, option) {
      const day = row.querySelector(".day"), input = row.querySelector("input[data-price]");
      day.dataset.own ??= day.textContent;
      day.textContent = option.offerDay || day.dataset.own;
      for (const badge of row.querySelectorAll("[data-of-price]")) badge.hidden = Boolean(option.offerDay);
      if (!input) return;
      input.dataset.own ??= input.defaultValue;
      input.dataset.place = option.place;
      input.defaultValue = option.place === OWN ? input.dataset.own : option.listed.toFixed(own.term === "buy" ? 0 : 3);
      const written = editOf(own.key, option.place)?.value ?? input.defaultValue;
      if (input.value !== written) input.value = written;
    }

    function update() {
      const valid = inputs().map(check).every(Boolean);
      if (!valid) {
        live.textContent = "Correct the marked settings; the figures are those before.";
        banner.querySelector(".live-top").textContent = live.textContent;
        return;
      }
      const s = settings(), results = new Map();
      for (const each of data.options) {
        const row = rows.get(each.key), option = matching(each);
        const found = option && evaluate(option, data, s);
        row.classList.toggle("filtered", option === null);
        results.set(each.key, { option: option || each, found, matches: option !== null });
        const set = (name, text, value) => {
          const cell = row.querySelector(`[data-cell="${name}"]`);
          cell.textContent = text;
          cell.dataset.value = value === undefined || value === null || !Number.isFinite(value) ? "" : String(value);
        };
        if (option === null) continue;
        const shown = each.term === "buy" ? found?.last.gpus : found?.fleet.gpus;
        set("offer", option.offerWords || each.offer);
        showPriceOf(row, each, option);
        set("batch", found ? found.batch : "–", found?.batch);
        set("gpus", found ? shown.toLocaleString("en-US") : "–", shown);
        set("latency", found ? pace(found.latency, data.written.pace) : "cannot", found?.latency);
        set("headroom", found ? `${fixed(100 * found.headroom, 0)} %` : "–", found?.headroom);
        set("year", found ? fixed(found.perYear, data.written.year) : "–", found?.perYear);
        set("total", found ? fixed(found.total, data.written.total) : "–", found?.total);
        set("million", found ? fixed(found.perMillion, data.written.million) : "–", found?.perMillion);
      }
      const changed = changes(), narrowed = words().length > 0 || terms.value !== "";
      const cost = (key) => {
        const found = results.get(key).found;
        return found && found.perYear !== undefined ? (perSample ? found.perMillion : found.perYear) : Infinity;
      };
      const choosable = data.options.map((option) => option.key)
        .filter((key) => results.get(key).option.eligible && results.get(key).matches && cost(key) < Infinity && results.get(key).found.latency !== null)
        .sort((a, b) => cost(a) * byKey.get(a).aged - cost(b) * byKey.get(b).aged);
      const stands = changed.length === 0 && !narrowed;
      const best = stands && data.choice ? data.choice : choosable[0];
      const second = stands ? data.runnerUp : choosable.find((key) => byKey.get(key).gpu !== byKey.get(best)?.gpu);
      for (const [key, row] of rows) {
        row.classList.toggle("choice", key === best);
        row.querySelector('[data-tag="recommended"]').hidden = key !== best;
        row.querySelector('[data-tag="runner-up"]').hidden = key !== second;
      }
      const chosen = best && byKey.get(best);
      const seen = data.options.map((option) => option.key).filter((key) => results.get(key).matches && cost(key) < Infinity)
        .sort((a, b) => cost(a) - cost(b))[0];
      const usd = (key) => `${headline(cost(key))} USD per ${perSample ? "million samples" : "year"}`;
      live.textContent = best
        ? `${stands ? (data.alone ? `Best for ${data.alone} alone` : "Recommended") : "Cheapest with these settings"}: ${nameOf(chosen)}, ${usd(best)}.`
        : seen ? `None of the options shown may be recommended; the cheapest of them is ${nameOf(byKey.get(seen))}, ${usd(seen)}.`
          : "No priced option carries the load with these settings.";
      banner.hidden = stands;
      showHead(stands, best && results.get(best).found, chosen, s);
      banner.querySelector(".what").textContent = [...changed, ...(narrowed ? [`filter: ${[...words(), terms.value && terms.selectedOptions[0].textContent].filter(Boolean).join(" ")}`] : [])].join("; ") + ".";
      banner.querySelector(".live-top").textContent = live.textContent;
      section.classList.toggle("is-changed", !stands);
      section.querySelector(".note").hidden = !(s.load !== 1 || s.batch !== "best");
      for (const stale of section.querySelectorAll("figure:not([data-follows]) .stale")) stale.hidden = changed.length === 0;
      section.querySelector("[data-years]").textContent = `${s.years} year${s.years === 1 ? "" : "s"}`;
      if (sorted === null) place(stands ? order : [...order].sort((a, b) => rankOf(a) - rankOf(b) || cost(a) - cost(b)));
      function rankOf(key) { return choosable.includes(key) ? 0 : 1; }
      redraw(results, best, choosable);
      count();
    }

    /* Headline and tiles follow the settings; what rests on the scenarios stays, greyed, as it was generated. */
    const verdict = section.querySelector(".verdict"), written = verdict.textContent;
    const tiles = [...section.querySelectorAll(".summary .card")].map((card) => ({ card, html: card.innerHTML }));
    function showHead(stands, found, option, s) {
      verdict.textContent = stands ? written : live.textContent;
      section.querySelector(".written").hidden = stands;
      section.querySelector(".written span").textContent = written;
      for (const { card, html } of tiles) {
        card.innerHTML = html;
        card.classList.remove("generated");
        if (stands) continue;
        const tile = found && found.yearly ? liveTile(card.querySelector("dt").textContent, found, option, s) : null;
        if (!tile) { card.classList.add("generated"); continue; }
        card.querySelector("dt").textContent = tile[0];
        card.querySelector(".figure").textContent = tile[1];
        card.querySelector(".range").textContent = tile[2];
        card.classList.remove("risky");
      }
    }
    function liveTile(label, found, option, s) {
      const dollars = (usd) => `${headline(usd)} USD`, years = `${s.years} year${s.years === 1 ? "" : "s"}`;
      if (label === "Cost per year") return [label, dollars(found.perYear), "with these settings"];
      if (label.startsWith("Total over")) return [`Total over ${years}`, dollars(found.total), `net present cost ${dollars(found.present)}`];
      if (label === "GPUs") return [label, String(found.fleet.gpus), `${found.last.gpus} in the last year`];
      if (label === "Bound to pay" || label === "Paid on the first day") {
        if (option.term === "buy") return ["Paid on the first day", dollars(found.yearly[0]), "hardware and network"];
        const owed = found.yearly.slice(0, 1 + option.commitment).reduce((a, b) => a + b, 0);
        return ["Bound to pay", option.commitment ? dollars(owed) : "nothing", option.termWords];
      }
      if (label === "Finishes in" || label.includes("percentile")) return [label, pace(found.latency, data.written.pace), "with these settings"];
      return null;
    }

    function place(keys) {
      keys.forEach((key, index) => rows.get(key).classList.toggle("more", index >= data.shown));
      table.tBodies[0].append(...keys.map((key) => rows.get(key)));
    }

    /* Charts: drawn by Vega where it runs; the still pictures stay for paper and for readers without script. */
    const views = new Map();
    starts.push(async () => {
      for (const figure of section.querySelectorAll("figure[data-chart]")) {
        const view = await drawIn(figure, specs[figure.dataset.chart], update);
        if (view) views.set(figure.dataset.chart.replace(/^m\d+-/, ""), view);
      }
      views.get("front")?.addEventListener("mouseover", (event, item) => {
        for (const [each, row] of rows) row.classList.toggle("hot", item?.datum?.key === each);
      });
      update();
    });

    const nameOf = (option) => `${option.name} ${option.termWords}`;
    const barOf = (option) => `${option.name.replace(/^NVIDIA /, "")}|${option.termWords}`;
    const lineOf = (option) => data.compared.filter((key) => byKey.get(key).gpu === option.gpu).length > 1
      ? barOf(option).replace(" (", "|(") : option.name.replace(/^NVIDIA /, "");
    let points = [];

    function redraw(results, best, choosable) {
      const put = (chart, sets) => {
        const view = views.get(chart);
        if (!view) return;
        for (const [name, values] of Object.entries(sets)) view.data(name, values);
        view.run();
      };
      const shown = data.options.filter((each) => results.get(each.key).found?.perYear !== undefined && results.get(each.key).matches);
      points = shown.map((each) => {
        const found = results.get(each.key).found;
        const kind = each.key === best ? "recommended" : choosable.includes(each.key) ? "may be chosen" : "listed only";
        return { key: each.key, name: nameOf(each), x: found.latency === null ? null : data.deadline ? found.latency / 3600 : 1e3 * found.latency,
          usd: perSample ? found.perMillion : found.perYear, kind, label: each.label, hot: false };
      }).filter((each) => each.x !== null);
      points.sort((a, b) => (a.kind === "recommended") - (b.kind === "recommended"));  // drawn last, none covers it
      const front = [];
      for (const each of [...points].sort((a, b) => a.x - b.x || a.usd - b.usd)) {
        if (!front.length || each.usd < front[front.length - 1].usd) front.push({ x: each.x, usd: each.usd });
      }
      if (front.length) {
        const [wide, high] = data.frontEnds;
        front.unshift({ x: front[0].x, usd: high[1] });
        front.push({ x: wide[1], usd: front[front.length - 1].usd });
      }
      placeLabels(points, data.frontEnds, views.get("front")?.width() || 560, data.limit, front);
      put("front", { points, front });
      const leading = (count) => [...new Set([best, ...data.compared, ...choosable])].filter((key) => key && results.get(key)?.found?.parts && results.get(key).matches).slice(0, count);
      const years = Number(form.elements.years.value);
      put("parts", { parts: leading(6).flatMap((key) => results.get(key).found.parts.map((usd, index) => (
        { key, name: nameOf(byKey.get(key)), bar: barOf(byKey.get(key)), part: PARTS[index], order: index, usd: usd / years })).filter((each) => each.usd !== 0)) });
      const paid = data.compared.filter((key) => results.get(key)?.found?.yearly).flatMap((key) => {
        let sum = 0;
        return results.get(key).found.yearly.map((usd, year) => ({ key, name: nameOf(byKey.get(key)), bar: lineOf(byKey.get(key)), year, usd: sum += usd }));
      });
      put("years", { lines: paid, ends: yearLabels(paid) });
    }

    /* One option, seen in the table and in the chart of cost against latency. */
    function mark(key) {
      const view = views.get("front");
      if (view) view.data("points", points.map((each) => ({ ...each, hot: each.key === key }))).run();
      for (const [each, row] of rows) row.classList.toggle("hot", each === key);
    }
    for (const [key, row] of rows) {
      row.addEventListener("pointerenter", () => mark(key));
      row.addEventListener("focusin", () => mark(key));
    }
    table.addEventListener("pointerleave", () => mark(null));
    /* A changed price in the form of a price file, with the offer, the day and the tier of the price that it replaces. */
    function priceLines({ key, place, value }) {
      const option = byKey.get(key), other = option.others[place], q = other || option.quote, text = JSON.stringify;
      const price = Number(value), slots = other ? other.slots : option.slots, held = q.serverGpus || 1;
      const head = [`  - currency: USD`, `    tier: ${q.tier}`,
        `    source: {kind: example, title: "changed in the page of a capplan report"}`];
      if (option.term === "buy") {
        return [...head, `    purchase:`, `      - {gpu: ${text(option.gpu)}, date: ${q.day}, date_is: ${q.dateIs || "stated"}, offer: quote, price: ${Number((price * held).toPrecision(12))}, gpus: ${held},`
          + ` includes_server: ${q.includesServer || false}${q.provider ? `, seller: ${text(q.provider)}` : ""}}`];
      }
      return [...head, `    provider: ${text(q.provider)}`, `    marketplace: ${q.marketplace || false}`, `    date: ${q.day}`, `    date_is: ${q.dateIs || "stated"}`,
        `    hourly:`, `      - {gpu: ${text(option.gpu)}, instance: ${text(q.instance || "GPU")}, gpus: ${slots}, pricing: ${option.term},`
          + ` region: ${text(q.region)}, per_hour: ${Number((price * slots).toPrecision(12))}}`];
    }

    /* The changed settings as a load file that `capplan report --load` reads. */
    function loadFile() {
      const s = settings(), load = { ...data.load };
      const section = data.kind === "training" ? "training" : data.kind;
      const lines = ["# Made by the page of a capplan report.", `${section}:`];
      for (const name of ["peak", "mean", "samples"]) {
        if (load[name] !== undefined) load[name] = String(load[name] * s.load) + (name === "samples" ? "" : "/s");
      }
      if (load.daily) load.daily = `[${load.daily.map((rate) => `${rate * s.load}/s`).join(", ")}]`;
      if (s.growth !== undefined && load.growth_per_year !== undefined) load.growth_per_year = s.growth;
      if (s.spares !== undefined) load.spares = s.spares;
      if (s.startUp !== undefined) load.start_up = `${s.startUp} min`;
      for (const [name, value] of Object.entries(load)) lines.push(`  ${name}: ${value}`);
      lines.push("assumptions:");
      const given = { ...data.money, ...Object.fromEntries(Object.keys(data.money).filter((key) => s[key] !== undefined).map((key) => [key, s[key]])),
        rent_price_factor: s.rentFactor, purchase_price_factor: s.purchaseFactor };
      for (const [name, value] of Object.entries(given)) lines.push(`  ${name}: ${Number(Number(value).toPrecision(12))}`);
      if (edits.size) lines.push("prices:", ...[...edits.values()].flatMap(priceLines));
      return lines.concat(data.constraintLines).join("\n") + "\n";
    }
    section.loadFile = loadFile;
    for (const button of section.querySelectorAll("button.download")) {
      button.hidden = perSample;
      button.addEventListener("click", () => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([loadFile()], { type: "text/yaml" }));
        link.download = "changed.load.yaml";
        link.click();
        URL.revokeObjectURL(link.href);
      });
    }

    function reset() {
      edits.clear();
      for (const input of table.querySelectorAll("input[data-price]")) input.value = input.defaultValue;
      filter.value = "";
      terms.value = "";
      sorted = null;
      for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
      setTimeout(update, 0);
    }
    form.addEventListener("input", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", reset);
    section.querySelector("button.reset").addEventListener("click", () => form.reset());
    table.addEventListener("input", (event) => {
      if (event.target.dataset.price !== undefined) keepEdit(event.target);
      update();
    });

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
        const found = [...rows.values()].sort((a, b) => {
          const x = value(a), y = value(b);
          if (numeric) return Number.isNaN(x) ? (Number.isNaN(y) ? 0 : 1) : Number.isNaN(y) ? -1 : up ? x - y : y - x;
          return up ? x.localeCompare(y) : y.localeCompare(x);
        });
        sorted = found.map((row) => row.dataset.key);
        place(sorted);
      });
    }

    const more = section.querySelector("button.more"), shown = section.querySelector(".shown");
    function count() {
      const seen = [...rows.values()].filter((row) => row.offsetParent !== null).length;
      shown.textContent = `${seen} of ${rows.size} options shown`;
    }
    const narrow = () => {
      table.classList.toggle("all", words().length > 0 || terms.value !== "" || more?.getAttribute("aria-expanded") === "true");
      update();
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
  }

  start();
})();
