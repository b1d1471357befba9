// What the page shows, as files: the chosen picture and the tree as SVG or PNG, everything as JSON.

const SVG = "http://www.w3.org/2000/svg";
const FAMILY = "system-ui, sans-serif";
const TYPE = { "font-family": FAMILY, "font-size": 14 };
const SHARPNESS = 2; // pixels of a PNG for each of the picture's

/** A new SVG element. */
function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function picture(width, height, ...children) {
  const paper = draw("rect", { width, height, fill: colour("--paper") });
  return draw("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, ...TYPE }, paper, ...children);
}

/** How wide the longest of these texts is. */
function widest(texts) {
  const context = make("canvas").getContext("2d");
  context.font = `${TYPE["font-size"]}px ${FAMILY}`;
  return Math.ceil(Math.max(...texts.map((text) => context.measureText(text).width)));
}

/** The chosen map with its words. */
function mapPicture() {
  const cell = 24, [left, top] = [widest(map.rowLabels) + 12, widest(map.columnLabels) + 36];
  const shapes = [draw("text", { x: 4, y: 18, fill: colour("--ink") }, title(view.kind, view.layer, view.head))];
  const fill = (value) => {
    const level = Math.min(255, Math.round((BRIGHTNESS / (map.peak || 1)) * value));
    const [red, green, blue] = [0, 8, 16].map((shift) => (PALETTE[level] >> shift) & 255);
    return `rgb(${red} ${green} ${blue})`;
  };
  map.rowLabels.forEach((label, row) => {
    const y = top + (row + 0.7) * cell;
    shapes.push(draw("text", { x: left - 6, y, "text-anchor": "end", fill: colour("--ink") }, label));
    for (let column = 0; column < map.columns; column++) {
      const value = map.values[row * map.columns + column];
      const place = { x: left + column * cell, y: top + row * cell, width: cell, height: cell };
      if (value >= 0) shapes.push(draw("rect", { ...place, fill: fill(value) }));
    }
  });
  map.columnLabels.forEach((label, column) => {
    const [x, y] = [left + (column + 0.7) * cell, top - 6];
    shapes.push(draw("text", { transform: `translate(${x} ${y}) rotate(-90)`, fill: colour("--ink") }, label));
  });
  const width = Math.max(left + map.columns * cell, widest([shapes[0].textContent])) + 8;
  return picture(width, top + map.rows * cell + 8, ...shapes);
}

/** The tree of the search. */
function treePicture() {
  const lines = [...svg.children].map((line) => {
    const style = getComputedStyle(line);
    return draw("path", { d: line.getAttribute("d"), fill: "none", stroke: style.stroke, "stroke-width": style.strokeWidth });
  });
  const shapes = boxes.flatMap((box) => {
    const style = getComputedStyle(box), [x, y] = [box.offsetLeft, box.offsetTop];
    const size = { x, y, width: NODE_WIDTH, height: NODE_HEIGHT, rx: Math.min(parseFloat(style.borderTopLeftRadius), NODE_HEIGHT / 2) };
    const dashes = style.borderTopStyle === "dashed" ? { "stroke-dasharray": 4 } : {};
    const line = { fill: style.backgroundColor, stroke: style.borderTopColor, "stroke-width": style.borderTopWidth, ...dashes };
    const [name, figure] = [...box.children].map((child) => child.textContent);
    const text = { y: y + 18, fill: style.color, "font-size": 12 };
    const short = name.length > 11 ? `${name.slice(0, 10)}…` : name;
    return [
      draw("rect", { ...size, ...line }),
      draw("text", { ...text, x: x + 6 }, short),
      draw("text", { ...text, x: x + NODE_WIDTH - 6, "text-anchor": "end" }, figure),
    ];
  });
  return picture(size.width, size.height, ...lines, ...shapes);
}

const NAME = "inspection";

function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const written = (drawing) => new XMLSerializer().serializeToString(drawing);

async function savePng(drawing, name) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(written(drawing))}`;
  await image.decode();
  const [width, height] = ["width", "height"].map((side) => SHARPNESS * Number(drawing.getAttribute(side)));
  const canvas = make("canvas", { width, height });
  canvas.getContext("2d").drawImage(image, 0, 0, width, height);
  canvas.toBlob((blob) => save(blob, name));
}

for (const [id, drawn] of [["map", mapPicture], ["tree", treePicture]]) {
  const name = `${NAME}-${id}`;
  find(`${id}-svg`).addEventListener("click", () => save(new Blob([written(drawn())], { type: "image/svg+xml" }), `${name}.svg`));
  find(`${id}-png`).addEventListener("click", () => savePng(drawn(), `${name}.png`));
}
find("save-json").addEventListener("click", () => {
  const { vectors, ...shown } = data;
  save(new Blob([JSON.stringify(shown, null, 1)], { type: "application/json" }), `${NAME}.json`);
});
