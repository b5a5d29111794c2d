# The parts are a library, so that the tests can use them.
add_library(cusight_diffstream STATIC ${parts})
target_link_libraries(cusight_diffstream PUBLIC cusight_samples PRIVATE cusight_flags)
set_property(TARGET cusight-diffstream PROPERTY SOURCES ${program})
target_link_libraries(cusight-diffstream PRIVATE cusight_diffstream)

# TLS, for addresses beyond loopback. Without OpenSSL the program is limited to loopback.
if(CUSIGHT_OPENSSL)
    find_package(OpenSSL ${CUSIGHT_LEAST_OPENSSL} QUIET)
    if(NOT OpenSSL_FOUND)
        cusight_without(OpenSSL libssl-dev "cusight-diffstream listens and connects on loopback only" ${OPENSSL_VERSION})
    endif()
endif()
if(OpenSSL_FOUND)
    target_link_libraries(cusight_diffstream PUBLIC OpenSSL::SSL)
    target_compile_definitions(cusight_diffstream PUBLIC CUSIGHT_HAVE_OPENSSL=1)
endif()
