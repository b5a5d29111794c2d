// A block transforms two signals of n = a b c points, interleaved in shared memory in elements of 16 bytes (32 in double),
// by three mixed-radix passes in place. A thread computes a butterfly of one signal in registers. Forward transforms
// decimate in frequency and inverse ones in time, so spectra stay in digit-reversed order in between. Both directions
// compute e^(-2 pi i x k / n), unscaled: the inverse transform takes the conjugate spectrum and gives the conjugate signal.
#ifndef CUSI_MATCH_CUDA_FFT_TRANSFORM_CUH
#define CUSI_MATCH_CUDA_FFT_TRANSFORM_CUH

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace cusi::match::fft {

// ---- Butterflies in registers: unscaled forward transforms of 2 to 16 complex floats or doubles, e^(-2 pi i x k / R)

// Returns the bound of a butterfly's rounding error in units of 2^-24, relative to the Euclidean norm of its results,
// and at each result to the sum of its inputs' magnitudes. A layer of additions costs one unit; see
// docs/internals/match.md.
constexpr double butterflyUnits(int radix) {
    return radix == 4    ? 2
           : radix == 5  ? 5.5
           : radix == 8  ? 5.3
           : radix == 9  ? 10
           : radix == 10 ? 6.5
           : radix == 12 ? 5.7
           : radix == 15 ? 9.2
                         : 6.8;
}
// A multiplication by a rounded factor costs 2 for the product with multiply-adds, 1 / sqrt(2) for the factor.
constexpr double TWIDDLE_UNITS = 2.8;

#define FFT_FN __device__ __forceinline__

template<class Complex>
using RealOf = decltype(Complex::x);
template<class Complex, class = RealOf<Complex>>
FFT_FN Complex operator+(Complex p, Complex q) {
    return {p.x + q.x, p.y + q.y};
}
template<class Complex, class = RealOf<Complex>>
FFT_FN Complex operator-(Complex p, Complex q) {
    return {p.x - q.x, p.y - q.y};
}
template<class Complex>
FFT_FN Complex multiply(Complex p, Complex q) {
    return {fma(p.x, q.x, -(p.y * q.y)), fma(p.x, q.y, p.y * q.x)};
}
// These return p + s q and p - i s q.
template<class Complex>
FFT_FN Complex addScaled(Complex p, RealOf<Complex> s, Complex q) {
    return {fma(s, q.x, p.x), fma(s, q.y, p.y)};
}
template<class Complex>
FFT_FN Complex addRotated(Complex p, RealOf<Complex> s, Complex q) {
    return {fma(s, q.y, p.x), fma(-s, q.x, p.y)};
}

template<int R>
struct Butterfly;

template<>
struct Butterfly<2> {
    template<class Complex>
    FFT_FN static void run(Complex (&v)[2]) {
        const Complex d = v[0] - v[1];
        v[0] = v[0] + v[1];
        v[1] = d;
    }
};
template<>
struct Butterfly<3> {
    template<class Complex>
    FFT_FN static void run(Complex (&v)[3]) {
        constexpr RealOf<Complex> SIN = 0.866025403784438647;
        const Complex sum = v[1] + v[2], d = v[1] - v[2], m = addScaled(v[0], RealOf<Complex>(-0.5), sum);
        v[0] = v[0] + sum;
        v[1] = addRotated(m, SIN, d);
        v[2] = addRotated(m, -SIN, d);
    }
};
template<>
struct Butterfly<4> {
    template<class Complex>
    FFT_FN static void run(Complex (&v)[4]) {
        const Complex p = v[0] + v[2], q = v[0] - v[2], r = v[1] + v[3], s = v[1] - v[3];
        v[0] = p + r;
        v[1] = {q.x + s.y, q.y - s.x};
        v[2] = p - r;
        v[3] = {q.x - s.y, q.y + s.x};
    }
};
template<>
struct Butterfly<5> {
    template<class Complex>
    FFT_FN static void run(Complex (&v)[5]) {
        constexpr RealOf<Complex> COS1 = 0.309016994374947424, COS2 = -0.809016994374947424;
        constexpr RealOf<Complex> SIN1 = 0.951056516295153572, SIN2 = 0.587785252292473129;
        const Complex s1 = v[1] + v[4], d1 = v[1] - v[4], s2 = v[2] + v[3], d2 = v[2] - v[3];
        const Complex p = addScaled(addScaled(v[0], COS1, s1), COS2, s2),
                      q = addScaled(addScaled(v[0], COS2, s1), COS1, s2);
        const Complex r = {fma(SIN1, d1.x, SIN2 * d2.x), fma(SIN1, d1.y, SIN2 * d2.y)};
        const Complex s = {fma(SIN2, d1.x, -(SIN1 * d2.x)), fma(SIN2, d1.y, -(SIN1 * d2.y))};
        v[0] = v[0] + s1 + s2;
        v[1] = {p.x + r.y, p.y - r.x};
        v[4] = {p.x - r.y, p.y + r.x};
        v[2] = {q.x + s.y, q.y - s.x};
        v[3] = {q.x - s.y, q.y + s.x};
    }
};

// e^(-2 pi i k / R) = COS - i SIN for the Cooley-Tukey butterflies, rounded once.
constexpr double COS9[] = {1, 0.766044443118978035, 0.173648177666930349, 0, -0.939692620785908384};
constexpr double SIN9[] = {0, 0.642787609686539327, 0.984807753012208059, 0, 0.342020143325668733};
constexpr double COS16[] = {1, 0.923879532511286756, 0, 0.382683432365089772, 0, 0, 0, 0, 0, -0.923879532511286756};
constexpr double SIN16[] = {0, 0.382683432365089772, 0, 0.923879532511286756, 0, 0, 0, 0, 0, -0.382683432365089772};

// Returns v e^(-2 pi i K / R).
template<int R, int K, class Complex>
FFT_FN Complex multiplyByRoot(Complex v) {
    using Real = RealOf<Complex>;
    if constexpr (K == 0)
        return v;
    else if constexpr (4 * K == R)
        return {v.y, -v.x};
    constexpr Real SQRT_HALF = 0.707106781186547524;
    if constexpr (8 * K == R)
        return {(v.x + v.y) * SQRT_HALF, (v.y - v.x) * SQRT_HALF};
    if constexpr (8 * K == 3 * R)
        return {(v.y - v.x) * SQRT_HALF, -((v.x + v.y) * SQRT_HALF)};
    constexpr Real COS = static_cast<Real>(R == 9 ? COS9[K % 5] : COS16[K]);
    constexpr Real SIN = static_cast<Real>(R == 9 ? SIN9[K % 5] : SIN16[K]);
    return multiply(v, Complex{COS, -SIN});
}

// Splits R = P Q with twiddle factors in between. Point x is Q i + j; the frequency is i + P j.
template<int R, int P, int Q>
struct CooleyTukey {
    template<int I, int J, class Complex>
    FFT_FN static void twiddleFrom(Complex (&v)[R]) {
        v[I * Q + J] = multiplyByRoot<R, I * J>(v[I * Q + J]);
        if constexpr (J + 1 < Q)
            twiddleFrom<I, J + 1>(v);
        else if constexpr (I + 1 < P)
            twiddleFrom<I + 1, 1>(v);
    }
    template<class Complex>
    FFT_FN static void run(Complex (&v)[R]) {
#pragma unroll
        for (int j = 0; j < Q; ++j) {
            Complex u[P];
#pragma unroll
            for (int i = 0; i < P; ++i)
                u[i] = v[Q * i + j];
            Butterfly<P>::run(u);
#pragma unroll
            for (int i = 0; i < P; ++i)
                v[Q * i + j] = u[i];
        }
        twiddleFrom<1, 1>(v);
        Complex out[R];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            Complex u[Q];
#pragma unroll
            for (int j = 0; j < Q; ++j)
                u[j] = v[Q * i + j];
            Butterfly<Q>::run(u);
#pragma unroll
            for (int j = 0; j < Q; ++j)
                out[i + P * j] = u[j];
        }
#pragma unroll
        for (int i = 0; i < R; ++i)
            v[i] = out[i];
    }
};
template<>
struct Butterfly<8> : CooleyTukey<8, 2, 4> {};
template<>
struct Butterfly<9> : CooleyTukey<9, 3, 3> {};
template<>
struct Butterfly<16> : CooleyTukey<16, 4, 4> {};

