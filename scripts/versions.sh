# The versions that CI knows: every commit is built and checked with these. Sourced by scripts, read by cmake/warnings.cmake.
# With other compilers warnings are not errors (unless CI is set), and other linters are skipped by name: each version warns of
# other things.
known_gcc=12
known_clang=14
known_cuda=13.0
known_clang_tidy=14
known_clang_format=14
known_cppcheck=2.10
