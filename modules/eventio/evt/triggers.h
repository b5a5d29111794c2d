/* Triggers of RAW files, for words.c. */
#ifndef CUSI_EVENTIO_EVT_TRIGGERS_H
#define CUSI_EVENTIO_EVT_TRIGGERS_H

#include "eventio/recording.h"

/* A place among the triggers of a recording. */
typedef struct TriggerReader TriggerReader;

/* Begins at `start`. Takes ownership of the decoder even if it fails. */
cusStatus eventio_openTriggers(cusEventDecoder *decoder, const cusEventDecoderState *start, TriggerReader **triggers);

/* Reads up to n triggers; fewer only at the end or before an error, which is returned with them. */
cusStatus eventio_readTriggers(const cusEventReader *reader, TriggerReader *triggers, size_t n, cusEventTrigger *out,
                               size_t *count);

/* Accepts NULL. */
void eventio_closeTriggers(TriggerReader *triggers);

#endif
