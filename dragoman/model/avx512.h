/* What the files for one kind of processor share: AVX-512. */

#include "vectors.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

AVX512 INLINE float top_of(Vector x) { return _mm512_reduce_max_ps((__m512)x); }

AVX512 INLINE Vector most(Vector a, Vector b) { return (Vector)_mm512_max_ps((__m512)a, (__m512)b); }

/* exp x to 2 units in the last place for x up to 88, and 0 below -104: as `exponential`, in half the time. The
   polynomial is 2^f over [-1/2, 1/2] to 8e-8. NaN stays NaN. */
AVX512 INLINE Vector power_of_e(Vector x) {
    x = most(all(-150.0f), x);
    Vector n = (Vector)_mm512_roundscale_ps((__m512)(x * 1.44269504f), 0), f = x * 1.44269504f - n;
    Vector p = f * 0.001327647164f + 0.009675541332f;
    p = p * f + 0.05550713275f;
    p = p * f + 0.2402211972f;
    p = p * f + 0.6931469671f;
    p = p * f + 1.000000072f;
    return (Vector)_mm512_scalef_ps((__m512)p, (__m512)n);
}

AVX512 INLINE float sum_of(Vector x) { return _mm512_reduce_add_ps((__m512)x); }

AVX512 INLINE Vector load_half(const uint16_t *from) {
    return (Vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)), 16);
}

/* Space for `count` pieces that begin where vectors do. */
static void *space(Size count, Size size) { return aligned_alloc(64, (count * size + 63) / 64 * 64); }
#endif
