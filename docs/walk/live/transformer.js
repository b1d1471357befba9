// The Transformer of the paper in JavaScript, without any library: what the page beside it computes.
//
// States are arrays of vectors, one Float32Array for each position. `weights` has a matrix or a vector for each name that
// dragoman.model gives its parameters; a matrix is { rows, columns, values }.

class Transformer {
  constructor(config, weights) {
    Object.assign(this, { config, weights });
    this.width = config.d_model / config.num_heads; // of a head
  }

  // The memory: a vector for each source token. `maps` collects the attention of each layer.
  encode(ids, maps = []) {
    let x = this.embed("encoder", ids);
    for (let layer = 0; layer < this.config.num_encoder_layers; layer++) {
      const name = `encoder.layers.${layer}`;
      x = this.residual(x, `${name}.residuals.0`, (y) => {
        const [query, key, value] = this.project(`${name}.self_attention`, y, y);
        this.rotate(query, 0);
        this.rotate(key, 0);
        return this.attend(`${name}.self_attention`, query, key, value, { maps });
      });
      x = this.residual(x, `${name}.residuals.1`, (y) => this.feedForward(`${name}.feed_forward`, y));
    }
    return this.norm(x, "encoder.norm");
  }

  // What the decoder keeps between its steps: keys and values of the tokens so far, and those of the memory.
  newCache(memory) {
    const layers = [];
    for (let layer = 0; layer < this.config.num_decoder_layers; layer++) {
      const [, key, value] = this.project(`decoder.layers.${layer}.cross_attention`, [], memory);
      layers.push({ keys: [], values: [], memoryKeys: key, memoryValues: value });
    }
    return layers;
  }

  // A copy that goes on without changing the first: hypotheses with a common beginning share its vectors.
  copyCache(cache) {
    return cache.map((layer) => ({ ...layer, keys: [...layer.keys], values: [...layer.values] }));
  }

  // The log-probabilities of the token after each of `ids`, which follow those that the cache has.
  decode(ids, cache, maps = { self: [], cross: [] }) {
    const past = cache[0].keys.length;
    let x = this.embed("decoder", ids);
    cache.forEach((kept, layer) => {
      const name = `decoder.layers.${layer}`;
      x = this.residual(x, `${name}.residuals.0`, (y) => {
        const [query, key, value] = this.project(`${name}.self_attention`, y, y);
        this.rotate(query, past);
        this.rotate(key, past);
        kept.keys.push(...key);
        kept.values.push(...value);
        return this.attend(`${name}.self_attention`, query, kept.keys, kept.values, { maps: maps.self, past });
      });
      x = this.residual(x, `${name}.residuals.1`, (y) => {
        const [query] = this.project(`${name}.cross_attention`, y, []);
        return this.attend(`${name}.cross_attention`, query, kept.memoryKeys, kept.memoryValues, { maps: maps.cross });
      });
      x = this.residual(x, `${name}.residuals.2`, (y) => this.feedForward(`${name}.feed_forward`, y));
    });
    const logits = this.linear(this.norm(x, "decoder.norm"), "projection");
    return logits.map(logSoftmax);
  }

  // Embeddings times the square root of d_model (section 3.4). Positions are turned into queries and keys later.
  embed(side, ids) {
    const { columns, values } = this.weights[`${side}.embedding.table.weight`];
    const scale = this.config.scale_embeddings ? Math.sqrt(columns) : 1;
    return ids.map((id) => values.slice(id * columns, (id + 1) * columns).map((value) => scale * value));
  }

  // x + f(norm(x))
  residual(x, name, sublayer) {
    const y = sublayer(this.norm(x, `${name}.norm`));
    return x.map((vector, position) => vector.map((value, i) => value + y[position][i]));
  }

  // LayerNorm: mean 0 and variance 1 over the features of each position, then a gain and a bias.
  norm(x, name) {
    const gain = this.weights[`${name}.gain`].values;
    const bias = this.weights[`${name}.bias`].values;
    return x.map((vector) => {
      const mean = vector.reduce((sum, value) => sum + value, 0) / vector.length;
      const variance = vector.reduce((sum, value) => sum + (value - mean) ** 2, 0) / vector.length;
      const scale = 1 / Math.sqrt(variance + this.config.norm_eps);
      return vector.map((value, i) => (value - mean) * scale * gain[i] + bias[i]);
    });
  }

  // max(0, x W1 + b1) W2 + b2 (equation 2)
  feedForward(name, x) {
    const inner = this.linear(x, `${name}.inner`);
    return this.linear(inner.map((vector) => vector.map((value) => Math.max(0, value))), `${name}.outer`);
  }

  project(name, x, from) {
    return [this.linear(x, `${name}.query`), this.linear(from, `${name}.key`), this.linear(from, `${name}.value`)];
  }

