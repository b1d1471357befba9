/* Products of eight bits with the NEON that every AArch64 has, such as a Raspberry Pi 4. Two products of numbers up to 127
   fit into sixteen bits with a sign. */

#ifdef __aarch64__
#include "portable.h"

#define NAMED(name) name##_neon
#define HIGHER 0
#define GROUP 8

/* Four inputs, the same for each output, times four weights of each of four outputs. */
INLINE Integers products_of(int8x16_t inputs, Integers weights) {
    int16x8_t first_two = vmull_s8(vget_low_s8(inputs), vget_low_s8((int8x16_t)weights));
    int16x8_t last_two = vmull_high_s8(inputs, (int8x16_t)weights);
    return (Integers)vpaddq_s32(vpaddlq_s16(first_two), vpaddlq_s16(last_two));
}

#define ADD_PRODUCTS(left, right, same, four, a, b) \
    do { \
        int32_t together; \
        memcpy(&together, four, sizeof together); \
        same = (Integers)vdupq_n_s32(together); \
        left += products_of((int8x16_t)same, a); \
        right += products_of((int8x16_t)same, b); \
    } while (0)

#include "int8.h"

int multiplies_int8_neon(void) { return 1; }
#else
int multiplies_int8_neon(void) { return 0; }
#endif
