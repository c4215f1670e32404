"use strict";
(() => {
  const root = document.documentElement;
  const at = (id) => document.getElementById(id);
  const data = JSON.parse(at("data").textContent);
  const FEW = 15;
  const ICONS = { holds: "M3.5 8.5l3 3 6-7", fails: "M8 3.5v5.5M8 12v.5", none: "M4 8h8" };
  const page = { knot: data.chosen, sort: null, falling: true, all: false, filter: "" };
  root.classList.add("with-script");

  // Every element is made by hand and every text is set as text: no name can become markup.
  function make(tag, classes, ...inside) {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    element.append(...inside);
    return element;
  }

  function roled(tag, role, classes, ...inside) {
    const element = make(tag, classes, ...inside);
    element.setAttribute("role", role);
    if (role === "rowheader") element.setAttribute("scope", "row");
    return element;
  }

  const signed = (value, decimals) => (value < 0 ? "\u2212" : value > 0 ? "+" : "") + Math.abs(value).toFixed(decimals);
  const sum = (values) => Math.hypot(...values);

  function bar(weight, widest) {
    const inner = make("i", weight < 0 ? "neg" : "pos");
    inner.style.width = `${widest ? ((50 * Math.abs(weight)) / widest).toFixed(1) : "0.0"}%`;
    return make("span", "bar", inner);
  }

  function strongest(weights) {
    const order = weights.map((_, column) => column).sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]) || a - b);
    return order.slice(0, data.shown).sort((a, b) => a - b);
  }

  function weightCell(weights, widest, decimals) {
    const cell = roled("td", "cell", "weight");
    for (const column of strongest(weights)) {
      const name = data.several ? [make("bdi", "column", data.columns[column][0])] : [];
      cell.append(make("span", "of", ...name, bar(weights[column], widest), make("span", "value", signed(weights[column], decimals))));
    }
    return cell;
  }

  function nameOf(piece, weights) {
    const name = make("span", "name");
    if (!piece.parts.length) {
      name.append(make("bdi", "", piece.name));
      return name;
    }
    name.append(make("b", "", "IF"), " ");
    piece.parts.forEach((part, place) => {
      if (place) name.append(" ", make("b", "", piece.joiner), " ");
      name.append(make("bdi", "", part));
    });
    const toward = data.several ? "" : data.columns[0][weights[0] > 0 ? 2 : 1];
    if (toward) name.append(" ", make("b", "", "THEN"), "\u00a0", make("bdi", weights[0] > 0 ? "pos" : "neg", toward));
    return name;
  }

  function measureCell(measure, value) {
    const cell = roled("td", "cell", measure.classes);
    cell.dataset.label = measure.label;
    if (measure.bar) {
      const inner = make("i");
      inner.style.width = `${value.length > 2 ? value[2] : 0}%`;
      cell.append(make("span", "fill", inner));
    }
    cell.append(make("span", "value", value[0]));
    return cell;
  }

  function rowOf(index, weights, widest, decimals) {
    const piece = data.pieces[index];
    const key = make("i", `key c${data.tops[index] || 0}`);
    key.setAttribute("aria-hidden", "true");
    const row = roled("tr", "row", "", roled("th", "rowheader", "piece", key, nameOf(piece, weights)), weightCell(weights, widest, decimals));
    data.measures.forEach((measure, place) => row.append(measureCell(measure, piece.values[place])));
    return row;
  }

  // What a row is sorted by; nothing sorts last whichever way.
  function sortValue(place, knot) {
    const piece = data.pieces[knot.pieces[place]];
    if (page.sort === "name") return piece.name.toLowerCase();
    if (page.sort === "weight") return data.several ? sum(knot.weights[place]) : knot.weights[place][0];
    return piece.values[Number(page.sort)][1];
  }

  function order(knot) {
    const places = knot.pieces.map((_, place) => place).filter((place) => data.pieces[knot.pieces[place]].name.toLowerCase().includes(page.filter));
    if (page.sort === null) return places;
    const way = page.falling ? -1 : 1;
    return places.sort((a, b) => {
      const [first, second] = [sortValue(a, knot), sortValue(b, knot)];
      if (first === null || second === null) return (first === null) - (second === null) || a - b;
      return way * (first < second ? -1 : first > second ? 1 : 0) || a - b;
    });
  }

  function drawRows() {
    const knot = data.knots[page.knot];
    const places = order(knot);
    const widest = knot.weights.reduce((most, row) => row.reduce((inner, weight) => Math.max(inner, Math.abs(weight)), most), 0);
    const shown = page.all ? places : places.slice(0, FEW);
    const rows = shown.map((place) => rowOf(knot.pieces[place], knot.weights[place], widest, Array.isArray(knot.decimals) ? knot.decimals[place] : knot.decimals));
    if (!rows.length) {
      const cell = roled("td", "cell", "", knot.count ? `No ${data.word} matches the filter.` : `No ${data.word} here: ${data.nothing}.`);
      cell.colSpan = 2 + data.measures.length;
      rows.push(roled("tr", "row", "empty", cell));
    }
    at("rows").replaceChildren(...rows);
    at("more").hidden = places.length <= FEW;
    at("more").textContent = page.all ? `Show the first ${FEW}` : `Show all ${places.length}`;
    at("cut").hidden = knot.count === knot.pieces.length;
    at("cut").textContent = `The ${knot.pieces.length} most important of ${knot.count} are listed here; the rest would make this page too heavy.`;
  }

  function drawConstant(knot) {
    at("foot").hidden = !knot.constant.length;
    [...at("constant").querySelectorAll(".value")].forEach((cell, column) => { cell.textContent = knot.constant[column]; });
  }

  function setBadge(badge, state) {
    badge.className = `badge ${state}`;
    badge.querySelector("path").setAttribute("d", ICONS[state]);
    badge.querySelector(".badge-text").textContent = data.badges[state];
  }

  function drawKnot() {
    const knot = data.knots[page.knot];
    const home = page.knot === data.chosen;
    at("claim").className = `claim ${knot.state}`;
    at("sentence").textContent = knot.claim;
    at("where").textContent = `${data.knob} = ${knot.t}${home ? ", the chosen model" : `, not the chosen ${data.knots[data.chosen].t}`}`;
    document.querySelectorAll("#claim .badge, #state .badge").forEach((badge) => setBadge(badge, knot.state));
    at("t").textContent = knot.t;
    at("counted").textContent = knot.counted;
    at("short").textContent = knot.short;
    at("lead-count").textContent = knot.counted;
    at("knob").value = page.knot;
    at("knob").setAttribute("aria-valuetext", knot.label);
    at("home").disabled = home;
    at("home").classList.toggle("away", home);
    at("events").textContent = knot.story;
    at("now").textContent = `${knot.label}. ${knot.story}`;
    if (at("score")) at("score").textContent = knot.score;
    document.querySelectorAll(".marker").forEach((line) => {
      line.setAttribute("d", line.getAttribute("d").replace(/^M[\d.]+/, `M${data.x[page.knot] * 10}`));
    });
    drawConstant(knot);
    drawRows();
  }

  function move(knot) {
    const next = Math.min(Math.max(knot, 0), data.knots.length - 1);
    if (next === page.knot) return;
    page.knot = next;
    drawKnot();
  }

  function nearest(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const x = (100 * (event.clientX - box.left)) / box.width;
    if (data.steps) return data.x.reduce((last, place, knot) => (place <= x ? knot : last), 0);
    return data.x.reduce((best, place, knot) => (Math.abs(place - x) < Math.abs(data.x[best] - x) ? knot : best), 0);
  }

  function listenToPath() {
    at("knob").addEventListener("input", (event) => move(Number(event.target.value)));
    at("home").addEventListener("click", () => { move(data.chosen); at("knob").focus(); });
    document.querySelectorAll(".walk:not(.still)").forEach((panel) => {
      panel.addEventListener("pointerdown", (event) => { panel.setPointerCapture(event.pointerId); move(nearest(event)); });
      panel.addEventListener("pointermove", (event) => { if (event.buttons) move(nearest(event)); });
    });
  }

  function sortBy(button) {
    const again = page.sort === button.dataset.sort;
    const first = button.dataset.sort !== "name";
    if (again && page.falling !== first) page.sort = null;
    else page.falling = again ? !page.falling : first;
    if (!again) page.sort = button.dataset.sort;
    document.querySelectorAll(".sort").forEach((other) => {
      const here = other.dataset.sort === page.sort;
      other.closest("th").setAttribute("aria-sort", here ? (page.falling ? "descending" : "ascending") : "none");
    });
    drawRows();
  }

  function listenToTable() {
    document.querySelectorAll(".sort").forEach((button) => button.addEventListener("click", () => sortBy(button)));
    at("more").addEventListener("click", () => { page.all = !page.all; drawRows(); });
    at("filter").hidden = data.knots.every((knot) => knot.count <= FEW);
    at("filter").addEventListener("input", (event) => { page.filter = event.target.value.trim().toLowerCase(); drawRows(); });
    window.addEventListener("beforeprint", () => { page.all = true; drawRows(); });
  }

  function listenToTheme() {
    const dark = () => root.dataset.theme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    const label = () => { at("theme").textContent = dark() ? "Light" : "Dark"; };
    at("theme").addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
    label();
  }

  listenToTheme();
  listenToTable();
  drawRows();
  if (at("knob")) listenToPath();
})();
