// A block transforms two signals of n = a b c points, interleaved in the 16-byte elements of shared memory: three
// mixed-radix passes in place; a thread computes one butterfly of one signal in registers. Decimation in frequency forward,
// decimation in time inverse, so spectra stay in digit-reversed order in between. Both directions compute e^(-2 pi i x k /
// n), unscaled: the inverse transform takes the conjugate spectrum and gives the conjugate signal. In double, with elements
// of 32 bytes, the same.
#ifndef CUSI_MATCH_FFT_CUH
#define CUSI_MATCH_FFT_CUH

#include "match_butterfly.cuh"

#include <cstdint>

namespace match::fft {

// Point x = (i b + j) c + k, later frequency i + a (j + b k), is element i stride + j c + k. c and the stride are odd,
// which spreads every pass and the reordering over the banks.
template<class Complex>
struct PlanOf {
    int n, a, b, c; // radices of the outer, middle and inner pass
    int stride;     // b c, or one more
    int threads;    // of a block, whole warps: one for each butterfly and signal, or a fraction of that
    int b_inverse, c_inverse;
    const Complex *twiddles;        // w_n^(q t), a - 1 rows of b c, then w_bc^(q k), b - 1 rows of c
    const uint16_t *digit_reversal; // element of each frequency
    __host__ __device__ int elements() const { return a * stride; }
    // t / b and t / c, for t below 4096.
    __device__ int divideByB(int t) const { return t * b_inverse >> 16; }
    __device__ int divideByC(int t) const { return t * c_inverse >> 16; }
    // Element of point x.
    __device__ int element(int x) const { return x + (stride == b * c ? 0 : x / (b * c)); }
};
using Plan = PlanOf<float2>;

// An element of shared memory: a point of each of the two signals.
struct alignas(16) DoublePair {
    double2 first, second;
};
template<class Complex>
struct ElementOf {
    using Type = float4;
};
template<>
struct ElementOf<double2> {
    using Type = DoublePair;
};
template<class Complex>
using Element = typename ElementOf<Complex>::Type;

// Two blocks of 384 threads on a multiprocessor leave 80 registers a thread.
constexpr int MAX_THREADS = 384, MAX_POINTS = 3840;
constexpr int A_RADICES[] = {8, 10, 12, 16}, B_RADICES[] = {4, 8, 9, 10, 12, 15, 16}, C_RADICES[] = {5, 9, 15};

// A thread's points.
template<int R, class Complex = float2>
struct Points {
    Complex v[R];
    __device__ void transform() { Butterfly<R>::run(v); }
    __device__ void twiddle(const Complex (&w)[R - 1]) {
#pragma unroll
        for (int i = 1; i < R; ++i)
            v[i] = multiply(v[i], w[i - 1]);
    }
};

// Neighboring threads compute the same butterfly of the two signals.
FFT_FN int butterflyIndex() {
    return static_cast<int>(threadIdx.x) / 2;
}
FFT_FN int signalIndex() {
    return static_cast<int>(threadIdx.x) % 2;
}
FFT_FN int butterfliesPerBlock() {
    return static_cast<int>(blockDim.x) / 2;
}
// The thread's signal; its points are every second complex number.
FFT_FN float2 *signalPoints(float4 *shared) {
    return reinterpret_cast<float2 *>(shared) + signalIndex();
}
FFT_FN double2 *signalPoints(DoublePair *shared) {
    return reinterpret_cast<double2 *>(shared) + signalIndex();
}

// ---- Radices known at run time as template parameters: body(Radix<R>{})

template<int R>
struct Radix {
    static constexpr int VALUE = R;
};

template<class Complex, class Body>
FFT_FN void dispatchOuterRadix(const PlanOf<Complex> &plan, const Body &body) {
    switch (plan.a) {
    case 8:
        body(Radix<8>{});
        break;
    case 10:
        body(Radix<10>{});
        break;
    case 12:
        body(Radix<12>{});
        break;
    default:
        body(Radix<16>{});
    }
}
template<class Complex, class Body>
FFT_FN void dispatchMiddleRadix(const PlanOf<Complex> &plan, const Body &body) {
    switch (plan.b) {
    case 4:
        body(Radix<4>{});
        break;
    case 8:
        body(Radix<8>{});
        break;
    case 9:
        body(Radix<9>{});
        break;
    case 10:
        body(Radix<10>{});
        break;
    case 12:
        body(Radix<12>{});
        break;
    case 15:
        body(Radix<15>{});
        break;
    default:
        body(Radix<16>{});
    }
}
template<class Complex, class Body>
FFT_FN void dispatchInnerRadix(const PlanOf<Complex> &plan, const Body &body) {
    switch (plan.c) {
    case 5:
        body(Radix<5>{});
        break;
    case 9:
        body(Radix<9>{});
        break;
    default:
        body(Radix<15>{});
    }
}

// ---- Passes. A forward transform is outer, middle, inner; an inverse transform is inner, middle, outer

enum class Direction { FORWARD, INVERSE };

// Twiddle factors are requested before the barrier that a pass begins with.
template<int R, class Complex>
FFT_FN void loadTwiddles(const Complex *table, int step, bool busy, Complex (&w)[R - 1]) {
#pragma unroll
    for (int i = 0; i < R - 1; ++i)
        w[i] = busy ? __ldg(table + i * step) : Complex{0, 0};
}

// First pass of a forward transform: load(x) gives point x of the thread's signal.
template<class Complex, class Load>
FFT_FN void forwardOuterPass(const PlanOf<Complex> &plan, Element<Complex> *shared, const Load &load) {
    dispatchOuterRadix(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int step = plan.b * plan.c;
        for (int t = butterflyIndex(); t < step; t += butterfliesPerBlock()) {
            Complex *at = signalPoints(shared) + 2 * t;
            Points<R, Complex> p;
            Complex w[R - 1];
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = load(i * step + t);
            loadTwiddles<R, Complex>(plan.twiddles + t, step, true, w);
            p.transform();
            p.twiddle(w);
#pragma unroll
            for (int i = 0; i < R; ++i)
                at[2 * i * plan.stride] = p.v[i];
        }
    });
}

