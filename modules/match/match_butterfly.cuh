// Butterflies in registers: forward transforms of 2 to 16 complex points, e^(-2 pi i x k / R), unscaled, of float or double.
#ifndef CUSI_MATCH_BUTTERFLY_CUH
#define CUSI_MATCH_BUTTERFLY_CUH

#include <cuda_runtime.h>

namespace match::fft {

// Bound of a butterfly's rounding error in units of 2^-24: of the Euclidean norm of its results, and at each result of the
// sum of the magnitudes of its inputs. A layer of additions costs one unit; see docs/internals/match.md.
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
// Multiplication by a rounded factor: 2 for the product with multiply-adds, 1 / sqrt(2) for the factor.
constexpr double TWIDDLE_UNITS = 2.8;

#define FFT_FN __device__ __forceinline__

// float2 and double2, and their components.
template<class Complex>
using RealOf = decltype(Complex::x);
FFT_FN float multiplyAdd(float a, float b, float c) {
    return fmaf(a, b, c);
}
FFT_FN double multiplyAdd(double a, double b, double c) {
    return fma(a, b, c);
}

FFT_FN float2 operator+(float2 p, float2 q) {
    return {p.x + q.x, p.y + q.y};
}
FFT_FN double2 operator+(double2 p, double2 q) {
    return {p.x + q.x, p.y + q.y};
}
FFT_FN float2 operator-(float2 p, float2 q) {
    return {p.x - q.x, p.y - q.y};
}
FFT_FN double2 operator-(double2 p, double2 q) {
    return {p.x - q.x, p.y - q.y};
}
template<class Complex>
FFT_FN Complex multiply(Complex p, Complex q) {
    return {multiplyAdd(p.x, q.x, -(p.y * q.y)), multiplyAdd(p.x, q.y, p.y * q.x)};
}
// p + s q and p - i s q.
template<class Complex>
FFT_FN Complex addScaled(Complex p, RealOf<Complex> s, Complex q) {
    return {multiplyAdd(s, q.x, p.x), multiplyAdd(s, q.y, p.y)};
}
template<class Complex>
FFT_FN Complex addRotated(Complex p, RealOf<Complex> s, Complex q) {
    return {multiplyAdd(s, q.y, p.x), multiplyAdd(-s, q.x, p.y)};
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
        const Complex r = {multiplyAdd(SIN1, d1.x, SIN2 * d2.x), multiplyAdd(SIN1, d1.y, SIN2 * d2.y)};
        const Complex s = {multiplyAdd(SIN2, d1.x, -(SIN1 * d2.x)), multiplyAdd(SIN2, d1.y, -(SIN1 * d2.y))};
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

// v e^(-2 pi i K / R).
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

// R = P Q with twiddle factors in between: point x = Q i + j, frequency i + P j.
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

// R = P Q with coprime P and Q, no twiddle factors: point x = Q i + P j mod R, frequency = i mod P and j mod Q.
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

} // namespace match::fft

#endif
