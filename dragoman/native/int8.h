/* Products of eight bits, and what is made of them: the encoder, and a whole step of the decoder (int8.py).

   A row of activations and the weights of each output are whole numbers from -127 to 127, times a scale of their own.
   Sums of their products are exact; everything else is float32, and what is kept of keys and values bfloat16. Widths
   are multiples of 16. The instructions of x86 multiply numbers without a sign by numbers with one: there activations
   are 128 higher, and `offset` takes back what that adds.

   This text is compiled by each of int8_512.c, int8_256.c, int8_avx2.c, int8_dot.c, int8_neon.c and int8_any.c, which
   begin with what differs between processors. */

/* Rows that share a pass over the weights; GROUP of them keep their sums in registers. */
#define TILE 64
/* Outputs whose weights lie side by side, however long vectors are. */
#define BLOCK 16
/* Unrolled, or sums would be kept in memory. */
#define FOR_ROWS(r) _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)

typedef struct {
    const int8_t *weight; /* (outputs / BLOCK, inputs / 4, BLOCK, 4), filled up with zeros */
    const float *scale, *bias;
    const int32_t *offset; /* -128 times the sum of the weights of an output */
    Size inputs, outputs;
} Linear;

typedef struct {
    const float *gain, *bias; /* no bias: RMSNorm */
} Norm;

typedef enum { RELU, GELU, SILU } Activation;

/* The encoder's have no `query`, no `memory_output` and no second norm. */
typedef struct {
    Linear own, own_output, query, memory_output, inner, gate, outer; /* `own`: query, key and value */
    Norm norms[3];
    const uint16_t *memory; /* (sentences, source_length, 2, d_model): keys and values */
} Layer;

typedef struct {
    const Layer *layers;
    Size num_layers, d_model, d_ff, heads;
    Norm norm; /* no gain: none */
    Activation activation;
    float eps;
    int pre_norm;
} Stack;

/* One more position of each row. Positions before it are where they were computed: row r has at position p the keys and
   values of row ancestors[r, p] of that time. */
typedef struct {
    float *x; /* (rows, d_model): embeddings of the new tokens, which become what predicts the next ones */
    Size rows, length;
    uint16_t *const *positions; /* each (layers, rows of that time, 2, d_model) */
    const Size *position_rows;
    const int32_t *ancestors, *sentences;
    const int32_t *source_lengths;
    Size source_length, ancestors_width; /* numbers from one row of `ancestors` to the next */
    const float *turns; /* (2, width of a head) for rotary positions, or NULL */
} Step;

/* Sentences for the encoder. */
typedef struct {
    float *x; /* (rows, length, d_model): embeddings, which become the memory */
    Size rows, length;
    const int32_t *lengths; /* tokens of each row; what follows them stays as it is */
    const float *turns;     /* (length, 2, width of a head) for rotary positions, or NULL */
} Sources;

#ifndef HIGHER
#define HIGHER 128 /* what is added to activations */
#endif

#ifndef ADD_PRODUCTS
/* Add four inputs times four weights of each output of two vectors. With intrinsics, or these instructions apart, the
   compiler copies sums. */
#define ADD_PRODUCTS(left, right, same, four, a, b) \
    __asm__("vpbroadcastd %3, %2\n\t" VPDPBUSD " %4, %2, %0\n\t" VPDPBUSD " %5, %2, %1" \
            : "+&v"(left), "+&v"(right), "=&v"(same) \
            : "m"(four), "v"(a), "v"(b))
#endif

/* exp x to 2 units in the last place for x up to 88, and 1e-38 below -87: as `exponential`, in half the time. */
INLINE Vector power_of_e(Vector x) {
    x = most(x, all(-87.0f));
    Vector n = nearest(x * 1.44269504f);
    return times_power_of_two(power_of_two(x * 1.44269504f - n), n);
}

/* Weights of an output, the first of a vector. */
INLINE const int8_t *weights_of(const Linear *l, Size output) {
    return l->weight + output / BLOCK * BLOCK * l->inputs + output % BLOCK * 4;
}