// Splits R = P Q with coprime P and Q, without twiddle factors. Point x is Q i + P j mod R; the frequency is i mod P and
// j mod Q.
template<int R, int P, int Q>
struct GoodThomas {
    template<class Complex>
    FFT_FN static void run(Complex (&v)[R]) {
#pragma unroll
        for (int j = 0; j < Q; ++j) {
            Complex u[P];
#pragma unroll
            for (int i = 0; i < P; ++i)
                u[i] = v[(Q * i + P * j) % R];
            Butterfly<P>::run(u);
#pragma unroll
            for (int i = 0; i < P; ++i)
                v[(Q * i + P * j) % R] = u[i];
        }
        Complex out[R];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            Complex u[Q];
#pragma unroll
            for (int j = 0; j < Q; ++j)
                u[j] = v[(Q * i + P * j) % R];
            Butterfly<Q>::run(u);
#pragma unroll
            for (int k = 0; k < R; ++k)
                if (k % P == i)
                    out[k] = u[k % Q];
        }
#pragma unroll
        for (int k = 0; k < R; ++k)
            v[k] = out[k];
    }
};
template<>
struct Butterfly<10> : GoodThomas<10, 2, 5> {};
template<>
struct Butterfly<12> : GoodThomas<12, 3, 4> {};
template<>
struct Butterfly<15> : GoodThomas<15, 3, 5> {};

