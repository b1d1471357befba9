/* Training in bfloat16, on processors that multiply it (AVX-512 BF16): attention in one pass each way, and the products
   of the projection to the vocabulary with what its loss makes of them (bfloat16.py).

   The instruction multiplies pairs of numbers by pairs and adds both products to a sum in float32. In a product of two
   matrices the pairs lie along the dimension that is summed over: `left` holds them row by row, and `right` is packed so
   that the pairs of one row are adjacent. What fills up the last pair, vector or group is 0. */

#if defined(__x86_64__) && !defined(NO_AVX512_BF16)
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))
#include "avx512.h"

/* Rows of `left` whose sums are kept in registers, in two vectors each. */
#define GROUP 8
/* Unrolled, or sums would be kept in memory. */
#define FOR_GROUP(r) _Pragma("GCC unroll 8") for (int r = 0; r < GROUP; r++)

typedef uint16_t Half;
typedef uint32_t Both; /* a pair: the first number in the lower half */

typedef struct {
    const Both *at;
    Size row, pair; /* steps */
} Left;

/* exp x to 2 units in the last place for x up to 88, and 0 below -104: as `exponential`, in half the time. NaN stays
   NaN. */
INLINE Vector power_of_e(Vector x) {
    x = most(all(-150.0f), x);
    Vector n = nearest(x * 1.44269504f);
    return times_power_of_two(power_of_two(x * 1.44269504f - n), n);
}

TARGET static Size up(Size count, Size to) { return (count + to - 1) / to * to; }

/* Not left to the compiler, which would copy the sums. */
#define ADD_PRODUCT(sum, left, right) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right))

/* One or two vectors of a product for each row of a group, or what is added to them. */
INLINE void columns_of(Left left, const Both *right, Size columns, Size pairs, float *to, Size row, const int two,
                       const int add) {
    __m512 first[GROUP], second[GROUP];
    FOR_GROUP(r) {
        first[r] = add ? _mm512_loadu_ps(to + r * row) : _mm512_setzero_ps();
        second[r] = add && two ? _mm512_loadu_ps(to + r * row + LANES) : _mm512_setzero_ps();
    }
    for (Size p = 0; p < pairs; p++) {
        __m512i a = _mm512_loadu_si512(right + p * columns), b = a;
        if (two) b = _mm512_loadu_si512(right + p * columns + LANES);
        FOR_GROUP(r) {
            __m512i same = _mm512_set1_epi32(left.at[r * left.row + p * left.pair]);
            ADD_PRODUCT(first[r], same, a);
            if (two) ADD_PRODUCT(second[r], same, b);
        }
    }
    FOR_GROUP(r) {
        _mm512_storeu_ps(to + r * row, first[r]);
        if (two) _mm512_storeu_ps(to + r * row + LANES, second[r]);
    }
}

/* to (GROUP, columns) = left (GROUP, pairs) right (pairs, columns), for columns in multiples of LANES. */
TARGET static void product(Left left, const Both *right, Size columns, Size pairs, float *to) {
    Size c = 0;
    for (; c + LANES < columns; c += 2 * LANES) columns_of(left, right + c, columns, pairs, to + c, columns, 1, 0);
    if (c < columns) columns_of(left, right + c, columns, pairs, to + c, columns, 0, 0);
}

INLINE void store_half(Half *to, Vector x) {
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
}

/* Row `r` of pairs of rows: the first row of a pair comes first, and leaves 0 for the second. */
INLINE void store_beside(Both *pairs, Size columns, Size r, Size c, Vector x) {
    Both *to = pairs + r / 2 * columns + c;
    __m512i halves = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x));
    if (r % 2) halves = _mm512_or_si512(_mm512_slli_epi32(halves, 16), _mm512_loadu_si512(to));
    _mm512_storeu_si512(to, halves);
}

/* --- attention ---------------------------------------------------------------------------------------------------- */

/* A tensor (rows, heads, positions, width) by its steps; the last dimension is one piece. */
typedef struct {
    Half *at;
    Size row, head, position;
} Heads;

typedef struct {
    Size rows, heads, queries, keys, width;
    Heads query, key, value, out;
    Heads query_gradient, key_gradient, value_gradient; /* of `out` comes the gradient in the backward pass */
    const uint8_t *mask;                                /* or NULL */
    Size mask_row, mask_head, mask_query, mask_key;
    Half *weights; /* (rows, heads, queries, keys up to a multiple of LANES), negative where dropout took them */
    const Dropout *dropout; /* or NULL */
} Attention;

