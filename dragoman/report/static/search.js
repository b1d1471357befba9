// The search as a tree: a column for each step; the best translation runs straight along the top.

const COLUMN = 146, LANE = 34, NODE_WIDTH = 122, NODE_HEIGHT = 26; // pixels; the style of .node has its size too
const { nodes, hypotheses } = data.search;
const indices = nodes.map((_, index) => index);
const children = nodes.map(() => []);
nodes.forEach((node, index) => {
  node.depth = index ? nodes[node.parent].depth + 1 : 0;
  if (index) children[node.parent].push(index);
});

/** The indices of the nodes from the first one to this one. */
function trail(index) {
  return index < 0 ? [] : [...trail(nodes[index].parent), index];
}

const best = new Set(trail(hypotheses[0].node));

/** Give each node a lane, so that a prefix and what goes on longest from it stand in one. */
function layOut() {
  const reach = nodes.map((node) => node.depth); // the deepest step that goes on from each node
  for (let index = nodes.length - 1; index > 0; index--) {
    const parent = nodes[index].parent;
    reach[parent] = Math.max(reach[parent], reach[index]);
  }
  const heirs = children.map((siblings) =>
    siblings.reduce((one, other) => {
      if (one === undefined || best.has(other)) return other;
      return best.has(one) || reach[one] >= reach[other] ? one : other;
    }, undefined),
  );
  const heads = indices.filter((index) => !index || heirs[nodes[index].parent] !== index);
  const chains = heads.map((head) => {
    const chain = [head];
    while (heirs[chain.at(-1)] !== undefined) chain.push(heirs[chain.at(-1)]);
    return chain;
  });
  // The best one first, then the longest, so that only short ones have to make way.
  chains.sort((one, other) => best.has(other[0]) - best.has(one[0]) || other.length - one.length);
  const lanes = [];
  for (const chain of chains) {
    const [from, to] = [nodes[chain[0]].depth, nodes[chain.at(-1)].depth];
    const free = (taken) => taken.every(([start, end]) => to < start || from > end);
    let lane = lanes.findIndex(free);
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push([from, to]);
    for (const index of chain) nodes[index].lane = lane;
  }
  return lanes.length;
}

const lanes = layOut();
const steps = Math.max(...nodes.map((node) => node.depth));
const rankOf = new Map(hypotheses.map((hypothesis, rank) => [hypothesis.node, rank]));

const boxes = nodes.map((node, index) => {
  const hypothesis = hypotheses[rankOf.get(index)];
  const figure = hypothesis ? signed(hypothesis.score) : index ? percent(node.probability) : "";
  const label = make("bdi", { textContent: node.text, lang: target });
  const box = make("div", { className: `node ${node.state}` }, label, make("small", { textContent: figure }));
  box.classList.toggle("best", best.has(index));
  box.dataset.node = index;
  Object.assign(box.style, { left: `${node.depth * COLUMN + 3}px`, top: `${node.lane * LANE + 4}px` });
  return box;
});

/** The line to a node from the one before it. */
function branch(index) {
  const node = nodes[index], parent = nodes[node.parent];
  const at = ({ depth, lane }, side) => [depth * COLUMN + 3 + side, lane * LANE + 4 + NODE_HEIGHT / 2];
  const [[x, y], [toX, toY]] = [at(parent, NODE_WIDTH), at(node, 0)];
  return `M${x} ${y}C${x + 14} ${y} ${toX - 14} ${toY} ${toX} ${toY}`;
}

const branches = (wanted) => indices.filter((index) => index && wanted(index)).map(branch).join("");
const chosenPath = path("chosen", "");
const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
const size = { width: (steps + 1) * COLUMN, height: lanes * LANE + 8 };
for (const [name, value] of Object.entries(size)) svg.setAttribute(name, value);
svg.append(
  path("dropped", branches((index) => nodes[index].state === "dropped")),
  path("kept", branches((index) => nodes[index].state !== "dropped" && !best.has(index))),
  path("best", branches((index) => best.has(index))),
  chosenPath,
);
const canvas = make("div", { className: "canvas" }, svg, ...boxes);
Object.assign(canvas.style, { width: `${size.width}px`, height: `${size.height}px` });
find("tree").append(canvas);

let current = 0;
let marked = [];
const rows = hypotheses.map((hypothesis, rank) =>
  make(
    "tr",
    {},
    make("td", { className: "number", textContent: rank + 1 }),
    make("td", { className: "number", textContent: signed(hypothesis.score) }),
    make("td", { className: "number", textContent: signed(hypothesis.log_prob) }),
    make("td", { lang: target, dir: "auto", textContent: hypothesis.text || "(empty)" }),
    make("td", { className: "soft", textContent: hypothesis.finished ? "" : "cut at the length limit" }),
  ),
);

/** Highlight the way to a node, and say in words what became of it. */
function follow(index) {
  for (const box of marked) box.classList.remove("chosen", "cursor");
  current = index;
  const way = trail(index);
  marked = way.map((ancestor) => boxes[ancestor]);
  for (const box of marked) box.classList.add("chosen");
  boxes[index].classList.add("cursor");
  chosenPath.setAttribute("d", way.slice(1).map(branch).join(""));
  const node = nodes[index], rank = rankOf.get(index);
  rows.forEach((row, number) => row.classList.toggle("chosen", number === rank));
  const prefix = way.slice(1).map((ancestor) => nodes[ancestor].text).join("").replaceAll("▁", " ").trim();
  const fates = { kept: "kept", dropped: "dropped" };
  const fate = fates[node.state] ?? `translation ${rank + 1}, score ${signed(hypotheses[rank].score)}`;
  find("prefix").textContent = index
    ? `“\u2068${prefix}\u2069”: ${fate}. Last piece ${percent(node.probability)}, all together ` +
      `${percent(Math.exp(node.log_prob))} (log-probability ${signed(node.log_prob)}).`
    : "The beginning of every translation.";
}

canvas.addEventListener("pointerover", (event) => {
  const box = event.target.closest(".node");
  if (box) follow(Number(box.dataset.node));
});
find("tree").addEventListener("keydown", (event) => {
  const column = indices.filter((index) => nodes[index].depth === nodes[current].depth);
  column.sort((one, other) => nodes[one].lane - nodes[other].lane);
  const at = column.indexOf(current);
  const next = {
    ArrowLeft: nodes[current].parent,
    ArrowRight: children[current].find((index) => nodes[index].lane === nodes[current].lane) ?? children[current][0],
    ArrowUp: column[at - 1],
    ArrowDown: column[at + 1],
  };
  if (!(event.key in next)) return;
  event.preventDefault();
  if (!(next[event.key] >= 0)) return;
  follow(next[event.key]);
  boxes[current].scrollIntoView({ block: "nearest", inline: "nearest" });
});

const head = ["", "score", "log-probability", "translation", ""].map((text) => make("th", { textContent: text }));
find("hypotheses").append(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
rows.forEach((row, rank) => {
  row.addEventListener("pointerenter", () => follow(hypotheses[rank].node));
  row.addEventListener("focus", () => follow(hypotheses[rank].node));
});
rove(find("hypotheses"), rows, 1);
find("beam-size").textContent = data.search.beam_size;
find("length-penalty").textContent = data.search.length_penalty;
find("own-search").hidden = !data.target.given;
find("prefix").textContent = "Point at a box or a translation.";

// Two frames later all of it has been painted.
requestAnimationFrame(() =>
  requestAnimationFrame(() => {
    performance.mark("drawn");
    document.documentElement.dataset.drawn = Math.round(performance.now());
  }),
);
