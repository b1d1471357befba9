/* Products of eight bits with AVX2 alone, for processors without VNNI. Two products are added up in sixteen bits, which
   hold 32,767 at most: weights reach only to 64, since 2 * 255 * 64 is 32,640. */

#ifdef __x86_64__
#include "avx2.h"

#define NAMED(name) name##_avx2
#define GROUP 5 /* ten sums, two weights, an activation, its products and ones, in sixteen registers */
#define ADD_PRODUCTS(left, right, same, four, a, b) \
    do { \
        Integers products; \
        __asm__("vpbroadcastd %4, %2\n\t" \
                "vpmaddubsw %5, %2, %3\n\tvpmaddwd %7, %3, %3\n\tvpaddd %3, %0, %0\n\t" \
                "vpmaddubsw %6, %2, %3\n\tvpmaddwd %7, %3, %3\n\tvpaddd %3, %1, %1" \
                : "+&x"(left), "+&x"(right), "=&x"(same), "=&x"(products) \
                : "m"(four), "x"(a), "x"(b), "x"(_mm256_set1_epi16(1))); \
    } while (0)

#include "int8.h"

int multiplies_int8_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
int multiplies_int8_avx2(void) { return 0; }
#endif