/* The copies of one head, and what lies between its products. */
typedef struct {
    Size queries, keys; /* filled up */
    Both *queries_row, *gradient_row;         /* (queries, width / 2) */
    Both *keys_across, *values_across;        /* (width / 2, keys) */
    Both *keys_beside, *values_beside;        /* (keys / 2, width) */
    Both *queries_beside, *gradient_beside;   /* (queries / 2, width) */
    Both *weights_beside, *scores_beside;     /* (queries / 2, keys) */
    Half *weights;                            /* (GROUP, keys) */
    float *sums;                              /* (GROUP, keys or width) */
    void *memory;
} Head;

/* Returns 0, or 1 if there is no memory. */
TARGET static int reserve(Head *h, const Attention *a) {
    h->queries = up(a->queries, GROUP), h->keys = up(a->keys, LANES);
    Size of_queries = h->queries * a->width / 2, of_keys = h->keys * a->width / 2, square = h->queries * h->keys / 2;
    Size group = GROUP * (h->keys > a->width ? h->keys : a->width);
    Both *next = h->memory = space(4 * of_queries + 4 * of_keys + 2 * square + GROUP * h->keys / 2 + group, sizeof(Both));
    if (next == NULL) return 1;
    memset(next, 0, (4 * of_queries + 4 * of_keys + 2 * square + GROUP * h->keys / 2) * sizeof(Both));
    Both **of[] = {&h->queries_row, &h->gradient_row, &h->queries_beside, &h->gradient_beside};
    for (int i = 0; i < 4; i++, next += of_queries) *of[i] = next;
    Both **other[] = {&h->keys_across, &h->values_across, &h->keys_beside, &h->values_beside};
    for (int i = 0; i < 4; i++, next += of_keys) *other[i] = next;
    h->weights_beside = next, h->scores_beside = next + square;
    h->weights = (Half *)(next + 2 * square);
    h->sums = (float *)(next + 2 * square + GROUP * h->keys / 2);
    return 0;
}

TARGET static Half *head_of(Heads x, Size row, Size head) { return x.at + row * x.row + head * x.head; }

/* What the next row of a tensor will need, on its way from memory while this one is computed. */
INLINE void fetch(Heads x, const Attention *a, Size row, Size head, Size positions, const int writes) {
    if (row + 1 == a->rows) return;
    const Half *from = head_of(x, row + 1, head);
    for (Size i = 0; i < positions; i++)
        for (Size w = 0; w < a->width; w += 2 * LANES)
            if (writes)
                __builtin_prefetch(from + i * x.position + w, 1); /* a constant for every compiler */
            else
                __builtin_prefetch(from + i * x.position + w, 0);
}

/* Rows one after the other. */
TARGET static void copy_rows(Both *to, const Half *from, Size step, Size count, Size width) {
    for (Size i = 0; i < count; i++)
        for (Size w = 0; w < width; w += 2 * LANES)
            _mm512_storeu_si512((Half *)to + i * width + w, _mm512_loadu_si512(from + i * step + w));
}

/* The pairs of each row below each other: (width / 2, columns). */
TARGET static void copy_across(Both *to, const Half *from, Size step, Size count, Size width, Size columns) {
    for (Size i = 0; i < count; i++) {
        const Half *row = from + i * step;
        for (Size p = 0; p < width / 2; p++) memcpy(to + p * columns + i, row + 2 * p, sizeof(Both));
    }
}

/* Two rows each, number by number beside each other: (count / 2, width). */
TARGET static void copy_beside(Both *to, const Half *from, Size step, Size count, Size width) {
    for (Size i = 0; i < count; i += 2)
        for (Size w = 0; w < width; w += LANES) {
            const Half *row = from + i * step + w;
            __m512i pair = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)row));
            if (i + 1 < count) {
                __m512i next = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(row + step)));
                pair = _mm512_or_si512(pair, _mm512_slli_epi32(next, 16));
            }
            _mm512_storeu_si512(to + i / 2 * width + w, pair);
        }
}

/* The first `count` of a group's sums as rows of a tensor. */
TARGET static void store_rows(const float *sums, Half *to, Size step, Size count, Size width) {
    for (Size r = 0; r < count && r < GROUP; r++)
        for (Size w = 0; w < width; w += LANES) store_half(to + r * step + w, load(sums, r * width + w, 0));
}

