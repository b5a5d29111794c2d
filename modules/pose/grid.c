/* The grid of angles and scales. Transforms have the same bits on every machine. */
#include "pose/backend.h"

#include <math.h>

/* Multiplies numbers in units of 2^-62. */
static int64_t multiply(int64_t a, int64_t b) {
    return (int64_t)(((__int128)a * b) >> 62);
}

/* Computes cosine and sine of 0..45 degrees by their series, in units of 2^-62; the error is below 2^-57. */
static void series(double degrees, int64_t *cosine, int64_t *sine) {
    const int64_t radian = INT64_C(0x477d1a894a74e45); /* pi / 180 in units of 2^-64 */
    const int64_t x = (int64_t)(((__int128)(int64_t)(degrees * 0x1p52) * radian) >> 54), square = multiply(x, x);
    int64_t c = INT64_C(1) << 62, s = x;
    *cosine = *sine = 0;
    for (int k = 1; k < 24; k += 2) {
        *cosine += c;
        *sine += s;
        c = -multiply(c, square) / (k * (k + 1));
        s = -multiply(s, square) / ((k + 1) * (k + 2));
    }
}

/* Computes cosine and sine, rounded to 2^-40. Reductions to 0..45 degrees are exact. */
static void cosineAndSine(double angle, double *cosine, double *sine) {
    const double whole = fabs(fmod(angle, 360));
    const int quarters = (whole >= 90) + (whole >= 180) + (whole >= 270);
    const double a = whole - 90 * quarters;
    const int swapped = a > 45;
    int64_t c, s;
    series(swapped ? 90 - a : a, &c, &s);
    const int64_t half = INT64_C(1) << 21;
    double values[2];
    values[swapped] = (double)((c + half) >> 22) * 0x1p-40;
    values[1 - swapped] = (double)((s + half) >> 22) * 0x1p-40;
    for (int i = 0; i < quarters; ++i) {
        const double turned = -values[1];
        values[1] = values[0];
        values[0] = turned;
    }
    *cosine = values[0];
    *sine = angle < 0 ? -values[1] : values[1];
}

static int canvasSide(double along, double across) {
    return (int)(((int64_t)ceil((along + across) * 0x1p20) + (1 << 20) - 1) >> 20);
}

PoseTransform pose_transform(int width, int height, double angle, double scale) {
    double c, s;
    cosineAndSine(angle, &c, &s);
    const double over = 0x1p32 / scale, across = fabs(c) * scale, along = fabs(s) * scale;
    PoseTransform t = {.cosine = (int64_t)floor(c * over + 0.5),
                       .sine = (int64_t)floor(s * over + 0.5),
                       .width = width,
                       .height = height,
                       .cols = canvasSide(across * width, along * height),
                       .rows = canvasSide(along * width, across * height)};
    return t;
}
