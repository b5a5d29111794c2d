/* The kernel for processors with tiles, registers of 16 rows of 16 words (AMX), and their products; included by dots.c. The
 * includer defines what the processor does: MATCH_TILES_BEGIN and _END around all else; MATCH_TILES_LOAD(tile, from, step)
 * and _STORE(tile, to, step), whose rows are `step` bytes apart; MATCH_TILES_ADD(sums, taps, pixels), which adds the
 * product of two tiles. MATCH_TILES_TARGET: what the compiler must be allowed. MATCH_TILES_NS: see MatchDots.
 *
 * Position (j, i) needs the products of the template's row r and the pixels' row s = j + r. So for each s, row j of a tile
 * of taps is the template's row s - j: its rows are loaded upwards. Column i of a tile of pixels has the words of position
 * i one below the other; its rows overlap in memory. Two tiles each make 32 x 32 positions. */
#ifdef MATCH_TILES_TARGET
__attribute__((target(MATCH_TILES_TARGET)))
#endif
static void
correlateTiles(const uint32_t *pixels, size_t pitch, const uint32_t *taps, size_t width, size_t step, size_t h,
               int32_t start, size_t cols, int32_t *sums, size_t sums_pitch) {
    enum { SIDE = 16 };
    const ptrdiff_t up = -4 * (ptrdiff_t)width, across = 4 * (ptrdiff_t)step, down = 4 * (ptrdiff_t)sums_pitch;
    int32_t first[SIDE];
    for (int i = 0; i < SIDE; ++i)
        first[i] = start;
    MATCH_TILES_BEGIN;
    for (size_t x = 0; x < cols; x += 2 * SIDE) {
        MATCH_TILES_LOAD(0, first, 0);
        MATCH_TILES_LOAD(1, first, 0);
        MATCH_TILES_LOAD(2, first, 0);
        MATCH_TILES_LOAD(3, first, 0);
        for (size_t s = 0; s < h + 2 * SIDE - 1; ++s) {
            const int above = s < h + SIDE - 1, below = s >= SIDE; /* which rows of positions need row s */
            for (size_t k = 0; k < width; k += SIDE) {
                const uint32_t *in = pixels + s * pitch + x + k * step, *row = taps + (SIDE - 1 + s) * width + k;
                MATCH_TILES_LOAD(6, in, across);
                if (above) {
                    MATCH_TILES_LOAD(4, row, up);
                    MATCH_TILES_ADD(0, 4, 6);
                }
                if (below) {
                    MATCH_TILES_LOAD(5, row - SIDE * width, up);
                    MATCH_TILES_ADD(2, 5, 6);
                }
                MATCH_TILES_LOAD(7, in + SIDE, across);
                if (above)
                    MATCH_TILES_ADD(1, 4, 7);
                if (below)
                    MATCH_TILES_ADD(3, 5, 7);
            }
        }
        int32_t *upper = sums + x, *lower = upper + SIDE * sums_pitch;
        MATCH_TILES_STORE(0, upper, down);
        MATCH_TILES_STORE(1, upper + SIDE, down);
        MATCH_TILES_STORE(2, lower, down);
        MATCH_TILES_STORE(3, lower + SIDE, down);
    }
    MATCH_TILES_END;
}

static const MatchDots table_tiles = {MATCH_TILES_NS, 32, 15, 16, correlateTiles};
