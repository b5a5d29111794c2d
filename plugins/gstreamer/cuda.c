/* Frames on the device, by gst-plugins-bad's unstable interface of 1.22. It compiles, but has not run. A frame's memory belongs to
 * a CUDA context of GStreamer's: while that is current, what the library makes does, too. */
#include "filter.h"

#include <gst/cuda/gstcudacontext.h>
#include <gst/cuda/gstcudamemory.h>

G_STATIC_ASSERT(GST_MAP_CUDA == GST_MAP_FLAG_LAST << 1); /* as filter.c has it */

gboolean cus_cuda_enter(CusFilter *filter, GstBuffer *buffer) {
    GstMemory *memory = buffer && filter->space == CUS_DEVICE ? gst_buffer_peek_memory(buffer, 0) : NULL;
    gpointer context = memory && gst_is_cuda_memory(memory) ? GST_CUDA_MEMORY_CAST(memory)->context : filter->cuda_context;
    if (filter->cuda_context && filter->cuda_context != context) /* which owns the objects */
        GST_BASE_TRANSFORM_GET_CLASS(filter)->stop(&filter->base);
    gst_object_replace((GstObject **)&filter->cuda_context, context);
    if (context ? gst_cuda_context_push(context) : !memory)
        return TRUE;
    GST_ELEMENT_ERROR(filter, RESOURCE, FAILED, ("The CUDA context of a frame cannot be used."), (NULL));
    return FALSE;
}

void cus_cuda_leave(CusFilter *filter, gboolean forget) {
    if (filter->cuda_context)
        gst_cuda_context_pop(NULL);
    if (forget)
        gst_object_replace((GstObject **)&filter->cuda_context, NULL);
}
