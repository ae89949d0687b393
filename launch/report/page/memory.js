// The memory map: a rectangle for each stay of a buffer in fast memory, its width time, its height bytes.

const KINDS = ["program input", "intermediate", "program output"];
const KIND_COLOURS = ["input", "intermediate", "output"];
const PREFETCH = 0, WRITE_BACK = 1, CROSS_PROGRAM = 2;
// More stripes than this would take longer to draw than to see.
const MOST_STRIPED = 400;

// Adds to a mapping what the pictures need: its accesses by buffer, and the bytes that copies have in flight.
function prepare(program, mapping) {
  const { residencies, copies } = mapping;
  const accesses = (program.accessesOf ||= accessesByBuffer(program));
  const fast = new Set(mapping.fast);
  const rowsOf = new Map(), copiesOf = new Map();
  residencies.buffer.forEach((buffer, row) => (rowsOf.get(buffer) || rowsOf.set(buffer, []).get(buffer)).push(row));
  copies.buffer.forEach((buffer, copy) => (copiesOf.get(buffer) || copiesOf.set(buffer, []).get(buffer)).push(copy));
  const flights = [];
  copies.buffer.forEach((buffer, copy) => {
    if (copies.direction[copy] === CROSS_PROGRAM) return;
    for (const row of rowsOf.get(buffer) || []) {
      const first = Math.max(residencies.start[row], copies.start[copy] + 1);
      const last = Math.min(residencies.end[row], copies.end[copy] - 1);
      const low = Math.max(residencies.low[row], copies.low[copy]), high = Math.min(residencies.high[row], copies.high[copy]);
      const offset = residencies.offset[row];
      if (first <= last && low < high) flights.push({ first, last, low: offset + low, high: offset + high, out: copies.direction[copy] === WRITE_BACK });
    }
  });
  return Object.assign(mapping, { fastSet: fast, rowsOf, copiesOf, flights, accesses });
}

function accessesByBuffer(program) {
  const found = program.buffers.name.map(() => []);
  program.accesses.buffer.forEach((buffer, access) => found[buffer].push(access));
  return found;
}

// Marks the stays of each mapping that serve an access which the other mapping serves from HBM.
function markDifferences(program, mappings) {
  const { instruction } = program.accesses;
  for (const mapping of mappings) {
    const other = mappings.find((each) => each !== mapping);
    const { buffer, start, end } = mapping.residencies;
    mapping.differs = buffer.map((owner, row) =>
      Boolean(other) && mapping.accesses[owner].some((access) =>
        instruction[access] >= start[row] && instruction[access] <= end[row] && mapping.fastSet.has(access) && !other.fastSet.has(access)));
  }
}

class MemoryPanel extends Panel {
  byteAt(y) {
    const { timeline } = this;
    return timeline.high - (y / this.floor) * (timeline.high - timeline.low);
  }

  py(byte) {
    const { timeline } = this;
    return ((timeline.high - byte) / (timeline.high - timeline.low)) * this.floor;
  }

  drawScale(pen) {
    const { timeline } = this;
    const unit = timeline.high - timeline.low > 2 * MIB ? MIB : 1024;
    const marks = ticks(timeline.low / unit, timeline.high / unit, 5);
    for (const mark of marks) this.scaleLabel(pen, number(mark, 2), this.py(mark * unit));
    this.scaleTitle(pen, `address in fast memory, ${unit === MIB ? "MiB" : "KiB"}`);
  }

  box(row) {
    const { timeline, mapping } = this;
    const { start, end, offset, low, high } = mapping.residencies;
    const left = this.px(timeline.at(mapping, start[row])), right = this.px(timeline.at(mapping, end[row] + 1));
    const top = this.py(offset[row] + high[row]), bottom = this.py(offset[row] + low[row]);
    return { left, right, top, bottom };
  }

