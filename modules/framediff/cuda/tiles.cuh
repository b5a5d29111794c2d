// Tiles of up to 512 pixels of a row, which a warp loads at once, for the pictures and the noise filter.
#ifndef CUSI_FRAMEDIFF_TILES_CUH
#define CUSI_FRAMEDIFF_TILES_CUH

#include "cuda.cuh"

namespace cusi::framediff {

constexpr int TILE_PIXELS = 512;

// Loads the bytes of a tile at any address: aligned vectors that lie wholly in the tile, and single bytes of the vectors at
// its two ends, so that nothing outside the tile is read.
template<int CN>
class TileBytes {
  public:
    // Issues the loads. tile: pixel 0, which may lie before the row; pixels begin .. end - 1 exist.
    __device__ __forceinline__ TileBytes(const unsigned char *tile, int begin, int end, unsigned lane)
        : phase_(static_cast<int>(reinterpret_cast<uintptr_t>(tile) % 16)), first_(phase_ + begin * CN),
          last_(phase_ + end * CN) {
        const unsigned char *const base = tile - phase_;
#pragma unroll
        for (int k = 0; k < CN; ++k) {
            const int at = 16 * static_cast<int>(lane + 32 * k);
            v_[k] = make_uint4(0, 0, 0, 0);
            cusi::loadStreamedIf(at >= first_ && at + 16 <= last_, base + at, v_[k]);
        }
        const int at = cusi::edgeByte(first_, last_, lane);
        if (at >= 0)
            edge_ = base[at];
    }

    // Gives each lane the vectors lane + 32 k of the tile, k < CN, with zeros where it has no pixels. The whole warp must
    // call it. Uses 32 CN + 1 vectors of shared memory, unless the tile consists of whole vectors.
    __device__ __forceinline__ void share(uint4 *shared, unsigned lane, uint4 (&v)[CN]) const {
        if (((phase_ | first_ | last_) & 15) == 0) { // uniform in a warp
#pragma unroll
            for (int k = 0; k < CN; ++k)
                v[k] = v_[k];
            return;
        }
#pragma unroll
        for (int k = 0; k < CN; ++k)
            shared[lane + 32 * k] = v_[k];
        if (lane == 0)
            shared[32 * CN] = make_uint4(0, 0, 0, 0);
        __syncwarp();
        const int at = cusi::edgeByte(first_, last_, lane);
        if (at >= 0)
            reinterpret_cast<unsigned char *>(shared)[at] = static_cast<unsigned char>(edge_);
        __syncwarp();
#pragma unroll
        for (int k = 0; k < CN; ++k)
            v[k] = cusi::bytesFrom(shared[lane + 32 * k], shared[lane + 32 * k + 1], static_cast<unsigned>(phase_));
        __syncwarp();
    }

  private:
    const int phase_, first_, last_; // bytes from the first vector
    uint4 v_[CN];
    unsigned edge_ = 0; // the lane's byte of a vector that is not loaded as a whole
};

// Loads a lane's vectors lane + 32 k, k < CN, of a tile of two images; zeros outside the pixels [begin, end). ALIGNED: both
// tiles start at multiples of 16 bytes, and `begin` is 0.
template<int CN, bool ALIGNED>
__device__ __forceinline__ void loadTiles(const unsigned char *first, const unsigned char *second, int begin, int end,
                                          unsigned lane, uint4 *shared, uint4 (&a)[CN], uint4 (&b)[CN]) {
    if constexpr (ALIGNED) {
#pragma unroll
        for (int k = 0; k < CN; ++k) {
            const int at = 16 * static_cast<int>(lane + 32 * k), left = end * CN - at;
            a[k] = left > 0 ? cusi::load16(first + at, left, true) : make_uint4(0, 0, 0, 0);
            b[k] = left > 0 ? cusi::load16(second + at, left, true) : make_uint4(0, 0, 0, 0);
        }
    } else {
        const TileBytes<CN> one(first, begin, end, lane), other(second, begin, end, lane);
        one.share(shared, lane, a);
        other.share(shared, lane, b);
    }
}

} // namespace cusi::framediff

#endif
