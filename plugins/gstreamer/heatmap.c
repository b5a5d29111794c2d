#include "filter.h"

#include <cusight/framediff.h>

typedef cusHeatmapOptions Settings;

typedef struct CusHeatmap {
    CusFilter filter;
    GstBuffer *last;
    cusMat device; /* the heatmap of frames on the device */
} CusHeatmap;

static const CusOption options[] = {
    CUS_OPTION(, full_scale, G_TYPE_INT, 1, 65535, "Difference, summed over the channels of a pixel, that is pure red"),
    {0},
};
CUS_DEFAULTS(cusHeatmapDefaults())

static void stop(CusFilter *filter) {
    gst_clear_buffer(&((CusHeatmap *)filter)->last);
    cusMatRelease(&((CusHeatmap *)filter)->device);
}

/* The first frame is compared with itself. */
static GstFlowReturn frame(CusFilter *filter, const CusMapped *in, CusMapped *out) {
    CusHeatmap *self = (CusHeatmap *)filter;
    CusMapped last = {0};
    cusMat *map = filter->space == CUS_DEVICE ? &self->device : &out->mat;
    if (!cus_map(filter, &filter->in, self->last ? self->last : in->buffer, GST_MAP_READ, &last))
        return GST_FLOW_ERROR;
    const gboolean done = cus_check(filter, cusHeatmap(&last.mat, &in->mat, map, (const Settings *)filter->used, NULL)) &&
                          (map == &out->mat || cus_check(filter, cusMatDownload(map, &out->mat, NULL)));
    cus_unmap(&last);
    gst_buffer_replace(&self->last, in->buffer);
    return done ? GST_FLOW_OK : GST_FLOW_ERROR;
}

const CusElement cus_heatmap = {
    .name = "cusheatmap",
    .texts = {"Heatmap of changes", "Filter/Effect/Video",
              "Shows what has changed since the last frame: from blue for nothing over green to red"},
    .caps = {CUS_INPUT_CAPS(CUS_BYTE_FORMATS), CUS_RAW_CAPS("BGR")},
    .instance = sizeof(CusHeatmap),
    .options = options,
    .defaults = defaults,
    .stop = stop,
    .frame = frame};