/* A row as whole numbers, so much higher. */
INLINE void quantise(const float *x, uint8_t *to, float *scale, Size width) {
    Vector top = all(0.0f);
    for (Size i = 0; i < width; i += LANES) {
        Vector part = load(x, i, 0);
        top = most(most(part, -part), top);
    }
    float most = top_of(top), steps = most > 0 ? 127.0f / most : 0.0f;
    *scale = most / 127.0f;
    for (Size i = 0; i < width; i += LANES) store_bytes(to + i, whole(load(x, i, 0) * steps) + HIGHER);
}

/* The sums of `rows` for outputs from `at` on become numbers: stored, or added to what is there. */
INLINE void finish(const Integers *sums, const float *scales, const Linear *l, Size at, float *out, Size stride,
                   int add, const int rows) {
    Vector scale = load(l->scale, at, 0), bias = load(l->bias, at, 0);
    FOR_ROWS(r) {
        float *to = out + r * stride;
        Vector y = __builtin_convertvector(sums[r], Vector) * (scale * scales[r]) + bias;
        if (add) y += load_before(to, at, l->outputs, 0, 0.0f);
        store_before(to, at, l->outputs, y, 0);
    }
}

/* What sums begin with where activations are higher. */
INLINE Integers start_of(const Linear *l, Size output) {
    Integers start;
    memcpy(&start, l->offset + output, sizeof start);
    return start;
}

/* Two vectors of outputs from `first` on, or one, of a few rows. */
INLINE void product_of(const uint8_t *x, const float *scales, const Linear *l, Size first, float *out, Size stride,
                       int add, const int rows) {
    Size inputs = l->inputs, second = first + LANES < l->outputs ? first + LANES : first;
    const int8_t *weights = weights_of(l, first), *others = weights_of(l, second);
    Integers left[GROUP], right[GROUP];
    FOR_ROWS(r) {
        left[r] = HIGHER ? start_of(l, first) : (Integers){0};
        right[r] = HIGHER ? start_of(l, second) : (Integers){0};
    }
    for (Size i = 0; i < inputs; i += 4) {
        Integers a, b;
        memcpy(&a, weights + BLOCK * i, sizeof a);
        memcpy(&b, others + BLOCK * i, sizeof b);
        FOR_ROWS(r) {
            Integers same;
            ADD_PRODUCTS(left[r], right[r], same, *(const uint8_t(*)[4])(x + r * inputs + i), a, b);
        }
    }
    finish(left, scales, l, first, out, stride, add, rows);
    if (second != first) finish(right, scales, l, second, out, stride, add, rows);
}

/* out = x W^T + b for `rows` of `stride` numbers each, or what is added to them. */
TARGET static void product(const uint8_t *x, const float *scales, const Linear *l, float *out, Size stride, Size rows,
                           int add) {
    for (Size first = 0; first < l->outputs; first += 2 * LANES)
        for (Size r = 0; r < rows; r += GROUP) {
            const uint8_t *from = x + r * l->inputs;
            float *to = out + r * stride;
#define ROWS_OF(count) \
    case count: \
        if (count <= GROUP) product_of(from, scales + r, l, first, to, stride, add, count); \
        break;
            switch (rows - r < GROUP ? rows - r : GROUP) {
                ROWS_OF(1) ROWS_OF(2) ROWS_OF(3) ROWS_OF(4) ROWS_OF(5) ROWS_OF(6) ROWS_OF(7) ROWS_OF(8)
            }
#undef ROWS_OF
        }
}

INLINE void norm_of(const float *x, float *out, Norm norm, Size width, float eps) {
    Vector total = all(0.0f), squares = all(0.0f);
    if (norm.bias != NULL)
        for (Size i = 0; i < width; i += LANES) total += load(x, i, 0);
    float mean = sum_of(total) / width;
    for (Size i = 0; i < width; i += LANES) {
        Vector centred = load(x, i, 0) - mean;
        squares += centred * centred;
    }
    float scale = 1.0f / sqrtf(sum_of(squares) / width + eps);
    for (Size i = 0; i < width; i += LANES) {
        Vector y = (load(x, i, 0) - mean) * scale * load(norm.gain, i, 0);
        store(out, i, norm.bias != NULL ? y + load(norm.bias, i, 0) : y, 0);
    }
}

/* One query of all heads, four at a time. `keys` point to the keys of all heads, which their values follow. `numbers`
   has room for four of each key and one more vector: the weights of four heads. */