  paint(pen) {
    const { timeline, mapping } = this;
    const { program } = timeline;
    const { buffer } = mapping.residencies;
    const right = GUTTER + this.width;
    this.paintLoops(pen, false);
    const inks = KIND_COLOURS.map(colour), same = colour("same"), differs = colour("differs"), ground = colour("ground");
    const marked = timeline.hovered ?? timeline.selected;
    const seen = [];
    const { start, end, offset, low, high } = mapping.residencies;
    const byteScale = this.floor / (timeline.high - timeline.low);
    pen.strokeStyle = ground;
    pen.lineWidth = 0.7;
    for (let row = 0; row < buffer.length; row++) {
      const left = this.px(timeline.at(mapping, start[row]));
      if (left > right) continue;
      const width = Math.max(this.px(timeline.at(mapping, end[row] + 1)) - left, 0.8);
      if (left + width < GUTTER) continue;
      const top = (timeline.high - offset[row] - high[row]) * byteScale, height = Math.max((high[row] - low[row]) * byteScale, 0.8);
      if (top > this.floor || top + height < 0) continue;
      const owner = buffer[row];
      pen.fillStyle = timeline.colouring === "kind" ? inks[program.buffers.kind[owner]] : mapping.differs[row] ? differs : same;
      pen.globalAlpha = marked !== null && marked !== owner ? 0.45 : 1;
      // A sliver more than the screen at both sides: canvases slow down on rectangles that are far too wide.
      const from = Math.max(left, GUTTER - 4), until = Math.min(left + width, right + 4);
      pen.fillRect(from, top, until - from, height);
      if (width > 4 && height > 3) pen.strokeRect(from, top, until - from, height);
      if (marked === owner || (width > 44 && height > 11)) seen.push([row, this.box(row), width, height]);
    }
    pen.globalAlpha = 1;
    this.paintFlights(pen);
    this.paintReserved(pen);
    for (const [row, box, width, height] of seen) {
      if (marked === buffer[row]) {
        pen.strokeStyle = colour("ink");
        pen.lineWidth = 2;
        pen.strokeRect(box.left, box.top, width, height);
      }
      this.paintName(pen, buffer[row], box);
    }
    this.paintLoops(pen, true);
  }

