/* Triggers of RAW files, as words.c uses them. */
#ifndef CUSI_EVENTIO_EVT_TRIGGERS_H
#define CUSI_EVENTIO_EVT_TRIGGERS_H

#include "eventio/recording.h"

/* A place among the triggers of a recording. */
typedef struct TriggerReader TriggerReader;

/* Begins at `start`. Takes the decoder, also if it fails. */
cusStatus eventio_openTriggers(cusEventDecoder *decoder, const cusEventDecoderState *start, TriggerReader **triggers);

/* Reads the next triggers, up to n. Fewer only at the end or before an error, which is returned with them. */
cusStatus eventio_readTriggers(const cusEventReader *reader, TriggerReader *triggers, size_t n, cusEventTrigger *out,
                               size_t *count);

/* Safe on NULL. */
void eventio_closeTriggers(TriggerReader *triggers);

#endif
