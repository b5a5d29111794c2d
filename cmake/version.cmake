# The version is written twice, here for CMake and in core.h for programs: they must agree.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/cusight/core.h)
foreach(part MAJOR MINOR PATCH)
    file(STRINGS include/cusight/core.h line REGEX "^#define CUSIGHT_VERSION_${part} ")
    string(REGEX MATCH "[0-9]+$" number "${line}")
    if(NOT number STREQUAL "${PROJECT_VERSION_${part}}")
        message(FATAL_ERROR "CUSIGHT_VERSION_${part} in include/cusight/core.h is '${number}', expected ${PROJECT_VERSION_${part}} "
            "as in CMakeLists.txt")
    endif()
endforeach()