  paintName(pen, owner, box) {
    const left = Math.max(box.left, GUTTER), right = Math.min(box.right, GUTTER + this.width);
    const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, this.floor);
    const letters = Math.floor((right - left - 8) / 6.1);
    if (letters < 6 || bottom - top < 12) return;
    const { name, size } = this.timeline.program.buffers;
    pen.fillStyle = colour("label");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const middle = (left + right) / 2, two = bottom - top > 28;
    pen.fillText(shortened(readable(name[owner]), letters), middle, (top + bottom) / 2 - (two ? 7 : 0));
    if (two) pen.fillText(bytes(size[owner]), middle, (top + bottom) / 2 + 7);
  }

  // Stripes where a prefetch fills bytes, or a write-back saves them.
  paintFlights(pen) {
    const { timeline, mapping } = this;
    const inBytes = (flight) => flight.high > timeline.low && flight.low < timeline.high;
    const inTime = (flight) => timeline.at(mapping, flight.last + 1) >= timeline.from && timeline.at(mapping, flight.first) <= timeline.to;
    const shown = mapping.flights.filter((flight) => inTime(flight) && inBytes(flight));
    const striped = shown.length <= MOST_STRIPED;
    const fills = ["prefetch", "write-back"].map((name) => (striped ? stripes(pen, colour(name), name === "prefetch") : colour(name)));
    pen.globalAlpha = striped ? 1 : 0.45;
    for (const flight of shown) {
      const left = Math.max(this.px(timeline.at(mapping, flight.first)), GUTTER - 4);
      const right = Math.min(this.px(timeline.at(mapping, flight.last + 1)), GUTTER + this.width + 4);
      const top = this.py(flight.high), bottom = this.py(flight.low);
      pen.fillStyle = fills[flight.out ? 1 : 0];
      pen.fillRect(left, top, Math.max(right - left, 0.8), Math.max(bottom - top, 0.8));
    }
    pen.globalAlpha = 1;
  }

  paintReserved(pen) {
    const { timeline, mapping } = this;
    pen.fillStyle = colour("reserved");
    timeline.program.instructions.reserved.forEach((size, step) => {
      if (!size) return;
      const left = this.px(timeline.at(mapping, step)), right = this.px(timeline.at(mapping, step + 1));
      if (right < GUTTER || left > GUTTER + this.width) return;
      const top = this.py(size);
      pen.fillRect(left, top, Math.max(right - left, 0.6), this.py(0) - top);
    });
  }

  // Shades the loops, below all else; or names them, above all.
  paintLoops(pen, named) {
    const { timeline, mapping } = this;
    const { kind, trips, first, last } = timeline.program.loops;
    trips.forEach((count, loop) => {
      const left = this.px(timeline.at(mapping, first[loop])), right = this.px(timeline.at(mapping, last[loop] + 1));
      if (right < GUTTER || left > GUTTER + this.width) return;
      if (!named) {
        pen.fillStyle = colour("panel");
        pen.fillRect(left, 0, right - left, this.floor);
        return;
      }
      if (kind[loop] === "branch") return;
      const text = kind[loop] === "loop" ? `loop, ${many(count, "trip")}` : kind[loop], from = Math.max(left, GUTTER);
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillStyle = colour("ground");
      pen.fillRect(from, 0, pen.measureText(text).width + 8, 17);
      pen.fillStyle = colour("ink");
      pen.fillText(text, from + 4, 4);
    });
  }

  // The stay under the pointer: of several, the last that was drawn.
  hit(x, y) {
    const { buffer } = this.mapping.residencies;
    for (let row = buffer.length - 1; row >= 0; row--) {
      const { left, right, top, bottom } = this.box(row);
      const slack = (least, low, high) => (high - low < least ? (least - high + low) / 2 : 0);
      const [aside, above] = [slack(3, left, right), slack(3, top, bottom)];
      if (x >= left - aside && x <= right + aside && y >= top - above && y <= bottom + above) return row;
    }
    return null;
  }

  hover(event, x, y) {
    const { timeline, mapping } = this;
    const row = this.hit(x, y);
    timeline.hovered = row === null ? null : mapping.residencies.buffer[row];
    if (row === null) {
      tooltip.show(event, `free memory at ${bytes(Math.max(0, this.byteAt(y)))}`, instructionRows(timeline, mapping, this.xAt(x)));
    } else {
      tooltip.show(event, readable(timeline.program.buffers.name[timeline.hovered]), [...this.stayRows(row), ...instructionRows(timeline, mapping, this.xAt(x))], mapping.differs[row] ? "The other mapping serves some of these uses from HBM." : "");
    }
  }

  click(x, y) {
    const row = x >= GUTTER ? this.hit(x, y) : null;
    this.timeline.selected = row === null ? null : this.mapping.residencies.buffer[row];
    this.timeline.redraw();
  }

  stayRows(row) {
    const { timeline, mapping } = this;
    const { program } = timeline;
    const { buffer, start, end, offset, low, high } = mapping.residencies;
    const owner = buffer[row], { instruction, kind } = program.accesses;
    const here = program.buffers.split.includes(owner) ? "in each of two cores" : "of it here";
    const part = high[row] - low[row] < program.buffers.size[owner] ? `, ${bytes(high[row] - low[row])} ${here}` : "";
    const rows = [
      ["buffer", `${KINDS[program.buffers.kind[owner]]}, ${bytes(program.buffers.size[owner])}${part}`],
      ["lies at", `${bytes(offset[row] + low[row])} to ${bytes(offset[row] + high[row])}`],
      ["from", `${microseconds(mapping.edges[start[row]])} to ${microseconds(mapping.edges[end[row] + 1])} (instructions ${start[row]} to ${end[row]})`],
    ];
    const inside = mapping.accesses[owner].filter((access) => instruction[access] >= start[row] && instruction[access] <= end[row]);
    const names = (which) => inside.filter((access) => kind[access] === which).map((access) => readable(program.instructions.name[instruction[access]]));
    const said = (list) => shortened(list.slice(0, 3).join(", "), 90) + (list.length > 3 ? ` and ${list.length - 3} more` : "");
    if (names(1).length) rows.push(["written by", said(names(1))]);
    if (names(0).length) rows.push(["read by", said(names(0))]);
    for (const copy of mapping.copiesOf.get(owner) || []) {
      const { direction, start: issued, end: due, begin, finish } = mapping.copies;
      if (due[copy] < start[row] || issued[copy] > end[row]) continue;
      const way = ["prefetch", "write-back", "prefetch"][direction[copy]];
      rows.push([way, direction[copy] === CROSS_PROGRAM ? "by the execution before" : `${microseconds(begin[copy])} to ${microseconds(finish[copy])}`]);
      if (rows.length > 8) break;
    }
    return rows;
  }
}

function stripes(pen, ink, rising) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const brush = tile.getContext("2d");
  brush.strokeStyle = ink;
  brush.lineWidth = 1.3;
  for (const shift of [-6, 0, 6]) {
    brush.beginPath();
    brush.moveTo(shift - 1, rising ? 7 : -1);
    brush.lineTo(shift + 7, rising ? -1 : 7);
    brush.stroke();
  }
  return pen.createPattern(tile, "repeat");
}
