// Runs a package of AOTInductor on device "ocl" in a program in C++:
//
//     package model.pt2 8 16        a tensor of ones [8, 16] through the model
//
// docs/examples/package.py makes the package and compiles this file. torch_ocl is a Python package,
// so the program starts an interpreter to load the device; the model itself runs without it.
#include <pybind11/embed.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/torch.h>

#include <iostream>

int main(int count, char** arguments) {
  if (count < 3) {
    std::cerr << "usage: package model.pt2 SIZE..\n";
    return 2;
  }
  pybind11::scoped_interpreter interpreter;
  pybind11::module_::import("torch_ocl");
  std::vector<int64_t> sizes;
  for (int i = 2; i < count; ++i) sizes.push_back(std::stoll(arguments[i]));

  torch::inductor::AOTIModelPackageLoader model(arguments[1]);
  const torch::Tensor x = torch::ones(sizes, torch::Device("ocl"));
  std::vector<torch::Tensor> results;
  {
    pybind11::gil_scoped_release released;
    results = model.run({x});
  }
  std::cout << results.front().cpu() << '\n';
}
