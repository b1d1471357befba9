// The encoder, one cached step of the decoder, and the beam search of dragoman.decoding.search over them.

export class Model {
  constructor(runtime, encoder, decoder, config) {
    Object.assign(this, { runtime, encoder, decoder, config });
    const layers = Array.from({ length: config.num_decoder_layers }, (_, layer) => layer);
    this.past = layers.flatMap((layer) => [`key_${layer}`, `value_${layer}`]);
  }

  // `read` gives a file of the model as bytes.
  static async load(runtime, config, read, progress = () => {}) {
    const shared = "shared.bin";
    const externalData = shared in config.sums ? [{ path: shared, data: await read(shared) }] : [];
    const sessions = [];
    for (const part of ["encoder", "decoder"]) {
      progress(part);
      const bytes = await read(`${part}.onnx`);
      sessions.push(await runtime.InferenceSession.create(bytes, { executionProviders: ["wasm"], externalData }));
    }
    return new Model(runtime, ...sessions, config);
  }

  // What the decoder reads of source ids, as arrays of one row.
  async encode(ids) {
    const tensor = new this.runtime.Tensor("int64", BigInt64Array.from(ids, BigInt), [1, ids.length]);
    const outputs = await this.encoder.run({ ids: tensor });
    const memory = Object.entries(outputs).map(([name, { data, dims }]) => [name, { data, dims: dims.slice(1) }]);
    return { memory: Object.fromEntries(memory), repeated: new Map(), past: null, position: 0 };
  }

  // The log-probabilities of the next token of each row, and what each row looks at.
  async step(state, tokens) {
    const rows = tokens.length;
    const { Tensor } = this.runtime;
    const { num_heads: heads, d_model: width } = this.config;
    const feeds = {
      tokens: new Tensor("int64", BigInt64Array.from(tokens, BigInt), [rows, 1]),
      position: new Tensor("int64", BigInt64Array.from([BigInt(state.position)]), [1]),
      ...this.#repeated(state, rows),
    };
    for (const name of this.past) {
      feeds[name] = state.past?.[name] ?? new Tensor("float32", new Float32Array(0), [rows, heads, 0, width / heads]);
    }
    const outputs = await this.decoder.run(feeds);
    state.past = Object.fromEntries(this.past.map((name) => [name, outputs[`new_${name}`]]));
    state.position += 1;
    return { logProbs: outputs.log_probs.data, attention: outputs.attention.data };
  }

  // Keeps these rows, in this order.
  reorder(state, kept) {
    for (const name of this.past) {
      const { data, dims } = state.past[name];
      const size = data.length / dims[0];
      const chosen = new Float32Array(size * kept.length);
      kept.forEach((row, index) => chosen.set(data.subarray(row * size, (row + 1) * size), index * size));
      state.past[name] = new this.runtime.Tensor("float32", chosen, [kept.length, ...dims.slice(1)]);
    }
  }

  // Each row has a copy of what it reads of the source.
  #repeated(state, rows) {
    if (!state.repeated.has(rows)) {
      const tensors = Object.entries(state.memory).map(([name, { data, dims }]) => {
        const copies = new Float32Array(data.length * rows);
        for (let row = 0; row < rows; row++) copies.set(data, row * data.length);
        return [name, new this.runtime.Tensor("float32", copies, [rows, ...dims])];
      });
      state.repeated.set(rows, Object.fromEntries(tensors));
    }
    return state.repeated.get(rows);
  }
}

// The translations of source ids, best first: { tokens, score, finished, attention }, `attention` a row for each token.
export async function search(model, source, { beamSize = model.config.beam_size } = {}) {
  const { eos_id: eos, bos_id: bos, forced, never, length_penalty: penalty } = model.config;
  const most = Math.max(1, Math.trunc(model.config.max_ratio * source.length) + model.config.max_extra);
  const limit = Math.min(most + forced.length, model.config.max_length);
  const fewest = Math.trunc(model.config.min_ratio * source.length - model.config.min_slack * Math.sqrt(source.length));
  const length = source.length + 1;
  const state = await model.encode([...source, eos]);
  const ended = [];
  const end = ({ tokens, total, attention: steps }, finished) => {
    // Attention may tell where the token that a step has read comes from, instead of the one that it predicts.
    const attention = model.config.aligned_token === "read" ? [...steps.slice(1), steps.at(-1)] : steps;
    ended.push({ tokens, attention, finished, score: total / (tokens.length + finished) ** penalty });
  };
  let live = [{ tokens: [], total: 0, attention: [], last: bos }];
  while (live.length) {
    const { logProbs, attention } = await model.step(state, live.map((each) => each.last));
    const given = forced[state.position - 1];
    const isShort = state.position <= Math.min(fewest, limit - 1);
    const chosen = best(logProbs, live, { count: 2 * beamSize, given, never: isShort ? [...never, eos] : never });
    const next = [];
    chosen.forEach(({ row, token, total }, rank) => {
      const before = live[row];
      const looked = [...before.attention, attention.slice(row * length, (row + 1) * length)];
      if (token === eos) {
        if (rank < beamSize) end({ tokens: before.tokens, total, attention: looked }, true);
      } else if (next.length < beamSize) {
        next.push({ tokens: [...before.tokens, token], total, attention: looked, last: token, row });
      }
    });
    const hope = Math.max(...next.map((each) => each.total)) / state.position ** penalty;
    const scores = ended.map((each) => each.score).sort((a, b) => b - a);
    const needed = scores.length >= beamSize ? scores[beamSize - 1] : -Infinity;
    if (hope <= needed || !next.length) break;
    if (state.position >= limit) {
      next.forEach((each) => end(each, false));
      break;
    }
    model.reorder(state, next.map((each) => each.row));
    live = next;
  }
  ended.sort((a, b) => b.finished - a.finished || b.score - a.score);
  return ended.slice(0, beamSize);
}

// The best continuations of all rows; of equal ones the first.
function best(logProbs, live, { count, given, never }) {
  const size = logProbs.length / live.length;
  const found = [];
  let worst = -Infinity;
  live.forEach(({ total }, row) => {
    for (let token = 0; token < size; token++) {
      if (given !== undefined ? token !== given : never.includes(token)) continue;
      const sum = total + (given !== undefined ? 0 : logProbs[row * size + token]);
      if (found.length === count && sum <= worst) continue;
      let place = found.length;
      while (place && found[place - 1].total < sum) place -= 1;
      found.splice(place, 0, { row, token, total: sum });
      if (found.length > count) found.pop();
      worst = found[found.length - 1].total;
    }
  });
  return found;
}
