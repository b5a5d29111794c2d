// People on vtest.avi of OpenCV's samples, drawn by hand on twelve evenly spaced frames before any detector had been run on
// those: every visible person, the visible part of the body. Boxes are good to about two pixels.
#pragma once

namespace motion_test {

struct Person {
    int frame, x, y, width, height;
    bool stands; // has not left the place for a second, which is ten frames
};

constexpr Person PEOPLE[] = {
    {33, 380, 178, 17, 80, false},   {33, 389, 183, 22, 81, false},   {33, 410, 209, 19, 80, false},
    {33, 607, 247, 41, 103, false},  {33, 647, 242, 28, 94, false},   {99, 224, 60, 12, 33, false},
    {99, 345, 198, 27, 75, false},   {99, 377, 178, 33, 78, true},    {99, 425, 175, 24, 83, false},
    {99, 488, 149, 28, 71, false},   {99, 514, 152, 25, 69, false},   {99, 589, 156, 25, 81, false},
    {165, 24, 99, 15, 40, false},    {165, 316, 171, 36, 69, false},  {165, 452, 209, 18, 87, false},
    {165, 470, 221, 32, 86, false},  {165, 497, 207, 33, 85, false},  {165, 654, 117, 18, 69, false},
    {165, 667, 102, 19, 56, false},  {165, 686, 108, 21, 48, false},  {231, 46, 180, 24, 65, false},
    {231, 284, 160, 32, 78, false},  {231, 505, 269, 32, 110, false}, {231, 646, 112, 23, 62, false},
    {231, 673, 116, 16, 59, false},  {231, 666, 215, 32, 83, false},  {231, 715, 288, 51, 110, false},
    {298, 179, 157, 20, 75, false},  {298, 256, 158, 24, 64, false},  {298, 283, 162, 31, 74, false},
    {298, 322, 212, 39, 85, false},  {298, 583, 156, 30, 73, false},  {298, 616, 158, 22, 73, false},
    {364, 351, 174, 40, 72, false},  {364, 464, 178, 32, 72, false},  {364, 465, 246, 37, 96, false},
    {364, 557, 198, 43, 93, false},  {364, 709, 248, 45, 102, false}, {364, 749, 260, 19, 74, false},
    {430, 296, 208, 25, 83, true},   {430, 522, 157, 29, 66, false},  {430, 684, 272, 38, 102, false},
    {496, 324, 189, 27, 78, false},  {496, 565, 243, 29, 109, false}, {496, 546, 273, 38, 112, false},
    {496, 610, 270, 36, 98, true},   {563, 64, 173, 32, 64, false},   {563, 373, 152, 23, 80, false},
    {563, 588, 158, 26, 76, true},   {563, 642, 305, 29, 107, true},  {563, 184, 352, 49, 79, false},
    {563, 184, 393, 62, 148, false}, {629, 116, 140, 16, 47, false},  {629, 114, 172, 31, 67, false},
    {629, 420, 165, 27, 38, false},  {629, 565, 273, 36, 98, false},  {629, 615, 238, 37, 99, false},
    {629, 358, 401, 53, 143, false}, {695, 164, 166, 28, 71, false},  {695, 112, 297, 42, 114, false},
    {695, 319, 217, 34, 88, false},  {695, 348, 167, 18, 82, false},  {695, 431, 151, 18, 52, false},
    {695, 457, 139, 16, 65, false},  {695, 530, 160, 25, 67, false},  {695, 720, 222, 41, 94, false},
    {695, 741, 40, 10, 14, false},   {761, 235, 192, 25, 75, false},  {761, 243, 236, 36, 91, false},
    {761, 311, 177, 26, 75, false},  {761, 455, 181, 23, 54, false},  {761, 458, 223, 33, 92, false},
    {761, 685, 123, 21, 57, false},  {761, 652, 204, 25, 99, false},  {761, 740, 62, 17, 36, false}};

} // namespace motion_test
