/* What the files for processors with AVX-512 share. Each defines its own TARGET before it includes this. */

#include <immintrin.h>

#include "vectors.h"

INLINE Vector most(Vector a, Vector b) { return (Vector)_mm512_max_ps((__m512)a, (__m512)b); }

INLINE float top_of(Vector x) { return _mm512_reduce_max_ps((__m512)x); }

INLINE float sum_of(Vector x) { return _mm512_reduce_add_ps((__m512)x); }

INLINE Vector nearest(Vector x) { return (Vector)_mm512_roundscale_ps((__m512)x, 0); }

INLINE Vector times_power_of_two(Vector x, Vector n) { return (Vector)_mm512_scalef_ps((__m512)x, (__m512)n); }
