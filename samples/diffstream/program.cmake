# TLS, for addresses beyond loopback. Without OpenSSL the program is limited to loopback.
if(CUSIGHT_OPENSSL)
    find_package(OpenSSL 1.1.1 QUIET)
endif()
if(OpenSSL_FOUND)
    target_link_libraries(cusight-diffstream PRIVATE OpenSSL::SSL)
    target_compile_definitions(cusight-diffstream PRIVATE CUSIGHT_HAVE_OPENSSL=1)
endif()
