/* Products of eight bits, and a whole step of the decoder that is made of them (int8.py).

   A row of activations and the weights of each output are whole numbers from -127 to 127, times a scale of their own.
   Sums of their products are exact; everything else is float32, and what is kept of keys and values bfloat16. Widths
   are multiples of LANES. The instructions (VNNI) multiply numbers without a sign by numbers with one: activations are
   therefore 128 higher, and `offset` takes back what that adds. */

#include "vectors.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
/* Rows that share a pass over the weights, and those among them whose sums are kept in registers. */
#define TILE 64
#define GROUP 8

typedef struct {
    const int8_t *weight; /* (outputs / 16, inputs / 4, 16, 4), filled up with zeros */
    const float *scale, *bias;
    const int32_t *offset; /* -128 times the sum of the weights of an output */
    Size inputs, outputs;
} Linear;

typedef struct {
    const float *gain, *bias; /* no bias: RMSNorm */
} Norm;

typedef enum { RELU, GELU, SILU } Activation;

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
} Decoder;

/* One more position of each row. Positions before it are where they were computed: row r has at position p the keys and
   values of row ancestors[r, p] of that time. */
typedef struct {
    float *x; /* (rows, d_model): embeddings of the new tokens, which become what predicts the next ones */
    Size rows, length;
    uint16_t *const *positions; /* each (layers, rows of that time, 2, d_model) */
    const Size *position_rows;
    const int32_t *ancestors, *sentences;
    const int32_t *source_lengths;
    Size source_length;
    const float *turns; /* (2, width of a head) for rotary positions, or NULL */
} Step;

VNNI INLINE float top_of(Vector x) { return _mm512_reduce_max_ps((__m512)x); }

VNNI INLINE float sum_of(Vector x) { return _mm512_reduce_add_ps((__m512)x); }

VNNI INLINE Vector load_half(const uint16_t *from) {
    return (Vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
}

/* A row as whole numbers, 128 higher. */
VNNI INLINE void quantise(const float *x, uint8_t *to, float *scale, Size width) {
    Vector top = all(0.0f);
    for (Size i = 0; i < width; i += LANES) {
        Vector part = load(x, i, 0);
        top = larger(larger(part, -part), top);
    }
    float most = top_of(top), steps = most > 0 ? 127.0f / most : 0.0f;
    *scale = most / 127.0f;
    for (Size i = 0; i < width; i += LANES) {
        __m512i whole = _mm512_cvtps_epi32((__m512)(load(x, i, 0) * steps));
        whole = _mm512_add_epi32(whole, _mm512_set1_epi32(128));
        _mm_storeu_si128((__m128i *)(to + i), _mm512_cvtepi32_epi8(whole));
    }
}

/* Outputs `first` to `first` + 31, or + 15, of a few rows. */
VNNI INLINE void product_of(const uint8_t *x, const float *scales, const Linear *l, Size first, float *out, Size stride,
                            int add, const int rows) {
    int two = first + LANES < l->outputs;
    const int8_t *left = l->weight + first * l->inputs, *right = left + (two ? LANES * l->inputs : 0);
    __m512i sums[rows][2];
    for (int r = 0; r < rows; r++) {
        sums[r][0] = _mm512_loadu_si512(l->offset + first);
        sums[r][1] = _mm512_loadu_si512(l->offset + first + two * LANES);
    }
    for (Size i = 0; i < l->inputs; i += 4) {
        __m512i a = _mm512_loadu_si512(left + LANES * i), b = _mm512_loadu_si512(right + LANES * i);
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, x + r * l->inputs + i, sizeof four);
            __m512i same = _mm512_set1_epi32(four);
            sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], same, a);
            sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], same, b);
        }
    }
    for (int side = 0; side <= two; side++) {
        Size at = first + side * LANES;
        Vector scale = load(l->scale, at, 0), bias = load(l->bias, at, 0);
        for (int r = 0; r < rows; r++) {
            Vector y = (Vector)_mm512_cvtepi32_ps(sums[r][side]) * (scale * scales[r]) + bias;
            if (add) y += load_before(out, r * stride + at, r * stride + l->outputs, 0, 0.0f);
            store_before(out, r * stride + at, r * stride + l->outputs, y, 0);
        }
    }
}

