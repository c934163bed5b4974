"""Build torch_lag against the torch that is installed: `python setup.py build_ext --build-lib FOLDER`."""

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="torch_lag",
    version="0.1",
    packages=["torch_lag"],
    ext_modules=[CppExtension("torch_lag._C", ["torch_lag/lag.cpp"], extra_compile_args=["-O1", "-std=c++20", "-g0"])],
    cmdclass={"build_ext": BuildExtension},
)
