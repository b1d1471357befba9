/* Products of eight bits with vectors of 512 bits: AVX-512 and its VNNI. */

#ifdef __x86_64__
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma")))
#include "avx512.h"

#define NAMED(name) name##_512
#define VPDPBUSD "vpdpbusd"
#define GROUP 8

INLINE Integers whole(Vector x) { return (Integers)_mm512_cvtps_epi32((__m512)x); }

INLINE void store_bytes(uint8_t *to, Integers x) {
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)x));
}

/* The sums of four vectors. */
INLINE Four four_sums(Vector a, Vector b, Vector c, Vector d) {
    __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
    __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
    __m512 all_four = (__m512)_mm512_add_ps((__m512)_mm512_unpacklo_pd((__m512d)ab, (__m512d)cd),
                                            (__m512)_mm512_unpackhi_pd((__m512d)ab, (__m512d)cd));
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all_four), _mm512_extractf32x8_ps(all_four, 1));
    return (Four)_mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* The other quarters of a vector, in two turns: with both, each quarter meets all others. */
#define TURNED(x, how) ((Vector)_mm512_shuffle_f32x4((__m512)(x), (__m512)(x), how))
#define HALF_TURN 0x4e
#define QUARTER_TURN 0xb1

/* The largest of the keys in a vector, and their sum, for each of four heads. */
INLINE Vector top_of_keys(Vector x) {
    x = most(x, TURNED(x, HALF_TURN));
    return most(x, TURNED(x, QUARTER_TURN));
}

INLINE Vector sum_of_keys(Vector x) {
    x += TURNED(x, HALF_TURN);
    return x + TURNED(x, QUARTER_TURN);
}

#include "int8.h"

int multiplies_int8_512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
int multiplies_int8_512(void) { return 0; }
#endif