/* Which of 16 keys a query sees. */
INLINE __mmask16 seen_of(const uint8_t *mask, Size step, Size count) {
    __mmask16 there = count < LANES ? (1 << count) - 1 : 0xffff, seen = 0;
    if (mask == NULL) return there;
    if (step == 1) {
        __m128i bytes = _mm_maskz_loadu_epi8(there, mask);
        return _mm_test_epi8_mask(bytes, bytes);
    }
    for (Size k = 0; k < count && k < LANES; k++) seen |= (mask[k * step] != 0) << k;
    return seen;
}

INLINE const uint8_t *mask_of(const Attention *a, Size row, Size head, Size query) {
    return a->mask ? a->mask + row * a->mask_row + head * a->mask_head + query * a->mask_query : NULL;
}

/* A row of scores to weights; `weights` are kept for the backward pass, and `left` is what dropout leaves of them. */
TARGET static void soften(Vector *scores, const Attention *a, const uint8_t *mask, Size index, Half *weights,
                          Half *left) {
    Size blocks = (a->keys + LANES - 1) / LANES;
    float scale = 1.0f / sqrtf((float)a->width);
    Vector top = all(-FLT_MAX), total = all(0.0f);
    for (Size b = 0; b < blocks; b++) {
        Size count = a->keys - b * LANES;
        /* The smallest number, as in the formula; what only fills up the last vector counts as nothing. */
        Vector x = (Vector)_mm512_mask_mov_ps(_mm512_set1_ps(-FLT_MAX),
                                              seen_of(mask ? mask + b * LANES * a->mask_key : NULL, a->mask_key, count),
                                              (__m512)(scores[b] * scale));
        scores[b] = (Vector)_mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), seen_of(NULL, 0, count), (__m512)x);
        top = most(scores[b], top);
    }
    top = all(top_of(top));
    for (Size b = 0; b < blocks; b++) total += scores[b] = power_of_e(scores[b] - top);
    float norm = 1.0f / sum_of(total);
    for (Size b = 0; b < blocks; b++) {
        Vector x = scores[b] * norm;
        if (a->dropout != NULL) {
            Bits lanes = COUNT;
            __mmask16 gone = _mm512_cmplt_epu32_mask((__m512i)draw(lanes + (uint32_t)(index + b * LANES), *a->dropout),
                                                     _mm512_set1_epi32(a->dropout->dropped));
            store_half(weights + b * LANES, (Vector)_mm512_mask_sub_ps((__m512)x, gone, _mm512_set1_ps(-0.0f), (__m512)x));
            store_half(left + b * LANES, (Vector)_mm512_mask_mov_ps((__m512)(x * a->dropout->scale), gone,
                                                                    _mm512_setzero_ps()));
        } else {
            store_half(weights + b * LANES, x), store_half(left + b * LANES, x);
        }
    }
}

/* The gradient with respect to a row of scores, from that with respect to what dropout left of its weights. */
TARGET static void soften_back(Vector *pull, const Attention *a, const uint8_t *mask, const Half *weights, Head *h,
                               Size r, Half *out) {
    Size blocks = h->keys / LANES;
    float scale = 1.0f / sqrtf((float)a->width), kept = a->dropout ? a->dropout->scale : 1.0f;
    Vector total = all(0.0f);
    for (Size b = 0; b < blocks; b++) {
        Vector weight = load(weights, b * LANES, 1);
        __mmask16 left = ~_mm512_movepi32_mask((__m512i)weight);
        Vector scaled = (Vector)_mm512_maskz_mov_ps(left, (__m512)(weight * kept));
        store_beside(h->weights_beside, h->keys, r, b * LANES, scaled);
        pull[b] = (Vector)_mm512_maskz_mov_ps(left, (__m512)(pull[b] * kept));
        total += (Vector)_mm512_abs_ps((__m512)weight) * pull[b];
    }
    float mean = sum_of(total);
    for (Size b = 0; b < blocks; b++) {
        Vector x = (Vector)_mm512_abs_ps((__m512)load(weights, b * LANES, 1)) * ((pull[b] - mean) * scale);
        /* Hidden keys have weights other than 0 only in a row that sees nothing, which is uniform. */
        __mmask16 seen = seen_of(mask ? mask + b * LANES * a->mask_key : NULL, a->mask_key, a->keys - b * LANES);
        x = (Vector)_mm512_maskz_mov_ps(seen, (__m512)x);
        store_half(out + b * LANES, x);
        store_beside(h->scores_beside, h->keys, r, b * LANES, x);
    }
}

