// Squares of 8-bit sources, with and without sums.
#include "integral_launch.cuh"

namespace cusi::integral {

cusStatus launchSquares(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    if (!args.sum)
        return launchIntegral<unsigned char, NoTable, Squares64>(function, args, stream);
    return args.sum->type == CUS_32SC1 ? launchIntegral<unsigned char, Sums32, Squares64>(function, args, stream)
                                       : launchIntegral<unsigned char, Sums64, Squares64>(function, args, stream);
}

} // namespace cusi::integral
