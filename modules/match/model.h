/* What is looked for, and what the entry points ask of the two backends. */
#ifndef CUSI_MATCH_MODEL_H
#define CUSI_MATCH_MODEL_H

#include "cusight/match.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MATCH_MAX_CHANNELS = 4, MATCH_MAX_PLANES = MATCH_MAX_CHANNELS + 1 };
#define MATCH_MAX_ENERGY 1e30

/* A matcher's constants. Before the FFT, images and templates are shifted by an integer m_c for each channel, the rounded
 * mean of the templates; primes below mean "of the shifted values". Planes are what is transformed: the channels and, for a
 * masked SQDIFF, the squares of the shifted pixels minus `square_shift`, which are correlated with the mask. */
typedef struct MatchModel {
    cusMatchMethod method;
    int integer; /* 8-bit images: all sums are exact integers */
    int masked;
    int channels, planes;
    int w, h;               /* template size */
    int cols, rows;         /* frame size */
    int ocols, orows;       /* score map size */
    int count;              /* number of templates */
    int needs_s1, needs_s2; /* window sums that the method needs */
    int max_matches, min_distance, subpixel;
    double n;                         /* w h */
    double shift[MATCH_MAX_CHANNELS]; /* m_c */
    double square_shift;
    double error;      /* bound of a correlation's error, divided by the sum over planes of |plane| |template plane| */
    double limit_cost; /* maximum cost of a match; infinity without a limit */
} MatchModel;

/* Sums of one shifted template; with a mask, of the pixels inside it. */
typedef struct MatchTemplate {
    double t1[MATCH_MAX_CHANNELS], t2;
    double raw_t1[MATCH_MAX_CHANNELS]; /* not shifted */
    double norm[MATCH_MAX_PLANES];     /* Euclidean norm of the template plane that each plane is correlated with */
} MatchTemplate;

struct cusMatcher {
    MatchModel model;
    int type;
    cusSpace space;
    cusMatchAlgorithm algorithm;
    cusMat results; /* count rows of max_matches cusMatch */
    void *backend;
    CusiGuard guard;
};

/* Element i of pixel data in host memory, 8-bit or float. */
static inline double match_element(const void *data, int integer, size_t i) {
    return integer ? ((const uint8_t *)data)[i] : ((const float *)data)[i];
}

/* ---- Backends --------------------------------------------------------------------------------------------------------- */

/* Arguments have been checked. The host functions finish before they return; the CUDA functions queue their work
 * (match_cuda_prepare() waits for it). */

/* Allocates and prepares the backend from templates and mask (host memory without row padding; mask NULL if there is none),
 * their sums, and the model, whose `error` it sets. */
cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums);
cusStatus match_cuda_prepare(cusMatcher *matcher, const void *templates, const uint8_t *mask, const MatchTemplate *sums,
                             cusStream stream);
void match_host_release(cusMatcher *matcher);
void match_cuda_release(cusMatcher *matcher);

/* The algorithm to take if `wanted` is asked for: for CUS_MATCH_AUTO the faster one. */
cusMatchAlgorithm match_host_algorithm(const MatchModel *model, cusMatchAlgorithm wanted);
cusStatus match_cuda_algorithm(const MatchModel *model, cusMatchAlgorithm wanted, cusMatchAlgorithm *algorithm);

cusStatus match_host_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores);
cusStatus match_cuda_run(cusMatcher *matcher, const cusMat *frame, cusMat *scores, cusStream stream);

cusStatus match_host_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill);
cusStatus match_cuda_inspect(cusMatcher *matcher, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
