/* The kernels for processors with AVX-512. */

#ifdef __x86_64__
#define TARGET __attribute__((target("avx512f")))
#define NAMED(name) name##_512
#include "kernels.h"

int runs_512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
}
#else
int runs_512(void) { return 0; }
#endif
