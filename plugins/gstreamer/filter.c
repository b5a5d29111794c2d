#include "filter.h"

#include <float.h>
#include <math.h>

typedef struct CusFilterClass {
    GstBaseTransformClass base;
    const CusElement *element;
} CusFilterClass;
static GstBaseTransformClass *parent; /* GstBaseTransform's own */

#define ELEMENT(filter) (G_TYPE_INSTANCE_GET_CLASS(filter, 0, CusFilterClass)->element)
#define TYPE(info)      CUS_MAKETYPE(CUS_8U, GST_VIDEO_INFO_IS_YUV(info) ? 1 : GST_VIDEO_INFO_COMP_PSTRIDE(info, 0))

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *spec) {
    CusFilter *filter = (CusFilter *)object;
    GValue copy = G_VALUE_INIT;
    g_value_copy(value, g_value_init(&copy, spec->value_type));
    if (spec->value_type == G_TYPE_STRING)
        g_value_set_static_string(&copy, g_intern_string(g_value_get_string(value)));
    GST_OBJECT_LOCK(object);
    filter->set[id] = copy; /* owns nothing */
    GST_OBJECT_UNLOCK(object);
    g_atomic_int_set(&filter->stale, TRUE);
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *spec) {
    (void)spec;
    GST_OBJECT_LOCK(object);
    g_value_copy(&((CusFilter *)object)->set[id], value);
    GST_OBJECT_UNLOCK(object);
}

static void use_properties(CusFilter *filter, const CusOption *option) {
    GValue whole = G_VALUE_INIT;
    g_value_init(&whole, G_TYPE_INT64);
    GST_OBJECT_LOCK(filter);
    for (const GValue *value = &filter->set[1]; option->name; ++option, ++value) {
        void *field = (char *)filter->used + option->offset;
        if (option->type == G_TYPE_STRING)
            *(const char **)field = g_value_get_string(value);
        else if (option->type == G_TYPE_DOUBLE) /* a property cannot be NaN, the library's "none": the largest number is */
            *(double *)field = g_value_get_double(value) < DBL_MAX ? g_value_get_double(value) : NAN;
        else if (g_value_transform(value, &whole) && option->type == G_TYPE_INT64)
            *(gint64 *)field = g_value_get_int64(&whole);
        else
            *(int *)field = (int)g_value_get_int64(&whole);
    }
    GST_OBJECT_UNLOCK(filter);
}

static GParamSpec *spec_of(const CusOption *option, const void *value, const CusElement *element) {
    const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT | G_PARAM_STATIC_BLURB | GST_PARAM_MUTABLE_PLAYING;
    const char *name = option->name, *text = option->text;
    if (option->type == G_TYPE_STRING)
        return g_param_spec_string(name, NULL, text, NULL, flags);
    if (option->type == G_TYPE_DOUBLE)
        return g_param_spec_double(name, NULL, text, -DBL_MAX, DBL_MAX, DBL_MAX, flags);
    if (option->type == G_TYPE_INT64)
        return g_param_spec_int64(name, NULL, text, 0, (gint64)option->most, *(const gint64 *)value, flags);
    if (option->type == G_TYPE_BOOLEAN)
        return g_param_spec_boolean(name, NULL, text, *(const int *)value, flags);
    if (option->type == G_TYPE_ENUM)
        return g_param_spec_enum(name, NULL, text, element->method_type(), *(const int *)value, flags);
    return g_param_spec_int(name, NULL, text, option->least, (int)option->most, *(const int *)value, flags);
}

/* A codec's caps keep all fields, and so do frames that only get boxes, which stay in their memory. Heatmaps and drawings share the
 * frames' size and rate. */
static GstCaps *transform_caps(GstBaseTransform *base, GstPadDirection direction, GstCaps *caps, GstCaps *filter) {
    static const char *const shared[] = {"width", "height", "framerate", "pixel-aspect-ratio"};
    const CusElement *element = ELEMENT(base);
    GstCaps *template = gst_pad_get_pad_template_caps(direction == GST_PAD_SINK ? base->srcpad : base->sinkpad);
    GstCaps *result = gst_caps_new_empty();
    for (guint i = 0; i < gst_caps_get_size(caps); ++i)
        for (guint k = 0; k < gst_caps_get_size(template); ++k) {
            const GstStructure *from = gst_caps_get_structure(caps, i), *to = gst_caps_get_structure(template, k);
            GstCapsFeatures *features = gst_caps_get_features(template, k);
            const gboolean passes = element->find && gst_structure_has_name(from, gst_structure_get_name(to));
            if (passes && !gst_caps_features_is_equal(gst_caps_get_features(caps, i), features))
                continue;
            GstStructure *made = gst_structure_copy(passes || element->src_event ? from : to);
            gst_structure_set_name(made, gst_structure_get_name(to));
            for (guint field = 0; field < G_N_ELEMENTS(shared); ++field)
                if (gst_structure_has_field(from, shared[field]))
                    gst_structure_set_value(made, shared[field], gst_structure_get_value(from, shared[field]));
            result = gst_caps_merge_structure_full(result, made, gst_caps_features_copy(features));
        }
    gst_caps_unref(template);
    if (filter)
        gst_caps_take(&result, gst_caps_intersect_full(filter, result, GST_CAPS_INTERSECT_FIRST));
    return result;
}