INLINE void attend_to(const float *query, const uint16_t *const *keys, Size count, float *numbers, float *out,
                      Size d_model, Size heads, const Size parts) {
    Size together = LANES / 4, blocks = (count + together - 1) / together, width = parts * LANES;
    Vector *weights = (Vector *)numbers; /* of `together` keys each */
    float scale = 1.0f / sqrtf((float)width);
    for (Size first = 0; first < heads; first += 4) {
        Size at[4]; /* where a head begins; the last one takes the place of those that there are not */
        for (Size h = 0; h < 4; h++) at[h] = (first + h < heads ? first + h : heads - 1) * width;
        for (Size k = 0; k < count; k++) {
            Vector totals[4];
#pragma GCC unroll 4
            for (Size h = 0; h < 4; h++) {
                totals[h] = load(query, at[h], 0) * load(keys[k], at[h], 1);
                for (Size v = LANES; v < width; v += LANES)
                    totals[h] += load(query, at[h] + v, 0) * load(keys[k], at[h] + v, 1);
            }
            Four scores = four_sums(totals[0], totals[1], totals[2], totals[3]);
            memcpy(numbers + 4 * k, &scores, sizeof scores);
        }
        for (Size k = 4 * count; k < blocks * LANES; k++) numbers[k] = -INFINITY;
        Vector top = weights[0], total = all(0.0f);
        for (Size b = 1; b < blocks; b++) top = most(weights[b], top);
        top = top_of_keys(top);
        for (Size b = 0; b < blocks; b++) total += weights[b] = power_of_e((weights[b] - top) * scale);
        Vector norm = 1.0f / sum_of_keys(total);
        for (Size b = 0; b < blocks; b++) weights[b] *= norm;
#pragma GCC unroll 4
        for (Size h = 0; h < 4; h++)
            for (Size v = 0; v < width; v += LANES) {
                Vector mixed = all(0.0f);
                for (Size k = 0; k < count; k++) mixed += numbers[4 * k + h] * load(keys[k], d_model + at[h] + v, 1);
                store(out, at[h] + v, mixed, 0);
            }
    }
}

TARGET static void attend_heads(const float *query, const uint16_t *const *keys, Size count, float *numbers,
                                float *out, Size d_model, Size heads) {
    if (count == 0) { /* a source of padding alone */
        memset(out, 0, d_model * sizeof *out);
        return;
    }
    /* Constants that the compiler knows make the inner loops short. */
    Size width = d_model / heads;
    if (width == 32)
        attend_to(query, keys, count, numbers, out, d_model, heads, 32 / LANES);
    else if (width == 64)
        attend_to(query, keys, count, numbers, out, d_model, heads, 64 / LANES);
    else
        attend_to(query, keys, count, numbers, out, d_model, heads, width / LANES);
}

INLINE void turn(float *x, const float *turns, Size d_model, Size width) {
    for (Size head = 0; head < d_model; head += width)
        for (Size i = 0; i < width; i += LANES) {
            Vector own = load(x, head + i, 0);
            store(x, head + i, own * load(turns, i, 0) + swapped(own) * load(turns, width + i, 0), 0);
        }
}

/* The error function to 5e-7 (Abramowitz and Stegun, 7.1.26). */
INLINE Vector error_function(Vector x) {
    Vector size = most(x, -x), t = 1.0f / (0.3275911f * size + 1.0f);
    Vector p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    Vector y = 1.0f - p * t * power_of_e(-(size * size));
    return choose(x < 0.0f, -y, y);
}

INLINE Vector activated(Vector x, Activation activation) {
    if (activation == RELU) return most(x, all(0.0f));
    if (activation == GELU) return x * 0.5f * (error_function(x * 0.70710678f) + 1.0f);
    Vector least = most(x, all(-80.0f)); /* whose exponential is a number */
    return x / (power_of_e(-least) + 1.0f);
}

/* What a tile of rows needs while it passes through the layers. */
typedef struct {
    float *wide, *gate, *one, *scales, *weights;
    uint8_t *quantised;
    const uint16_t **keys;
} Scratch;

TARGET static void release(Scratch at) {
    free(at.wide), free(at.gate), free(at.one), free(at.scales), free(at.weights), free(at.quantised),
        free(at.keys);
}

