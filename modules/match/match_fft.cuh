// Two transforms of n = a b c points by one block, side by side in every 16-byte element of shared memory: three passes in place, a
// thread does one butterfly of one signal in registers. Gentleman-Sande one way, Cooley-Tukey the other, so that spectra may stay in the order
// that the first leaves and the second takes. Both transforms are e^(-2 pi i x k / n), unscaled: the way back takes the
// conjugate spectrum and gives the conjugate signal.
#ifndef CUSI_MATCH_FFT_CUH
#define CUSI_MATCH_FFT_CUH

#include <cuda_runtime.h>

#include <cstdint>

namespace fft {

// Point x = (i b + j) c + k, later frequency i + a (j + b k), is element i stride + j c + k. c and the stride are odd, so that
// neither a pass nor the reordering meets the same banks again and again.
struct Plan {
    int n, a, b, c;
    int stride;  // b c, or one more
    int threads; // of a block, whole warps: one a butterfly and signal, or half as many
    int b_inverse, c_inverse;
    const float2 *twiddles; // w_n^(q t), a - 1 rows of b c, then w_bc^(q k), b - 1 rows of c
    const uint16_t *places; // elements of the frequencies
    __host__ __device__ int elements() const { return a * stride; }
    // t / b and t / c, for t below 4096.
    __device__ int overB(int t) const { return t * b_inverse >> 16; }
    __device__ int overC(int t) const { return t * c_inverse >> 16; }
    __device__ int place(int x) const { return x + (stride == b * c ? 0 : x / (b * c)); }
};

// Two such blocks a multiprocessor leave 80 registers a thread. On one H200, 1326 x 1025 with 479 x 432 takes 49.1 us so, 51.6 with 64
// registers, 55.1 with as many as there are uses for (111), and 57.7 with both signals in one thread (127).
constexpr int MOST_THREADS = 384, MOST_POINTS = 3840;
constexpr int A_RADICES[] = {8, 10, 12, 16}, B_RADICES[] = {4, 8, 9, 10, 12, 15, 16}, C_RADICES[] = {5, 9, 15};

// What a butterfly's rounding adds, in units of 2^-24, at most: of the Euclidean norm of its results, and at each result of the sum
// of its inputs' magnitudes. A layer of sums costs one unit; see errorUnits() in match_cuda.cu.
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
// A product with a rounded factor: 2 for the product by multiply-adds, 1 / sqrt(2) for the factor.
constexpr double TWIDDLE_UNITS = 2.8;

// ---- Arithmetic
// ---------------------------------------------------------------------------------------------------------

#define FFT_FN __device__ __forceinline__

FFT_FN float2 operator+(float2 p, float2 q) {
    return {p.x + q.x, p.y + q.y};
}
FFT_FN float2 operator-(float2 p, float2 q) {
    return {p.x - q.x, p.y - q.y};
}
FFT_FN float2 multiply(float2 p, float2 q) {
    return {fmaf(p.x, q.x, -(p.y * q.y)), fmaf(p.x, q.y, p.y * q.x)};
}
// p + s q, and p - i s q.
FFT_FN float2 add(float2 p, float s, float2 q) {
    return {fmaf(s, q.x, p.x), fmaf(s, q.y, p.y)};
}
FFT_FN float2 turn(float2 p, float s, float2 q) {
    return {fmaf(s, q.y, p.x), fmaf(-s, q.x, p.y)};
}

template<int R>
struct Butterfly;

template<>
struct Butterfly<2> {
    FFT_FN static void run(float2 (&v)[2]) {
        const float2 d = v[0] - v[1];
        v[0] = v[0] + v[1];
        v[1] = d;
    }
};
template<>
struct Butterfly<3> {
    FFT_FN static void run(float2 (&v)[3]) {
        constexpr float SIN = 0.866025403784438647f;
        const float2 sum = v[1] + v[2], d = v[1] - v[2], m = add(v[0], -0.5f, sum);
        v[0] = v[0] + sum;
        v[1] = turn(m, SIN, d);
        v[2] = turn(m, -SIN, d);
    }
};
template<>
struct Butterfly<4> {
    FFT_FN static void run(float2 (&v)[4]) {
        const float2 p = v[0] + v[2], q = v[0] - v[2], r = v[1] + v[3], s = v[1] - v[3];
        v[0] = p + r;
        v[1] = {q.x + s.y, q.y - s.x};
        v[2] = p - r;
        v[3] = {q.x - s.y, q.y + s.x};
    }
};
template<>
struct Butterfly<5> {
    FFT_FN static void run(float2 (&v)[5]) {
        constexpr float COS1 = 0.309016994374947424f, COS2 = -0.809016994374947424f;
        constexpr float SIN1 = 0.951056516295153572f, SIN2 = 0.587785252292473129f;
        const float2 s1 = v[1] + v[4], d1 = v[1] - v[4], s2 = v[2] + v[3], d2 = v[2] - v[3];
        const float2 p = add(add(v[0], COS1, s1), COS2, s2), q = add(add(v[0], COS2, s1), COS1, s2);
        const float2 r = {fmaf(SIN1, d1.x, SIN2 * d2.x), fmaf(SIN1, d1.y, SIN2 * d2.y)};
        const float2 s = {fmaf(SIN2, d1.x, -(SIN1 * d2.x)), fmaf(SIN2, d1.y, -(SIN1 * d2.y))};
        v[0] = v[0] + s1 + s2;
        v[1] = {p.x + r.y, p.y - r.x};
        v[4] = {p.x - r.y, p.y + r.x};
        v[2] = {q.x + s.y, q.y - s.x};
        v[3] = {q.x - s.y, q.y + s.x};
    }
};

// e^(-2 pi i k / R) for 2-level butterflies, rounded once.
constexpr float COS9[] = {1, 0.766044443118978035f, 0.173648177666930349f, 0, -0.939692620785908384f};
constexpr float SIN9[] = {0, 0.642787609686539327f, 0.984807753012208059f, 0, 0.342020143325668733f};
constexpr float COS16[] = {1, 0.923879532511286756f, 0, 0.382683432365089772f, 0, 0, 0, 0, 0, -0.923879532511286756f};
constexpr float SIN16[] = {0, 0.382683432365089772f, 0, 0.923879532511286756f, 0, 0, 0, 0, 0, -0.382683432365089772f};

// v e^(-2 pi i K / R).
template<int R, int K>
FFT_FN float2 turned(float2 v) {
    if constexpr (K == 0)
        return v;
    else if constexpr (4 * K == R)
        return {v.y, -v.x};
    constexpr float HALF = 0.707106781186547524f; // its root
    if constexpr (8 * K == R)
        return {(v.x + v.y) * HALF, (v.y - v.x) * HALF};
    if constexpr (8 * K == 3 * R)
        return {(v.y - v.x) * HALF, -((v.x + v.y) * HALF)};
    constexpr float COS = R == 9 ? COS9[K % 5] : COS16[K], SIN = R == 9 ? SIN9[K % 5] : SIN16[K];
    return multiply(v, {COS, -SIN});
}

// R = P Q, twiddles between: x = Q i + j, frequency = i + P j.
template<int R, int P, int Q>
struct TwoLevels {
    template<int I, int J>
    FFT_FN static void turnOne(float2 (&v)[R]) {
        v[I * Q + J] = turned<R, I * J>(v[I * Q + J]);
        if constexpr (J + 1 < Q)
            turnOne<I, J + 1>(v);
        else if constexpr (I + 1 < P)
            turnOne<I + 1, 1>(v);
    }
    FFT_FN static void run(float2 (&v)[R]) {
#pragma unroll
        for (int j = 0; j < Q; ++j) {
            float2 u[P];
#pragma unroll
            for (int i = 0; i < P; ++i)
                u[i] = v[Q * i + j];
            Butterfly<P>::run(u);
#pragma unroll
            for (int i = 0; i < P; ++i)
                v[Q * i + j] = u[i];
        }
        turnOne<1, 1>(v);
        float2 out[R];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            float2 u[Q];
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
struct Butterfly<8> : TwoLevels<8, 2, 4> {};
template<>
struct Butterfly<9> : TwoLevels<9, 3, 3> {};
template<>
struct Butterfly<16> : TwoLevels<16, 4, 4> {};

// R = P Q without common factor, no twiddles (Good and Thomas): x = Q i + P j mod R, frequency = i mod P and j mod Q.
template<int R, int P, int Q>
struct PrimeFactors {
    FFT_FN static void run(float2 (&v)[R]) {
#pragma unroll
        for (int j = 0; j < Q; ++j) {
            float2 u[P];
#pragma unroll
            for (int i = 0; i < P; ++i)
                u[i] = v[(Q * i + P * j) % R];
            Butterfly<P>::run(u);
#pragma unroll
            for (int i = 0; i < P; ++i)
                v[(Q * i + P * j) % R] = u[i];
        }
        float2 out[R];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            float2 u[Q];
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
struct Butterfly<10> : PrimeFactors<10, 2, 5> {};
template<>
struct Butterfly<12> : PrimeFactors<12, 3, 4> {};
template<>
struct Butterfly<15> : PrimeFactors<15, 3, 5> {};

// ---- Passes
// -------------------------------------------------------------------------------------------------------------

#ifdef __CUDACC__

// A thread's points.
template<int R>
struct Points {
    float2 v[R];
    __device__ void transform() { Butterfly<R>::run(v); }
    __device__ void twiddle(const float2 (&w)[R - 1]) {
#pragma unroll
        for (int i = 1; i < R; ++i)
            v[i] = multiply(v[i], w[i - 1]);
    }
};

// Neighboring threads do the same butterfly of both signals.
__device__ __forceinline__ int butterfly() {
    return static_cast<int>(threadIdx.x) / 2;
}
__device__ __forceinline__ int signal() {
    return static_cast<int>(threadIdx.x) % 2;
}
__device__ __forceinline__ int butterflies() {
    return static_cast<int>(blockDim.x) / 2;
}
// A signal's points are every second one of the block's memory.
__device__ __forceinline__ float2 *signalPoints(float4 *shared) {
    return reinterpret_cast<float2 *>(shared) + signal();
}

template<int R>
struct Radix {
    static constexpr int VALUE = R;
};

template<class Body>
__device__ __forceinline__ void withA(const Plan &plan, const Body &body) {
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
template<class Body>
__device__ __forceinline__ void withB(const Plan &plan, const Body &body) {
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
template<class Body>
__device__ __forceinline__ void withC(const Plan &plan, const Body &body) {
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

// Twiddle factors are asked for before the barrier that a pass begins with.
template<int R>
__device__ __forceinline__ void loadTwiddles(const float2 *table, int step, bool busy, float2 (&w)[R - 1]) {
#pragma unroll
    for (int i = 0; i < R - 1; ++i)
        w[i] = busy ? __ldg(table + i * step) : float2{0, 0};
}

// First pass forth: load(x) gives point x of the thread's signal.
template<class Load>
__device__ __forceinline__ void forwardA(const Plan &plan, float4 *shared, const Load &load) {
    withA(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int step = plan.b * plan.c;
        for (int t = butterfly(); t < step; t += butterflies()) {
            float2 *at = signalPoints(shared) + 2 * t;
            Points<R> p;
            float2 w[R - 1];
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = load(i * step + t);
            loadTwiddles<R>(plan.twiddles + t, step, true, w);
            p.transform();
            p.twiddle(w);
#pragma unroll
            for (int i = 0; i < R; ++i)
                at[2 * i * plan.stride] = p.v[i];
        }
    });
}

// Middle pass. Forth: butterfly, twiddles; back: twiddles, butterfly.
template<bool FORTH>
__device__ __forceinline__ void passB(const Plan &plan, float4 *shared) {
    withB(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int count = plan.a * plan.c;
        const float2 *table = plan.twiddles + (plan.a - 1) * plan.b * plan.c;
        int t = butterfly(), i0 = plan.overC(t), k = t - i0 * plan.c;
        float2 w[R - 1];
        loadTwiddles<R>(table + k, plan.c, t < count, w);
        __syncthreads();
        while (t < count) {
            float2 *at = signalPoints(shared) + 2 * (i0 * plan.stride + k);
            Points<R> p;
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = at[2 * i * plan.c];
            if (!FORTH)
                p.twiddle(w);
            p.transform();
            if (FORTH)
                p.twiddle(w);
#pragma unroll
            for (int i = 0; i < R; ++i)
                at[2 * i * plan.c] = p.v[i];
            t += butterflies();
            if (t >= count)
                break;
            i0 = plan.overC(t);
            k = t - i0 * plan.c;
            loadTwiddles<R>(table + k, plan.c, true, w);
        }
    });
}

// The pass that is last forth and first back.
__device__ __forceinline__ void passC(const Plan &plan, float4 *shared) {
    withC(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        __syncthreads();
        for (int t = butterfly(); t < plan.a * plan.b; t += butterflies()) {
            const int i0 = plan.overB(t), j = t - i0 * plan.b;
            float2 *at = signalPoints(shared) + 2 * (i0 * plan.stride + j * R);
            Points<R> p;
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

// Last pass back: store(x, from, value) takes point x of the thread's signal; `from` is where it was in shared memory.
template<class Store>
__device__ __forceinline__ void backwardA(const Plan &plan, float4 *shared, const Store &store) {
    withA(plan, [&](auto radix) {
        constexpr int R = decltype(radix)::VALUE;
        const int step = plan.b * plan.c;
        int t = butterfly();
        float2 w[R - 1];
        loadTwiddles<R>(plan.twiddles + t, step, t < step, w);
        __syncthreads();
        while (t < step) {
            float2 *at = signalPoints(shared) + 2 * t;
            Points<R> p;
#pragma unroll
            for (int i = 0; i < R; ++i)
                p.v[i] = at[2 * i * plan.stride];
            p.twiddle(w);
            p.transform();
#pragma unroll
            for (int i = 0; i < R; ++i)
                store(i * step + t, at + 2 * i * plan.stride, p.v[i]);
            t += butterflies();
            if (t >= step)
                break;
            loadTwiddles<R>(plan.twiddles + t, step, true, w);
        }
    });
}

#endif

} // namespace fft

#endif
