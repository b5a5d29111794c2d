// Tiles of up to 512 pixels of a row, which a warp loads at once: for the pictures and the noise filter.
#ifndef CUSI_FRAMEDIFF_TILES_CUH
#define CUSI_FRAMEDIFF_TILES_CUH

#include "cuda.cuh"

namespace framediff {

constexpr int TILE_PIXELS = 512;

#ifdef __CUDACC__

// Loads a lane's share of a tile of up to TILE_PIXELS pixels of a pair of images, at addresses that are multiples of 16: vectors
// lane + 32 k for each k < CN; zeros past the end.
template<int CN>
__device__ __forceinline__ void loadAlignedTile(const unsigned char *first, const unsigned char *second, unsigned pixels,
                                                unsigned lane, uint4 (&a)[CN], uint4 (&b)[CN]) {
#pragma unroll
    for (int k = 0; k < CN; ++k) {
        const int at = 16 * (lane + 32 * k), left = static_cast<int>(pixels * CN) - at;
        a[k] = left > 0 ? cusi::load16(first + at, left, true) : make_uint4(0, 0, 0, 0);
        b[k] = left > 0 ? cusi::load16(second + at, left, true) : make_uint4(0, 0, 0, 0);
    }
}

// The bytes of a tile at any address: aligned vectors that lie in the tile as a whole, and single bytes of the vectors at its
// two ends, so that nothing outside the tile is read. In shared memory the tile begins at the byte phase().
template<int CN>
class TileBytes {
  public:
    static constexpr int VECTORS = 32 * CN + 1; // of shared memory

    // `tile`: its pixel 0, which may lie before the row; `begin`, `end`: its pixels that exist. Only issues the loads.
    __device__ __forceinline__ TileBytes(const unsigned char *tile, int begin, int end, unsigned lane)
        : phase_(static_cast<int>(reinterpret_cast<uintptr_t>(tile) % 16)), first_(phase_ + begin * CN),
          last_(phase_ + end * CN) {
        const unsigned char *const base = tile - phase_;
#pragma unroll
        for (int k = 0; k < CN; ++k) {
            const int at = 16 * static_cast<int>(lane + 32 * k);
            v[k] = make_uint4(0, 0, 0, 0);
            cusi::loadStreamedIf(at >= first_ && at + 16 <= last_, base + at, v[k]);
        }
        if (hasEdges()) {
            const int at = cusi::edgeByte(first_, last_, lane);
            if (at >= 0)
                edge = base[at];
        }
    }

    __device__ __forceinline__ unsigned phase() const {
        return static_cast<unsigned>(phase_);
    }

    // Whether any lane holds less than whole vectors, or the tile begins inside one; the same for all lanes.
    __device__ __forceinline__ bool hasEdges() const {
        return ((first_ | last_) & 15) != 0;
    }

    // Stores the bytes, for the whole warp; zeros outside the tile.
    __device__ __forceinline__ void stage(uint4 *shared, unsigned lane) const {
#pragma unroll
        for (int k = 0; k < CN; ++k)
            shared[lane + 32 * k] = v[k];
        if (hasEdges()) {
            if (lane == 0)
                shared[VECTORS - 1] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            const int at = cusi::edgeByte(first_, last_, lane);
            if (at >= 0)
                reinterpret_cast<unsigned char *>(shared)[at] = static_cast<unsigned char>(edge);
        }
        __syncwarp();
    }

    uint4 v[CN];
    unsigned edge = 0; // the lane's byte of a vector that is not loaded as a whole

  private:
    const int phase_, first_, last_; // bytes from the first vector
};

#endif // __CUDACC__

} // namespace framediff

#endif