  // softmax(Q K^T / sqrt(d_k)) V (equation 1) in each head, the heads side by side, and one more matrix. A query may look
  // at the keys up to its own position where `past` is given, the number of keys before the first query.
  attend(name, queries, keys, values, { maps, past }) {
    const { num_heads: heads, d_model: size } = this.config;
    const map = Array.from({ length: heads }, () => []); // map[head][query][key]
    const mixed = queries.map((query, row) => {
      const result = new Float32Array(size);
      const seen = past === undefined ? keys.length : past + row + 1;
      for (let head = 0; head < heads; head++) {
        const from = head * this.width;
        const scores = new Float32Array(seen);
        for (let key = 0; key < seen; key++) {
          for (let i = from; i < from + this.width; i++) scores[key] += query[i] * keys[key][i];
          scores[key] /= Math.sqrt(this.width);
        }
        const weights = logSoftmax(scores).map(Math.exp);
        for (let key = 0; key < seen; key++) {
          for (let i = from; i < from + this.width; i++) result[i] += weights[key] * values[key][i];
        }
        map[head].push(weights);
      }
      return result;
    });
    maps.push(map);
    return this.linear(mixed, `${name}.output`);
  }

  // Rotary positions: each pair of features of a head is turned by an angle that grows with the position, in place.
  rotate(x, first) {
    x.forEach((vector, row) => {
      for (let from = 0; from < vector.length; from += this.width) {
        for (let i = 0; i < this.width; i += 2) {
          const angle = (first + row) / 10000 ** (i / this.width);
          const [a, b] = [vector[from + i], vector[from + i + 1]];
          vector[from + i] = a * Math.cos(angle) - b * Math.sin(angle);
          vector[from + i + 1] = b * Math.cos(angle) + a * Math.sin(angle);
        }
      }
    });
  }

  // x W^T + b
  linear(x, name) {
    const { rows, columns, values } = this.weights[`${name}.weight`];
    const bias = this.weights[`${name}.bias`]?.values;
    return x.map((vector) => {
      const result = new Float32Array(rows);
      for (let row = 0; row < rows; row++) {
        let sum = bias ? bias[row] : 0;
        for (let i = 0, at = row * columns; i < columns; i++) sum += vector[i] * values[at + i];
        result[row] = sum;
      }
      return result;
    });
  }
}

function logSoftmax(scores) {
  const greatest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const total = Math.log(scores.reduce((sum, score) => sum + Math.exp(score - greatest), 0)) + greatest;
  return scores.map((score) => score - total);
}

// Beam search, as dragoman.decoding.search does it. Returns the translations, best first, { tokens, total, score,
// finished }, and a record of each step: the candidates, best first, and what became of each.
function beamSearch(model, source, beamSize) {
  const { bos_id: bos, eos_id: eos, length_penalty: penalty } = model.config;
  const cache = model.newCache(model.encode([...source, eos]));
  const limit = 2 * source.length + 20;
  const ended = [];
  const steps = [];
  let live = [{ tokens: [], total: 0, last: bos, cache }];
  for (let length = 1; live.length; length++) {
    const candidates = [];
    live.forEach((beam) => {
      const [logProbs] = model.decode([beam.last], beam.cache);
      const order = Array.from(logProbs.keys()).sort((a, b) => logProbs[b] - logProbs[a]);
      for (const token of order.slice(0, 2 * beamSize)) {
        candidates.push({ beam, token, logProb: logProbs[token], total: beam.total + logProbs[token], fate: "pruned" });
      }
    });
    candidates.sort((a, b) => b.total - a.total).splice(2 * beamSize);
    const next = [];
    candidates.forEach((candidate, rank) => {
      const { beam, token, total } = candidate;
      if (token === eos) {
        if (rank >= beamSize) return;
        candidate.fate = "ended";
        ended.push({ tokens: beam.tokens, total, score: total / length ** penalty, finished: true });
      } else if (next.length < beamSize) {
        candidate.fate = "kept";
        next.push({ tokens: [...beam.tokens, token], total, last: token, cache: model.copyCache(beam.cache) });
      }
    });
    steps.push(candidates.map(({ beam, ...rest }) => ({ ...rest, before: beam.tokens })));
    const scores = ended.map((each) => each.score).sort((a, b) => b - a);
    const needed = scores.length >= beamSize ? scores[beamSize - 1] : -Infinity;
    const hope = Math.max(...next.map((each) => each.total)) / length ** penalty;
    if (!next.length || hope <= needed) break;
    if (length >= limit) {
      next.forEach(({ tokens, total }) => ended.push({ tokens, total, score: total / length ** penalty, finished: false }));
      break;
    }
    live = next;
  }
  ended.sort((a, b) => b.finished - a.finished || b.score - a.score);
  return { translations: ended.slice(0, beamSize), steps };
}

// Weights in eight bits with a scale for each row, as text in base64: as `dragoman export --to dragoman-int8` rounds them.
function unpack(shapes, base64) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const numbers = new DataView(bytes.buffer);
  const weights = {};
  let at = 0;
  for (const [name, [rows, columns]] of Object.entries(shapes)) {
    const values = new Float32Array(rows * (columns ?? 1));
    const scales = [];
    for (let row = 0; row < rows; row++, at += 4) scales.push(numbers.getFloat32(at, true));
    if (columns === undefined) {
      values.set(scales);
    } else {
      for (let i = 0; i < values.length; i++, at++) values[i] = numbers.getInt8(at) * scales[Math.floor(i / columns)];
    }
    weights[name] = { rows, columns, values };
  }
  // Tables that are one and the same stand in the file once.
  weights["decoder.embedding.table.weight"] ??= weights["encoder.embedding.table.weight"];
  weights["projection.weight"] ??= weights["decoder.embedding.table.weight"];
  return weights;
}
