// What the page shows, and what its parts share. The other scripts follow in the same module.
// Texts only ever become text nodes and attributes, never markup.

const find = (id) => document.getElementById(id);
const data = JSON.parse(find("data").textContent);
const NAMES = { encoder: "Encoder self-attention", decoder: "Decoder self-attention", cross: "Cross-attention" };

/** A new element with these properties and children. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** An SVG path. */
function path(className, d) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", "path");
  element.setAttribute("class", className);
  element.setAttribute("d", d);
  return element;
}

/** A probability as people read it; a tenth of a percent is as exact as weights are stored. */
function percent(value) {
  if (value < 0.0005) return value > 0 ? "<0.1 %" : "0 %";
  return value < 0.0995 ? `${(100 * value).toFixed(1)} %` : `${Math.round(100 * value)} %`;
}

/** A logarithm as people read it. */
const signed = (value) => value.toFixed(2).replace("-", "−");

/** Let arrow keys move the focus among `items`, `across` of them in a row; one can be reached with Tab. */
function rove(container, items, across = Infinity) {
  const moveTo = (index) => {
    const item = items[Math.max(0, Math.min(items.length - 1, index))];
    for (const other of items) other.tabIndex = other === item ? 0 : -1;
    return item;
  };
  moveTo(0);
  container.addEventListener("focusin", (event) => {
    const index = items.findIndex((item) => item.contains(event.target));
    if (index >= 0) moveTo(index);
  });
  container.addEventListener("keydown", (event) => {
    const forward = getComputedStyle(container).direction === "rtl" ? -1 : 1;
    const steps = { ArrowRight: forward, ArrowLeft: -forward, ArrowDown: across, ArrowUp: -across };
    const index = items.indexOf(document.activeElement);
    const ends = { Home: 0, End: items.length - 1 };
    const next = ends[event.key] ?? index + (steps[event.key] ?? NaN);
    if (index < 0 || !Number.isFinite(next)) return;
    event.preventDefault();
    moveTo(next).focus();
  });
}

/** The bytes that Python wrote in base64. */
function bytesOf(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}
