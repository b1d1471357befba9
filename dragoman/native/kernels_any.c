/* The kernels for all other processors. */

#define NAMED(name) name##_any
#include "kernels.h"

int runs_any(void) { return 1; }

/* Increased whenever a function takes other arguments: library.py does not use a library with another number. */
int interface(void) { return 17; }
