// Puts the page together.

const report = JSON.parse(document.getElementById("data").textContent);
const KIND_WORDS = { run: "Report of a training run", mapping: "Report of a mapping", tuning: "Report of a tuning" };

function legend(entries) {
  return make("span", { class: "legend" }, entries.map(([name, ink, striped]) =>
    make("span", {}, make("i", { style: striped ? `background:repeating-linear-gradient(${striped}deg,var(--${ink}) 0 1.5px,transparent 1.5px 4px)` : `background:var(--${ink})` }), name)));
}

function pressed(buttons, chosen) {
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.choice === chosen));
}

function choice(name, options, choose) {
  const buttons = Object.entries(options).map(([key, text]) => make("button", { "data-choice": key, click: () => { choose(key); pressed(buttons, key); } }, text));
  pressed(buttons, Object.keys(options)[0]);
  return [make("label", {}, name), make("span", { class: "group" }, buttons)];
}

function pictureSection(program) {
  const readout = make("span", { class: "readout" });
  const section = make("section", { class: "picture", id: "map" });
  const timeline = new Timeline(program, (changed) => {
    readout.textContent = changed.readout();
    section.dataset.from = changed.from;
    section.dataset.to = changed.to;
  });
  const { mappings } = timeline;
  markDifferences(program, mappings);
  const two = mappings.length > 1;
  const find = make("input", { type: "search", placeholder: "find a buffer", "aria-label": "find a buffer", size: 18, input: () => {
    const words = find.value.trim().toLowerCase();
    const found = words ? program.buffers.name.findIndex((name, buffer) => readable(name).toLowerCase().includes(words) && mappings[0].rowsOf.has(buffer)) : -1;
    timeline.selected = found < 0 ? null : found;
    timeline.redraw();
  } });
  const zoom = (factor) => () => timeline.zoom(factor, (timeline.from + timeline.to) / 2);
  section.append(
    make("h2", {}, two ? "Where every buffer lies, and when: beside XLA's own mapping" : "Where every buffer lies, and when"),
    make("p", { class: "said" }, "Each rectangle is a buffer in fast memory: its width is the time for which it stays, its height its bytes. What is not drawn lies in HBM. " +
      "Turn the wheel to zoom, with Shift to zoom into addresses; drag to move; click a buffer to follow it in all pictures; double-click to see all."
      + (program.loops.trips.length ? " A loop's body is drawn once." : "")),
    make("div", { class: "tools" },
      choice("axis", { time: "time", step: "instructions" }, (mode) => timeline.setMode(mode)),
      two ? choice("colour", { kind: "what it is", change: "what differs" }, (name) => { timeline.colouring = name; paintLegends(name); timeline.redraw(); }) : null,
      make("span", { class: "group" }, make("button", { click: zoom(0.5), "aria-label": "zoom in", title: "zoom in" }, "+"), make("button", { click: zoom(2), "aria-label": "zoom out", title: "zoom out" }, "−"), make("button", { click: () => timeline.reset() }, "all")),
      find, readout),
  );
  const kinds = KINDS.map((name, kind) => [name, KIND_COLOURS[kind]]);
  const flights = [["prefetch under way", "prefetch", 135], ["write-back under way", "write-back", 45]];
  const reserved = program.instructions.reserved.some(Boolean) ? [["reserved by an instruction", "reserved"]] : [];
  const heads = [];
  const paintLegends = (name) => heads.forEach((head) => head.replaceChildren(legend([...(name === "kind" ? kinds : [["in HBM in the other mapping", "differs"], ["in both", "same"]]), ...flights, ...reserved])));
  mappings.forEach((mapping, index) => {
    const head = make("span");
    heads.push(head);
    const waits = mapping.waited_us > 0 ? `, ${microseconds(mapping.waited_us)} of it waits for copies` : ", no waits for copies";
    section.append(
      make("div", { class: "panelhead" }, make("b", {}, capital(mapping.name)), make("span", { class: "soft" }, `${microseconds(mapping.latency_us)} (${program.model}, steady)${waits}`), head),
      new MemoryPanel(timeline, mapping, two ? 300 : 400, `memory-${index}`, `memory map of ${mapping.name}`).canvas,
      make("div", { class: "panelhead" }, make("span", { class: "soft" }, "Copies between HBM and fast memory"), legend([["moving", "prefetch"], ["moving out", "write-back"]]), make("span", { class: "legend" }, "pale: issued, and not needed yet")),
      new CopiesPanel(timeline, mapping, 86, `copies-${index}`, `copies of ${mapping.name}`).canvas,
      make("div", { class: "panelhead" }, make("span", { class: "soft" }, "Share of HBM's time in use"), legend([["instructions", "instruction"], ["prefetches", "prefetch"], ["write-backs", "write-back"]])),
      new TrafficPanel(timeline, mapping, 96, `traffic-${index}`, `HBM traffic of ${mapping.name}`).canvas,
    );
  });
  section.append(
    make("div", { class: "panelhead" }, make("b", {}, "What the program has in use"), legend(kinds), make("span", { class: "legend" }, "dashed: all of fast memory")),
    new LivePanel(timeline, mappings[0], 120, "live", "bytes in use").canvas,
  );
  paintLegends("kind");
  return { section, timeline };
}

