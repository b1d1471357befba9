/* Vectors of 128 bits in the words of GCC and clang, which every processor has instructions for, or a compiler several.
   What the files for AArch64 and for all other processors share. */

#ifdef __aarch64__
#include <arm_neon.h>
#endif

#define LANES 4
#include "vectors.h"

INLINE Vector most(Vector a, Vector b) { return larger(a, b); }

/* 1.5 times 2^23 leaves the nearest whole number in the last bits of a sum. */
#define LAST_BITS 12582912.0f

INLINE Vector nearest(Vector x) { return (x + LAST_BITS) - LAST_BITS; }

INLINE Integers whole(Vector x) { return (Integers)(x + LAST_BITS) - (Integers)all(LAST_BITS); }

INLINE Vector times_power_of_two(Vector x, Vector n) { return x * (Vector)((whole(n) + 127) << 23); }

INLINE void store_bytes(uint8_t *to, Integers x) {
    for (int i = 0; i < LANES; i++) to[i] = (uint8_t)x[i];
}

/* The sums of four vectors. */
INLINE Four four_sums(Vector a, Vector b, Vector c, Vector d) {
#ifdef __aarch64__
    return (Four)vpaddq_f32(vpaddq_f32((float32x4_t)a, (float32x4_t)b), vpaddq_f32((float32x4_t)c, (float32x4_t)d));
#else
    return (Four){(a[0] + a[1]) + (a[2] + a[3]), (b[0] + b[1]) + (b[2] + b[3]), (c[0] + c[1]) + (c[2] + c[3]),
                  (d[0] + d[1]) + (d[2] + d[3])};
#endif
}

/* The largest of the keys in a vector, and their sum, for each of four heads: a vector has one key. */
INLINE Vector top_of_keys(Vector x) { return x; }

INLINE Vector sum_of_keys(Vector x) { return x; }

INLINE float top_of(Vector x) { return largest(x); }

INLINE float sum_of(Vector x) { return (x[0] + x[1]) + (x[2] + x[3]); }
