// The timeline: panels one above the other on one axis, of time or of instructions, that zoom and pan together.

const GUTTER = 64;

class Timeline {
  constructor(program, changed) {
    this.program = program;
    this.changed = changed; // called when what is shown changes
    this.panels = [];
    this.mode = "time";
    this.colouring = "kind";
    this.selected = null; // a buffer that was clicked on
    this.hovered = null;
    this.cursor = null;
    this.waiting = false;
    this.steps = program.instructions.name.length;
    this.mappings = program.mappings.map((mapping) => prepare(program, mapping));
    this.reset();
  }

  get end() {
    return this.mode === "time" ? Math.max(...this.mappings.map((mapping) => mapping.edges.at(-1))) : this.steps;
  }

  reset() {
    this.from = 0;
    this.to = this.end;
    this.low = 0;
    this.high = this.program.fast_bytes;
    this.redraw();
  }

  setMode(mode) {
    const [first, mapping] = [this.from, this.mappings[0]];
    const last = this.to;
    this.mode = mode;
    const turn = mode === "time" ? (x) => timeOf(mapping, x) : (x) => stepOf(mapping, x);
    [this.from, this.to] = [turn(first), turn(last)];
    this.clamp();
    this.redraw();
  }

  // The place of instruction `step` on the axis.
  at(mapping, step) {
    return this.mode === "time" ? mapping.edges[step] : step;
  }

  // The place of a moment on the axis.
  atTime(mapping, time) {
    return this.mode === "time" ? time : stepOf(mapping, time);
  }

  stepAt(mapping, x) {
    const step = this.mode === "time" ? lastAtMost(mapping.edges, x) : Math.floor(x);
    return Math.min(Math.max(step, 0), this.steps - 1);
  }

  zoom(factor, x) {
    const width = Math.min(Math.max((this.to - this.from) * factor, this.end * 1e-6), this.end);
    const share = (x - this.from) / (this.to - this.from);
    this.from = x - share * width;
    this.to = this.from + width;
    this.clamp();
    this.redraw();
  }

  zoomBytes(factor, byte) {
    const height = Math.min(Math.max((this.high - this.low) * factor, 4096), this.program.fast_bytes);
    const share = (byte - this.low) / (this.high - this.low);
    this.low = byte - share * height;
    this.high = this.low + height;
    this.clamp();
    this.redraw();
  }

  pan(dx, dy) {
    this.from += dx;
    this.to += dx;
    this.low += dy;
    this.high += dy;
    this.clamp();
    this.redraw();
  }

  // Shows instructions `first` to `last`, with as much again around them.
  show(first, last) {
    const mapping = this.mappings[0];
    const [begin, end] = [this.at(mapping, first), this.at(mapping, last + 1)];
    const around = Math.max(end - begin, this.end / 200);
    this.from = begin - around;
    this.to = end + around;
    this.low = 0;
    this.high = this.program.fast_bytes;
    this.clamp();
    this.redraw();
  }

  clamp() {
    const shift = Math.max(0, -this.from) - Math.max(0, this.to - this.end);
    this.from = Math.max(0, this.from + shift);
    this.to = Math.min(this.end, this.to + shift);
    const up = Math.max(0, -this.low) - Math.max(0, this.high - this.program.fast_bytes);
    this.low = Math.max(0, this.low + up);
    this.high = Math.min(this.program.fast_bytes, this.high + up);
  }

  get whole() {
    return this.to - this.from >= this.end * 0.999999 && this.high - this.low >= this.program.fast_bytes;
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      for (const panel of this.panels) panel.draw();
      this.changed(this);
    });
  }

  readout() {
    const [from, to] = [number(this.from, 2), number(this.to, 2)];
    const bytesShown = this.high - this.low < this.program.fast_bytes ? `, ${bytes(this.low)} to ${bytes(this.high)}` : "";
    return this.mode === "time" ? `${from} to ${to} µs${bytesShown}` : `instructions ${Math.floor(this.from)} to ${Math.ceil(this.to) - 1}${bytesShown}`;
  }
}

function stepOf(mapping, time) {
  const step = Math.min(Math.max(lastAtMost(mapping.edges, time), 0), mapping.edges.length - 2);
  const width = mapping.edges[step + 1] - mapping.edges[step];
  return step + (width > 0 ? Math.min(1, (time - mapping.edges[step]) / width) : 0);
}

function timeOf(mapping, step) {
  const whole = Math.min(Math.floor(step), mapping.edges.length - 2);
  return mapping.edges[whole] + (step - whole) * (mapping.edges[whole + 1] - mapping.edges[whole]);
}

// A canvas in a timeline. Subclasses paint it, and say what is under the pointer.
class Panel {
  constructor(timeline, mapping, height, name, description) {
    this.timeline = timeline;
    this.mapping = mapping;
    this.height = height;
    this.canvas = make("canvas", {
      "data-panel": name,
      role: "img",
      "aria-label": description,
      style: `height: ${height}px`,
      wheel: (event) => this.wheel(event),
      pointerdown: (event) => this.press(event),
      pointermove: (event) => this.move(event),
      pointerup: (event) => this.release(event),
      pointerleave: () => this.leave(),
      dblclick: () => timeline.reset(),
    });
    timeline.panels.push(this);
  }

