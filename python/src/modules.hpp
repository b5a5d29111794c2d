// Each file adds its functions to the module.
#pragma once

#include "arrays.hpp"

namespace cuspy {

// For a forked process: drops the parent's workspaces, which have the parent's number of threads. Their memory is not
// freed.
void forgetIdle();

void addCore(nb::module_ &module);
void addIntegral(nb::module_ &module);
void addMatch(nb::module_ &module);
void addMotion(nb::module_ &module);
void addPose(nb::module_ &module);
void addImages(nb::module_ &module);
void addFramediff(nb::module_ &module);
void addStereo(nb::module_ &module);
void addEvents(nb::module_ &module);
void addPipeline(nb::module_ &module);
void addEventio(nb::module_ &module);

} // namespace cuspy
