/* What PyTorch does on a CPU in many passes over memory, done in one while the numbers are at hand.

   Tensors hold float32, or bfloat16 where `half`; all sums are float32. The last dimension is one piece of memory, the
   others lie as their strides say, counted in elements. Each function equals a formula in Python (`dragoman.model`).

   This text is compiled by each of kernels_512.c, kernels_avx2.c and kernels_any.c, for the instructions (TARGET) and
   with the ends of names (NAMED) that they define. Products are added with or without rounding in between, as the
   instructions allow: results have the same bits on processors with the same ones only. */

#include "vectors.h"

typedef float Quarter __attribute__((vector_size(LANES)));

INLINE float sum(Vector x) {
    Quarter part[4];
    memcpy(part, &x, sizeof x);
    Quarter total = (part[0] + part[1]) + (part[2] + part[3]);
    return (total[0] + total[1]) + (total[2] + total[3]);
}

INLINE Vector only_first(Vector x, Size count) {
    Integers lanes = COUNT;
    return choose(lanes < (int32_t)count, x, all(0.0f));
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

typedef struct {
    Size rows, heads, queries, keys, width;
} Shape;

/* Steps from one row, head and position to the next. */
typedef struct {
    Size row, head, position;
} Strides;

typedef struct {
    Size row, head, query, key;
} MaskStrides;

typedef struct {
    Strides query, key, value, out;
    MaskStrides mask;
} Layout;

/* Queries whose sums are computed side by side, so that they do not wait for each other. */
#define ROWS 4

/* One row of scores to weights. What the mask hides counts as the smallest number, as in the formula; what only fills up
   the last vector, as nothing. */
INLINE void softmax(Vector *restrict scores, const uint8_t *mask, Size step, Size keys, Size width) {
    Size blocks = (keys + LANES - 1) / LANES;
    float *numbers = (float *)scores, scale = 1.0f / sqrtf((float)width);
    for (Size b = 0; b < blocks; b++) scores[b] *= scale;
    if (mask != NULL)
        for (Size k = 0; k < keys; k++) numbers[k] = mask[k * step] ? numbers[k] : -FLT_MAX;
    for (Size k = keys; k < blocks * LANES; k++) numbers[k] = -INFINITY;
    Vector top = all(-FLT_MAX), total = all(0.0f);
    for (Size b = 0; b < blocks; b++) top = larger(scores[b], top);
    top = all(largest(top));
    for (Size b = 0; b < blocks; b++) {
        scores[b] = exponential(scores[b] - top);
        total += scores[b];
    }
    float norm = 1.0f / sum(total);
    for (Size b = 0; b < blocks; b++) scores[b] *= norm;
}

/* A single query; keys and values are read where they are. */
INLINE void attend_once(const void *query, const void *key, const void *value, const uint8_t *mask, void *out,
                        Shape shape, Layout at, Size parts, int half, Vector *scratch) {
    Vector *one = scratch, *weights = one + parts;
    for (Size v = 0; v < parts; v++) one[v] = load(query, v * LANES, half);
    for (Size k = 0; k < shape.keys; k++) {
        Vector total = all(0.0f);
        for (Size v = 0; v < parts; v++) total += one[v] * load(key, k * at.key.position + v * LANES, half);
        ((float *)weights)[k] = sum(total);
    }
    softmax(weights, mask, at.mask.key, shape.keys, parts * LANES);
    for (Size v = 0; v < parts; v++) {
        Vector total = all(0.0f);
        for (Size k = 0; k < shape.keys; k++)
            total += ((float *)weights)[k] * load(value, k * at.value.position + v * LANES, half);
        store(out, v * LANES, total, half);
    }
}

/* to[row, key] = queries[row] . keys[key], of a block of keys at a time; `columns` are the keys, transposed. */
INLINE void products(Vector *restrict to, const float *queries, const Vector *columns, Size blocks, Size width,
                     const int rows) {
    for (Size b = 0; b < blocks; b++) {
        Vector totals[ROWS];
        for (int r = 0; r < rows; r++) totals[r] = all(0.0f);
        for (Size w = 0; w < width; w++)
            for (int r = 0; r < rows; r++) totals[r] += queries[r * width + w] * columns[w * blocks + b];
        for (int r = 0; r < rows; r++) to[r * blocks + b] = totals[r];
    }
}

/* to[row] = sum over keys of weights[row, key] values[key]. */
INLINE void mix(Vector *restrict to, const float *weights, const Vector *values, Size keys, Size blocks, Size parts,
                const int rows) {
    for (Size v = 0; v < parts; v++) {
        Vector totals[ROWS];
        for (int r = 0; r < rows; r++) totals[r] = all(0.0f);
        for (Size k = 0; k < keys; k++)
            for (int r = 0; r < rows; r++) totals[r] += weights[r * blocks * LANES + k] * values[k * parts + v];
        for (int r = 0; r < rows; r++) to[r * parts + v] = totals[r];
    }
}

/* Several queries to the same keys and values, which are worth a contiguous copy. */
INLINE void attend(const void *query, const void *key, const void *value, const uint8_t *mask, void *out, Shape shape,
                   Layout at, Size parts, int half, Vector *scratch) {
    Size blocks = (shape.keys + LANES - 1) / LANES, width = parts * LANES;
    Vector *values = scratch, *columns = values + shape.keys * parts;
    Vector *queries = columns + width * blocks, *weights = queries + ROWS * parts;
    for (Size k = 0; k < shape.keys; k++)
        for (Size v = 0; v < parts; v++) {
            values[k * parts + v] = load(value, k * at.value.position + v * LANES, half);
            Vector one = load(key, k * at.key.position + v * LANES, half);
            for (int i = 0; i < LANES; i++) ((float *)(columns + (v * LANES + i) * blocks))[k] = one[i];
        }
    for (Size q = 0; q < shape.queries;) {
        int rows = shape.queries - q < ROWS ? 1 : ROWS;
        for (int r = 0; r < rows; r++)
            for (Size v = 0; v < parts; v++)
                queries[r * parts + v] = load(query, (q + r) * at.query.position + v * LANES, half);
        if (rows == ROWS)
            products(weights, (float *)queries, columns, blocks, width, ROWS);
        else
            products(weights, (float *)queries, columns, blocks, width, 1);
        for (int r = 0; r < rows; r++)
            softmax(weights + r * blocks, mask ? mask + (q + r) * at.mask.query : NULL, at.mask.key, shape.keys, width);
        if (rows == ROWS)
            mix(queries, (float *)weights, values, shape.keys, blocks, parts, ROWS);
        else
            mix(queries, (float *)weights, values, shape.keys, blocks, parts, 1);
        for (int r = 0; r < rows; r++)
            for (Size v = 0; v < parts; v++)
                store(out, (q + r) * at.out.position + v * LANES, queries[r * parts + v], half);
        q += rows;
    }
}

INLINE void attend_all(const char *query, const char *key, const char *value, const uint8_t *mask, char *out,
                       Shape shape, Layout at, Size parts, int half, Vector *scratch) {
    Size bytes = half ? 2 : 4;
    for (Size r = 0; r < shape.rows; r++)
        for (Size h = 0; h < shape.heads; h++) {
            const char *q = query + (r * at.query.row + h * at.query.head) * bytes;
            const char *k = key + (r * at.key.row + h * at.key.head) * bytes;
            const char *v = value + (r * at.value.row + h * at.value.head) * bytes;
            const uint8_t *m = mask ? mask + r * at.mask.row + h * at.mask.head : NULL;
            char *o = out + (r * at.out.row + h * at.out.head) * bytes;
            if (shape.queries == 1)
                attend_once(q, k, v, m, o, shape, at, parts, half, scratch);
            else
                attend(q, k, v, m, o, shape, at, parts, half, scratch);
        }
}

/* Widths are multiples of LANES. Returns 0, or 1 if there is no memory for the keys and values of one head. */
TARGET int NAMED(attention)(const void *query, const void *key, const void *value, const uint8_t *mask, void *out,
                            const Shape *shape, const Layout *at, int half) {
    Size parts = shape->width / LANES, blocks = (shape->keys + LANES - 1) / LANES;
    Size count = shape->keys * parts + shape->width * blocks + ROWS * (parts + blocks);
    Vector *scratch = space(count, sizeof(Vector));
    if (scratch == NULL) return 1;
#define ATTEND(parts, half) attend_all(query, key, value, mask, out, *shape, *at, parts, half, scratch)
    /* Constants that the compiler knows make the inner loops short. */
    if (parts == 2 && half)
        ATTEND(2, 1);
    else if (parts == 2)
        ATTEND(2, 0);
    else if (parts == 4 && half)
        ATTEND(4, 1);
    else if (parts == 4)
        ATTEND(4, 0);
    else
        ATTEND(parts, half);
#undef ATTEND
    free(scratch);
    return 0;
}

/* --- rotary positions ---------------------------------------------------------------------------------------------- */

/* `shape` is rows, heads, length and width, a multiple of LANES. `turns` holds for each position what its numbers are
   multiplied by, and then what those that they change places with are; these factors are negated to turn backwards. */
INLINE void rotate_all(const void *x, const float *turns, void *out, const Size *shape, const Size *steps, float sign,
                       int half) {
    Size rows = shape[0], heads = shape[1], length = shape[2], width = shape[3], to = 0;
    for (Size row = 0; row < rows; row++)
        for (Size head = 0; head < heads; head++)
            for (Size position = 0; position < length; position++, to += width) {
                Size from = row * steps[0] + head * steps[1] + position * steps[2];
                const float *turn = turns + 2 * position * width;
                for (Size i = 0; i < width; i += LANES) {
                    Vector own = load(x, from + i, half), other = swapped(own) * sign;
                    store(out, to + i, own * load(turn, i, 0) + other * load(turn, width + i, 0), half);
                }
            }
}

TARGET void NAMED(rotate)(const void *x, const float *turns, void *out, const Size *shape, const Size *steps,
                          float sign, int half) {
    if (half)
        rotate_all(x, turns, out, shape, steps, sign, 1);
    else
        rotate_all(x, turns, out, shape, steps, sign, 0);
}

/* --- dropout ------------------------------------------------------------------------------------------------------ */

INLINE Vector keep(Vector x, Size index, Dropout dropout) {
    Bits lanes = COUNT;
    return choose(draw(lanes + (uint32_t)index, dropout) >= dropout.dropped, x * dropout.scale, all(0.0f));
}

INLINE void drop_all(const void *x, const void *to, void *out, Size count, Dropout dropout, int half) {
    for (Size i = 0; i < count; i += LANES) {
        Vector kept = keep(load_before(x, i, count, half, 0.0f), i, dropout);
        if (to != NULL) kept += load_before(to, i, count, half, 0.0f);
        store_before(out, i, count, kept, half);
    }
}

/* What is kept of `x`, added to `to` if that is not NULL. */
TARGET void NAMED(drop)(const void *x, const void *to, void *out, Size count, const Dropout *dropout, int half) {
    if (half)
        drop_all(x, to, out, count, *dropout, 1);
    else
        drop_all(x, to, out, count, *dropout, 0);
}

/* --- norms -------------------------------------------------------------------------------------------------------- */

typedef struct {
    Size rows, width; /* width: a multiple of LANES */
    const float *gain, *bias; /* no bias: RMSNorm */
    float *moments;           /* (rows, 2): mean, and one by the standard deviation */
    float eps;
} Norm;

INLINE void normalise_all(const void *x, void *out, Norm norm, int half) {
    Size width = norm.width;
    for (Size r = 0, start = 0; r < norm.rows; r++, start += width) {
        Vector total = all(0.0f), squares = all(0.0f);
        if (norm.bias != NULL)
            for (Size i = 0; i < width; i += LANES) total += load(x, start + i, half);
        float mean = sum(total) / width;
        for (Size i = 0; i < width; i += LANES) {
            Vector centred = load(x, start + i, half) - mean;
            squares += centred * centred;
        }
        float scale = 1.0f / sqrtf(sum(squares) / width + norm.eps);
        norm.moments[2 * r] = mean, norm.moments[2 * r + 1] = scale;
        for (Size i = 0; i < width; i += LANES) {
            Vector y = (load(x, start + i, half) - mean) * scale * load(norm.gain, i, 0);
            store(out, start + i, norm.bias != NULL ? y + load(norm.bias, i, 0) : y, half);
        }
    }
}

TARGET void NAMED(normalise_rows)(const void *x, void *out, const Norm *norm, int half) {
    if (half)
        normalise_all(x, out, *norm, 1);
    else
        normalise_all(x, out, *norm, 0);
}

/* Gradients of x, gain and bias. */
typedef struct {
    const void *x, *gradient;
    void *out;
    float *gain, *bias; /* zeros before */
} NormBack;

INLINE void normalise_all_back(NormBack g, Norm norm, int half) {
    Size width = norm.width;
    for (Size r = 0, start = 0; r < norm.rows; r++, start += width) {
        float mean = norm.moments[2 * r], scale = norm.moments[2 * r + 1];
        Vector total = all(0.0f), along = all(0.0f);
        for (Size i = 0; i < width; i += LANES) {
            Vector pull = load(g.gradient, start + i, half), y = (load(g.x, start + i, half) - mean) * scale;
            store(g.gain, i, load(g.gain, i, 0) + pull * y, 0);
            if (norm.bias != NULL) store(g.bias, i, load(g.bias, i, 0) + pull, 0);
            pull *= load(norm.gain, i, 0);
            total += pull, along += pull * y;
        }
        float level = norm.bias != NULL ? sum(total) / width : 0.0f, slope = sum(along) / width;
        for (Size i = 0; i < width; i += LANES) {
            Vector pull = load(g.gradient, start + i, half) * load(norm.gain, i, 0);
            pull = (pull - level - (load(g.x, start + i, half) - mean) * scale * slope) * scale;
            store(g.out, start + i, pull, half);
        }
    }
}

TARGET void NAMED(normalise_rows_back)(const NormBack *gradients, const Norm *norm, int half) {
    if (half)
        normalise_all_back(*gradients, *norm, 1);
    else
        normalise_all_back(*gradients, *norm, 0);
}

/* --- softmax of scores, with dropout ------------------------------------------------------------------------------ */

/* Rows are adjacent. A whole vector reaches into the next row, which overwrites what it leaves there. */
INLINE void soften_all(const void *scores, const uint8_t *mask, void *weights, void *kept, Shape shape,
                       const MaskStrides *at, const Dropout *dropout, int half) {
    Size blocks = (shape.keys + LANES - 1) / LANES, start = 0, index = 0;
    Size end = shape.rows * shape.heads * shape.queries * shape.keys;
    Vector row[blocks];
    for (Size r = 0; r < shape.rows; r++)
        for (Size h = 0; h < shape.heads; h++)
            for (Size q = 0; q < shape.queries; q++) {
                for (Size b = 0; b < blocks; b++) row[b] = load_before(scores, start + b * LANES, end, half, 0.0f);
                const uint8_t *seen = mask ? mask + r * at->row + h * at->head + q * at->query : NULL;
                softmax(row, seen, mask ? at->key : 0, shape.keys, shape.width);
                for (Size b = 0; b < blocks; b++) {
                    store_before(weights, start + b * LANES, end, row[b], half);
                    if (dropout != NULL) {
                        Vector left = keep(row[b], index + b * LANES, *dropout);
                        store_before(kept, start + b * LANES, end, left, half);
                    }
                }
                start += shape.keys, index += blocks * LANES;
            }
}

/* softmax(scores / sqrt(width)), and what dropout, if any, leaves of it; the mask may be NULL, too. */
TARGET void NAMED(masked_softmax_dropout)(const void *scores, const uint8_t *mask, void *weights, void *kept,
                                          const Shape *shape, const MaskStrides *at, const Dropout *dropout, int half) {
    if (half)
        soften_all(scores, mask, weights, kept, *shape, at, dropout, 1);
    else
        soften_all(scores, mask, weights, kept, *shape, at, dropout, 0);
}

INLINE void soften_all_back(const void *weights, const uint8_t *mask, const void *gradient, void *out, Shape shape,
                            const MaskStrides *at, const Dropout *dropout, int half) {
    Size blocks = (shape.keys + LANES - 1) / LANES, start = 0, index = 0;
    Size end = shape.rows * shape.heads * shape.queries * shape.keys;
    float scale = 1.0f / sqrtf((float)shape.width);
    Vector weight[blocks], pull[blocks];
    for (Size r = 0; r < shape.rows; r++)
        for (Size h = 0; h < shape.heads; h++)
            for (Size q = 0; q < shape.queries; q++) {
                Vector total = all(0.0f);
                for (Size b = 0; b < blocks; b++) {
                    Size i = start + b * LANES, count = shape.keys - b * LANES;
                    weight[b] = only_first(load_before(weights, i, end, half, 0.0f), count);
                    pull[b] = only_first(load_before(gradient, i, end, half, 0.0f), count);
                    if (dropout != NULL) pull[b] = keep(pull[b], index + b * LANES, *dropout);
                    total += weight[b] * pull[b];
                }
                Vector mean = all(sum(total));
                for (Size b = 0; b < blocks; b++) weight[b] *= (pull[b] - mean) * scale;
                if (mask != NULL) {
                    /* Hidden keys have weights other than 0 only in a row that sees nothing, which is uniform. */
                    const uint8_t *seen = mask + r * at->row + h * at->head + q * at->query;
                    for (Size k = 0; k < shape.keys; k++) ((float *)weight)[k] *= seen[k * at->key];
                }
                for (Size b = 0; b < blocks; b++) store_before(out, start + b * LANES, end, weight[b], half);
                start += shape.keys, index += blocks * LANES;
            }
}

/* The gradient with respect to the scores, from that with respect to what dropout kept. */
TARGET void NAMED(masked_softmax_dropout_backward)(const void *weights, const uint8_t *mask, const void *gradient,
                                                   void *out, const Shape *shape, const MaskStrides *at,
                                                   const Dropout *dropout, int half) {
    if (half)
        soften_all_back(weights, mask, gradient, out, *shape, at, dropout, 1);
    else
        soften_all_back(weights, mask, gradient, out, *shape, at, dropout, 0);
}

/* --- output ------------------------------------------------------------------------------------------------------- */

INLINE void normalise(const void *logits, float *out, Size count, int half) {
    Vector top = all(-FLT_MAX), total = all(0.0f);
    for (Size i = 0; i < count; i += LANES) top = larger(load_before(logits, i, count, half, -INFINITY), top);
    top = all(largest(top));
    for (Size i = 0; i < count; i += LANES)
        total += exponential(load_before(logits, i, count, half, -INFINITY) - top);
    float norm = logf(sum(total));
    for (Size i = 0; i < count; i += LANES) {
        Vector found = load_before(logits, i, count, half, -INFINITY) - top - norm;
        store_before(out, i, count, found, 0);
    }
}

/* Logits and results are contiguous, row by row. */
TARGET void NAMED(log_softmax)(const void *logits, float *out, Size rows, Size vocab, int half) {
    for (Size r = 0; r < rows; r++)
        if (half)
            normalise((const uint16_t *)logits + r * vocab, out + r * vocab, vocab, 1);
        else
            normalise((const float *)logits + r * vocab, out + r * vocab, vocab, 0);
}

/* --- the best of a beam -------------------------------------------------------------------------------------------- */

/* Whether any of SHARED numbers may be above `least`: the sign of a difference says so, and NaN may have any. */
INLINE int any_above(const float *x, float least) {
    Integers signs = {0};
    for (int i = 0; i < SHARED; i += LANES) signs |= (Integers)(least - load(x, i, 0));
    uint64_t parts[LANES / 2], found = 0;
    memcpy(parts, &signs, sizeof parts);
    for (int i = 0; i < LANES / 2; i++) found |= parts[i];
    return (found & 0x8000000080000000) != 0;
}

/* A number that rounding has not put above `x`. */
INLINE float below(double x) { return nextafterf((float)x, -INFINITY); }

/* A total at its place among the best, which are `count`, the highest first; of equal ones the first stays first. */
TARGET static void insert(double total, Size index, double *totals, Size *indices, Size count) {
    Size place = count - 1;
    for (; place > 0 && totals[place - 1] < total; place--)
        totals[place] = totals[place - 1], indices[place] = indices[place - 1];
    totals[place] = total, indices[place] = index;
}

/* Of each sentence the `count` highest sums of log_probs (sentences, beam, vocab) and before (sentences, beam), with
   their indices into (beam, vocab). Where there are fewer that are numbers, -infinity and 0 follow. No number of a block
   of SHARED of a row is above its maximum, if `maxima` (sentences, beam, blocks) is not NULL. */
TARGET void NAMED(best_continuations)(const float *log_probs, const float *maxima, const double *before,
                                      Size sentences, Size beam, Size vocab, Size count, double *totals,
                                      Size *indices) {
    for (Size s = 0; s < sentences; s++, totals += count, indices += count) {
        for (Size i = 0; i < count; i++) totals[i] = -INFINITY, indices[i] = 0;
        for (Size b = 0; b < beam; b++, log_probs += vocab) {
            double so_far = before[s * beam + b];
            float least = below(totals[count - 1] - so_far);
            for (Size i = 0; i < vocab; i += SHARED) {
                Size end = i + SHARED < vocab ? i + SHARED : vocab;
                if (maxima != NULL && !(*maxima++ > least)) continue;
                if (end - i == SHARED && !any_above(log_probs + i, least)) continue;
                for (Size v = i; v < end; v++)
                    if (log_probs[v] + so_far > totals[count - 1])
                        insert(log_probs[v] + so_far, b * vocab + v, totals, indices, count);
                least = below(totals[count - 1] - so_far);
            }
        }
    }
}

/* Whether the two tokens before place `i` of a row are its last two. */
INLINE int follows_the_same(const Size *row, Size i, Size length) {
    return row[i - 2] == row[length - 2] && row[i - 1] == row[length - 1];
}

/* Tokens of rows (rows, length) that may not come next: those that would make a phrase, of any length, stand in a row
   more than `copies` times, or the same three tokens stand anywhere more than `times` times; each row has its own two
   numbers. Returns how many there are, at most twice as many as tokens. */
TARGET Size NAMED(repetitions)(const Size *history, Size rows, Size length, const Size *copies, const Size *times,
                               Size *banned_rows, Size *banned) {
    Size count = 0;
    for (Size r = 0; r < rows; r++) {
        const Size *row = history + r * length;
        for (Size size = 1; size <= length / (copies[r] + 1); size++) {
            if (row[length - 1 - size] != row[length - 1]) continue;
            Size i = length + 1 - copies[r] * size; /* with the token `size` before the next, it would be one too many */
            while (i < length && row[i] == row[i - size]) i++;
            if (i == length) banned_rows[count] = r, banned[count++] = row[length - size];
        }
        /* The different tokens that follow the last two, and how often each does, stand where the next bans belong. */
        Size *tokens = banned + count, *seen = banned_rows + count, different = 0;
        for (Size i = 2; i < length; i++) {
            if (!follows_the_same(row, i, length)) continue;
            Size n = 0;
            while (n < different && tokens[n] != row[i]) n++;
            if (n == different) tokens[different] = row[i], seen[different++] = 0;
            seen[n]++;
        }
        for (Size n = 0; n < different; n++)
            if (seen[n] >= times[r]) banned_rows[count] = r, banned[count++] = tokens[n];
    }
    return count;
}

/* The terms of the softmax of a row. */
typedef struct {
    float shift, chosen, others; /* what was taken from the logits; then that of the target; the sum of the rest */
    float apart;                 /* what R-Drop adds to the loss */
} Terms;

INLINE void exponentiate_all(void *logits, const Size *targets, Terms *terms, Size rows, Size vocab, float far,
                             int half) {
    Size pairs = vocab - vocab % (2 * LANES);
    for (Size r = 0; r < rows; r++) {
        void *row = (char *)logits + r * vocab * (half ? 2 : 4);
        Pair top = {all(-INFINITY), all(-INFINITY)}, total = {all(0.0f), all(0.0f)};
        for (Size i = 0; i < pairs; i += 2 * LANES) {
            Pair x = load_pair(row, i, half);
            top = (Pair){larger(x.even, top.even), larger(x.odd, top.odd)};
        }
        for (Size i = pairs; i < vocab; i += LANES)
            top.even = larger(load_before(row, i, vocab, half, -INFINITY), top.even);
        float highest = largest(larger(top.even, top.odd)), shift = fabsf(highest) > far ? highest : 0.0f;
        terms[r].shift = shift, terms[r].apart = 0.0f;
        terms[r].chosen = number(row, targets[r], half) - shift;
        store_before(row, targets[r], targets[r] + 1, all(-INFINITY), half);
        for (Size i = 0; i < pairs; i += 2 * LANES) {
            Pair x = load_pair(row, i, half), term = {exponential(x.even - shift), exponential(x.odd - shift)};
            total = (Pair){total.even + term.even, total.odd + term.odd};
            store_pair(row, i, term, half);
        }
        for (Size i = pairs; i < vocab; i += LANES) {
            Vector term = exponential(load_before(row, i, vocab, half, -INFINITY) - shift);
            total.even += term;
            store_before(row, i, vocab, term, half);
        }
        terms[r].others = sum(total.even + total.odd);
    }
}

/* Logits of two rows, less the largest: sums of exp p, of exp q, and of each times p - q. */
INLINE void add_terms(Vector p, Vector q, const float *tops, Vector *sums) {
    p -= tops[0], q -= tops[1];
    Vector apart = p - q, exp_p = exponential(p), exp_q = exponential(q);
    sums[0] += exp_p, sums[1] += exp_q, sums[2] += exp_p * apart, sums[3] += exp_q * apart;
}

/* Logits of two rows become their probabilities P and Q, plus alpha / 2 times the gradient of both divergences: that of
   KL(P || Q) with respect to P's logits is P (log P - log Q - KL(P || Q)), that of KL(Q || P) is P - Q. */
INLINE void draw_together(Vector *p, Vector *q, const float *tops, const float *logs, const float *divergences,
                          float alpha) {
    Vector log_p = *p - tops[0] - logs[0], log_q = *q - tops[1] - logs[1], apart = log_p - log_q;
    Vector exp_p = exponential(log_p), exp_q = exponential(log_q);
    *p = exp_p + alpha / 2 * (exp_p * (apart - divergences[0] + 1.0f) - exp_q);
    *q = exp_q + alpha / 2 * (exp_q * (1.0f - apart - divergences[1]) - exp_p);
}

INLINE void predict_twice(void *first, const Size *targets, Terms *terms, Size vocab, float alpha, int half) {
    void *second = (char *)first + vocab * (half ? 2 : 4);
    Size pairs = vocab - vocab % (2 * LANES);
    const float nothing = -1e30f; /* whose difference is a number */
    Vector top_p = all(-INFINITY), top_q = all(-INFINITY), sums[4] = {0};
    for (Size i = 0; i < pairs; i += 2 * LANES) {
        Pair p = load_pair(first, i, half), q = load_pair(second, i, half);
        top_p = larger(larger(p.even, p.odd), top_p), top_q = larger(larger(q.even, q.odd), top_q);
    }
    for (Size i = pairs; i < vocab; i += LANES) {
        top_p = larger(load_before(first, i, vocab, half, nothing), top_p);
        top_q = larger(load_before(second, i, vocab, half, nothing), top_q);
    }
    float tops[2] = {largest(top_p), largest(top_q)};
    for (Size i = 0; i < pairs; i += 2 * LANES) {
        Pair p = load_pair(first, i, half), q = load_pair(second, i, half);
        add_terms(p.even, q.even, tops, sums), add_terms(p.odd, q.odd, tops, sums);
    }
    for (Size i = pairs; i < vocab; i += LANES)
        add_terms(load_before(first, i, vocab, half, nothing), load_before(second, i, vocab, half, nothing), tops, sums);
    float logs[2] = {logf(sum(sums[0])), logf(sum(sums[1]))}, between = logs[0] - logs[1], at_targets[2];
    float divergences[2] = {sum(sums[2]) / sum(sums[0]) - between, between - sum(sums[3]) / sum(sums[1])};
    for (int k = 0; k < 2; k++) {
        Vector p = all(number(first, targets[k], half)), q = all(number(second, targets[k], half));
        Vector chosen = (k ? q : p) - tops[k] - logs[k], own = exponential(chosen);
        terms[k] = (Terms){tops[k] + logs[k], chosen[0], 1.0f - own[0], alpha / 2 * divergences[k]};
        draw_together(&p, &q, tops, logs, divergences, alpha);
        at_targets[k] = (k ? q : p)[0] - own[0];
    }
    for (Size i = 0; i < pairs; i += 2 * LANES) {
        Pair p = load_pair(first, i, half), q = load_pair(second, i, half);
        draw_together(&p.even, &q.even, tops, logs, divergences, alpha);
        draw_together(&p.odd, &q.odd, tops, logs, divergences, alpha);
        store_pair(first, i, p, half), store_pair(second, i, q, half);
    }
    for (Size i = pairs; i < vocab; i += LANES) {
        Vector p = load_before(first, i, vocab, half, nothing), q = load_before(second, i, vocab, half, nothing);
        draw_together(&p, &q, tops, logs, divergences, alpha);
        store_before(first, i, vocab, p, half), store_before(second, i, vocab, q, half);
    }
    store_before(first, targets[0], targets[0] + 1, all(at_targets[0]), half);
    store_before(second, targets[1], targets[1] + 1, all(at_targets[1]), half);
}

INLINE void predict_all_twice(void *logits, const Size *targets, Terms *terms, Size rows, Size vocab, float alpha,
                              int half) {
    for (Size r = 0; r < rows; r += 2)
        predict_twice((char *)logits + r * vocab * (half ? 2 : 4), targets + r, terms + r, vocab, alpha, half);
}

/* Rows of logits become exp(logits - shift), and 0 at the target. A row is shifted by its largest number where that is
   farther from 0 than `far`. With `alpha`, that of R-Drop, rows come in twos, and the shift is the log of their sums of
   exponentials: they become probabilities, 0 at the target, plus what R-Drop adds to the gradient of each logit. */
TARGET void NAMED(exponentiate)(void *logits, const Size *targets, Terms *terms, Size rows, Size vocab, float far,
                                float alpha, int half) {
    if (alpha && half)
        predict_all_twice(logits, targets, terms, rows, vocab, alpha, 1);
    else if (alpha)
        predict_all_twice(logits, targets, terms, rows, vocab, alpha, 0);
    else if (half)
        exponentiate_all(logits, targets, terms, rows, vocab, far, 1);
    else
        exponentiate_all(logits, targets, terms, rows, vocab, far, 0);
}
