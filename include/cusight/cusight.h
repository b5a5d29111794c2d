/* cusight/cusight.h: everything. */
#ifndef CUSIGHT_H
#define CUSIGHT_H

#include "core.h"
#include "framediff.h"
#include "stream.h"

#endif /* CUSIGHT_H */
