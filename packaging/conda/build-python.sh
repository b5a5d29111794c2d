#!/bin/bash
# The Python package, which contains the library.
set -e
export CUDAARCHS=${CUDAARCHS:-all-major}
[ "${cuda_compiler_version:-None}" = None ] || export CUSIGHT_CUDA=ON # on a machine without a GPU too
"$PYTHON" -m pip install "$SRC_DIR" -v --no-deps --no-build-isolation