/* Returns 0, or 1 if there is no memory. */
TARGET static int reserve(Scratch *at, const Stack *d, Size rows, Size keys) {
    Size wide = 3 * d->d_model > d->d_ff ? 3 * d->d_model : d->d_ff, number = sizeof(float);
    *at = (Scratch){space(rows * wide, number), space(rows * d->d_ff, number), space(d->d_model, number),
                    space(rows, number), space(4 * keys + LANES, number), space(rows * wide, 1),
                    space(keys, sizeof(void *))};
    return !(at->wide && at->gate && at->one && at->scales && at->weights && at->quantised && at->keys);
}

TARGET static void quantise_rows(const float *x, Size width, Size rows, Scratch *at) {
    for (Size r = 0; r < rows; r++) quantise(x + r * width, at->quantised + r * width, at->scales + r, width);
}

/* What a sub-layer reads. */
TARGET static void begin(const Stack *d, const float *x, Norm norm, Size rows, Scratch *at) {
    Size width = d->d_model;
    for (Size r = 0; r < rows; r++) {
        const float *row = x + r * width;
        if (d->pre_norm) norm_of(row, at->one, norm, width, d->eps), row = at->one;
        quantise(row, at->quantised + r * width, at->scales + r, width);
    }
}

/* x + f(x) from what is quantised, and its norm if that comes after. */
TARGET static void end(const Stack *d, float *x, const Linear *l, Norm norm, Size rows, Scratch *at) {
    product(at->quantised, at->scales, l, x, d->d_model, rows, 1);
    if (!d->pre_norm)
        for (Size r = 0; r < rows; r++) norm_of(x + r * d->d_model, x + r * d->d_model, norm, d->d_model, d->eps);
}

TARGET static void attend_to_own(const Stack *d, const Step *s, Size index, Size first, Size rows, Scratch *at) {
    Size width = d->d_model, last = s->length - 1;
    uint16_t *now = s->positions[last] + (index * s->position_rows[last] + first) * 2 * width;
    for (Size r = 0; r < rows; r++) {
        float *query = at->wide + r * 3 * width, *key = query + width;
        if (s->turns != NULL) {
            turn(query, s->turns, width, width / d->heads);
            turn(key, s->turns, width, width / d->heads);
        }
        for (Size i = 0; i < 2 * width; i += LANES) store(now, r * 2 * width + i, load(key, i, 0), 1);
        const int32_t *from = s->ancestors + (first + r) * s->ancestors_width;
        for (Size p = 0; p < s->length; p++)
            at->keys[p] = s->positions[p] + (index * s->position_rows[p] + from[p]) * 2 * width;
        attend_heads(query, at->keys, s->length, at->weights, at->one, width, d->heads);
        quantise(at->one, at->quantised + r * width, at->scales + r, width);
    }
}

TARGET static void attend_to_memory(const Stack *d, const Step *s, const Layer *l, Size first, Size rows, Scratch *at) {
    Size width = d->d_model;
    for (Size r = 0; r < rows; r++) {
        Size sentence = s->sentences[first + r], count = s->source_lengths[sentence];
        for (Size p = 0; p < count; p++) at->keys[p] = l->memory + (sentence * s->source_length + p) * 2 * width;
        attend_heads(at->wide + r * width, at->keys, count, at->weights, at->one, width, d->heads);
        quantise(at->one, at->quantised + r * width, at->scales + r, width);
    }
}

TARGET static void feed_forward(const Stack *d, const Layer *l, Size rows, Scratch *at) {
    Size count = rows * d->d_ff;
    product(at->quantised, at->scales, &l->inner, at->wide, d->d_ff, rows, 0);
    if (l->gate.weight != NULL) product(at->quantised, at->scales, &l->gate, at->gate, d->d_ff, rows, 0);
    for (Size i = 0; i < count; i += LANES) {
        Vector y = load(at->wide, i, 0);
        y = l->gate.weight != NULL ? y * activated(load(at->gate, i, 0), d->activation) : activated(y, d->activation);
        store(at->wide, i, y, 0);
    }
    quantise_rows(at->wide, d->d_ff, rows, at);
}