static gboolean parse(const GstCaps *caps, GstVideoInfo *info) {
    GstCaps *raw = gst_caps_copy(caps);
    gst_structure_set_name(gst_caps_get_structure(raw, 0), "video/x-raw");
    const gboolean parsed = gst_video_info_from_caps(info, raw);
    gst_caps_unref(raw);
    return parsed;
}

static gboolean set_caps(GstBaseTransform *base, GstCaps *in, GstCaps *out) {
    CusFilter *filter = (CusFilter *)base;
    filter->space = gst_caps_features_contains(gst_caps_get_features(in, 0), "memory:CUDAMemory") ? CUS_DEVICE : CUS_HOST;
    filter->takes_frames = gst_structure_has_name(gst_caps_get_structure(in, 0), "video/x-raw");
    filter->gives_frames = gst_structure_has_name(gst_caps_get_structure(out, 0), "video/x-raw");
    gst_base_transform_set_in_place(base, ELEMENT(filter)->find && filter->gives_frames);
    g_atomic_int_set(&filter->stale, TRUE);
    const gboolean known = parse(in, &filter->in) && (!filter->gives_frames || parse(out, &filter->out));
    filter->rows = GST_VIDEO_INFO_HEIGHT(&filter->in);
    filter->cols = GST_VIDEO_INFO_WIDTH(&filter->in);
    filter->type = known ? TYPE(&filter->in) : 0;
    return known;
}

/* Any strides are taken. Two buffers, since one may stay here until the next frame. Where frames pass, downstream answers. */
static gboolean propose_allocation(GstBaseTransform *base, GstQuery *decided, GstQuery *query) {
    if (decided) {
        gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, NULL);
        gst_query_add_allocation_pool(query, NULL, (guint)((CusFilter *)base)->in.size, 2, 0);
    }
    return parent->propose_allocation(base, decided, query);
}

/* There is always a pool: for frames, downstream's if it has one. */
static gboolean decide_allocation(GstBaseTransform *base, GstQuery *query) {
    const CusFilter *filter = (CusFilter *)base;
    guint size = (guint)filter->out.size;
    if (!filter->gives_frames) { /* the longest drawing, the longest message */
        size = ELEMENT(filter)->find ? 256 + 1024 * 160 : 12 + (guint)MAX(filter->in.size, 5);
        while (gst_query_get_n_allocation_pools(query))
            gst_query_remove_nth_allocation_pool(query, 0);
    }
    if (!gst_query_get_n_allocation_pools(query)) {
        GstBufferPool *pool = gst_buffer_pool_new();
        gst_query_add_allocation_pool(query, pool, size, 2, 0);
        gst_object_unref(pool);
    }
    return parent->decide_allocation(base, query);
}

gboolean cus_check(CusFilter *filter, cusStatus status) {
    if (status != CUS_OK)
        GST_ELEMENT_ERROR(filter, LIBRARY, FAILED, ("%s", cusLastError()), ("%s", cusStatusName(status)));
    return status == CUS_OK;
}

gboolean cus_map(CusFilter *filter, const GstVideoInfo *info, GstBuffer *buffer, GstMapFlags flags, CusMapped *mapped) {
    const cusSpace space = info == &filter->in ? filter->space : CUS_HOST;
    const guint cuda = space == CUS_DEVICE ? GST_MAP_FLAG_LAST << 1 : 0; /* GST_MAP_CUDA */
    mapped->buffer = buffer;
    if (!(info ? gst_video_frame_map(&mapped->frame, info, buffer, flags | cuda | (guint)GST_VIDEO_FRAME_MAP_FLAG_NO_REF)
               : gst_buffer_map(buffer, &mapped->bytes, flags))) {
        GST_ELEMENT_ERROR(filter, RESOURCE, READ, ("A buffer's memory cannot be mapped."), (NULL));
        return FALSE;
    }
    return !info ||
           cus_check(filter, cusMatWrap(&mapped->mat, GST_VIDEO_INFO_HEIGHT(info), GST_VIDEO_INFO_WIDTH(info), TYPE(info),
                                        space, mapped->frame.data[0], (size_t)mapped->frame.info.stride[0]));
}

void cus_unmap(CusMapped *mapped) {
    if (mapped->frame.buffer)
        gst_video_frame_unmap(&mapped->frame);
    else if (mapped->bytes.memory)
        gst_buffer_unmap(mapped->buffer, &mapped->bytes);
}

