/* cusight/cusight.h: everything. */
#ifndef CUSIGHT_H
#define CUSIGHT_H

#include "core.h"
#include "eventio.h"
#include "events.h"
#include "framediff.h"
#include "integral.h"
#include "match.h"
#include "stereo.h"
#include "live.h"

#endif /* CUSIGHT_H */
