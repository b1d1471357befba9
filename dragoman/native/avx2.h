/* What the files for processors with AVX2 share. */

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "vectors.h"

INLINE Vector most(Vector a, Vector b) { return (Vector)_mm256_max_ps((__m256)a, (__m256)b); }

INLINE Vector nearest(Vector x) {
    return (Vector)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

INLINE Integers whole(Vector x) { return (Integers)_mm256_cvtps_epi32((__m256)x); }

INLINE Vector times_power_of_two(Vector x, Vector n) { return x * (Vector)((whole(n) + 127) << 23); }

INLINE void store_bytes(uint8_t *to, Integers x) {
    __m256i wide = (__m256i)x;
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(words, words));
}

/* The sums of four vectors. */
INLINE Four four_sums(Vector a, Vector b, Vector c, Vector d) {
    __m256 all_four = _mm256_hadd_ps(_mm256_hadd_ps((__m256)a, (__m256)b), _mm256_hadd_ps((__m256)c, (__m256)d));
    return (Four)_mm_add_ps(_mm256_castps256_ps128(all_four), _mm256_extractf128_ps(all_four, 1));
}

/* The halves of a vector change places. */
INLINE Vector turned(Vector x) { return (Vector)_mm256_permute2f128_ps((__m256)x, (__m256)x, 1); }

/* The largest of the keys in a vector, and their sum, for each of four heads. */
INLINE Vector top_of_keys(Vector x) { return most(x, turned(x)); }

INLINE Vector sum_of_keys(Vector x) { return x + turned(x); }

INLINE float top_of(Vector x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

INLINE float sum_of(Vector x) {
    Vector total = sum_of_keys(x);
    return (total[0] + total[1]) + (total[2] + total[3]);
}