TARGET static void attend(const Attention *a, Head *h, Size row, Size head) {
    Size width = a->width, pairs = h->keys / 2, first = (row * a->heads + head) * a->queries;
    fetch(a->query, a, row, head, a->queries, 0), fetch(a->key, a, row, head, a->keys, 0);
    fetch(a->value, a, row, head, a->keys, 0), fetch(a->out, a, row, head, a->queries, 1);
    copy_rows(h->queries_row, head_of(a->query, row, head), a->query.position, a->queries, width);
    copy_across(h->keys_across, head_of(a->key, row, head), a->key.position, a->keys, width, h->keys);
    copy_beside(h->values_beside, head_of(a->value, row, head), a->value.position, a->keys, width);
    for (Size q = 0; q < a->queries; q += GROUP) {
        product((Left){h->queries_row + q * width / 2, width / 2, 1}, h->keys_across, h->keys, width / 2, h->sums);
        for (Size r = 0; r < GROUP && q + r < a->queries; r++) {
            Size index = (first + q + r) * h->keys;
            soften((Vector *)(h->sums + r * h->keys), a, mask_of(a, row, head, q + r), index, a->weights + index,
                   h->weights + r * h->keys);
        }
        product((Left){(Both *)h->weights, pairs, 1}, h->values_beside, width, pairs, h->sums);
        store_rows(h->sums, head_of(a->out, row, head) + q * a->out.position, a->out.position, a->queries - q, width);
    }
}

/* Gradients of rows of keys or values, from pairs of rows of queries. */
TARGET static void sum_queries(const Attention *a, Head *h, const Both *left, const Both *right, Half *to, Size step) {
    for (Size k = 0; k < a->keys; k += GROUP) {
        product((Left){left + k, 1, h->keys}, right, a->width, (a->queries + 1) / 2, h->sums);
        store_rows(h->sums, to + k * step, step, a->keys - k, a->width);
    }
}

TARGET static void attend_back(const Attention *a, Head *h, Size row, Size head) {
    Size width = a->width, first = (row * a->heads + head) * a->queries;
    const Half *query = head_of(a->query, row, head), *gradient = head_of(a->out, row, head);
    fetch(a->query, a, row, head, a->queries, 0), fetch(a->out, a, row, head, a->queries, 0);
    fetch(a->key, a, row, head, a->keys, 0), fetch(a->value, a, row, head, a->keys, 0);
    fetch(a->query_gradient, a, row, head, a->queries, 1), fetch(a->key_gradient, a, row, head, a->keys, 1);
    fetch(a->value_gradient, a, row, head, a->keys, 1);
    copy_rows(h->gradient_row, gradient, a->out.position, a->queries, width);
    copy_beside(h->gradient_beside, gradient, a->out.position, a->queries, width);
    copy_beside(h->queries_beside, query, a->query.position, a->queries, width);
    copy_beside(h->keys_beside, head_of(a->key, row, head), a->key.position, a->keys, width);
    copy_across(h->values_across, head_of(a->value, row, head), a->value.position, a->keys, width, h->keys);
    for (Size q = 0; q < a->queries; q += GROUP) {
        product((Left){h->gradient_row + q * width / 2, width / 2, 1}, h->values_across, h->keys, width / 2, h->sums);
        for (Size r = 0; r < GROUP && q + r < a->queries; r++)
            soften_back((Vector *)(h->sums + r * h->keys), a, mask_of(a, row, head, q + r),
                        a->weights + (first + q + r) * h->keys, h, q + r, h->weights + r * h->keys);
        product((Left){(Both *)h->weights, h->keys / 2, 1}, h->keys_beside, width, h->keys / 2, h->sums);
        Heads to = a->query_gradient;
        store_rows(h->sums, head_of(to, row, head) + q * to.position, to.position, a->queries - q, width);
    }
    sum_queries(a, h, h->scores_beside, h->queries_beside, head_of(a->key_gradient, row, head), a->key_gradient.position);
    sum_queries(a, h, h->weights_beside, h->gradient_beside, head_of(a->value_gradient, row, head),
                a->value_gradient.position);
}

