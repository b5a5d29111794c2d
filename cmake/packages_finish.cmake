# Run by cpack on its packages: takes out the scripts by which CPack calls ldconfig. packaging/debian/triggers does that, as Debian's
# policy wants it.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
    if(package MATCHES "\\.deb$")
        set(folder ${CPACK_TEMPORARY_DIRECTORY}/unpacked)
        file(REMOVE_RECURSE ${folder})
        execute_process(COMMAND dpkg-deb --raw-extract ${package} ${folder} COMMAND_ERROR_IS_FATAL ANY)
        file(REMOVE ${folder}/DEBIAN/postinst ${folder}/DEBIAN/postrm)
        execute_process(COMMAND dpkg-deb --root-owner-group --build ${folder} ${package} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
        file(REMOVE_RECURSE ${folder})
    endif()
endforeach()
