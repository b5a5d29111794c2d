/* The model of a matcher, and the functions that the entry points call in the two backends. */
#ifndef CUSI_MATCH_MODEL_H
#define CUSI_MATCH_MODEL_H

#include "cusight/match.h"
#include "guard.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MATCH_MAX_CHANNELS = 4 };
enum { MATCH_SAMPLES = 1024 }; /* pixels of a frame of floats whose mean it is shifted by */

/* A matcher's constants. Before the FFT, each channel of templates and frames is shifted by the templates' mean; frames may
 * have a shift of their own (match_hasOwnShift). Primes (I', T') mean shifted values. With a mask, all sums run over the
 * pixels inside it. With weights, each product of float pixels is multiplied by the squared weight, and nothing is
 * shifted. */
typedef struct MatchModel {
    cusMatchMethod method;
    int integer; /* pixels are bytes, so all sums are exact integers */
    int masked;
    int weighted; /* masked by floats, or each channel by a mask of its own */
    int channels;
    int w, h;               /* template size */
    int cols, rows;         /* frame size */
    int ocols, orows;       /* score map size */
    int count;              /* templates that are matched in a frame */
    int templates;          /* all of them: more than `count` if each frame of a batch has its own */
    int frames;             /* frames in a batch; 1 without batches */
    int needs_s1, needs_s2; /* window sums that the method needs */
    int max_matches, min_distance, subpixel;
    int samples;      /* pixels of a window whose mean centers it; 0 except for floats with methods that subtract means */
    double n;         /* pixels of the template inside the mask */
    double mask_norm; /* Euclidean norm of the mask, of ones or of squared weights */
    double unit;      /* unit of scores: the square of the power of two that weights were divided by, or 1 */
    double
        shift[MATCH_MAX_CHANNELS]; /* shift of frames, and of templates unless these have their own: integers for bytes */
    double error;        /* bound of a correlation's error, divided by the sum over channels of |frame| |template| */
    double window_error; /* floats: bound of the error of a window's sum of squares, divided by the frame's sum */
    double limit_cost;   /* maximum cost of a match, times unit; infinity without a limit */
} MatchModel;

/* Sums of the pixels of one shifted template inside the mask. */
typedef struct MatchTemplate {
    double t1[MATCH_MAX_CHANNELS], t2;
    double shift[MATCH_MAX_CHANNELS];          /* MatchModel::shift, or the mean if frames have their own shift */
    double raw_t1[MATCH_MAX_CHANNELS], raw_t2; /* not shifted */
    double variation;                /* sum of squared differences from the channels' means; 0 if all pixels are equal */
    double norm[MATCH_MAX_CHANNELS]; /* Euclidean norm of each shifted channel */
    double step;                     /* SQDIFF of floats: see match_rank() */
    double unit; /* power of two that divides shifted pixels before their transform in float; 1 for bytes */
} MatchTemplate;

/* Returns whether frames are shifted by their own mean. Floats may have other units than the template, except for
 * squared differences. */
static inline int match_hasOwnShift(const MatchModel *m) {
    return !m->integer && !m->weighted && m->method != CUS_MATCH_SQDIFF && m->method != CUS_MATCH_SQDIFF_NORMED;
}

struct cusMatcher {
    MatchModel model;
    int type;
    cusSpace space;
    cusMat floats; /* the frame as floats if bytes have weights */
    cusMatchAlgorithm algorithm;
    int frames_at_once; /* frames of a batch that a call of the backend takes; 1 on the host and with the FFT */
    cusMat results;     /* frames * count rows of max_matches cusMatch */
    void *backend;
    CusiGuard guard;
};

/* A mask in host memory without row padding, one value for each element. */
typedef struct MatchMask {
    uint8_t *inside; /* 255 or 0; NULL if there is no mask */
    float *weights;  /* NULL if there are no weights */
} MatchMask;

/* Returns element i of pixel data in host memory, 8-bit or float. */
static inline double match_element(const void *data, int integer, size_t i) {
    return integer ? ((const uint8_t *)data)[i] : ((const float *)data)[i];
}

/* Returns the factor of element i's product: the squared weight. */
static inline double match_weight(MatchMask mask, size_t i) {
    if (mask.weights)
        return (double)mask.weights[i] * mask.weights[i];
    return !mask.inside || mask.inside[i] ? 1 : 0;
}

/* Chooses samples, as indices of the template's pixels, that are evenly spaced among those inside the mask. */
void match_chooseSamples(const MatchModel *m, MatchMask mask, uint32_t *samples);

/* ---- Backends -------------------------------------------------------------------------------------------------------- */

/* The callers have checked all arguments. Host functions finish before they return. CUDA functions queue their work; only
 * match_cuda_prepare() waits for it. */

/* Prepares the backend for the model, whose `error` it sets, and these templates (host memory without row padding). */
cusStatus match_host_prepare(cusMatcher *matcher, const void *templates, MatchMask mask, const MatchTemplate *sums);
cusStatus match_cuda_prepare(cusMatcher *matcher, const void *templates, MatchMask mask, const MatchTemplate *sums,
                             cusStream stream);
void match_host_release(cusMatcher *matcher);
void match_cuda_release(cusMatcher *matcher);

/* Returns the algorithm that is used if `wanted` is asked for; for CUS_MATCH_AUTO the faster one. */
cusMatchAlgorithm match_host_algorithm(const MatchModel *model, cusMatchAlgorithm wanted);
cusStatus match_cuda_algorithm(const MatchModel *model, cusMatchAlgorithm wanted, cusMatchAlgorithm *algorithm);

/* Matches frame `index` of a batch (0 without one), on the device the `count` frames from it on, at most frames_at_once.
 * Results begin at row index * MatchModel::count. scores: the maps of this frame; on the device those of the batch. */
cusStatus match_host_run(cusMatcher *matcher, int index, const cusMat *frame, cusMat *scores);
cusStatus match_cuda_run(cusMatcher *matcher, int index, int count, const cusMat *frames, cusMat *scores, cusStream stream);

/* Converts a frame of bytes to floats. */
cusStatus match_cuda_toFloats(const cusMat *frame, cusMat *floats, cusStream stream);

cusStatus match_host_inspect(cusMatcher *matcher, int index, const cusMat *frame, const cusHsvRange *range,
                             double min_fill);
cusStatus match_cuda_inspect(cusMatcher *matcher, int index, const cusMat *frame, const cusHsvRange *range, double min_fill,
                             cusStream stream);

#ifdef __cplusplus
}
#endif

#endif
