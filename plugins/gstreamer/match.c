#include "filter.h"

#include <cusight/match.h>

typedef struct Settings {
    cusMatcherOptions match;
    const char *template;
} Settings;

typedef struct CusMatch {
    CusFilter filter;
    cusMatcher *matcher;
    cusMatch matches[1024]; /* of the last frame */
    int width, height;      /* of the template */
} CusMatch;

static const CusOption options[] = {
    CUS_OPTION(, template, G_TYPE_STRING, 0, 0, "Picture to find: a file (PNG, JPEG and so on) that GStreamer decodes"),
    CUS_OPTION(match., method, G_TYPE_ENUM, 0, 0, "How places are scored"),
    CUS_OPTION(match., score_limit, G_TYPE_DOUBLE, 0, 0,
               "Worst score of a match: the largest for sqdiff and sqdiff-normed, otherwise the least; default: no limit"),
    CUS_OPTION(match., max_matches, G_TYPE_INT, 1, 1024, "Most matches of a frame, best first"),
    CUS_OPTION(match., min_distance, G_TYPE_INT, 1, G_MAXINT, "Two matches differ by at least so many pixels in x or in y"),
    CUS_OPTION(match., subpixel, G_TYPE_BOOLEAN, 0, 1, "Find dx and dy, too: the fractions of pixels from x and y"),
    {0},
};
CUS_DEFAULTS((Settings){cusMatcherDefaults(), NULL})

static GType method_type(void) {
    static const GEnumValue values[] = {
        {CUS_MATCH_SQDIFF, "Sum of squared differences", "sqdiff"},
        {CUS_MATCH_SQDIFF_NORMED, "Sum of squared differences, normalized", "sqdiff-normed"},
        {CUS_MATCH_CCORR, "Correlation", "ccorr"},
        {CUS_MATCH_CCORR_NORMED, "Correlation, normalized", "ccorr-normed"},
        {CUS_MATCH_CCOEFF, "Correlation coefficient", "ccoeff"},
        {CUS_MATCH_CCOEFF_NORMED, "Correlation coefficient, normalized: light does not matter", "ccoeff-normed"},
        {0, NULL, NULL},
    };
    return g_enum_register_static("CusMatchMethod", values);
}

/* Reads the template by GStreamer's own decoders, as a frame of the stream's format and colors. NULL: an error was posted. */
static GstSample *read_template(CusFilter *filter, const char *file) {
    GstSample *sample = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(GstElement) pipeline =
        gst_parse_launch_full("filesrc name=file ! decodebin ! videoconvert ! capsfilter name=format ! fakesink name=sink",
                              NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
    if (pipeline) {
        g_autoptr(GstCaps) caps = gst_video_info_to_caps(&filter->in);
        gst_structure_remove_fields(gst_caps_get_structure(caps, 0), "width", "height", "framerate", "pixel-aspect-ratio",
                                    "interlace-mode", "multiview-mode", "multiview-flags", "chroma-site", NULL);
        gst_child_proxy_set(GST_CHILD_PROXY(pipeline), "file::location", file, "format::caps", caps, NULL);
        gst_element_set_state(pipeline, GST_STATE_PAUSED);
        g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
        g_autoptr(GstMessage) message =
            gst_bus_timed_pop_filtered(bus, 20 * GST_SECOND, GST_MESSAGE_ERROR | GST_MESSAGE_ASYNC_DONE);
        if (message && GST_MESSAGE_TYPE(message) == GST_MESSAGE_ERROR)
            gst_message_parse_error(message, &error, NULL);
        else
            gst_child_proxy_get(GST_CHILD_PROXY(pipeline), "sink::last-sample", &sample, NULL);
        gst_element_set_state(pipeline, GST_STATE_NULL);
    }
    if (!sample)
        GST_ELEMENT_ERROR(filter, RESOURCE, READ, ("The template \"%s\" cannot be read.", file),
                          ("%s", error ? error->message : "It has no picture."));
    return sample;
}

static void stop(CusFilter *filter) {
    g_clear_pointer(&((CusMatch *)filter)->matcher, cusMatcherDestroy);
}

static gboolean start(CusFilter *filter) {
    CusMatch *self = (CusMatch *)filter;
    const Settings *used = (const Settings *)filter->used;
    if (!used->template) {
        GST_ELEMENT_ERROR(filter, RESOURCE, SETTINGS, ("The property \"template\" is not set to a file."), (NULL));
        return FALSE;
    }
    g_autoptr(GstSample) sample = read_template(filter, used->template);
    GstVideoInfo info;
    CusMapped mapped = {0};
    cusMat device = CUS_MAT_INIT, *picture = filter->space == CUS_DEVICE ? &device : &mapped.mat;
    const gboolean done =
        sample && gst_video_info_from_caps(&info, gst_sample_get_caps(sample)) &&
        cus_map(filter, &info, gst_sample_get_buffer(sample), GST_MAP_READ, &mapped) &&
        (picture == &mapped.mat || cus_check(filter, cusMatUpload(&mapped.mat, picture, NULL))) &&
        cus_check(filter, cusMatcherCreate(&self->matcher, picture, 1, filter->rows, filter->cols, &used->match, NULL));
    self->width = mapped.mat.cols;
    self->height = mapped.mat.rows;
    cusMatRelease(&device);
    cus_unmap(&mapped);
    return done;
}

static int find(CusFilter *filter, const cusMat *frame, GstClockTime running_time) {
    CusMatch *self = (CusMatch *)filter;
    int found = -1;
    (void)running_time;
    if (cus_check(filter, cusMatcherRun(self->matcher, frame, NULL, NULL)))
        cus_check(filter, cusMatcherGet(self->matcher, 0, self->matches, G_N_ELEMENTS(self->matches), &found, NULL));
    return found;
}

static GstStructure *box(CusFilter *filter, int index, int rectangle[4], guint *id) {
    const CusMatch *self = (CusMatch *)filter;
    const cusMatch *match = &self->matches[index];
    rectangle[0] = match->x, rectangle[1] = match->y, rectangle[2] = self->width, rectangle[3] = self->height;
    *id = (guint)index;
    return gst_structure_new("match", "score", G_TYPE_DOUBLE, match->score, "dx", G_TYPE_DOUBLE, (double)match->dx, "dy",
                             G_TYPE_DOUBLE, (double)match->dy, NULL);
}

const CusElement cus_match = {.name = "cusmatch",
                              .texts = {"Template matcher", "Filter/Analyzer/Video",
                                        "Finds a picture in frames: boxes as metadata and messages, or as drawings (SVG)"},
                              .caps = {CUS_INPUT_CAPS(CUS_BOX_FORMATS), CUS_INPUT_CAPS(CUS_BOX_FORMATS) ";image/svg+xml"},
                              .instance = sizeof(CusMatch),
                              .options = options,
                              .method_type = method_type,
                              .defaults = defaults,
                              .start = start,
                              .stop = stop,
                              .find = find,
                              .box = box};
