/* The instruction set that this program's copy of the library uses: CUSIGHT_ISA chooses it. For tests and performance suite. */
#ifndef CUSIGHT_TEST_INSTRUCTION_SET_H
#define CUSIGHT_TEST_INSTRUCTION_SET_H

#ifdef __cplusplus
extern "C" {
#endif

/* "sse2", "avx2", "avx512", "amx", "neon" or "c": what the library picks in this process. */
const char *instructionSet(void);

/* Number i of those that this processor has, most capable last; NULL past the end. CUSIGHT_ISA does not matter. */
const char *availableInstructionSet(int i);

/* a * b + c in a function with the same clones as the library's: rounded once by those for AVX2 and AVX-512, twice by the other,
 * so that its result shows what the loader picked. */
double productPlus(double a, double b, double c);

#ifdef __cplusplus
}
#endif

#endif
