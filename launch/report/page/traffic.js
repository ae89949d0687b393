// Panels of copies and of HBM traffic, and of the bytes that the program has alive.

// Copies: from issue to due pale, solid while bytes move. Prefetches above the line, write-backs below.
class CopiesPanel extends Panel {
  constructor(...given) {
    super(...given);
    const { copies } = this.mapping;
    this.lanes = [[], []];
    this.lane = copies.buffer.map((_, copy) => {
      if (copies.direction[copy] === CROSS_PROGRAM) return -1;
      const lanes = this.lanes[copies.direction[copy] === WRITE_BACK ? 1 : 0];
      let lane = lanes.findIndex((until) => until <= copies.start[copy]);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = copies.end[copy];
      return lane;
    });
  }

  drawScale(pen) {
    this.scaleTitle(pen, "copies");
    this.scaleLabel(pen, "in", this.middle / 2);
    if (this.lanes[1].length) this.scaleLabel(pen, "out", (this.middle + this.floor) / 2);
  }

  get middle() {
    const [up, down] = this.lanes.map((lanes) => lanes.length);
    return up + down ? Math.max(down ? 14 : 0, Math.min(this.floor - (down ? 14 : 0), (this.floor * up) / (up + down))) : this.floor;
  }

  box(copy) {
    const { timeline, mapping } = this;
    const { start, end, begin, finish, direction } = mapping.copies;
    const out = direction[copy] === WRITE_BACK;
    const pitch = out ? (this.floor - this.middle) / this.lanes[1].length : this.middle / this.lanes[0].length;
    const top = out ? this.middle + this.lane[copy] * pitch : this.middle - (this.lane[copy] + 1) * pitch;
    const steps = timeline.steps;
    return {
      left: this.px(timeline.at(mapping, Math.min(start[copy] + 1, steps))),
      right: this.px(timeline.at(mapping, Math.min(end[copy], steps))),
      begin: this.px(timeline.atTime(mapping, begin[copy])),
      finish: this.px(timeline.atTime(mapping, finish[copy])),
      top, height: Math.max(Math.min(pitch - (pitch > 3 ? 1 : 0), 14), 0.8), out,
    };
  }

  paint(pen) {
    const { timeline } = this;
    const marked = timeline.hovered ?? timeline.selected;
    const inks = [colour("prefetch"), colour("write-back")];
    this.lane.forEach((lane, copy) => {
      if (lane < 0) return;
      const { start, end } = this.mapping.copies;
      if (timeline.at(this.mapping, Math.min(start[copy] + 1, timeline.steps)) > timeline.to || timeline.at(this.mapping, Math.min(end[copy], timeline.steps)) < timeline.from) return;
      const box = this.box(copy);
      const dim = marked !== null && marked !== this.mapping.copies.buffer[copy] ? 0.35 : 1;
      pen.fillStyle = inks[box.out ? 1 : 0];
      pen.globalAlpha = 0.25 * dim;
      pen.fillRect(box.left, box.top, Math.max(box.right - box.left, 0.8), box.height);
      pen.globalAlpha = dim;
      pen.fillRect(box.begin, box.top, Math.max(box.finish - box.begin, 0.8), box.height);
    });
    pen.globalAlpha = 1;
    if (this.lanes[1].length) {
      pen.fillStyle = colour("line");
      pen.fillRect(GUTTER, this.middle - 0.5, this.width, 1);
    }
  }

  hover(event, x, y) {
    const { timeline, mapping } = this;
    const { program } = timeline;
    const copy = this.lane.findIndex((lane, each) => {
      if (lane < 0) return false;
      const box = this.box(each);
      return x >= box.left - 1 && x <= Math.max(box.right, box.left + 2) && y >= box.top - 0.5 && y <= box.top + box.height + 0.5;
    });
    if (copy < 0) {
      timeline.hovered = null;
      tooltip.show(event, "no copy here", instructionRows(timeline, mapping, this.xAt(x)));
      return;
    }
    const { buffer, direction, start, end, begin, finish, low, high, replaces } = mapping.copies;
    timeline.hovered = buffer[copy];
    const after = start[copy] < 0 ? "before the program" : `right after ${readable(program.instructions.name[start[copy]])}`;
    const before = end[copy] >= timeline.steps ? "the program's end" : readable(program.instructions.name[end[copy]]);
    const rows = [
      ["moves", `${bytes(high[copy] - low[copy])}, ${microseconds(begin[copy])} to ${microseconds(finish[copy])}`],
      ["issued", after],
      ["needed by", before],
    ];
    if (replaces[copy] >= 0) rows.push(["replaces", readable(program.instructions.name[replaces[copy]])]);
    const way = direction[copy] === WRITE_BACK ? "write-back" : "prefetch";
    tooltip.show(event, `${way} of ${readable(program.buffers.name[buffer[copy]])}`, [...rows, ...instructionRows(timeline, mapping, this.xAt(x))]);
  }

