#include "filter.h"

#include <stdio.h>

GstFlowReturn cus_boxes_frame(CusFilter *filter, const CusElement *element, const CusMapped *in, CusMapped *out) {
    const GstSegment *segment = &filter->base.segment;
    const GstClockTime time = GST_BUFFER_PTS(in->buffer);
    const GstClockTime running_time = gst_segment_to_running_time(segment, GST_FORMAT_TIME, time);
    const char *last_state = filter->state;
    const int count = element->find(filter, &in->mat, running_time);
    const gboolean news = count || filter->count || filter->state != last_state;
    if (count < 0)
        return GST_FLOW_ERROR;
    GST_LOG_OBJECT(filter, "%" GST_TIME_FORMAT ": %d boxes", GST_TIME_ARGS(time), count);
    char *text = (char *)out->bytes.data; /* NULL: no drawing */
    size_t used = 0;
    if (text)
        used =
            (size_t)snprintf(text, out->bytes.size, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">",
                             filter->cols, filter->rows);
    GValue list = G_VALUE_INIT;
    if (news)
        g_value_init(&list, GST_TYPE_LIST);
    for (int i = 0; i < count; ++i) {
        int at[4]; /* x, y, width, height */
        guint id;
        GstStructure *box = element->box(filter, i, at, &id);
        gst_structure_set(box, "id", G_TYPE_UINT, id, "x", G_TYPE_INT, at[0], "y", G_TYPE_INT, at[1], "width", G_TYPE_INT,
                          at[2], "height", G_TYPE_INT, at[3], NULL);
        GValue item = G_VALUE_INIT;
        g_value_init(&item, GST_TYPE_STRUCTURE);
        gst_value_set_structure(&item, box);
        gst_value_list_append_and_take_value(&list, &item);
        if (text) { /* each id has its color */
            used += (size_t)snprintf(text + used, out->bytes.size - used,
                                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke-width=\"2\" "
                                     "stroke=\"hsl(%u,100%%,50%%)\"/>",
                                     at[0], at[1], at[2], at[3], id % 360 * 137 % 360);
            gst_structure_free(box);
        } else {
            GstVideoRegionOfInterestMeta *meta = gst_buffer_add_video_region_of_interest_meta_id(
                out->buffer, gst_structure_get_name_id(box), (guint)at[0], (guint)at[1], (guint)at[2], (guint)at[3]);
            meta->id = (gint)id;
            gst_video_region_of_interest_meta_add_param(meta, box);
        }
    }
    if (text)
        out->bytes.size = used + (size_t)snprintf(text + used, out->bytes.size - used, "</svg>");
    if (news) {
        GstStructure *message = gst_structure_new(element->name, "timestamp", G_TYPE_UINT64, time, "running-time",
                                                  G_TYPE_UINT64, running_time, "stream-time", G_TYPE_UINT64,
                                                  gst_segment_to_stream_time(segment, GST_FORMAT_TIME, time), NULL);
        if (filter->state)
            gst_structure_set(message, "state", G_TYPE_STRING, filter->state, NULL);
        gst_structure_take_value(message, "boxes", &list);
        gst_element_post_message(GST_ELEMENT(filter), gst_message_new_element(GST_OBJECT(filter), message));
    }
    filter->count = count;
    return GST_FLOW_OK;
}
