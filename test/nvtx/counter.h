/* What the test asks the profiler (counter.c). */
#ifndef COUNTER_H
#define COUNTER_H

int counterOf(const char *name); /* ranges of this name so far */
int counterOpen(void);           /* ranges that have not ended */
int counterForeign(void);        /* of another domain or form */

#endif
