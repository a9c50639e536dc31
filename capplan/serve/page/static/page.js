// Swaps the answer as the form changes, keeps the address in step, and hands over configs and traces.
// Without this script the form still works: it is sent whole, and the server renders the page.
"use strict";
(() => {
  const form = document.getElementById("ask");
  const answer = document.getElementById("answer");
  const status = document.getElementById("status");
  if (!form || !answer || !form.dataset.answer) return;
  const defaults = new Map([...form.elements].filter((each) => each.name).map((each) => [each.name, each.dataset.default ?? ""]));
  let running = null;
  let timer = 0;

  function read() {
    const pairs = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      const text = String(value).trim();
      const usual = defaults.get(name);
      if (text && text !== usual) pairs.append(name, text);
    }
    return pairs;
  }

  function write(pairs) {
    const values = new Map();
    for (const [name, value] of pairs) values.set(name, [...(values.get(name) || []), value]);
    for (const each of form.elements) {
      if (!each.name || each.type === "file") continue;
      const held = values.get(each.name);
      if (each.type === "checkbox") each.checked = Boolean(held);
      else each.value = (held && held.shift()) ?? defaults.get(each.name) ?? "";
    }
  }

  function addSpareModel() {
    const inputs = [...form.querySelectorAll(".models input[name=model]")];
    if (!inputs.length || inputs.length >= 4 || inputs.some((each) => !each.value.trim())) return;
    const spare = inputs[0].cloneNode();
    spare.value = "";
    spare.removeAttribute("autofocus");
    spare.placeholder = "compare with …";
    spare.setAttribute("aria-label", "Compare with");
    inputs[inputs.length - 1].after(spare);
  }

  // Whoever makes an answer easier to read (answer.js) does so whenever it has changed.
  function show(html) {
    answer.innerHTML = html;
    answer.dispatchEvent(new CustomEvent("answered"));
  }

  // On a phone the answer comes first: the form folds once there is one, and unfolds by its heading.
  const folded = document.getElementById("asked");
  const narrow = matchMedia("(max-width: 40rem)");
  function fold() {
    if (folded) folded.open = !(narrow.matches && answer.querySelector(".model :is(.verdict, table)"));
  }
  narrow.addEventListener("change", fold);
  fold();

  function showError(place, text) {
    const said = document.createElement("p");
    said.className = "error";
    said.setAttribute("role", "alert");
    said.textContent = text;
    place(said);
  }

  // Only the newest question writes the answer: the reply to an earlier one is dropped, however late it comes.
  async function refresh({push = false} = {}) {
    const pairs = read();
    const address = form.getAttribute("action") + (pairs.size ? `?${pairs}` : "");
    const isNew = address !== location.pathname + location.search;
    history[push && isNew ? "pushState" : "replaceState"](null, "", address);
    addSpareModel();
    running?.abort();
    running = null;
    answer.setAttribute("aria-busy", "false");
    if (!pairs.size && !answer.querySelector(".model") && !("pending" in answer.dataset) && !answer.querySelector("[data-live]") && !push) return;
    const mine = running = new AbortController();
    const started = performance.now();
    answer.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => { status.textContent = "Working; a model that is new here is traced first, which takes a few seconds."; }, 600);
    try {
      const got = await fetch(`${form.dataset.answer}?${pairs}`, {signal: mine.signal, headers: {Accept: "text/html"}});
      const text = await got.text();
      if (mine !== running) return;
      show(text);
      answer.dataset.ms = String(Math.round(performance.now() - started));
      status.textContent = got.ok ? `Answered in ${answer.dataset.ms} ms.` : "";
      delete answer.dataset.pending;
      if (got.headers.has("Capplan-Partial")) completeLater(mine, pairs, 2000);
      watch(mine);
    } catch {
      if (mine !== running) return;
      showError((said) => answer.replaceChildren(said), "The service cannot be reached; it may have ended.");
    } finally { clearTimeout(slow); }
    answer.setAttribute("aria-busy", "false");
    const explained = document.getElementById("explained");
    if (explained && form.elements.explain?.dataset.fresh) explained.focus({preventScroll: false});
    if (form.elements.explain) delete form.elements.explain.dataset.fresh;
  }

  // A page about a sweep that runs is asked again, until somebody changes the form or reads something in it.
  function watch(mine) {
    if (!answer.querySelector("[data-live]")) return;
    setTimeout(() => {
      if (mine !== running) return;
      if (answer.contains(document.activeElement) || document.hidden) { watch(mine); return; }
      refresh();
    }, 5000);
  }

  // What "Faster?" lists is traced after the answer: ask again until it is there, unless the form has changed.
  function completeLater(mine, pairs, pause) {
    setTimeout(async () => {
      if (mine !== running || pause > 60000) return;
      try {
        const got = await fetch(`${form.dataset.answer}?${pairs}`, {signal: mine.signal, headers: {Accept: "text/html"}});
        const text = await got.text();
        if (mine !== running || !got.ok) return;
        if (got.headers.has("Capplan-Partial")) { completeLater(mine, pairs, pause * 1.5); return; }
        if (!answer.contains(document.activeElement)) show(text);
      } catch { /* the answer stands without it */ }
    }, pause);
  }

  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); refresh({push: true}).then(fold); });
  form.addEventListener("input", (event) => {
    if (event.target.closest(".own")) return;
    if (form.elements.explain) form.elements.explain.value = "";
    clearTimeout(timer);
    const isChoice = event.target.matches("select, [type=checkbox]");
    if (event.target.name === "model") { suggest(event.target.value); timer = setTimeout(refresh, 700); }
    else timer = setTimeout(() => refresh({push: isChoice}), isChoice ? 0 : 180);
  });
  // While one types, the answer follows and the address is replaced; a field that is left is a step that Back undoes.
  let settled = location.href;
  form.addEventListener("focusin", () => { settled = location.href; });
  form.addEventListener("change", (event) => {
    if (!event.target.name || event.target.closest(".own") || event.target.matches("select, [type=checkbox]")) return;
    clearTimeout(timer);
    history.replaceState(null, "", settled);
    refresh({push: true});
    settled = location.href;
  });
  answer.addEventListener("click", (event) => {
    const why = event.target.closest("a.why");
    if (why) {
      event.preventDefault();
      const lines = document.getElementById(why.hash.slice(1));
      lines.closest("details").open = true;
      lines.focus();
      return;
    }
    const link = event.target.closest("a.swap");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    write(new URLSearchParams(link.search));
    if (form.elements.explain) form.elements.explain.dataset.fresh = "1";
    refresh({push: true});
  });
  addEventListener("popstate", () => {
    write(new URLSearchParams(location.search));
    settled = location.href;
    if (location.search) refresh();
    else { running?.abort(); running = null; location.reload(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) {
      event.preventDefault();
      form.querySelector("input")?.focus();
    }
  });

  const known = document.getElementById("known-models");
  let sought = "";
  async function suggest(words) {
    if (!known || words.trim().length < 2 || words === sought) return;
    sought = words;
    try {
      const found = await (await fetch(`/suggest?${new URLSearchParams({q: words})}`)).json();
      if (sought === words) known.replaceChildren(...found.models.map((each) => new Option(each.label, each.value)));
    } catch { /* suggestions are a convenience */ }
  }

  async function fillLists() {
    try {
      const found = await (await fetch("/suggest")).json();
      for (const kind of ["gpus", "providers"]) {
        document.getElementById(`known-${kind}`)?.replaceChildren(...found[kind].map((each) => new Option(each, each)));
      }
      known?.replaceChildren(...found.models.map((each) => new Option(each.label, each.value)));
    } catch { /* likewise */ }
  }

  async function handOver() {
    const own = form.querySelector(".own");
    const text = document.getElementById("config").value.trim();
    const file = document.getElementById("file").files[0];
    own.querySelector(".error")?.remove();
    const refuse = (sentence) => { status.textContent = ""; own.open = true; showError((said) => document.getElementById("use").after(said), sentence); };
    if (!text && !file) { refuse("Paste a config or choose a file first."); return; }
    const body = text ? new Blob([text]) : file;
    status.textContent = "Reading it; a model file is traced, which takes a few seconds.";
    try {
      const got = await fetch(`/own?${new URLSearchParams({name: file && !text ? file.name : ""})}`, {method: "POST", body, headers: {"Content-Type": "application/octet-stream"}});
      const said = await got.json();
      if (!got.ok) { refuse(said.detail); return; }
      const inputs = [...form.querySelectorAll("input[name=model]")];
      (inputs.find((each) => !each.value.trim()) || inputs[0]).value = said.model;
      own.open = false;
      refresh({push: true});
    } catch { refuse("The service cannot be reached; it may have ended."); }
  }
  document.getElementById("use")?.addEventListener("click", handOver);

  const share = document.getElementById("share");
  if (share && navigator.clipboard) {
    share.hidden = false;
    share.addEventListener("click", async () => {
      await navigator.clipboard.writeText(location.href);
      status.textContent = "The link is copied.";
    });
  }
  fillLists();
  if ("pending" in answer.dataset || answer.querySelector("[data-live]")) refresh().then(fold);
})();
