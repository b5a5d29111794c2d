"""The shared library, of the sources that this file is in: `conan create packaging/conan --build=missing`."""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir


class Cusight(ConanFile):
    name = "cusight"
    description = "GPU vision algorithms with a C interface and a CPU backend"
    license = "Apache-2.0"
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"cuda": [True, False]}
    default_options = {"cuda": False}

    def _project(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._project(), "CMakeLists.txt"))
        self.version = text.split("project(cusight VERSION ")[1].split()[0]

    def export_sources(self):
        for pattern in "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "modules/*", "packaging/debian/*", "scripts/versions.sh", "src/*":
            copy(self, pattern, self._project(), self.export_sources_folder)

    def configure(self):  # nothing of C++ crosses the interface
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("this recipe is for Linux; docs/build.md says how to build for Windows")

    def requirements(self):
        self.requires("bzip2/[>=1.0.6 <2]")
        self.requires("lz4/[>=1.9 <2]")
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("zstd/[>=1.4 <2]")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for name in "BLOSC", "OPENCV", "SAMPLES", "GSTREAMER", "TESTS", "PERF":
            toolchain.cache_variables["CUSIGHT_" + name] = False
        toolchain.cache_variables["CUSIGHT_CUDA"] = bool(self.options.cuda)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        licenses = os.path.join(self.package_folder, "licenses")
        copy(self, "LICENSE", self.source_folder, licenses)
        copy(self, "copyright", os.path.join(self.source_folder, "packaging", "debian"), licenses)
        rm(self, "libcusight.a", os.path.join(self.package_folder, "lib"))
        for folder in "cmake", "pkgconfig":  # Conan writes its own
            rmdir(self, os.path.join(self.package_folder, "lib", folder))

    def package_info(self):
        self.cpp_info.libs = ["cusight"]
        self.cpp_info.set_property("cmake_config_version_compat", "SameMinorVersion")
