// Makes an answer easier to read: tables are sorted by their headings, charts say their figures under a pointer, a finger
// or the arrow keys, and downloads tell how they are getting on. Without this script all of it can still be read.
"use strict";
(() => {
  const answer = document.getElementById("answer");
  const status = document.getElementById("status");
  if (!answer) return;

  // Tables -----------------------------------------------------------------------------------------------------------
  const UNITS = {
    n: 1e-9, ns: 1e-9, "µs": 1e-6, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400,
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12,
  };
  const sorted = {column: "", isDown: false};

  function figureOf(cell) {
    const text = (cell?.innerText ?? "").trim();
    const found = /^([-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)\s*([a-zA-Zµ]+)?/.exec(text);
    if (!found) return text && text !== "–" ? text.toLowerCase() : null;
    return Number(found[1].replaceAll(",", "")) * (UNITS[found[2]] ?? 1);
  }

  function compare(one, other, isDown) {
    if (one === null || other === null) return (one === null) - (other === null);
    const areFigures = [typeof one === "number", typeof other === "number"];
    if (areFigures[0] !== areFigures[1]) return areFigures[0] ? -1 : 1;  // "unknown" stays below the figures
    const order = areFigures[0] ? one - other : Number(one > other) - Number(one < other);
    return isDown ? -order : order;
  }

  function sortBy(table, heading) {
    const index = [...heading.parentNode.children].indexOf(heading);
    const rows = [...table.tBodies[0].rows].map((row) => [figureOf(row.cells[index]), row]);
    rows.sort((one, other) => compare(one[0], other[0], sorted.isDown));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const each of heading.parentNode.children) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", sorted.isDown ? "descending" : "ascending");
  }

  function makeSortable(table) {
    for (const heading of table.tHead.rows[0].cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        sorted.isDown = heading.getAttribute("aria-sort") === "ascending";
        sorted.column = heading.innerText.trim();
        sortBy(table, heading);
      });
      if (sorted.column && heading.innerText.trim() === sorted.column) sortBy(table, heading);
    }
  }

  // Charts -----------------------------------------------------------------------------------------------------------
  const SPACE = "http://www.w3.org/2000/svg";
  const HINT = "Point at the chart, or use its arrow keys, to read its figures.";

  function middle(mark) {
    const box = mark.getBBox();
    return [box.x + box.width / 2, box.y + box.height / 2];
  }

  function makeReadable(chart) {
    const marks = [...chart.querySelectorAll("[data-at]")];
    if (!marks.length) return;
    const names = [...new Set(marks.map((mark) => mark.dataset.at))];
    const places = names.map((name) => marks.filter((mark) => mark.dataset.at === name));
    const areBars = marks[0].tagName === "rect";
    if (!areBars) places.sort((one, other) => middle(one[0])[0] - middle(other[0])[0]);
    const said = document.createElement("p");
    said.className = "readout";
    said.setAttribute("aria-live", "polite");
    chart.after(said);
    const line = document.createElementNS(SPACE, "line");
    line.setAttribute("class", "cross");
    let current = -1;

    function read(index) {
      current = index;
      const place = places[index];
      said.textContent = place.map((mark) => mark.querySelector("title").textContent).join("; ");
      for (const mark of marks) mark.classList.toggle("on", place.includes(mark));
      if (areBars) return;
      const [x] = middle(place[0]);
      const bottom = chart.viewBox.baseVal.height - 46;
      Object.entries({x1: x, y1: 24, x2: x, y2: bottom}).forEach(([name, value]) => line.setAttribute(name, value));
      chart.append(line);
    }

    function stop() {
      current = -1;
      said.textContent = HINT;
      for (const mark of marks) mark.classList.remove("on");
      line.remove();
    }

    function point(event) {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      let [nearest, least] = [0, Infinity];
      places.forEach((place, index) => {
        for (const mark of place) {
          const [x, y] = middle(mark);
          const far = areBars ? Math.abs(at.y - y) : Math.hypot(at.x - x, (at.y - y) / (place.length > 1 ? 8 : 1));
          if (far < least) [least, nearest] = [far, index];
        }
      });
      if (nearest !== current) read(nearest);
    }

    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && document.activeElement !== chart) stop();
    });
    chart.addEventListener("blur", stop);
    chart.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      const first = step > 0 ? 0 : places.length - 1;
      read(current < 0 ? first : (current + step + places.length) % places.length);
    });
    stop();
  }

  // Downloads --------------------------------------------------------------------------------------------------------
  answer.addEventListener("click", async (event) => {
    const link = event.target.closest("a[download]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.getAttribute("aria-busy") === "true") return;
    link.setAttribute("aria-busy", "true");
    const started = performance.now();
    const tell = () => {
      const passed_s = Math.round((performance.now() - started) / 1000);
      status.textContent = `Making the ${link.textContent} …${passed_s ? ` ${passed_s} s` : ""}`;
    };
    tell();
    const ticking = setInterval(tell, 1000);
    try {
      const got = await fetch(link.href);
      if (!got.ok) { status.textContent = (await got.json()).detail; return; }
      const name = /filename="([^"]+)"/.exec(got.headers.get("Content-Disposition") ?? "")?.[1] ?? "capplan";
      const address = URL.createObjectURL(await got.blob());
      Object.assign(document.createElement("a"), {href: address, download: name}).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      status.textContent = `${name} is downloaded.`;
    } catch { status.textContent = "The service cannot be reached; it may have ended."; }
    finally { clearInterval(ticking); link.removeAttribute("aria-busy"); }
  });

  function improve() {
    answer.querySelectorAll("table.sortable").forEach(makeSortable);
    answer.querySelectorAll("svg.chart").forEach(makeReadable);
  }
  answer.addEventListener("answered", improve);
  improve();
})();
