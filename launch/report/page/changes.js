// What differs from XLA's mapping, and what each difference is worth alone.

const FIRST_ROWS = 20;
// Shares below this are not counted as gain or loss.
const FELT = 1e-5;

function changesSection(program, timeline, picture) {
  const { changes } = program;
  const { rows } = changes;
  const known = rows.filter((row) => row.share !== null);
  const better = known.filter((row) => row.share >= FELT).length, worse = known.filter((row) => row.share <= -FELT).length;
  const most = Math.max(...known.map((row) => Math.abs(row.share)), 1e-12);
  const tried = rows.length < changes.count ? `The ${number(rows.length)} that promise most of them were put back` : "Each was put back";
  const off = changes.replayed - 1;
  const near = Math.abs(off) < 5e-6 ? "exactly as the mapping" : `${percent(Math.abs(off), 3)} ${off > 0 ? "slower" : "faster"} than the mapping itself`;
  const none = rows.length - known.length;
  const body = make("tbody");
  const models = changes.models;
  const line = (row) => {
    const name = readable(program.buffers.name[row.buffer]);
    const where = `${row.first === row.last ? row.first : `${row.first} to ${row.last}`}`;
    return make("tr", { class: "go", title: "show it in the memory map", click: () => {
      timeline.selected = row.buffer;
      timeline.show(row.first, row.last);
      picture.scrollIntoView({ behavior: "smooth", block: "start" });
    } },
      make("td", { class: "name", title: name }, name),
      make("td", { class: "n" }, bytes(program.buffers.size[row.buffer])),
      make("td", {}, row.fast ? "HBM → fast memory" : "fast memory → HBM"),
      make("td", { class: "n" }, where),
      make("td", { class: "n" }, number(row.accesses)),
      make("td", {}, row.share === null ? "" : worthBar(row.share / most)),
      make("td", { class: `n ${row.share > 0 ? "good" : row.share < 0 ? "bad" : ""}` }, row.share === null ? "not alone" : signed(row.share, 3)),
      models.map((model) => make("td", { class: "n" }, row.us[model] === undefined ? "" : `${row.us[model] < 0 ? "−" : ""}${microseconds(Math.abs(row.us[model]))}`)));
  };
  // The ends of the list say most: what is worth most, and what costs most.
  const short = rows.length <= FIRST_ROWS ? rows : [...known.slice(0, FIRST_ROWS - 5), ...known.slice(-5)];
  body.append(...short.map(line));
  const button = rows.length > short.length ? make("button", { click: () => { body.replaceChildren(...rows.map(line)); button.remove(); } }, `show all ${number(rows.length)}`) : null;
  return [
    make("h2", { id: "changes" }, "What changed, and what each change is worth"),
    make("p", { class: "said" },
      `${many(changes.count, "stay", "stays")} of a buffer ${changes.count === 1 ? "differs" : "differ"} from XLA's default. ${tried}, one alone, and the whole game was played again: the worth is how much slower the program then is. ` +
      `${number(better)} ${better === 1 ? "is" : "are"} worth something, ${number(worse)} would be better undone, ${number(known.length - better - worse)} ${known.length - better - worse === 1 ? "makes" : "make"} less than ${percent(FELT, 3)} of a difference${none ? `, ${number(none)} cannot be undone alone` : ""}. ` +
      `Worths do not add up: changes share memory and bandwidth, and where one is undone others make room. The game that follows the mapping comes out ${near}.`),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {},
      make("th", {}, "buffer"), make("th", { class: "n" }, "size"), make("th", {}, "XLA → here"), make("th", { class: "n" }, "instructions"), make("th", { class: "n" }, "uses"),
      make("th", {}, ""), make("th", { class: "n" }, "worth alone, of XLA's latency"), models.map((model) => make("th", { class: "n" }, `by ${model}`)))), body)),
    button,
  ];
}

function worthBar(share) {
  const width = Math.max(Math.abs(share) * 50, share ? 1 : 0);
  const style = `left:${share < 0 ? 50 - width : 50}%;width:${width}%;background:${share < 0 ? "var(--bad)" : "var(--good)"}`;
  return make("span", { class: "worth" }, make("i", { style }));
}