static GstFlowReturn transform(GstBaseTransform *base, GstBuffer *in, GstBuffer *out) {
    CusFilter *filter = (CusFilter *)base;
    const CusElement *element = ELEMENT(filter);
    CusMapped from = {0}, to = {0};
    GstFlowReturn flow = GST_FLOW_ERROR;
    gboolean fit = TRUE;
    if (!cus_cuda_enter(filter, in))
        return GST_FLOW_ERROR;
    if (g_atomic_int_compare_and_exchange(&filter->stale, TRUE, FALSE)) {
        element->stop(filter);
        use_properties(filter, element->options);
        fit = !element->start || element->start(filter);
        g_atomic_int_or((guint *)&filter->stale, !fit);
    }
    to.buffer = out;
    if (fit && cus_map(filter, filter->takes_frames ? &filter->in : NULL, in, GST_MAP_READ, &from) &&
        (out == in || cus_map(filter, filter->gives_frames ? &filter->out : NULL, out, GST_MAP_WRITE, &to)))
        flow = element->frame ? element->frame(filter, &from, &to) : cus_boxes_frame(filter, element, &from, &to);
    cus_unmap(&to);
    cus_unmap(&from);
    cus_cuda_leave(filter, FALSE);
    if (!filter->gives_frames)
        gst_buffer_set_size(out, (gssize)to.bytes.size);
    return flow;
}

static GstFlowReturn transform_ip(GstBaseTransform *base, GstBuffer *buffer) {
    return transform(base, buffer, buffer);
}

static gboolean stop(GstBaseTransform *base) {
    CusFilter *filter = (CusFilter *)base;
    if (cus_cuda_enter(filter, NULL)) {
        ELEMENT(filter)->stop(filter);
        cus_cuda_leave(filter, TRUE);
    }
    g_atomic_int_set(&filter->stale, TRUE);
    return TRUE;
}

static gboolean sink_event(GstBaseTransform *base, GstEvent *event) {
    if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP) /* what follows is from another place */
        g_atomic_int_set(&((CusFilter *)base)->stale, TRUE);
    return parent->sink_event(base, event);
}

static gboolean src_event(GstBaseTransform *base, GstEvent *event) {
    const CusElement *element = ELEMENT(base);
    return (element->src_event && element->src_event((CusFilter *)base, event)) || parent->src_event(base, event);
}

static void init_class(gpointer klass, gpointer data) {
    const CusElement *element = data;
    GObjectClass *object = klass;
    GstBaseTransformClass *base = klass;
    parent = g_type_class_peek_parent(klass);
    ((CusFilterClass *)klass)->element = element;
    object->set_property = set_property;
    object->get_property = get_property;
    base->transform_caps = transform_caps;
    base->set_caps = set_caps;
    base->propose_allocation = propose_allocation;
    base->decide_allocation = decide_allocation;
    base->transform = transform;
    base->transform_ip = element->find ? transform_ip : NULL;
    base->stop = stop;
    base->sink_event = sink_event;
    base->src_event = src_event;
    CusSettings settings;
    element->defaults(settings);
    for (guint i = 0; element->options[i].name; ++i)
        g_object_class_install_property(
            object, i + 1, spec_of(&element->options[i], (char *)settings + element->options[i].offset, element));
    gst_element_class_set_static_metadata(klass, element->texts[0], element->texts[1], element->texts[2],
                                          "The cusight authors <cusight@users.noreply.github.com>");
    for (int i = 0; i < 2; ++i) {
        GstCaps *caps = gst_caps_from_string(element->caps[i]);
        gst_element_class_add_pad_template(
            klass, gst_pad_template_new(i ? "src" : "sink", i ? GST_PAD_SRC : GST_PAD_SINK, GST_PAD_ALWAYS, caps));
        gst_caps_unref(caps);
    }
}

static void init(GTypeInstance *instance, gpointer klass) {
    CusFilter *filter = (CusFilter *)instance;
    ((CusFilterClass *)klass)->element->defaults(filter->used);
    gst_base_transform_set_qos_enabled(&filter->base, TRUE);
}

GST_DEBUG_CATEGORY(cus_debug);

static gboolean init_plugin(GstPlugin *plugin) {
    static const CusElement *const elements[] = {&cus_heatmap, &cus_motion, &cus_match, &cus_diff_enc, &cus_diff_dec};
    GST_DEBUG_CATEGORY_INIT(cus_debug, "cusight", 0, "elements of cusight");
    gboolean done = TRUE;
    for (guint i = 0; i < G_N_ELEMENTS(elements); ++i) {
        GTypeInfo info = {.class_size = sizeof(CusFilterClass), .class_init = init_class, .instance_init = init};
        info.class_data = elements[i];
        info.instance_size = (guint16)elements[i]->instance;
        const GType type = g_type_register_static(GST_TYPE_BASE_TRANSFORM, elements[i]->name, &info, 0);
        done &= gst_element_register(plugin, elements[i]->name, GST_RANK_NONE, type);
    }
    return done;
}

#define PACKAGE "cusight"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, cusight,
                  "Heatmaps, motion, template matching and sparse differences", init_plugin, CUSIGHT_VERSION, "Apache 2.0",
                  "cusight", "The cusight authors")
