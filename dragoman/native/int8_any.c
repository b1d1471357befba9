/* Products of eight bits for processors that none of the other files is for: any x86, by its SSE2, and plain C. */

#include "portable.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define NAMED(name) name##_any
#define HIGHER 0
#define GROUP 4

/* Four inputs times four weights of each output. */
INLINE Integers products_of(const int8_t *four, Integers weights) {
#ifdef __SSE2__
    int32_t together;
    memcpy(&together, four, sizeof together);
    __m128i inputs = _mm_set1_epi32(together), bytes = (__m128i)weights;
    inputs = _mm_srai_epi16(_mm_unpacklo_epi8(inputs, inputs), 8);
    __m128i first_two = _mm_madd_epi16(inputs, _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8));
    __m128i last_two = _mm_madd_epi16(inputs, _mm_srai_epi16(_mm_unpackhi_epi8(bytes, bytes), 8));
    __m128 even = _mm_shuffle_ps((__m128)first_two, (__m128)last_two, _MM_SHUFFLE(2, 0, 2, 0));
    __m128 odd = _mm_shuffle_ps((__m128)first_two, (__m128)last_two, _MM_SHUFFLE(3, 1, 3, 1));
    return (Integers)_mm_add_epi32((__m128i)even, (__m128i)odd);
#else
    Integers total = {0};
    for (int i = 0; i < 4; i++) {
        int bits_above = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 24 - 8 * i : 8 * i;
        total += (weights << bits_above >> 24) * four[i]; /* a weight with its sign */
    }
    return total;
#endif
}

#define ADD_PRODUCTS(left, right, same, four, a, b) \
    do { \
        const int8_t *numbers = (const int8_t *)(four); \
        left += products_of(numbers, a), right += products_of(numbers, b); \
        (void)same; \
    } while (0)

#include "int8.h"

int multiplies_int8_any(void) { return 1; }
