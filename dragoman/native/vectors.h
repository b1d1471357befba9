/* Vectors of LANES numbers, for the kernels. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Instructions that the functions of a file may use beyond those that every processor has. A file that wants some says
   so before it includes this: vectors may be passed only between functions that agree. */
#ifndef TARGET
#define TARGET
#endif
#define INLINE static inline __attribute__((always_inline)) TARGET

typedef int64_t Size;

/* Log-probabilities of a row that share a maximum. */
#define SHARED 64

/* Space for `count` pieces that begin where vectors do. */
INLINE void *space(Size count, Size size) { return aligned_alloc(64, (count * size + 63) / 64 * 64); }

/* --- numbers, LANES at a time ------------------------------------------------------------------------------------- */

#ifndef LANES
#define LANES 16
#endif
typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));
typedef float Four __attribute__((vector_size(16)));

/* Of 16 lanes. */
#define COUNT {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

INLINE Vector all(float x) { return (Vector){0} + x; }

/* `a` where a comparison held, elsewhere `b`. */
INLINE Vector choose(Integers held, Vector a, Vector b) {
    return (Vector)((held & (Integers)a) | (~held & (Integers)b));
}

INLINE Vector larger(Vector a, Vector b) { return choose(a > b, a, b); }

INLINE float largest(Vector x) {
    float top = x[0];
    for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
    return top;
}

INLINE float number(const void *from, Size index, int half) {
    if (!half) return ((const float *)from)[index];
    uint32_t bits = (uint32_t)((const uint16_t *)from)[index] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE Vector load(const void *from, Size start, int half) {
    if (half) {
        Halves halves;
        memcpy(&halves, (const uint16_t *)from + start, sizeof halves);
        return (Vector)(__builtin_convertvector(halves, Bits) << 16);
    }
    Vector x;
    memcpy(&x, (const float *)from + start, sizeof x);
    return x;
}

/* The nearest number in half precision is in the upper 16 bits, ties to even; NaN stays NaN. */
INLINE Bits rounded(Vector x) {
    Bits bits = (Bits)x;
    return (bits + 0x7fff + ((bits >> 16) & 1)) | (Bits)(x != x);
}

INLINE void store(void *to, Size start, Vector x, int half) {
    if (half) {
        Halves halves = __builtin_convertvector(rounded(x) >> 16, Halves);
        memcpy((uint16_t *)to + start, &halves, sizeof halves);
    } else {
        memcpy((float *)to + start, &x, sizeof x);
    }
}

/* For what is rare: written out at each place, such loops were a tenth of the library. */
#define APART static __attribute__((noinline, unused)) TARGET

/* The few numbers of a last vector. */
APART void load_rest(float *rest, const void *from, Size start, Size end, int half) {
    for (Size i = start; i < end; i++) rest[i - start] = number(from, i, half);
}

APART void store_rest(void *to, Size start, Size end, const void *rest, int half) {
    Size bytes = half ? 2 : 4;
    memcpy((char *)to + start * bytes, rest, (end - start) * bytes);
}

/* Numbers up to `end`, and `otherwise` behind it. */
INLINE Vector load_before(const void *from, Size start, Size end, int half, float otherwise) {
    if (start + LANES <= end) return load(from, start, half);
    Vector x = all(otherwise);
    load_rest((float *)&x, from, start, end, half);
    return x;
}

INLINE void store_before(void *to, Size start, Size end, Vector x, int half) {
    if (start + LANES <= end) {
        store(to, start, x, half);
        return;
    }
    Vector rest;
    store(&rest, 0, x, half);
    store_rest(to, start, end, &rest, half);
}

/* Twice as many, where their order does not matter. In half precision they are split into even and odd indices, the
   lower and the upper halves of 32 bits, so that nothing has to be moved. */
typedef struct {
    Vector even, odd;
} Pair;

INLINE Pair load_pair(const void *from, Size start, int half) {
    if (!half) return (Pair){load(from, start, 0), load(from, start + LANES, 0)};
    Bits both;
    memcpy(&both, (const uint16_t *)from + start, sizeof both);
    return (Pair){(Vector)(both << 16), (Vector)(both & 0xffff0000)};
}

INLINE void store_pair(void *to, Size start, Pair x, int half) {
    if (half) {
        Bits both = rounded(x.even) >> 16 | (rounded(x.odd) & 0xffff0000);
        memcpy((uint16_t *)to + start, &both, sizeof both);
    } else {
        store(to, start, x.even, 0), store(to, start + LANES, x.odd, 0);
    }
}

/* exp x to 2 units in the last place, for x up to 88, and 0 below -87: 2^n times a polynomial over
   [-ln 2 / 2, ln 2 / 2] (the one of Cephes). */
INLINE Vector exponential(Vector x) {
    Integers tiny = x < -87.0f;
    x = choose(tiny, all(0.0f), x);
    Vector shifted = x * 1.44269504f + 12582912.0f; /* 1.5 times 2^23 leaves n in the last bits */
    Vector n = shifted - 12582912.0f;
    Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    Vector power = (Vector)(((Integers)shifted + 127) << 23);
    return choose(tiny, all(0.0f), p * power);
}

/* 2^f to 8e-8 for f in [-1/2, 1/2]. */
INLINE Vector power_of_two(Vector f) {
    Vector p = f * 0.001327647164f + 0.009675541332f;
    p = p * f + 0.05550713275f;
    p = p * f + 0.2402211972f;
    p = p * f + 0.6931469671f;
    return p * f + 1.000000072f;
}

typedef uint64_t Pairs __attribute__((vector_size(4 * LANES)));

/* Each number changes places with the other one of its pair. */
INLINE Vector swapped(Vector x) { return (Vector)((Pairs)x >> 32 | (Pairs)x << 32); }

/* --- dropout ------------------------------------------------------------------------------------------------------ */

/* What is kept follows from the key and the index of an element alone, so the backward pass finds the same. */
typedef struct {
    uint32_t key[2];
    uint32_t dropped; /* of 2^32 */
    float scale;      /* of what is kept */
} Dropout;

/* 32 bits for each index: lowbias32 of C. Wellons' hash-prospector, with half of the key between its two rounds. */
INLINE Bits draw(Bits index, Dropout dropout) {
    Bits x = index ^ dropout.key[0];
    x ^= x >> 16;
    x = (x * 0x7feb352dU) ^ dropout.key[1];
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}