/* softmax(Q K^T / sqrt(width)) V with dropout, or its gradients. Returns 0, or 1 if there is no memory. */
TARGET int train_attention(const Attention *a, int back) {
    Head h;
    if (reserve(&h, a)) return 1;
    for (Size row = 0; row < a->rows; row++)
        for (Size head = 0; head < a->heads; head++)
            if (back)
                attend_back(a, &h, row, head);
            else
                attend(a, &h, row, head);
    free(h.memory);
    return 0;
}

/* --- projection and loss ------------------------------------------------------------------------------------------ */

/* Words that are multiplied at once, in blocks of two vectors; a row of their pairs takes more room than it needs, since
   steps of a power of two would meet in the same places of the cache. */
#define BLOCK (2 * LANES)
#define WORDS 128
#define ROOM (WORDS + LANES)

typedef struct {
    Size vocab, width;  /* width: a multiple of BLOCK */
    const Half *weight; /* (vocab, width) */
    Both *across;       /* (vocab / BLOCK, width / 2, BLOCK) */
    Both *beside;       /* (vocab / WORDS, width / BLOCK, WORDS / 2, BLOCK) */
    Both *spread;       /* (vocab / WORDS, most rows / 2, ROOM): what became of the logits of a slice */
    Size most_rows;     /* of a slice: a multiple of GROUP */
} Projection;

/* The weights, rounded to bfloat16, in both orders; filled up with zeros. */
TARGET void pack_projection(const Projection *p) {
    Size pairs = p->width / 2, all_words = up(p->vocab, WORDS);
    memset(p->across, 0, all_words * pairs * sizeof(Both));
    memset(p->beside, 0, all_words * pairs * sizeof(Both));
    for (Size w = 0; w < p->vocab; w += BLOCK)
        copy_across(p->across + w * pairs, p->weight + w * p->width, p->width, p->vocab - w < BLOCK ? p->vocab - w : BLOCK,
                    p->width, BLOCK);
    for (Size w = 0; w < p->vocab; w += WORDS)
        for (Size c = 0; c < p->width; c += BLOCK)
            copy_beside(p->beside + w * pairs + c * WORDS / 2, p->weight + w * p->width + c, p->width,
                        p->vocab - w < WORDS ? p->vocab - w : WORDS, BLOCK);
}

/* Rows of states, and of each what its logits become: exponentials, 0 at the target, and their sums. */
typedef struct {
    const Half *states; /* (rows, width) */
    const Size *targets;
    Size rows;
    float *mixed; /* (rows up to a multiple of GROUP, width): exponentials times weights */
    float *terms; /* (rows, 2): the logit of the target; the sum of all exponentials but its own */
    float far;    /* logits up to which exponentials need no shift */
} Slice;

/* exp of logits of words from `word` on, but 0 at the target and behind the vocabulary. */
INLINE Vector raised_of(const float *logits, const Projection *p, Size target, Size word, Vector *sum, Vector *top) {
    Integers lanes = COUNT;
    __mmask16 gone = _mm512_cmpeq_epi32_mask((__m512i)lanes, _mm512_set1_epi32(target - word));
    if (word + LANES > p->vocab) gone |= _mm512_cmpge_epi32_mask((__m512i)lanes, _mm512_set1_epi32(p->vocab - word));
    Vector x = (Vector)_mm512_mask_mov_ps((__m512)load(logits, 0, 0), gone, _mm512_set1_ps(-INFINITY));
    *top = most(x, *top);
    x = power_of_e(x);
    *sum += x;
    return x;
}

/* Exponentials of a block of logits of a group of rows from `first` and words from `word` on. A row behind the last one
   has some that nobody reads; in the second half of a last pair they meet states of 0. */
INLINE void raise(const float *logits, const Projection *p, const Slice *s, Size first, Size word, Half *raised,
                  Vector *sums, Vector *top) {
    Half *to = raised + first * WORDS + word % WORDS;
    Both *pairs = p->spread + (word / WORDS * p->most_rows + first) / 2 * ROOM + word % WORDS;
    for (Size r = 0; r < GROUP && first + r < s->rows; r += 2) {
        Size target = s->targets[first + r], next = first + r + 1 < s->rows ? s->targets[first + r + 1] : target;
        for (Size c = 0; c < BLOCK; c += LANES) {
            Vector one = raised_of(logits + r * BLOCK + c, p, target, word + c, sums + first + r, top);
            Vector two = raised_of(logits + (r + 1) * BLOCK + c, p, next, word + c, sums + first + r + 1, top);
            __m256i low = (__m256i)_mm512_cvtneps_pbh((__m512)one), high = (__m256i)_mm512_cvtneps_pbh((__m512)two);
            _mm256_storeu_si256((__m256i *)(to + r * WORDS + c), low);
            _mm256_storeu_si256((__m256i *)(to + (r + 1) * WORDS + c), high);
            __m512i both = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
            _mm512_storeu_si512(pairs + r / 2 * ROOM + c, both);
        }
    }
}

