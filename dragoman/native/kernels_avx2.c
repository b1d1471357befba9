/* The kernels for processors with AVX2, which all have FMA, too. */

#ifdef __x86_64__
#define TARGET __attribute__((target("avx2,fma")))
#define NAMED(name) name##_avx2
#include "kernels.h"

int runs_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
int runs_avx2(void) { return 0; }
#endif
