// Sums of 8-bit sources.
#include "integral_launch.cuh"

namespace cusi::integral {

cusStatus launchSums(const char *function, const IntegralArgs &args, cudaStream_t stream) {
    return args.sum->type == CUS_32SC1 ? launchIntegral<unsigned char, Sums32, NoTable>(function, args, stream)
                                       : launchIntegral<unsigned char, Sums64, NoTable>(function, args, stream);
}

} // namespace cusi::integral