/* The products of a slice with `WORDS` words: to logits, to exponentials, and back. */
TARGET static void pass_words(const Projection *p, const Slice *s, const Both *states, Size word, Half *raised,
                              Vector *sums, Vector *top) {
    Size pairs = p->width / 2;
    Vector logits[GROUP * BLOCK / LANES];
    for (Size w = word; w < word + WORDS; w += BLOCK)
        for (Size r = 0; r < s->rows; r += GROUP) {
            columns_of((Left){states + r * pairs, pairs, 1}, p->across + w * pairs, BLOCK, pairs, (float *)logits, BLOCK, 1,
                       0);
            raise((float *)logits, p, s, r, w, raised, sums, top);
        }
    for (Size c = 0; c < p->width; c += BLOCK)
        for (Size r = 0; r < s->rows; r += GROUP)
            columns_of((Left){(Both *)(raised + r * WORDS), WORDS / 2, 1}, p->beside + word * pairs + c * WORDS / 2, BLOCK,
                       WORDS / 2, s->mixed + r * p->width + c, p->width, 1, 1);
}

TARGET static float dot(const Half *a, const Half *b, Size width) {
    __m512 total = _mm512_setzero_ps();
    for (Size i = 0; i < width; i += 2 * LANES)
        ADD_PRODUCT(total, _mm512_loadu_si512(a + i), _mm512_loadu_si512(b + i));
    return sum_of((Vector)total);
}

/* Returns 0; 1 if there is no memory; 2 if logits are so far from 0 that they need a shift. */
TARGET int raise_slice(const Projection *p, const Slice *s) {
    Size rows = up(s->rows, GROUP), words = p->vocab;
    Size of_states = rows * p->width / 2, of_raised = rows * WORDS / 2;
    Both *states = space(of_states + of_raised + rows * LANES, sizeof(Both));
    if (states == NULL) return 1;
    memset(states, 0, (of_states + of_raised + rows * LANES) * sizeof(Both));
    memset(s->mixed, 0, rows * p->width * sizeof(float));
    Half *raised = (Half *)(states + of_states);
    Vector *sums = (Vector *)(states + of_states + of_raised), top = all(-INFINITY);
    copy_rows(states, s->states, p->width, s->rows, p->width);
    for (Size word = 0; word < words; word += WORDS) pass_words(p, s, states, word, raised, sums, &top);
    int far = top_of(top) > s->far;
    for (Size r = 0; r < s->rows; r++) {
        float chosen = dot(s->states + r * p->width, p->weight + s->targets[r] * p->width, p->width);
        s->terms[2 * r] = chosen, s->terms[2 * r + 1] = sum_of(sums[r]);
        far |= chosen > s->far || s->terms[2 * r + 1] + expf(chosen) < expf(-s->far);
    }
    free(states);
    return far ? 2 : 0;
}

/* Adds to gradient (vocab up to a multiple of WORDS, width) the exponentials of the last slice, transposed, times
   `states` (rows, width). Returns 0, or 1 if there is no memory. */
TARGET int add_outer(const Projection *p, const Half *states, Size rows, float *gradient) {
    Size pairs = (rows + 1) / 2;
    Both *beside = space(pairs * p->width, sizeof(Both));
    if (beside == NULL) return 1;
    for (Size c = 0; c < p->width; c += BLOCK) copy_beside(beside + c * pairs, states + c, p->width, rows, BLOCK);
    for (Size word = 0; word < p->vocab; word += WORDS)
        for (Size c = 0; c < p->width; c += BLOCK)
            for (Size w = 0; w < WORDS; w += GROUP)
                columns_of((Left){p->spread + word / WORDS * (p->most_rows / 2) * ROOM + w, 1, ROOM}, beside + c * pairs,
                           BLOCK, pairs, gradient + (word + w) * p->width + c, p->width, 1, 1);
    free(beside);
    return 0;
}

int multiplies_bfloat16(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
int multiplies_bfloat16(void) { return 0; }
#endif
