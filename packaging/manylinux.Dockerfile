# Wheels for every Linux with glibc 2.28 or later (Debian 10, Ubuntu 20.04, RHEL 8), by scripts/wheels. In the folder of the sources:
#
#   docker build -f packaging/manylinux.Dockerfile --output dist .                              the CPU
#   docker build -f packaging/manylinux.Dockerfile --output dist --build-arg CUDA=13-0 .        CUDA
#   docker build -f packaging/manylinux.Dockerfile --output dist --platform linux/arm64 --build-arg MACHINE=aarch64 .   ARM, CUDA too
ARG MACHINE=x86_64
FROM quay.io/pypa/manylinux_2_28_${MACHINE} AS build
ARG CUDA=
RUN dnf install -y epel-release && dnf install -y blosc-devel bzip2-devel libzstd-devel lz4-devel zlib-devel ninja-build
RUN [ -z "$CUDA" ] || { \
    dnf config-manager --add-repo https://developer.download.nvidia.com/compute/cuda/repos/rhel8/$(uname -m | sed s/aarch64/sbsa/)/cuda-rhel8.repo && \
    dnf install -y cuda-nvcc-$CUDA cuda-cudart-devel-$CUDA cuda-cccl-$CUDA cuda-nvtx-$CUDA libcufft-devel-$CUDA; }
WORKDIR /cusight
COPY . .
# One wheel serves Python 3.12 and all later versions.
RUN PATH=$PATH:/usr/local/cuda/bin scripts/wheels ${CUDA:+--cuda} \
    /opt/python/cp310-cp310/bin/python /opt/python/cp311-cp311/bin/python /opt/python/cp312-cp312/bin/python

FROM scratch
COPY --from=build /cusight/dist /
