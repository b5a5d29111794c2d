/* What the elements have in common: a GstBaseTransform with a table of properties. The library's objects are made anew at the first
 * frame after new caps, a flush or another property; other frames allocate nothing. */
#ifndef CUSIGHT_PLUGINS_GSTREAMER_FILTER_H
#define CUSIGHT_PLUGINS_GSTREAMER_FILTER_H

#include <cusight/core.h>
#include <gst/base/gstbasetransform.h>
#include <gst/video/video.h>

#define CUS_RAW_CAPS(formats) GST_VIDEO_CAPS_MAKE("{ " formats " }")
#ifdef CUSIGHT_HAVE_GST_CUDA /* frames in the memory of a device, too */
#define CUS_INPUT_CAPS(formats) \
    CUS_RAW_CAPS(formats) ";" GST_VIDEO_CAPS_MAKE_WITH_FEATURES("memory:CUDAMemory", "{ " formats " }")
#else
#define CUS_INPUT_CAPS CUS_RAW_CAPS
#endif
#define CUS_BYTE_FORMATS "BGR, RGB, GRAY8, BGRx, RGBx, BGRA, RGBA"
#define CUS_BOX_FORMATS  "GRAY8, BGR, I420, NV12, YV12, NV21, Y42B, Y444" /* of YUV, plane 0 is used */

GST_DEBUG_CATEGORY_EXTERN(cus_debug);
#define GST_CAT_DEFAULT cus_debug

/* A property, kept in a struct `Settings`: of type int, int64, double, string (interned), or boolean or enum as an int. */
typedef struct CusOption {
    const char *name, *text;
    size_t offset;
    GType type;
    int least;
    double most;
} CusOption;
#define CUS_OPTION(path, field, type, least, most, text) \
    { #field, text, G_STRUCT_OFFSET(Settings, path field), type, least, most }
typedef guint64 CusSettings[32];
#define CUS_DEFAULTS(...)                                     \
    G_STATIC_ASSERT(sizeof(Settings) <= sizeof(CusSettings)); \
    static void defaults(gpointer settings) {                 \
        *(Settings *)settings = __VA_ARGS__;                  \
    }

/* A buffer whose memory is mapped: a frame, of which `mat` is a view, or other bytes. */
typedef struct CusMapped {
    GstBuffer *buffer;
    GstVideoFrame frame;
    GstMapInfo bytes;
    cusMat mat;
} CusMapped;

typedef struct CusFilter {
    GstBaseTransform base;
    GstVideoInfo in, out;                /* of the frames, or of those that are encoded */
    int rows, cols, type;                /* of the input's frames, as the library has them */
    cusSpace space;                      /* likewise */
    gboolean takes_frames, gives_frames; /* otherwise messages of differences, or drawings */
    GValue set[16];                      /* the properties */
    CusSettings used;                    /* `Settings` of the library's objects */
    gint stale;                          /* the objects do not fit the caps or the properties any more */
    int count;                           /* boxes of the last frame */
    const char *state;                   /* of a detector: part of its messages, or NULL */
    gpointer cuda_context;               /* of the last frame, if that is on the device */
} CusFilter;

/* What an element is. start makes objects by `used`, stop destroys them. frame handles a frame; out->bytes.size becomes what is
 * used of `out`. Or find finds boxes, whose number is returned, below 0 after an error, and box describes one. src_event of codecs
 * takes an event of downstream; FALSE: the base class does. */
typedef struct CusElement {
    const char *name, *texts[3], *caps[2]; /* texts: title, class, description; caps: input, output */
    size_t instance;                       /* bytes of its struct, which begins with a CusFilter */
    const CusOption *options;              /* the last one has no name */
    GType (*method_type)(void);            /* of an option of G_TYPE_ENUM */
    void (*defaults)(gpointer settings);
    gboolean (*start)(CusFilter *filter);
    void (*stop)(CusFilter *filter);
    GstFlowReturn (*frame)(CusFilter *filter, const CusMapped *in, CusMapped *out);
    int (*find)(CusFilter *filter, const cusMat *frame, GstClockTime running_time);
    GstStructure *(*box)(CusFilter *filter, int index, int rectangle[4], guint *id);
    gboolean (*src_event)(CusFilter *filter, GstEvent *event);
} CusElement;
extern const CusElement cus_heatmap, cus_motion, cus_match, cus_diff_enc, cus_diff_dec;

/* TRUE: success. Otherwise the library's error has been posted as the element's. */
gboolean cus_check(CusFilter *filter, cusStatus status);
/* Maps a frame, or, if info is NULL, bytes. FALSE: an error was posted. */
gboolean cus_map(CusFilter *filter, const GstVideoInfo *info, GstBuffer *buffer, GstMapFlags flags, CusMapped *mapped);
void cus_unmap(CusMapped *mapped);
GstFlowReturn cus_boxes_frame(CusFilter *filter, const CusElement *element, const CusMapped *in, CusMapped *out);

/* cuda.c, the only file that uses gst-plugins-bad's unstable interface. The CUDA context of a frame, or of the last one if it is
 * NULL, is current until leave, which may forget it. FALSE: it cannot. */
#ifdef CUSIGHT_HAVE_GST_CUDA
gboolean cus_cuda_enter(CusFilter *filter, GstBuffer *buffer);
void cus_cuda_leave(CusFilter *filter, gboolean forget);
#else
#define cus_cuda_enter(filter, buffer) ((void)(filter), (void)(buffer), TRUE)
#define cus_cuda_leave(filter, forget) ((void)(filter))
#endif

#endif /* CUSIGHT_PLUGINS_GSTREAMER_FILTER_H */