// ---- Plans

// Point x = (i b + j) c + k is element i stride + j c + k, and so is frequency i + a (j + b k) later. c and the stride are
// odd, so every pass and the reordering spread over the banks.
template<class Complex>
struct PlanOf {
    int n, a, b, c; // radices of the outer, middle and inner pass
    int stride;     // b c or b c + 1
    int threads;    // threads of a block, whole warps: one for each butterfly and signal, or a fraction of that
    int b_inverse, c_inverse;
    const Complex *twiddles;        // a - 1 rows of b c values w_n^(q t), then b - 1 rows of c values w_bc^(q k)
    const uint16_t *digit_reversal; // element of each frequency
    __host__ __device__ int elements() const { return a * stride; }
    // Return t / b and t / c for t below 4096.
    __device__ int divideByB(int t) const { return t * b_inverse >> 16; }
    __device__ int divideByC(int t) const { return t * c_inverse >> 16; }
    // Returns the element of point x.
    __device__ int element(int x) const { return x + (stride == b * c ? 0 : x / (b * c)); }
};
using Plan = PlanOf<float2>;

// An element of shared memory is a point of each of the two signals.
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

// Returns the rounding error of one transform in units of 2^-24, or of 2^-53 in double; docs/internals/match.md derives
// it.
template<class Complex>
double errorUnits(const PlanOf<Complex> &plan) {
    return butterflyUnits(plan.a) + butterflyUnits(plan.b) + butterflyUnits(plan.c) + 2 * TWIDDLE_UNITS;
}

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
// Returns the thread's signal; its points are every second complex number.
FFT_FN float2 *signalPoints(float4 *shared) {
    return reinterpret_cast<float2 *>(shared) + signalIndex();
}
FFT_FN double2 *signalPoints(DoublePair *shared) {
    return reinterpret_cast<double2 *>(shared) + signalIndex();
}

// Calls body(std::integral_constant<int, R>{}), where R is the radix, one of RADICES.
template<const auto &RADICES, int I = 0, class Body>
FFT_FN void dispatch(int radix, const Body &body) {
    constexpr int R = RADICES[I];
    if constexpr (I + 1 < sizeof RADICES / sizeof(int)) {
        if (radix != R)
            return dispatch<RADICES, I + 1>(radix, body);
    }
    body(std::integral_constant<int, R>{});
}

// ---- Passes. A forward transform is outer, middle, inner; an inverse transform is inner, middle, outer

enum class Direction { FORWARD, INVERSE };

// Requests twiddle factors; passes do so before their barrier.
template<int R, class Complex>
FFT_FN void loadTwiddles(const Complex *table, int step, bool busy, Complex (&w)[R - 1]) {
#pragma unroll
    for (int i = 0; i < R - 1; ++i)
        w[i] = busy ? __ldg(table + i * step) : Complex{0, 0};
}

// Runs the first pass of a forward transform. load(x) returns point x of the thread's signal.
template<class Complex, class Load>
FFT_FN void forwardOuterPass(const PlanOf<Complex> &plan, Element<Complex> *shared, const Load &load) {
    dispatch<A_RADICES>(plan.a, [&](auto radix) {
        constexpr int R = decltype(radix)::value;
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

// Multiplies by twiddle factors after the butterfly if forward, before it if inverse.
template<Direction DIRECTION, class Complex>
FFT_FN void middlePass(const PlanOf<Complex> &plan, Element<Complex> *shared) {
    dispatch<B_RADICES>(plan.b, [&](auto radix) {
        constexpr int R = decltype(radix)::value;
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

// Runs the inner pass, which is the same in both directions and has no twiddle factors.
template<class Complex>
FFT_FN void innerPass(const PlanOf<Complex> &plan, Element<Complex> *shared) {
    dispatch<C_RADICES>(plan.c, [&](auto radix) {
        constexpr int R = decltype(radix)::value;
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

// Runs the last pass of an inverse transform. store(x, from, value) takes point x of the thread's signal; `from` is its
// former place in shared memory.
template<class Complex, class Store>
FFT_FN void inverseOuterPass(const PlanOf<Complex> &plan, Element<Complex> *shared, const Store &store) {
    dispatch<A_RADICES>(plan.a, [&](auto radix) {
        constexpr int R = decltype(radix)::value;
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

} // namespace cusi::match::fft

#endif
