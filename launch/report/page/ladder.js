// How fast: the cards at the top, and the ladder of mappings from the slowest to the bound.

function cards(program) {
  const rows = program.figures[program.objective];
  const ours = rows.find((row) => row.role === "ours"), base = rows.find((row) => row.role === "production");
  const flags = rows.find((row) => row.role === "flags"), bound = rows.find((row) => row.role === "bound");
  const found = [];
  const card = (value, text, tone) => found.push(make("div", { class: "card" }, make("b", { class: tone }, value), make("span", {}, text)));
  const tone = (share) => (Math.abs(share) < 5e-5 ? "" : share < 0 ? "good" : "bad");
  const faster = (share) => (Math.abs(share) < 5e-5 ? "no change" : `${percent(Math.abs(share))} ${share < 0 ? "faster" : "slower"}`);
  if (ours && base) card(faster(ours.ratio - 1), `than XLA's default, by ${objectiveWords(program.objective)}`, tone(ours.ratio - 1));
  if (ours && flags) card(faster(ours.ratio / flags.ratio - 1), "than XLA with the best of its flags", tone(ours.ratio / flags.ratio - 1));
  const best = ours || flags || base;
  if (best && bound) card(`≤ ${percent(Math.max(0, 1 - bound.ratio / best.ratio))}`, `can still be gained by any mapping${ours ? "" : " over XLA's best"}: a proved bound`, "");
  if (program.mappings.length) card(microseconds(program.mappings[0].latency_us), `latency of ${program.mappings[0].name}, simulated (${program.model})`, "");
  return make("div", { class: "cards" }, found);
}

function objectiveWords(objective) {
  return { robust: "the worse of both cost models", msa: "the cost model msa", cycles: "the cost model cycles" }[objective];
}

function ladder(program) {
  const choices = Object.keys(program.figures);
  const body = make("div", { class: "ladder" });
  const draw = (objective) => {
    const rows = program.figures[objective];
    // What lies in HBM altogether is often so slow that all others would be one point.
    const others = Math.max(...rows.filter((row) => row.role !== "reference").map((row) => row.ratio), 1);
    const near = rows.map((row) => row.ratio).filter((ratio) => ratio <= 1.35 * others);
    const low = Math.min(...near, 1), high = Math.max(...near, 1), around = Math.max((high - low) * 0.06, 0.002);
    const scale = rows.some((row) => row.ratio > high) ? 82 : 100; // room for the words at the right
    const place = (ratio) => (scale * (ratio - low + around)) / (high - low + 2 * around);
    body.replaceChildren(...rows.map((row) => {
      const beyond = row.ratio > high;
      const track = make("div", { class: "track" }, make("div", { class: "base", style: `left:${place(1)}%` }));
      if (beyond) track.append(make("span", { class: "beyond" }, "far to the right ▸"));
      else {
        const [left, right] = [Math.min(place(1), place(row.ratio)), Math.max(place(1), place(row.ratio))];
        track.append(make("div", { class: "bar", style: `left:${left}%;width:${right - left}%` }), make("div", { class: "dot", style: `left:${place(row.ratio)}%` }));
      }
      return make("div", { class: `row ${row.role}` }, make("span", { class: row.role }, row.name), track,
        make("span", { class: `figure ${row.role}` }, row.us === null ? "" : microseconds(row.us)), make("span", { class: `figure ${row.role}` }, percent(row.ratio)));
    }));
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === objective));
  };
  const buttons = choices.map((objective) => make("button", { click: () => draw(objective) }, objective));
  draw(program.objective);
  const tools = choices.length > 1 ? make("div", { class: "tools" }, make("label", {}, "judged by"), make("span", { class: "group" }, buttons)) : null;
  return [tools, body];
}
