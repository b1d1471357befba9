/* What the files for processors with AVX-512 share. */

#include "vectors.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

AVX512 INLINE Vector most(Vector a, Vector b) { return (Vector)_mm512_max_ps((__m512)a, (__m512)b); }

AVX512 INLINE float top_of(Vector x) { return _mm512_reduce_max_ps((__m512)x); }

AVX512 INLINE float sum_of(Vector x) { return _mm512_reduce_add_ps((__m512)x); }

AVX512 INLINE Vector nearest(Vector x) { return (Vector)_mm512_roundscale_ps((__m512)x, 0); }

AVX512 INLINE Vector times_power_of_two(Vector x, Vector n) { return (Vector)_mm512_scalef_ps((__m512)x, (__m512)n); }
#endif