function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function programSection(program) {
  const parts = [make("h2", {}, `How fast: ${program.name} on ${program.target}`),
    make("p", { class: "said" }, `${many(program.instructions.name.length, "instruction")}, ${many(program.buffers.name.length, "buffer")}; ${bytes(program.fast_bytes)} of fast memory beside HBM at ${number(program.hbm_bandwidth / 1e9)} GB/s. Latencies are simulated, steady; percentages are of XLA's default${program.figures[program.objective].some((row) => row.role === "production") ? "" : " where it is known, here of everything in HBM"}.`),
    cards(program), ladder(program)];
  let picture = null;
  if (program.mappings.length) {
    picture = pictureSection(program);
    parts.push(picture.section);
    if (program.changes && program.changes.count) parts.push(changesSection(program, picture.timeline, picture.section));
  }
  return { element: make("div", {}, parts.flat(2).filter(Boolean)), timeline: picture && picture.timeline };
}

function tuningSection(tuning) {
  const models = tuning.models;
  const cell = (us, base) => make("td", { class: "n" }, us === undefined ? "—" : `${microseconds(us)}${base && us !== base ? ` (${signed(us / base - 1)})` : ""}`);
  const base = tuning.steps[0].us;
  const head = (...names) => make("thead", {}, make("tr", {}, names, models.map((model) => make("th", { class: "n" }, model))));
  return [
    make("h2", { id: "tuning" }, "What the compiler said"),
    make("p", { class: "said" }, tuning.kept === null ? "Nothing that was tried is better than XLA's default, which stays: the options are empty." : `Kept: ${tuning.kept}. ${capital(tuning.verdict)}.`,
      tuning.missing ? ` ${tuning.missing}; it is compared with the mapping of XLA's algorithm.` : ""),
    make("h3", {}, "From the wish to the confirmed mapping"),
    make("div", { class: "scroll" }, make("table", {}, head(make("th", {}, "latency")), make("tbody", {}, tuning.steps.map((step) => make("tr", { class: step === tuning.steps.at(-1) ? "kept" : "" }, make("td", {}, step.name), models.map((model) => cell(step.us[model], base[model]))))))),
    make("h3", {}, `${many(tuning.candidates.length, "set")} of options that the compiler was asked about`),
    make("p", { class: "said" }, "Foreseen is what our own decoder of XLA's algorithm makes of the options; confirmed is what the compiler made of them."),
    make("div", { class: "scroll" }, make("table", {},
      make("thead", {}, make("tr", {}, make("th", {}, "kind"), models.map((model) => [make("th", { class: "n" }, `foreseen, ${model}`), make("th", { class: "n" }, `confirmed, ${model}`)]).flat(), make("th", {}, "options"))),
      make("tbody", {}, tuning.candidates.map((each) => make("tr", { class: each.kept ? "kept" : "" },
        make("td", {}, each.kind, each.kept ? " (kept)" : ""),
        each.error ? make("td", { colspan: 2 * models.length }, `refused: ${each.error}`) : models.map((model) => [cell(each.foreseen_us[model], base[model]), cell(each.confirmed_us[model], base[model])]).flat(),
        make("td", {}, optionsOf(each.options))))))),
  ];
}

function optionsOf(options) {
  const lines = Object.entries(options).map(([name, value]) => `${name}=${value}`);
  return lines.length ? make("details", {}, make("summary", {}, many(lines.length, "option")), make("pre", {}, lines.join("\n"))) : "none";
}

function bestSection(best) {
  const names = Object.keys(best).sort((one, other) => (best[one].of_production ?? 9) - (best[other].of_production ?? 9));
  return [make("h2", {}, "The best mapping of each program"), make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, make("th", {}, "program"), make("th", { class: "n" }, "of XLA's default"))),
    make("tbody", {}, names.map((name) => make("tr", {}, make("td", {}, name), make("td", { class: "n" }, best[name].of_production === null ? "—" : percent(best[name].of_production)))))))];
}

function reproduceSection({ command, facts, notes }) {
  return [
    make("h2", { id: "reproduce" }, "How to repeat it"),
    make("pre", {}, command),
    make("dl", { class: "facts" }, [["mallocmuzero", report.version], ...facts].map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]).flat()),
    notes.map((note) => make("p", { class: "said" }, note)),
  ];
}

function build() {
  const page = document.getElementById("page");
  const shown = make("div");
  const built = new Map();
  const show = (program) => {
    if (!built.has(program)) built.set(program, programSection(program));
    const { element, timeline } = built.get(program);
    shown.replaceChildren(element);
    if (timeline) timeline.redraw();
    pressed(tabs, program.name);
  };
  const tabs = report.programs.map((program) => make("button", { "data-choice": program.name, click: () => show(program) }, program.name));
  const redraw = () => { for (const { timeline } of built.values()) if (timeline) timeline.redraw(); };
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const dark = (on) => { document.documentElement.classList.toggle("dark", on); document.documentElement.style.colorScheme = on ? "dark" : "light"; colours.clear(); redraw(); };
  page.append(
    make("div", { class: "top" }, make("h1", {}, report.title), make("span", { class: "soft" }, KIND_WORDS[report.kind]),
      make("button", { id: "scheme", click: () => dark(!document.documentElement.classList.contains("dark")) }, "light / dark")),
    ...(tabs.length > 1 ? [make("div", { class: "tabs" }, tabs)] : []),
    shown,
    ...(report.tuning ? tuningSection(report.tuning) : []),
    ...(report.charts.length ? curvesSection(report.charts) : []),
    ...(Object.keys(report.best).length > 1 ? bestSection(report.best) : []),
    ...reproduceSection(report.reproduce).flat(),
    make("footer", {}, `Made by mallocmuzero ${report.version}. Everything on this page is inside this file.`),
  );
  dark(scheme.matches);
  scheme.addEventListener("change", () => dark(scheme.matches));
  addEventListener("resize", redraw);
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const { timeline } of built.values()) if (timeline) { timeline.selected = null; timeline.redraw(); }
  });
  if (report.programs.length) show(report.programs[0]);
}

build();
