// Learning curves: one small chart each, minutes of training to the right.

// Okabe and Ito's palette, which colour-blind readers can tell apart, then again dashed.
const CURVE_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"];

function chart({ title, unit, curves }) {
  const width = 460, height = 210, left = 54, right = 8, top = 10, bottom = 26;
  const minutes = curves.flatMap((curve) => curve.minutes), values = curves.flatMap((curve) => curve.values);
  const [first, last] = [Math.min(...minutes, 0), Math.max(...minutes)];
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = (high - low || Math.abs(high) || 1) * 0.06;
  [low, high] = [low - (low >= 0 && low < pad ? low : pad), high + pad];
  const x = (minute) => left + ((minute - first) / (last - first || 1)) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low)) * (height - top - bottom);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, ${unit}` });
  for (const tick of ticks(low, high, 4)) {
    svg.append(make("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), stroke: "var(--grid)" }));
    svg.append(make("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, number(tick, 4)));
  }
  const marks = ticks(first, last, 5);
  for (const tick of marks) svg.append(make("text", { x: x(tick), y: height - 8, "text-anchor": "middle" }, number(tick, 2) + (tick === marks.at(-1) ? " min" : "")));
  curves.forEach((curve, index) => {
    const points = curve.minutes.map((minute, at) => `${at ? "L" : "M"}${x(minute).toFixed(1)},${y(curve.values[at]).toFixed(1)}`);
    const stroke = CURVE_COLOURS[index % CURVE_COLOURS.length];
    const dashes = index >= CURVE_COLOURS.length ? "5 3" : null;
    if (curve.minutes.length === 1) svg.append(make("circle", { cx: x(curve.minutes[0]), cy: y(curve.values[0]), r: 3, fill: stroke }));
    svg.append(make("path", { d: points.join(""), fill: "none", stroke, "stroke-width": 1.7, "stroke-linejoin": "round", "stroke-dasharray": dashes }));
  });
  const cursor = make("line", { y1: top, y2: height - bottom, stroke: "var(--soft)", visibility: "hidden" });
  svg.append(cursor, make("line", { x1: left, x2: width - right, y1: height - bottom, y2: height - bottom, stroke: "var(--line)" }));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = Math.min(box.width / width, box.height / height);
    const place = (event.clientX - box.left - (box.width - width * scale) / 2) / scale;
    const minute = Math.min(Math.max(first + ((place - left) / (width - left - right)) * (last - first), first), last);
    cursor.setAttribute("visibility", "visible");
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(minute));
    tooltip.show(event, title, curves.map((curve) => [curve.name, `${number(curve.values[Math.max(0, lastAtMost(curve.minutes, minute))], 4)} ${unit}`]), `${number(minute, 2)} minutes`);
  });
  svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); tooltip.hide(); });
  const legend = curves.map((curve, index) => make("span", {}, make("i", { style: `background:${CURVE_COLOURS[index % CURVE_COLOURS.length]};height:3px;vertical-align:3px` }), curve.name));
  return make("div", { class: "chart" }, make("h3", {}, title, unit ? make("span", { class: "unit" }, `, ${unit}`) : null), make("div", { class: "legend" }, legend), svg);
}

function curvesSection(charts) {
  return [
    make("h2", { id: "curves" }, "How it learned"),
    make("p", { class: "said" }, "Figures of the run's metric file, over minutes of training. Below 100 % a mapping is faster than XLA's default."),
    make("div", { class: "charts" }, charts.map(chart)),
  ];
}
