#!/bin/bash
# The Python package, which contains the library.
set -e
export CUDAARCHS=${CUDAARCHS:-all-major}
"$PYTHON" -m pip install "$SRC_DIR" -v --no-deps --no-build-isolation
