// Sums and squares of float sources.
#include "integral_launch.cuh"

namespace cusi::integral {

cusStatus launchFloats(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    if (!args.sum)
        return launchIntegral<float, NoTable, Floats64>(function, args, stream);
    return args.sqsum ? launchIntegral<float, Floats64, Floats64>(function, args, stream)
                      : launchIntegral<float, Floats64, NoTable>(function, args, stream);
}

} // namespace cusi::integral