  click(x) {
    this.timeline.selected = x >= GUTTER ? this.timeline.hovered : null;
    this.timeline.redraw();
  }
}

// The share of HBM time in use: instructions, on top prefetches, on top write-backs.
class TrafficPanel extends Panel {
  drawScale(pen) {
    this.scaleTitle(pen, "HBM busy, %");
    for (const mark of [0, 50, 100]) this.scaleLabel(pen, String(mark), this.floor * (1 - mark / 100));
  }

  // HBM time used up to each end of a column, by user; and the time itself.
  columns() {
    const { timeline, mapping } = this;
    const { time, instructions, prefetches, write_backs } = mapping.traffic;
    const count = Math.max(1, Math.floor(this.width));
    const found = [];
    for (let column = 0; column <= count; column++) {
      const x = timeline.from + (column / count) * (timeline.to - timeline.from);
      const moment = timeline.mode === "time" ? x : timeOf(mapping, x);
      found.push([moment, ...[instructions, prefetches, write_backs].map((list) => interpolated(time, list, moment))]);
    }
    return found;
  }

  paint(pen) {
    const columns = this.columns();
    const inks = ["instruction", "prefetch", "write-back"].map(colour);
    const base = new Array(columns.length - 1).fill(0);
    inks.forEach((ink, user) => {
      pen.fillStyle = ink;
      base.forEach((below, column) => {
        const [before, after] = [columns[column], columns[column + 1]];
        const share = after[0] > before[0] ? (after[user + 1] - before[user + 1]) / (after[0] - before[0]) : 0;
        const above = Math.min(below + Math.max(share, 0), 1);
        if (above > below) pen.fillRect(GUTTER + column, this.floor * (1 - above), 1.2, this.floor * (above - below));
        base[column] = above;
      });
    });
  }

  hover(event, x) {
    const { timeline, mapping } = this;
    const { time, instructions, prefetches, write_backs } = mapping.traffic;
    const ends = [this.xAt(x - 1), this.xAt(x + 1)].map((place) => (timeline.mode === "time" ? place : timeOf(mapping, place)));
    const share = (list) => percent((interpolated(time, list, ends[1]) - interpolated(time, list, ends[0])) / Math.max(ends[1] - ends[0], 1e-12), 0);
    tooltip.show(event, `HBM at ${microseconds(ends[0])}`, [
      ["instructions", share(instructions)],
      ["prefetches", share(prefetches)],
      ["write-backs", share(write_backs)],
      ...instructionRows(timeline, mapping, this.xAt(x)),
    ]);
  }
}

function interpolated(places, values, at) {
  const low = Math.min(Math.max(lastAtMost(places, at), 0), places.length - 1), high = Math.min(low + 1, places.length - 1);
  const width = places[high] - places[low];
  return values[low] + (width > 0 ? Math.min(1, Math.max(0, (at - places[low]) / width)) * (values[high] - values[low]) : 0);
}

// Bytes of the buffers between their first and last use, by kind, against the fast memory that there is.
class LivePanel extends Panel {
  get most() {
    return (this.peak ||= Math.max(...this.timeline.program.live[0].map((_, step) => this.total(step)), this.timeline.program.fast_bytes)) * 1.05;
  }

  total(step) {
    return this.timeline.program.live.reduce((sum, layer) => sum + layer[step], 0);
  }

  drawScale(pen) {
    for (const mark of ticks(0, this.most / MIB, 4)) this.scaleLabel(pen, number(mark, 1), this.floor * (1 - (mark * MIB) / this.most));
    this.scaleTitle(pen, "in use, MiB");
  }

  paint(pen) {
    const { timeline, mapping } = this;
    const { live, fast_bytes } = timeline.program;
    const inks = KIND_COLOURS.map(colour);
    const first = timeline.stepAt(mapping, timeline.from), last = timeline.stepAt(mapping, timeline.to);
    for (let step = first; step <= last; step++) {
      const left = this.px(timeline.at(mapping, step)), width = Math.max(this.px(timeline.at(mapping, step + 1)) - left, 0.6) + 0.4;
      let below = 0;
      live.forEach((layer, kind) => {
        pen.fillStyle = inks[kind];
        const height = (layer[step] / this.most) * this.floor;
        pen.fillRect(left, this.floor - below - height, width, height);
        below += height;
      });
    }
    const y = this.floor * (1 - fast_bytes / this.most);
    pen.strokeStyle = colour("ink");
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(GUTTER, y);
    pen.lineTo(GUTTER + this.width, y);
    pen.stroke();
    pen.setLineDash([]);
  }

  hover(event, x) {
    const { timeline, mapping } = this;
    const step = timeline.stepAt(mapping, this.xAt(x));
    const rows = KINDS.map((name, kind) => [name, bytes(timeline.program.live[kind][step])]);
    tooltip.show(event, `${bytes(this.total(step))} in use`, [...rows, ...instructionRows(timeline, mapping, this.xAt(x))], `Fast memory holds ${bytes(timeline.program.fast_bytes)}.`);
  }
}
