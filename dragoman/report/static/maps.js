// Attention as numbers and as pictures.

const BRIGHTNESS = 255;
// Python stores the square root of a weight in a byte, so that small weights keep their differences.
const WEIGHTS = Float32Array.from({ length: 256 }, (_, level) => (level / BRIGHTNESS) ** 2);

// Nine colours of matplotlib's viridis, from weak to strong; all eyes can tell which is brighter.
const VIRIDIS = [
  0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c, 0x28ae80, 0x5ec962, 0xaddc30, 0xfde725,
];
// As pixels: red, green, blue and opacity from the lowest byte up.
const PALETTE = Uint32Array.from({ length: 256 }, (_, level) => {
  const at = (level / BRIGHTNESS) * (VIRIDIS.length - 1), low = Math.min(Math.floor(at), VIRIDIS.length - 2);
  const mix = (shift) => {
    const [from, to] = [VIRIDIS[low], VIRIDIS[low + 1]].map((colour) => (colour >> shift) & 255);
    return Math.round(from + (to - from) * (at - low));
  };
  return mix(16) | (mix(8) << 8) | (mix(0) << 16) | (255 << 24);
});

/** A row of words or of their pieces. */
class Axis {
  constructor(words) {
    this.words = words.map((word) => word.text);
    this.pieces = words.flatMap((word) => word.pieces.map((piece) => piece.text));
    this.wordOfPiece = words.flatMap((word, index) => word.pieces.map(() => index));
  }

  labels(byWord) {
    return byWord ? this.words : this.pieces;
  }

  /** For each piece the label it belongs to. */
  indices(byWord) {
    return byWord ? this.wordOfPiece : this.pieces.map((_, index) => index);
  }
}

/** All layers and heads of one of the three attentions. */
class Attention {
  constructor(kind) {
    Object.assign(this, data.attention[kind], { kind, bytes: bytesOf(data.attention[kind].weights) });
    this.rowAxis = new Axis(data.axes[this.rows]);
    this.columnAxis = new Axis(data.axes[this.columns]);
  }

  /** The weights of a head, or for `null` their mean over heads. A hidden one, of a word that comes later, is -1. */
  map(layer, head, byWord) {
    const pieces = this.pieceWeights(layer, head);
    const [rowIndices, columnIndices] = [this.rowAxis.indices(byWord), this.columnAxis.indices(byWord)];
    const [rowLabels, columnLabels] = [this.rowAxis.labels(byWord), this.columnAxis.labels(byWord)];
    const [rows, columns] = [rowLabels.length, columnLabels.length];
    const values = new Float32Array(rows * columns), piecesOfRow = new Uint16Array(rows);
    for (const index of rowIndices) piecesOfRow[index]++;
    // What is looked at is given the sum over its pieces, what looks has the mean over its pieces.
    for (let i = 0, at = 0; i < rowIndices.length; i++) {
      const start = rowIndices[i] * columns, share = 1 / piecesOfRow[rowIndices[i]];
      for (let j = 0; j < columnIndices.length; j++, at++) values[start + columnIndices[j]] += share * pieces[at];
    }
    if (this.kind === "decoder") {
      const firstPieces = columnLabels.map((_, column) => columnIndices.indexOf(column));
      const lastPieces = rowLabels.map((_, row) => rowIndices.lastIndexOf(row));
      lastPieces.forEach((last, row) => {
        firstPieces.forEach((first, column) => first > last && (values[row * columns + column] = -1));
      });
    }
    let peak = 0;
    // The first row of the decoder has nothing to choose from: it must not make all others look dark.
    const first = this.kind === "decoder" && rows > 1 ? columns : 0;
    for (let at = first; at < values.length; at++) if (values[at] > peak) peak = values[at];
    return { rows, columns, rowLabels, columnLabels, values, peak };
  }

  pieceWeights(layer, head) {
    const size = this.rowAxis.pieces.length * this.columnAxis.pieces.length;
    const heads = head === null ? [...Array(this.heads).keys()] : [head];
    const weights = new Float32Array(size);
    for (const index of heads) {
      const start = (layer * this.heads + index) * size;
      for (let i = 0; i < size; i++) weights[i] += WEIGHTS[this.bytes[start + i]] / heads.length;
    }
    return weights;
  }
}

/** Draw a map with a pixel for each weight; a larger one than `most` in a side shows the strongest of neighbours. */
function paint(canvas, map, most = Infinity) {
  const rows = Math.min(map.rows, most), columns = Math.min(map.columns, most);
  const strongest = new Float32Array(rows * columns).fill(-1);
  for (let row = 0, at = 0; row < map.rows; row++) {
    const start = Math.floor((row * rows) / map.rows) * columns;
    for (let column = 0; column < map.columns; column++, at++) {
      const index = start + Math.floor((column * columns) / map.columns);
      if (map.values[at] > strongest[index]) strongest[index] = map.values[at];
    }
  }
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer), scale = BRIGHTNESS / (map.peak || 1);
  // A hidden weight stays transparent.
  strongest.forEach((value, index) => {
    pixels[index] = value < 0 ? 0 : PALETTE[Math.min(255, Math.round(scale * value))];
  });
  context.putImageData(image, 0, 0);
}
