"use strict";
// Elements, numbers as text, colours, and the tooltip.

const MIB = 2 ** 20;

// Makes an element: attributes by name (functions are listeners), then children, which are elements or text.
function make(tag, attributes, ...children) {
  const svg = ["svg", "path", "line", "text", "rect", "g", "circle"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Three significant digits below 100, separated thousands above.
function number(value, digits) {
  if (digits === undefined) digits = Math.abs(value) >= 100 || value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const text = value.toLocaleString("en", { minimumFractionDigits: 0, maximumFractionDigits: Math.min(digits, 6) });
  return text === "-0" ? "0" : text;
}

function bytes(value) {
  if (value >= MIB) return `${number(value / MIB)} MiB`;
  return value >= 1024 ? `${number(value / 1024)} KiB` : `${value} bytes`;
}

function microseconds(value) {
  if (value === 0) return "0 µs";
  const digits = Math.abs(value) < 1 ? 4 : Math.abs(value) < 1000 ? 2 : 1;
  return `${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} µs`;
}

function percent(share, digits = 2) {
  return `${(100 * share).toFixed(digits)} %`;
}

function signed(share, digits = 2) {
  const text = percent(Math.abs(share), digits);
  return Number.parseFloat(text) === 0 ? text : `${share > 0 ? "+" : "−"}${text}`;
}

function many(count, noun, nouns = `${noun}s`) {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}

// A long name without its middle: names differ at their ends.
function shortened(name, most) {
  if (name.length <= most) return name;
  const head = Math.floor((most - 1) / 3);
  return `${name.slice(0, head)}…${name.slice(head + 1 - most)}`;
}

// JAX spells the path of a parameter with many underscores.
function readable(name) {
  return name.replace(/_{2,}/g, ".");
}

// Colours by name, as the style sheet has them; read once for each scheme.
const colours = new Map();

function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return colours.get(name);
}

// Round steps for about `wanted` ticks between two figures.
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(12)));
  return found;
}

// The index of the last entry that is at most `value`; the list ascends.
function lastAtMost(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const tooltip = {
  show(event, title, rows, note) {
    const element = document.getElementById("tooltip");
    element.replaceChildren(
      make("b", {}, title),
      ...(rows.length ? [make("dl", {}, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))] : []),
      ...(note ? [make("div", { class: "soft" }, note)] : []),
    );
    element.hidden = false;
    const box = element.getBoundingClientRect();
    const left = event.clientX + 18 + box.width > innerWidth ? event.clientX - 18 - box.width : event.clientX + 18;
    const top = event.clientY + 18 + box.height > innerHeight ? event.clientY - 12 - box.height : event.clientY + 18;
    element.style.left = `${Math.max(6, left)}px`;
    element.style.top = `${Math.max(6, top)}px`;
  },
  hide() {
    document.getElementById("tooltip").hidden = true;
  },
};