TARGET static void layer(const Stack *d, const Step *s, Size index, Size first, Size rows, Scratch *at) {
    const Layer *l = d->layers + index;
    float *x = s->x + first * d->d_model;
    begin(d, x, l->norms[0], rows, at);
    product(at->quantised, at->scales, &l->own, at->wide, 3 * d->d_model, rows, 0);
    attend_to_own(d, s, index, first, rows, at);
    end(d, x, &l->own_output, l->norms[0], rows, at);
    begin(d, x, l->norms[1], rows, at);
    product(at->quantised, at->scales, &l->query, at->wide, d->d_model, rows, 0);
    attend_to_memory(d, s, l, first, rows, at);
    end(d, x, &l->memory_output, l->norms[1], rows, at);
    begin(d, x, l->norms[2], rows, at);
    feed_forward(d, l, rows, at);
    end(d, x, &l->outer, l->norms[2], rows, at);
}

TARGET static void last_norm(const Stack *d, float *x, Size rows) {
    if (d->norm.gain != NULL)
        for (Size r = 0; r < rows; r++) norm_of(x + r * d->d_model, x + r * d->d_model, d->norm, d->d_model, d->eps);
}

/* Returns 0, or 1 if there is no memory. */
TARGET int NAMED(decoder_step)(const Stack *d, const Step *s) {
    Scratch at;
    int failed = reserve(&at, d, TILE, s->length > s->source_length ? s->length : s->source_length);
    for (Size first = 0; !failed && first < s->rows; first += TILE) {
        Size rows = s->rows - first < TILE ? s->rows - first : TILE;
        for (Size index = 0; index < d->num_layers; index++) layer(d, s, index, first, rows, &at);
        last_norm(d, s->x + first * d->d_model, rows);
    }
    release(at);
    return failed;
}

/* The attention of a sentence to itself, in the encoder; `now` receives its keys and values. */
TARGET static void attend_to_sentence(const Stack *d, const float *turns, uint16_t *now, Size first, Size count,
                                      Scratch *at) {
    Size width = d->d_model, head = width / d->heads;
    for (Size p = 0; p < count; p++) {
        float *query = at->wide + (first + p) * 3 * width, *key = query + width;
        if (turns != NULL) turn(query, turns + p * 2 * head, width, head), turn(key, turns + p * 2 * head, width, head);
        for (Size i = 0; i < 2 * width; i += LANES) store(now, p * 2 * width + i, load(key, i, 0), 1);
        at->keys[p] = now + p * 2 * width;
    }
    for (Size p = first; p < first + count; p++) {
        attend_heads(at->wide + p * 3 * width, at->keys, count, at->weights, at->one, width, d->heads);
        quantise(at->one, at->quantised + p * width, at->scales + p, width);
    }
}

/* Some sentences, whose tokens are one after the other in x, through the layers of the encoder. */
TARGET static void encode_tile(const Stack *d, const int32_t *lengths, Size sentences, const float *turns, float *x,
                               uint16_t *now, Scratch *at) {
    Size rows = 0;
    for (Size s = 0; s < sentences; s++) rows += lengths[s];
    for (const Layer *l = d->layers; l < d->layers + d->num_layers; l++) {
        begin(d, x, l->norms[0], rows, at);
        product(at->quantised, at->scales, &l->own, at->wide, 3 * d->d_model, rows, 0);
        for (Size s = 0, first = 0; s < sentences; first += lengths[s++])
            attend_to_sentence(d, turns, now, first, lengths[s], at);
        end(d, x, &l->own_output, l->norms[0], rows, at);
        begin(d, x, l->norms[2], rows, at);
        feed_forward(d, l, rows, at);
        end(d, x, &l->outer, l->norms[2], rows, at);
    }
    last_norm(d, x, rows);
}

/* Whole sentences at a time, some TILE tokens, or one that is longer. Returns 0, or 1 if there is no memory. */
TARGET int NAMED(encode)(const Stack *d, const Sources *s) {
    Size most = s->length > TILE ? s->length : TILE, size = d->d_model * sizeof(float);
    Scratch at;
    float *x = space(most, size);
    uint16_t *now = space(s->length, size);
    int failed = reserve(&at, d, most, s->length) || x == NULL || now == NULL;
    for (Size first = 0, end = 0; !failed && first < s->rows; first = end) {
        Size rows = 0;
        for (; end < s->rows && (end == first || rows + s->lengths[end] <= TILE); rows += s->lengths[end++])
            memcpy(x + rows * d->d_model, s->x + end * s->length * d->d_model, s->lengths[end] * size);
        encode_tile(d, s->lengths + first, end - first, s->turns, x, now, &at);
        for (rows = 0; first < end; rows += s->lengths[first++])
            memcpy(s->x + first * s->length * d->d_model, x + rows * d->d_model, s->lengths[first] * size);
    }
    release(at), free(x), free(now);
    return failed;
}

