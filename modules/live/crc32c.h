/* Implementations of cusCrc32c. All take and give the remainder without the inversions at both ends. */
#ifndef CUSI_LIVE_CRC32C_H
#define CUSI_LIVE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t LiveCrc32c(uint32_t remainder, const uint8_t *data, size_t bytes);

/* Takes eight bytes a step, from tables: for any processor. */
uint32_t live_crc32cTables(uint32_t remainder, const uint8_t *data, size_t bytes);

/* Returns the processor's instruction (SSE4.2, ARMv8 CRC32), or NULL if it has none. */
LiveCrc32c *live_crc32cInstruction(void);

#ifdef __cplusplus
}
#endif

#endif
