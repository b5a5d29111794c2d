/* The environment variable CUSIGHT_ISA limits what the library believes that the processor has: sse2, avx2, avx512 or amx, on
 * ARM neon. An unknown or unavailable value ends the program with a message.
 *
 * The library picks variants by libgcc's record of the processor: `target_clones` when the loader relocates the program,
 * __builtin_cpu_supports later. The linker redirects the function that fills in this record (--wrap), and bits are cleared
 * here before anything reads them. So the library itself has neither a switch nor a check for one. */
#include "variants/instruction_set.h"

#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__

#include <cpuid.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libgcc's record. Its layout is fixed, since compiled programs read it. */
extern struct { unsigned vendor, type, subtype, features[1]; } __cpu_model;
extern unsigned __cpu_features2[];
int __real___cpu_indicator_init(void);
int __wrap___cpu_indicator_init(void);

enum { SSE2, AVX2, AVX512, AMX, SETS };
static const char *const NAMES[] = {"sse2", "avx2", "avx512", "amx"};

/* Bits of the first word, of the second (AVX512BF16, which the library asks for AMX) and, for the levels, of the fourth. */
enum { CMOV = 1 << 0, MMX = 1 << 1, SSE_1_2 = 3 << 3, HAS_AVX2 = 1 << 10, AVX512_BITS = 1 << 15 | 0x7ff << 20 };
static const unsigned AVX512VBMI2 = 1u << 31, AVX512BF16 = 1 << 4;
enum { X86_64_V2 = 1 << 0, X86_64_V3 = 1 << 1, X86_64_V4 = 1 << 2 };

static int best, limit = AMX, steered;
static char asked[8]; /* the beginning of an unknown value */

/* The C library is not ready when the loader picks clones: neither its functions nor the environment. */
static long systemCall(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

/* Reads the value from /proc/self/environ, character by character through a small buffer. */
static void readEnvironment(void) {
    static const char file[] = "/proc/self/environ", name[] = "CUSIGHT_ISA=";
    const long descriptor = systemCall(SYS_open, (long)file, O_RDONLY, 0);
    char buffer[512];
    long n;
    size_t matched = 0, length = 0;
    int wrong = 0;
    while (descriptor >= 0 && (n = systemCall(SYS_read, descriptor, (long)buffer, sizeof buffer)) > 0)
        for (long i = 0; i < n; ++i) {
            const char c = buffer[i];
            if (!c) {
                matched = wrong = 0;
            } else if (matched == sizeof name - 1) {
                if (length < sizeof asked - 1)
                    asked[length++] = c;
            } else if (!wrong && c == name[matched]) {
                ++matched;
            } else {
                wrong = 1;
            }
        }
    if (descriptor >= 0)
        systemCall(SYS_close, descriptor, 0, 0);
}

static int same(const char *a, const char *b) {
    while (*a && *a == *b)
        ++a, ++b;
    return *a == *b;
}

/* The levels of x86-64 exist since GCC 12; the record of an older libgcc is shorter. */
#if __GNUC__ >= 12
static unsigned levels(void) {
    return __cpu_features2[2];
}
static void clearLevels(unsigned bits) {
    __cpu_features2[2] &= ~bits;
}
#else
static unsigned levels(void) {
    return X86_64_V3 | X86_64_V4;
}
static void clearLevels(unsigned bits) {
    (void)bits;
}
#endif

/* Returns whether Linux lets this process use tiles: not if it or the processor does not know them. */
static int hasTiles(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, AMX_TILE_INT8 = 3 << 24 };
    unsigned a, b, c, d;
    return (__cpu_features2[0] & AVX512BF16) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & AMX_TILE_INT8) == AMX_TILE_INT8 && systemCall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA, 0) == 0;
}

int __wrap___cpu_indicator_init(void) {
    const int result = __real___cpu_indicator_init();
    if (steered)
        return result;
    steered = 1;
    unsigned *const features = __cpu_model.features;
    if ((*features & HAS_AVX2) && (levels() & X86_64_V3))
        best = !((*features & 1 << 15) && (levels() & X86_64_V4)) ? AVX2 : hasTiles() ? AMX : AVX512;
    readEnvironment();
    if (asked[0])
        for (limit = 0; limit < SETS && !same(asked, NAMES[limit]); ++limit) {
        }
    if (limit == SSE2) {
        *features &= CMOV | MMX | SSE_1_2;
        clearLevels(X86_64_V2 | X86_64_V3 | X86_64_V4);
    } else if (limit == AVX2) {
        *features &= ~((unsigned)AVX512_BITS | AVX512VBMI2);
        clearLevels(X86_64_V4);
    }
    if (limit < AVX512)
        __cpu_features2[0] = 0; /* AVX512VNNI and other newer ones */
    if (limit < AMX)
        __cpu_features2[0] &= ~AVX512BF16;
    return result;
}

const char *instructionSet(void) {
    __wrap___cpu_indicator_init();
    return NAMES[limit < best ? limit : best];
}

const char *availableInstructionSet(int i) {
    __wrap___cpu_indicator_init();
    return i >= 0 && i <= best ? NAMES[i] : NULL;
}

#else

#ifdef __aarch64__
#define ONLY "neon"
#else
#define ONLY "c"
#endif

const char *instructionSet(void) {
    return ONLY;
}

const char *availableInstructionSet(int i) {
    return i == 0 ? ONLY : NULL;
}

#endif

CUSI_MULTIVERSION double productPlus(double a, double b, double c) {
    return a * b + c;
}

/* Runs before main, also where the loader has nothing to pick. */
__attribute__((constructor)) static void check(void) {
    const char *value = getenv("CUSIGHT_ISA");
    instructionSet();
    if (!value || !*value)
        return;
    for (int i = 0; availableInstructionSet(i); ++i)
        if (strcmp(value, availableInstructionSet(i)) == 0)
            return;
    fprintf(stderr, "CUSIGHT_ISA is %s, but this processor has", value);
    for (int i = 0; availableInstructionSet(i); ++i)
        fprintf(stderr, "%s %s", i ? "," : "", availableInstructionSet(i));
    fprintf(stderr, "\n");
    exit(2);
}
