"""Recipe for Conan 2: `conan create .` packages this tree.

It lies at the root because a recipe takes its sources from its own folder. The package is what `cmake --install` makes, and
programs use it by the same find_package(attend ... COMPONENTS ...) as any other installation.
"""

import os
import re
import shutil

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load

required_conan_version = ">=2.0"


class AttendConan(ConanFile):
    name = "attend"
    description = "Transformers in C++20: train and translate in one header-only library"
    license = "MIT"
    topics = ("transformer", "translation", "machine-learning", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_io": [True, False], "with_text": [True, False], "with_cuda": [True, False]}
    default_options = {"with_io": True, "with_text": True, "with_cuda": False}
    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*"
    test_package_folder = "tests/packaging/conan"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "attend", "version.hpp"))
        numbers = (re.search(rf"#define ATTEND_VERSION_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(number.group(1) for number in numbers)

    def requirements(self):
        if self.options.with_io:
            self.requires("nlohmann_json/[>=3.9 <4]", transitive_headers=True)
        if self.options.with_text:
            self.requires("sentencepiece/[>=0.1.96 <1]", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.options.with_text and not self.options.with_io:
            raise ConanInvalidConfiguration("with_text needs with_io")
        places = [os.path.join(root, "bin") for root in (os.environ.get("CUDA_PATH", ""), "/usr/local/cuda") if root]
        if self.options.with_cuda and not any(shutil.which("nvcc", path=place) for place in [None, *places]):
            raise ConanInvalidConfiguration("with_cuda needs a CUDA toolkit, 12 or later, and there is no nvcc")
        if self.settings.compiler == "msvc":
            raise ConanInvalidConfiguration("attend needs GCC or Clang, on Windows too")

    def package_id(self):
        self.info.settings.clear()  # headers
        self.info.requires.clear()
        del self.info.options.with_cuda  # its headers are there either way

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ATTEND_IO"] = bool(self.options.with_io)
        toolchain.cache_variables["ATTEND_TEXT"] = bool(self.options.with_text)
        for name in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "INSTALL_PACKAGES"):
            toolchain.cache_variables["ATTEND_" + name] = False
        toolchain.cache_variables["ATTEND_INSTALL"] = True
        toolchain.cache_variables["FETCHCONTENT_FULLY_DISCONNECTED"] = True
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The package brings its own attendConfig.cmake: CMakeDeps shall make none.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "attend")]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