/* Turn a row of logits into log-probabilities, while it is near the processor; `maxima` are those of SHARED each. */
INLINE void normalise(float *row, float *maxima, Size width) {
    Vector tops[2] = {all(-INFINITY), all(-INFINITY)}, sums[2] = {all(0.0f), all(0.0f)};
    Size pairs = width - width % (2 * LANES);
    for (Size i = 0; i < pairs; i += 2 * LANES)
        for (Size side = 0; side < 2; side++) tops[side] = most(load(row, i + side * LANES, 0), tops[side]);
    for (Size i = pairs; i < width; i += LANES) tops[0] = most(load_before(row, i, width, 0, -INFINITY), tops[0]);
    float top = top_of(most(tops[0], tops[1]));
    for (Size i = 0; i < pairs; i += 2 * LANES)
        for (Size side = 0; side < 2; side++) sums[side] += power_of_e(load(row, i + side * LANES, 0) - top);
    for (Size i = pairs; i < width; i += LANES)
        sums[0] += power_of_e(load_before(row, i, width, 0, -INFINITY) - top);
    float all_of_it = top + logf(sum_of(sums[0] + sums[1]));
    for (Size i = 0; i < width; maxima++) {
        Size end = i + SHARED < width ? i + SHARED : width;
        Vector highest = all(-INFINITY);
        for (; i < end; i += LANES) {
            Vector log_probs = load_before(row, i, width, 0, -INFINITY) - all_of_it;
            store_before(row, i, width, log_probs, 0);
            highest = most(log_probs, highest);
        }
        *maxima = top_of(highest);
    }
}

/* `rows` of x, one after the other, through a linear layer, and through log-softmax if there are `maxima`. */
INLINE int apply(const float *x, Size rows, const Linear *l, float *out, float *maxima) {
    Size tile = maxima != NULL ? GROUP : TILE; /* logits of few rows stay near the processor */
    Size blocks = (l->outputs + SHARED - 1) / SHARED;
    Scratch at = {.quantised = space(tile * l->inputs, 1), .scales = space(tile, sizeof(float))};
    int failed = at.quantised == NULL || at.scales == NULL;
    for (Size r = 0; !failed && r < rows; r += tile) {
        Size count = rows - r < tile ? rows - r : tile;
        quantise_rows(x + r * l->inputs, l->inputs, count, &at);
        product(at.quantised, at.scales, l, out + r * l->outputs, l->outputs, count, 0);
        for (Size row = r; maxima != NULL && row < r + count; row++)
            normalise(out + row * l->outputs, maxima + row * blocks, l->outputs);
    }
    release(at);
    return failed;
}

/* These return 0, or 1 if there is no memory. */
TARGET int NAMED(linear)(const float *x, Size rows, const Linear *l, float *out) {
    return apply(x, rows, l, out, NULL);
}

/* As `linear`, with outputs in bfloat16, whose number is a multiple of LANES. */
TARGET int NAMED(halves)(const float *x, Size rows, const Linear *l, uint16_t *out) {
    Scratch at = {.wide = space(TILE * l->outputs, sizeof(float))};
    int failed = at.wide == NULL;
    for (Size r = 0; !failed && r < rows; r += TILE) {
        Size tile = rows - r < TILE ? rows - r : TILE, count = tile * l->outputs;
        failed = apply(x + r * l->inputs, tile, l, at.wide, NULL);
        for (Size i = 0; i < count; i += LANES) store(out + r * l->outputs, i, load(at.wide, i, 0), 1);
    }
    release(at);
    return failed;
}

/* `maxima` (rows, blocks of SHARED outputs) receives the highest log-probability of each block. */
TARGET int NAMED(log_probs)(const float *x, Size rows, const Linear *l, float *out, float *maxima) {
    return apply(x, rows, l, out, maxima);
}
