/* cusight/cusight.h: includes every C header of the library. */
#ifndef CUSIGHT_H
#define CUSIGHT_H

#include "core.h"
#include "eventframes.h"
#include "eventgen.h"
#include "eventio.h"
#include "events.h"
#include "framediff.h"
#include "hsv.h"
#include "integral.h"
#include "live.h"
#include "match.h"
#include "motion.h"
#include "pose.h"
#include "raw.h"
#include "remap.h"
#include "stereo.h"
#include "video.h"

#endif /* CUSIGHT_H */
