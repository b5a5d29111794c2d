# The speed of the decoders' loops must not depend on where the linker puts them (up to 10 % for EVT2).
foreach(decoder dat evt2 evt21 evt3 evt4)
    set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/cpu/${decoder}.c PROPERTIES COMPILE_OPTIONS -falign-functions=64)
endforeach()
