/* Products of eight bits with vectors of 256 bits: AVX2 and AVX-VNNI, for processors without AVX-512. */

#if defined(__x86_64__) && !defined(NO_AVX_VNNI)
#include "avx2.h"
#include <cpuid.h>

#define NAMED(name) name##_256
#define VPDPBUSD "%{vex%} vpdpbusd" /* without `vex` it is the one of AVX-512 */
#define GROUP 6                     /* twelve sums, two weights and an activation, in sixteen registers */

#include "int8.h"

int multiplies_int8_256(void) {
    unsigned a = 0, b, c, d;
    __builtin_cpu_init();
    /* Older compilers have no name for AVX-VNNI. */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           a >> 4 & 1;
}
#else
int multiplies_int8_256(void) { return 0; }
#endif