// Forward: butterfly, then twiddle factors. Inverse: twiddle factors, then butterfly.
template<Direction DIRECTION, class Complex>
FFT_FN void middlePass(const PlanOf<Complex> &plan, Element<Complex> *shared) {
    dispatchMiddleRadix(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int count = plan.a * plan.c;
        const Complex *table = plan.twiddles + (plan.a - 1) * plan.b * plan.c;
        int t = butterflyIndex(), i0 = plan.divideByC(t), k = t - i0 * plan.c;
        Complex w[R - 1];
        loadTwiddles<R, Complex>(table + k, plan.c, t < count, w);
        __syncthreads();
        while (t < count) {
            Complex *at = signalPoints(shared) + 2 * (i0 * plan.stride + k);
            Points<R, Complex> p;
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = at[2 * i * plan.c];
            if (DIRECTION == Direction::INVERSE)
                p.twiddle(w);
            p.transform();
            if (DIRECTION == Direction::FORWARD)
                p.twiddle(w);
#pragma unroll
            for (int i = 0; i < R; ++i)
                at[2 * i * plan.c] = p.v[i];
            t += butterfliesPerBlock();
            if (t >= count)
                break;
            i0 = plan.divideByC(t);
            k = t - i0 * plan.c;
            loadTwiddles<R, Complex>(table + k, plan.c, true, w);
        }
    });
}

// The same in both directions; it has no twiddle factors.
template<class Complex>
FFT_FN void innerPass(const PlanOf<Complex> &plan, Element<Complex> *shared) {
    dispatchInnerRadix(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        __syncthreads();
        for (int t = butterflyIndex(); t < plan.a * plan.b; t += butterfliesPerBlock()) {
            const int i0 = plan.divideByB(t), j = t - i0 * plan.b;
            Complex *at = signalPoints(shared) + 2 * (i0 * plan.stride + j * R);
            Points<R, Complex> p;
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = at[2 * i];
            p.transform();
#pragma unroll
            for (int i = 0; i < R; ++i)
                at[2 * i] = p.v[i];
        }
    });
}

// Last pass of an inverse transform: store(x, from, value) takes point x of the thread's signal; `from` is its old place in
// shared memory.
template<class Complex, class Store>
FFT_FN void inverseOuterPass(const PlanOf<Complex> &plan, Element<Complex> *shared, const Store &store) {
    dispatchOuterRadix(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int step = plan.b * plan.c;
        int t = butterflyIndex();
        Complex w[R - 1];
        loadTwiddles<R, Complex>(plan.twiddles + t, step, t < step, w);
        __syncthreads();
        while (t < step) {
            Complex *at = signalPoints(shared) + 2 * t;
            Points<R, Complex> p;
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = at[2 * i * plan.stride];
            p.twiddle(w);
            p.transform();
#pragma unroll
            for (int i = 0; i < R; ++i)
                store(i * step + t, at + 2 * i * plan.stride, p.v[i]);
            t += butterfliesPerBlock();
            if (t >= step)
                break;
            loadTwiddles<R, Complex>(plan.twiddles + t, step, true, w);
        }
    });
}

} // namespace match::fft

#endif