/* out = x W^T + b for `rows` of `stride` numbers each, or what is added to them. */
VNNI static void product(const uint8_t *x, const float *scales, const Linear *l, float *out, Size stride, Size rows,
                         int add) {
    for (Size first = 0; first < l->outputs; first += 2 * LANES)
        for (Size r = 0; r < rows; r += GROUP) {
            const uint8_t *from = x + r * l->inputs;
            float *to = out + r * stride;
#define ROWS_OF(count) \
    case count: product_of(from, scales + r, l, first, to, stride, add, count); break;
            switch (rows - r < GROUP ? rows - r : GROUP) {
                ROWS_OF(1) ROWS_OF(2) ROWS_OF(3) ROWS_OF(4) ROWS_OF(5) ROWS_OF(6) ROWS_OF(7) ROWS_OF(8)
            }
#undef ROWS_OF
        }
}

VNNI INLINE void norm_of(const float *x, float *out, Norm norm, Size width, float eps) {
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

/* One query of all heads. `keys` point to the keys of all heads, which their values follow. */
VNNI INLINE void attend_to(const float *query, const uint16_t *const *keys, Size count, float *out, Size d_model,
                           Size heads, const Size parts) {
    Size blocks = (count + LANES - 1) / LANES, width = parts * LANES;
    Vector weights[blocks];
    float *numbers = (float *)weights, scale = 1.0f / sqrtf((float)width);
    for (Size h = 0; h < heads; h++) {
        Vector one[parts], mixed[parts];
        for (Size v = 0; v < parts; v++) {
            one[v] = load(query, h * width + v * LANES, 0) * scale;
            mixed[v] = all(0.0f);
        }
        for (Size k = 0; k < count; k++) {
            Vector total = all(0.0f);
            for (Size v = 0; v < parts; v++) total += one[v] * load_half(keys[k] + h * width + v * LANES);
            numbers[k] = sum_of(total);
        }
        for (Size k = count; k < blocks * LANES; k++) numbers[k] = -INFINITY;
        Vector top = all(-FLT_MAX), total = all(0.0f);
        for (Size b = 0; b < blocks; b++) top = larger(weights[b], top);
        top = all(top_of(top));
        for (Size b = 0; b < blocks; b++) total += weights[b] = exponential(weights[b] - top);
        float norm = 1.0f / sum_of(total);
        for (Size k = 0; k < count; k++)
            for (Size v = 0; v < parts; v++)
                mixed[v] += numbers[k] * load_half(keys[k] + d_model + h * width + v * LANES);
        for (Size v = 0; v < parts; v++) store(out, h * width + v * LANES, mixed[v] * norm, 0);
    }
}

VNNI static void attend_heads(const float *query, const uint16_t *const *keys, Size count, float *out, Size d_model,
                              Size heads) {
    /* Constants that the compiler knows make the inner loops short. */
    Size parts = d_model / heads / LANES;
    if (parts == 2)
        attend_to(query, keys, count, out, d_model, heads, 2);
    else if (parts == 4)
        attend_to(query, keys, count, out, d_model, heads, 4);
    else
        attend_to(query, keys, count, out, d_model, heads, parts);
}

VNNI INLINE void turn(float *x, const float *turns, Size d_model, Size width) {
    for (Size head = 0; head < d_model; head += width)
        for (Size i = 0; i < width; i += LANES) {
            Vector own = load(x, head + i, 0);
            store(x, head + i, own * load(turns, i, 0) + swapped(own) * load(turns, width + i, 0), 0);
        }
}

/* The error function to 5e-7 (Abramowitz and Stegun, 7.1.26). */
VNNI INLINE Vector error_function(Vector x) {
    Vector size = larger(x, -x), t = 1.0f / (0.3275911f * size + 1.0f);
    Vector p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    Vector y = 1.0f - p * t * exponential(-(size * size));
    return choose(x < 0.0f, -y, y);
}

VNNI INLINE Vector activated(Vector x, Activation activation) {
    if (activation == RELU) return larger(x, all(0.0f));
    if (activation == GELU) return x * 0.5f * (error_function(x * 0.70710678f) + 1.0f);
    Vector least = larger(x, all(-80.0f)); /* whose exponential is a number */
    return x / (exponential(-least) + 1.0f);
}

/* What a tile of rows needs while it passes through the layers. */
typedef struct {
    float *wide, *gate, *one;
    uint8_t *quantised;
    float scales[TILE];
    const uint16_t **keys;
} Scratch;

VNNI static void quantise_rows(const float *x, Size width, Size rows, Scratch *at) {
    for (Size r = 0; r < rows; r++) quantise(x + r * width, at->quantised + r * width, at->scales + r, width);
}

/* What a sub-layer reads. */
VNNI static void begin(const Decoder *d, const float *x, Norm norm, Size rows, Scratch *at) {
    Size width = d->d_model;
    for (Size r = 0; r < rows; r++) {
        const float *row = x + r * width;
        if (d->pre_norm) norm_of(row, at->one, norm, width, d->eps), row = at->one;
        quantise(row, at->quantised + r * width, at->scales + r, width);
    }
}

/* x + f(x) from what is quantised, and its norm if that comes after. */
VNNI static void end(const Decoder *d, float *x, const Linear *l, Norm norm, Size rows, Scratch *at) {
    product(at->quantised, at->scales, l, x, d->d_model, rows, 1);
    if (!d->pre_norm)
        for (Size r = 0; r < rows; r++) norm_of(x + r * d->d_model, x + r * d->d_model, norm, d->d_model, d->eps);
}

VNNI static void attend_to_own(const Decoder *d, const Step *s, Size index, Size first, Size rows, Scratch *at) {
    Size width = d->d_model, last = s->length - 1;
    uint16_t *now = s->positions[last] + (index * s->position_rows[last] + first) * 2 * width;
    for (Size r = 0; r < rows; r++) {
        float *query = at->wide + r * 3 * width, *key = query + width;
        if (s->turns != NULL) {
            turn(query, s->turns, width, width / d->heads);
            turn(key, s->turns, width, width / d->heads);
        }
        for (Size i = 0; i < 2 * width; i += LANES) store(now, r * 2 * width + i, load(key, i, 0), 1);
        const int32_t *from = s->ancestors + (first + r) * s->length;
        for (Size p = 0; p < s->length; p++)
            at->keys[p] = s->positions[p] + (index * s->position_rows[p] + from[p]) * 2 * width;
        attend_heads(query, at->keys, s->length, at->one, width, d->heads);
        quantise(at->one, at->quantised + r * width, at->scales + r, width);
    }
}

VNNI static void attend_to_memory(const Decoder *d, const Step *s, const Layer *l, Size first, Size rows, Scratch *at) {
    Size width = d->d_model;
    for (Size r = 0; r < rows; r++) {
        Size sentence = s->sentences[first + r], count = s->source_lengths[sentence];
        for (Size p = 0; p < count; p++) at->keys[p] = l->memory + (sentence * s->source_length + p) * 2 * width;
        attend_heads(at->wide + r * width, at->keys, count, at->one, width, d->heads);
        quantise(at->one, at->quantised + r * width, at->scales + r, width);
    }
}

VNNI static void feed_forward(const Decoder *d, const Layer *l, Size rows, Scratch *at) {
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

VNNI static void layer(const Decoder *d, const Step *s, Size index, Size first, Size rows, Scratch *at) {
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

/* Space for `count` pieces that begin where vectors do. */
static void *space(Size count, Size size) { return aligned_alloc(64, (count * size + 63) / 64 * 64); }

/* Returns 0, or 1 if there is no memory. */
VNNI int decoder_step(const Decoder *d, const Step *s) {
    Size wide = 3 * d->d_model > d->d_ff ? 3 * d->d_model : d->d_ff;
    Size keys = s->length > s->source_length ? s->length : s->source_length;
    Scratch at = {space(TILE * wide, sizeof(float)), space(TILE * d->d_ff, sizeof(float)),
                  space(d->d_model, sizeof(float)), space(TILE * wide, 1), {0}, space(keys, sizeof(void *))};
    int failed = at.wide == NULL || at.gate == NULL || at.one == NULL || at.quantised == NULL || at.keys == NULL;
    for (Size first = 0; !failed && first < s->rows; first += TILE) {
        Size rows = s->rows - first < TILE ? s->rows - first : TILE;
        for (Size index = 0; index < d->num_layers; index++) layer(d, s, index, first, rows, &at);
        float *x = s->x + first * d->d_model;
        if (d->norm.gain != NULL)
            for (Size r = 0; r < rows; r++) norm_of(x + r * d->d_model, x + r * d->d_model, d->norm, d->d_model, d->eps);
    }
    free(at.wide), free(at.gate), free(at.one), free(at.quantised), free(at.keys);
    return failed;
}

/* `rows` of x, one after the other, through a linear layer. Returns 0, or 1 if there is no memory. */
VNNI int linear(const float *x, Size rows, const Linear *l, float *out) {
    Scratch at = {.quantised = space(TILE * l->inputs, 1)};
    int failed = at.quantised == NULL;
    for (Size r = 0; !failed && r < rows; r += TILE) {
        Size count = rows - r < TILE ? rows - r : TILE;
        quantise_rows(x + r * l->inputs, l->inputs, count, &at);
        product(at.quantised, at.scales, l, out + r * l->outputs, l->outputs, count, 0);
    }
    free(at.quantised);
    return failed;
}

int multiplies_int8(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
int multiplies_int8(void) { return 0; }
#endif