  // Kept from the last drawing: to ask the canvas anew for each place would take longer than to draw.
  measure() {
    this.width = this.canvas.clientWidth - GUTTER;
    this.scale = this.width / (this.timeline.to - this.timeline.from);
  }

  px(x) {
    return GUTTER + (x - this.timeline.from) * this.scale;
  }

  xAt(px) {
    return this.timeline.from + ((px - GUTTER) / this.width) * (this.timeline.to - this.timeline.from);
  }

  draw() {
    const { canvas, timeline } = this;
    if (!canvas.isConnected) return;
    this.measure();
    const dots = devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * dots), Math.round(this.height * dots)];
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext("2d");
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, this.height);
    pen.font = '11px system-ui, "DejaVu Sans", sans-serif';
    this.drawGrid(pen);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, this.width, this.floor);
    pen.clip();
    this.paint(pen);
    if (timeline.cursor !== null) {
      pen.strokeStyle = colour("soft");
      pen.lineWidth = 1;
      const x = Math.round(this.px(timeline.cursor)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, this.floor);
      pen.stroke();
    }
    pen.restore();
    pen.strokeStyle = colour("soft");
    pen.strokeRect(GUTTER - 0.5, 0.5, this.width, this.floor);
  }

  // The lower end of the painted area: below it are the ticks of the axis.
  get floor() {
    return this.height - 20;
  }

  drawGrid(pen) {
    const { timeline } = this;
    pen.fillStyle = colour("soft");
    pen.strokeStyle = colour("grid");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const marks = ticks(timeline.from, timeline.to, Math.max(2, this.width / 110)).filter((tick) => timeline.mode === "time" || Number.isInteger(tick));
    for (const tick of marks) {
      const x = Math.round(this.px(tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, 0);
      pen.lineTo(x, this.floor);
      pen.stroke();
      if (x > GUTTER + 8 && x < GUTTER + this.width - 14) pen.fillText(number(tick, 3), x, this.floor + 5);
    }
    pen.textAlign = "right";
    pen.fillText(timeline.mode === "time" ? "time, µs" : "instruction", GUTTER - 6, this.floor + 5);
    this.drawScale(pen);
  }

  scaleLabel(pen, text, y) {
    pen.fillStyle = colour("soft");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillText(text, GUTTER - 6, Math.min(Math.max(y, 6), this.floor - 5));
  }

  scaleTitle(pen, text) {
    pen.save();
    pen.fillStyle = colour("soft");
    pen.translate(9, this.floor / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, 0, 0);
    pen.restore();
  }

  // Zooms out to the whole only; then the page scrolls on.
  wheel(event) {
    const { timeline } = this;
    if (event.deltaY > 0 && timeline.whole && !event.shiftKey) return;
    event.preventDefault();
    const box = this.canvas.getBoundingClientRect();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !event.shiftKey) {
      timeline.pan((event.deltaX / this.width) * (timeline.to - timeline.from), 0);
      return;
    }
    const factor = Math.exp(Math.max(-1, Math.min(1, (event.deltaY || event.deltaX) / 300)));
    if (event.shiftKey && this.byteAt) timeline.zoomBytes(factor, this.byteAt(event.clientY - box.top));
    else timeline.zoom(factor, this.xAt(event.clientX - box.left));
  }

  press(event) {
    this.grip = { x: event.clientX, y: event.clientY, moved: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const { timeline } = this;
    const box = this.canvas.getBoundingClientRect();
    if (this.grip) {
      const [dx, dy] = [event.clientX - this.grip.x, event.clientY - this.grip.y];
      if (this.grip.moved || Math.abs(dx) + Math.abs(dy) > 3) {
        const up = this.byteAt ? (dy / this.floor) * (timeline.high - timeline.low) : 0;
        timeline.pan((-dx / this.width) * (timeline.to - timeline.from), up);
        this.grip = { x: event.clientX, y: event.clientY, moved: true };
        this.canvas.classList.add("dragging");
        tooltip.hide();
      }
      return;
    }
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (x < GUTTER || y > this.floor) return this.leave();
    timeline.cursor = this.xAt(x);
    this.hover(event, x, y);
    timeline.redraw();
  }

  release(event) {
    const box = this.canvas.getBoundingClientRect();
    if (this.grip && !this.grip.moved) this.click(event.clientX - box.left, event.clientY - box.top);
    this.grip = null;
    this.canvas.classList.remove("dragging");
  }

  leave() {
    this.timeline.cursor = null;
    this.timeline.hovered = null;
    tooltip.hide();
    this.timeline.redraw();
  }

  click() {}
}

// What the tooltip says of the instruction at a place.
function instructionRows(timeline, mapping, x) {
  const { program } = timeline;
  const step = timeline.stepAt(mapping, x);
  const rows = [["instruction", `${step}: ${readable(program.instructions.name[step])} (${program.instructions.opcode[step]})`]];
  const waits = mapping.wait[step] > 0 ? `, after a wait of ${microseconds(mapping.wait[step])}` : "";
  rows.push(["runs", `${microseconds(mapping.run[step])} from ${microseconds(mapping.edges[step])}${waits}`]);
  return rows;
}
