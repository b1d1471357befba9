/* Products of eight bits with the dot product of AArch64: Apple's processors, Graviton 2 and later, telephones. */

#if defined(__aarch64__) && !defined(NO_DOT_PRODUCT)
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#include "portable.h"
#ifdef __APPLE__
#include <sys/sysctl.h>
#else
#include <sys/auxv.h>
#endif

#define NAMED(name) name##_dot
#define HIGHER 0
#define GROUP 8
#define ADD_PRODUCTS(left, right, same, four, a, b) \
    do { \
        int32_t together; \
        memcpy(&together, four, sizeof together); \
        same = (Integers)vdupq_n_s32(together); \
        left = (Integers)vdotq_s32((int32x4_t)left, (int8x16_t)a, (int8x16_t)same); \
        right = (Integers)vdotq_s32((int32x4_t)right, (int8x16_t)b, (int8x16_t)same); \
    } while (0)

#include "int8.h"

int multiplies_int8_dot(void) {
#ifdef __APPLE__
    int has = 0;
    size_t size = sizeof has;
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) == 0 && has;
#else
    return getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#endif
}
#else
int multiplies_int8_dot(void) { return 0; }
#endif
