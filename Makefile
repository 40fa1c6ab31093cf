# Every target does the set-up that it needs; a second run starts within seconds.

# The Python that .venv is made from, and the PyTorch that is installed there unless that Python
# already has a release that pyproject.toml allows. "newest": of those that it allows.
PYTHON ?= python3
TORCH_VERSION ?= newest
# The OpenCL runtime to use: pocl, intel, intel-avx2, both, rusticl, oclgrind or stern. Empty: what
# the system offers.
RUNTIME ?=
# The GPU that RUNTIME=stern plays: a file of tests/stern/profiles.
PROFILE ?= smallest
TEST_JOBS ?= 2
PYTEST_ARGS ?=
# The Pythons that `make wheels` makes a wheel for: python3.11,python3.12,...
WHEEL_PYTHONS ?= $(VENV_PYTHON)
DEMO_ARGS ?= --output build/demo
MATRIX ?=
CONFORMANCE_ARGS ?=
EDGES_ARGS ?=
# What `make sanitize` compiles in; with "thread", its Python tests are left out.
SANITIZERS ?= address,undefined,float-cast-overflow
FAILURES_ARGS ?=
PEERS_ARGS ?=
RACES_ARGS ?=
# Of `make mutants`, for example --only kernels/reduce --without-builds.
MUTANTS_ARGS ?=
DAMAGE_ARGS ?=
GROWTH_ARGS ?=
SEED ?= 0
MINUTES ?= 5
FUZZ_ARGS ?=
# Of `make try-torch`: another index of packages, or "nightly".
INDEX ?=
TRY_ARGS ?=
REPORTS_ARGS ?=
STARTS_ARGS ?=
# Of `make stress-long`, for example --training 1000 --graphs 0 --compiled 0.
LONG_ARGS ?=
SERVE_ARGS ?=
# What `make isa-check` records, and what it executes of it, such as --first 100 --targets sm_80.
ISA_TESTS ?=
ISA_PRODUCTS ?=
ISA_ARGS ?=
BENCH_RUNTIMES ?= pocl intel
ACCURACY_RUNTIMES ?= pocl intel
ACCURACY_ARGS ?=
BENCH_ARGS ?=

VENV := .venv
VENV_PYTHON := $(CURDIR)/$(VENV)/bin/python
RUN = $(if $(RUNTIME),$(if $(filter stern,$(RUNTIME)),STERN_PROFILE=$(PROFILE)) \
	$(VENV_PYTHON) tools/with_runtime.py $(RUNTIME))
INTEL_READY = $(if $(filter intel intel-avx2 both,$(RUNTIME)),intel-runtime)
PYTEST = $(RUN) $(VENV_PYTHON) -m pytest -n $(TEST_JOBS) $(PYTEST_ARGS)
DEVICE_TESTS := compile_kernel copies devices dlpack errors host_memory interop memory streams stress views
CXX_FILES = $(shell find backend distributed docs/examples generator guard include kernels python serialization tests tools \
	-name '*.h' -o -name '*.cpp')
PYTHON_FILES := backend distributed docs/examples generator guard kernels python serialization tests tools

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-sample test-clients test-stern stern-failures stern-memory \
	test-peers test-intel test-devices test-gpu-family test-matrix test-races mutants damaged-files growth \
	sanitize gpu-check isa-check gpu-tiles gpu-model test-wheel sdist docs try-torch wheels test-wheels release-check \
	conformance edges names fuzz stress-threads stress-long stress-serve accuracy bench \
	bench-language bench-fine-tuning bench-diffusion ops build wheel info lint tidy format reports \
	stress-starts killed-writers wrong-variables intel-runtime system clean distclean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "Any of them with RUNTIME=pocl|intel|intel-avx2|both|rusticl|oclgrind|stern; see docs/install.md."

demo: build $(INTEL_READY)  ## train a small network on handwritten digits on device "ocl"
	$(RUN) $(VENV_PYTHON) -m torch_ocl.demo $(DEMO_ARGS)

test: build $(INTEL_READY)  ## the tests: GoogleTest, then pytest without those marked "slow"
	$(RUN) build/torch_ocl_tests --gtest_brief=1
	$(RUN) build/stern_tests --gtest_brief=1
	$(PYTEST) -m "not slow"

test-all: build $(INTEL_READY)  ## all tests
	$(RUN) build/torch_ocl_tests --gtest_brief=1
	$(RUN) build/stern_tests --gtest_brief=1
	$(PYTEST)

test-sample: build $(INTEL_READY)  ## the pytest tests marked "sample": each kernel once
	$(PYTEST) -m sample

test-stern: build  ## all tests on a device that plays a GPU and is strict; PROFILE=smallest
	$(MAKE) test-all RUNTIME=stern PROFILE=$(PROFILE)

stern-failures: build  ## let calls of OpenCL fail, one at a time; writes the table of docs/reliability.md
	$(VENV_PYTHON) tools/with_runtime.py stern $(VENV_PYTHON) tests/failures/run.py \
		--json build/stern_failures.json --markdown docs/reliability.md $(FAILURES_ARGS)

stern-memory: build  ## let memory run out at every request of a training step (docs/reliability.md)
	OCL_MEMORY_CACHING=0 $(VENV_PYTHON) tools/with_runtime.py stern $(VENV_PYTHON) tests/failures/out_of_memory.py $(MEMORY_ARGS)

test-peers: build $(INTEL_READY)  ## training whose peers are killed, stopped, slow or lie, on a network that fails (docs/reliability.md)
	$(RUN) $(VENV_PYTHON) tests/peers/run.py $(PEERS_ARGS)
	$(RUN) $(VENV_PYTHON) tests/peers/lies.py
	$(RUN) $(VENV_PYTHON) tests/peers/run_restarts.py
	$(RUN) $(VENV_PYTHON) tests/peers/latency.py --most 2

test-intel:  ## all tests with only Intel's CPU runtime visible
	$(MAKE) test-all RUNTIME=intel

test-devices:  ## what needs two devices in one process: PoCL and Intel's runtime
	$(MAKE) test-all RUNTIME=both PYTEST_ARGS="$(foreach name,$(DEVICE_TESTS),$(wildcard tests/python/*/test_$(name).py))"

test-matrix: build intel-runtime  ## runtimes x kernel families, as a table; MATRIX="--sample pocl/gpu"
	$(MAKE) system EXTRA_PACKAGES="oclgrind mesa-opencl-icd"
	$(VENV_PYTHON) tools/test_matrix.py --jobs $(TEST_JOBS) $(MATRIX)

test-gpu-family:  ## the sample with the kernels that GPUs run, on PoCL
	OCL_KERNEL_FAMILY=gpu $(MAKE) test-sample RUNTIME=pocl

# In a folder of its own. libtorch, Python and OpenCL stay as they are: only this project's code and
# what it has inline from headers is checked. With --capture=sys, reports of workers are seen.
sanitize: RUN_SANITIZED = $(VENV_PYTHON) tools/with_runtime.py $(or $(RUNTIME),pocl) \
	$(VENV_PYTHON) tools/sanitizers/run.py build/sanitize
sanitize: $(VENV)/.ready $(INTEL_READY)  ## GoogleTest and the sample with checks of memory and of undefined behaviour
	cmake -S . -B build/sanitize -G Ninja -DPython_EXECUTABLE=$(VENV_PYTHON) -DOCL_BUILD_TESTS=ON \
		-DOCL_SANITIZE=$(SANITIZERS)
	cmake --build build/sanitize
	$(RUN_SANITIZED) build/sanitize/torch_ocl_tests --gtest_brief=1
	$(RUN_SANITIZED) build/sanitize/stern_tests --gtest_brief=1
	$(if $(findstring thread,$(SANITIZERS)),,$(RUN_SANITIZED) \
		$(VENV_PYTHON) -m pytest -n $(TEST_JOBS) --capture=sys -m sample $(PYTEST_ARGS))

gpu-check: build  ## compile the sample's kernels with the compilers of AMD, NVIDIA and Intel GPUs
	VENV_PYTHON=$(VENV_PYTHON) tools/gpu_compilers.sh .runtimes/compilers
	rm -rf build/gpu_programs
	OCL_BUILD_OPTIONS=-cl-opt-disable OCL_DUMP_DIR=$(CURDIR)/build/gpu_programs \
		$(MAKE) test-gpu-family
	OCL_KERNEL_FAMILY=gpu OCL_MATRIX_UNITS=emulate OCL_BUILD_OPTIONS=-cl-opt-disable \
		OCL_DUMP_DIR=$(CURDIR)/build/gpu_programs $(RUN) $(VENV_PYTHON) tools/gpu_units.py
	$(VENV_PYTHON) tools/gpu_check.py build/gpu_programs --compilers .runtimes/compilers --units \
		$(GPU_CHECK_ARGS)

# With a buffer for each tensor, and from source: a cache would hold binaries.
isa-check: ISA_RECORD = OPENCL_LAYERS=$(CURDIR)/build/libisa_recorder.so OCL_CACHE_DIR=off \
	ISA_RECORD=$(CURDIR)/build/isa_check/launches OCL_MEMORY_CACHING=0 OCL_BUILD_OPTIONS=-cl-opt-disable
isa-check: build  ## execute the sample's kernels as NVIDIA's GPUs would, in an interpreter of PTX
	PTX=1 tools/gpu_compilers.sh .runtimes/compilers
	$(VENV_PYTHON) tools/with_runtime.py pocl $(VENV_PYTHON) -m pytest -q tests/python/tools/test_isa_check.py
	rm -rf build/isa_check/launches
	mkdir -p build/isa_check/launches
	$(ISA_RECORD) ISA_RECORD_MOST=2 OCL_KERNEL_FAMILY=gpu OCL_MATRIX_UNITS=emulate \
		$(VENV_PYTHON) tools/with_runtime.py pocl $(VENV_PYTHON) tools/isa_check/unit_products.py $(ISA_PRODUCTS)
	$(ISA_RECORD) $(MAKE) test-gpu-family PYTEST_ARGS="$(ISA_TESTS)"
	$(VENV_PYTHON) tools/isa_check/isa_check.py build/isa_check/launches --jobs $(TEST_JOBS) $(ISA_ARGS)

gpu-tiles: build  ## write docs/gpu_kernels.md's table: the same for the tiles of matrix products
	VENV_PYTHON=$(VENV_PYTHON) SASS=1 tools/gpu_compilers.sh .runtimes/compilers
	rm -rf build/gpu_tiles
	OCL_KERNEL_FAMILY=gpu OCL_DUMP_DIR=$(CURDIR)/build/gpu_tiles \
		$(RUN) $(VENV_PYTHON) tools/gpu_tiles.py
	$(VENV_PYTHON) tools/gpu_check.py build/gpu_tiles --compilers .runtimes/compilers \
		--json build/gpu_tiles.json --markdown docs/gpu_kernels.md

gpu-model: build  ## write docs/gpu_model.md: counts of kernels in a simulator, and their time on five GPUs
	$(MAKE) system EXTRA_PACKAGES="oclgrind liboclgrind-dev llvm-14-dev"
	VENV_PYTHON=$(VENV_PYTHON) tools/gpu_compilers.sh .runtimes/compilers
	rm -rf build/gpu_model
	$(VENV_PYTHON) tools/gpu_model/record.py build/gpu_model
	$(VENV_PYTHON) tools/gpu_check.py build/gpu_model/programs --compilers .runtimes/compilers \
		--targets gfx803,gfx1100,sm_86 --json build/gpu_model/registers.json || true
	$(VENV_PYTHON) tools/gpu_model/report.py build/gpu_model \
		--registers build/gpu_model/registers.json \
		--markdown docs/gpu_model.md --picture docs/gpu_model.png
	$(VENV_PYTHON) tools/gpu_model/goals.py build/gpu_model \
		--registers build/gpu_model/registers.json --markdown docs/gpu_model.md

# `wheel` uses the same folder, and leaves its choice of where libraries are found there.
build: build/build.ninja  ## the extension, in build/python, which .venv imports from
	@if grep -q '^OCL_BUILD_WHEEL:BOOL=ON' build/CMakeCache.txt; then cmake -S . -B build -DOCL_BUILD_WHEEL=OFF; fi
	cmake --build build

build/build.ninja: $(VENV)/.ready
	cmake -S . -B build -G Ninja -DPython_EXECUTABLE=$(VENV_PYTHON) -DOCL_BUILD_TESTS=ON

$(VENV)/.ready: pyproject.toml tools/make_venv.py | system
	$(PYTHON) tools/make_venv.py $(VENV) --torch $(TORCH_VERSION) --import-from build/python
	@touch $@

system:
	@PYTHON=$(PYTHON) tools/system_packages.sh $(EXTRA_PACKAGES)

intel-runtime: $(VENV)/.intel-ready  ## Intel's OpenCL CPU runtime, into .venv (280 MB download)

$(VENV)/.intel-ready: $(VENV)/.ready
	$(VENV_PYTHON) tools/make_venv.py $(VENV) --extra runtime
	$(VENV_PYTHON) tools/with_runtime.py --write
	@touch $@

# Packs what `build` has compiled; `pip wheel .` compiles everything in a folder of its own.
wheel: build  ## a wheel, in dist/
	rm -f dist/torch_ocl-*-linux_*.whl
	$(VENV_PYTHON) -m pip wheel . --no-deps --wheel-dir dist --no-build-isolation \
		-C build-dir=build -C cmake.define.OCL_BUILD_TESTS=ON
	@$(MAKE) build  # what is linked for a wheel finds libtorch only where it is installed

wheels: $(VENV)/.ready  ## a wheel for all supported releases of PyTorch, for each of WHEEL_PYTHONS (docs/release.md)
	rm -f dist/torch_ocl-*-manylinux*.whl
	$(VENV_PYTHON) tools/wheels.py build --pythons $(WHEEL_PYTHONS)

test-wheels: $(VENV)/.ready $(INTEL_READY) | wheels  ## each wheel in a fresh environment of each release: demo, check; WHEEL_ARGS=--sample
	$(RUN) $(VENV_PYTHON) tools/wheels.py test dist/torch_ocl-*-manylinux*.whl --pythons $(WHEEL_PYTHONS) $(WHEEL_ARGS)

release-check: wheels test-wheels test-all docs  ## all that a release needs (docs/release.md); RELEASE_ARGS=--offline
	$(VENV_PYTHON) tools/release_check.py dist/torch_ocl-*-manylinux*.whl $(RELEASE_ARGS)

# .venv keeps its PyTorch, with which the other one is compared.
try-torch:  ## try another PyTorch: what differs, the build, the sample; TORCH_VERSION=2.16.0 INDEX=nightly
	@$(MAKE) $(VENV)/.ready TORCH_VERSION=newest
	$(VENV_PYTHON) tools/try_torch.py $(TORCH_VERSION) $(if $(INDEX),--index $(INDEX)) $(TRY_ARGS)

sdist: $(VENV)/.ready  ## the sources as pip installs them, in dist/
	$(VENV_PYTHON) -c "from scikit_build_core.build import build_sdist; build_sdist('dist')"

conformance: build $(INTEL_READY)  ## PyTorch's databases of operators, modules, optimizers; about an hour
	$(RUN) $(VENV_PYTHON) tests/conformance/run.py --jobs $(TEST_JOBS) $(CONFORMANCE_ARGS)

# In a folder of its own, since .venv is without these libraries. PyTorch is that of .venv.
build/clients/.ready: pyproject.toml $(VENV)/.ready
	$(VENV_PYTHON) tools/install_clients.py build/clients
	@touch $@

test-clients: build build/clients/.ready $(INTEL_READY)  ## accelerate, lightning and others on ocl (docs/clients.md)
	PYTHONPATH=build/clients $(PYTEST) tests/python/clients/test_clients*.py

edges: build $(INTEL_READY)  ## empty, broadcast, strided, overflowing, mixed inputs against the CPU; some hours
	OCL_FALLBACK=allow $(RUN) $(VENV_PYTHON) tests/conformance/edges.py --import torch_ocl --huge \
		--jobs $(TEST_JOBS) --json build/edges.json $(EDGES_ARGS)

names: build $(INTEL_READY)  ## every operator and function of PyTorch by its schema against the CPU; an hour or two
	OCL_FALLBACK=allow $(RUN) $(VENV_PYTHON) tests/conformance/names.py --import torch_ocl \
		--jobs $(TEST_JOBS) --json build/names.json $(NAMES_ARGS)

test-races: build  ## each kernel with three sizes in Oclgrind: bounds, data races; about ten minutes
	$(MAKE) system EXTRA_PACKAGES="oclgrind"
	$(VENV_PYTHON) tests/kernels/run.py $(RACES_ARGS)

mutants: build $(INTEL_READY)  ## plant faults in the sources, one at a time, and list those that no test notices
	$(RUN) $(VENV_PYTHON) tests/mutants/mutants.py $(MUTANTS_ARGS)

damaged-files: build $(INTEL_READY)  ## truncate, change and replace the files that torch-ocl keeps
	$(RUN) $(VENV_PYTHON) tests/failures/damaged_files.py $(DAMAGE_ARGS)

killed-writers: build $(INTEL_READY)  ## kill processes in the middle of writing a file of a cache
	$(RUN) $(VENV_PYTHON) tests/failures/killed_writers.py $(KILLS_ARGS)

wrong-variables: build $(INTEL_READY)  ## set each environment variable to wrong values; about 400 processes
	OCL_FALLBACK=allow $(RUN) $(VENV_PYTHON) tests/failures/variables.py $(VARIABLES_ARGS)

growth: build $(INTEL_READY)  ## repeat scenarios: neither objects of OpenCL nor the host's memory grow
	$(RUN) $(VENV_PYTHON) tests/failures/growth.py $(GROWTH_ARGS)

fuzz: build $(INTEL_READY)  ## programs at random against the CPU; SEED=0 MINUTES=5 FUZZ_ARGS="--compiled"
	OCL_FALLBACK=allow $(RUN) $(VENV_PYTHON) tests/fuzz/fuzz.py --seed $(SEED) --minutes $(MINUTES) \
		$(FUZZ_ARGS)

reports: build $(INTEL_READY)  ## programs of public reports, eager against compiled, both kernel families; REPORTS_ARGS="--only 198101"
	for family in cpu gpu; do \
	  OCL_FALLBACK=allow OCL_KERNEL_FAMILY=$$family $(RUN) $(VENV_PYTHON) tests/reports/reports.py $(REPORTS_ARGS) || exit 1; \
	done

stress-threads: build $(INTEL_READY)  ## 64 threads against one, and errors; RUNTIME=both SEED=0 MINUTES=5
	$(RUN) $(VENV_PYTHON) tests/stress/threads.py --seed $(SEED) --minutes $(MINUTES)

stress-long: build $(INTEL_READY)  ## what grows in 100,000 training steps, 10,000 graphs and compilations
	$(RUN) $(VENV_PYTHON) tests/stress/long.py --seed $(SEED) $(LONG_ARGS)

stress-starts: build $(INTEL_READY)  ## processes that start at once with empty folders of kernels
	$(RUN) $(VENV_PYTHON) tests/stress/cold_starts.py $(STARTS_ARGS)

stress-serve: build build/clients/.ready $(INTEL_READY)  ## a server of a language model under 16 clients; MINUTES=5
	PYTHONPATH=build/clients $(RUN) $(VENV_PYTHON) tests/stress/serve.py --seed $(SEED) --minutes $(MINUTES) $(SERVE_ARGS)

accuracy: build intel-runtime  ## distances from exact results, and tests of random numbers; writes docs/accuracy.md's tables
	mkdir -p build/accuracy
	for runtime in $(ACCURACY_RUNTIMES); do for family in cpu gpu; do \
	  OCL_FALLBACK=allow OCL_KERNEL_FAMILY=$$family \
	    $(VENV_PYTHON) tools/with_runtime.py $$runtime $(VENV_PYTHON) tests/accuracy/accuracy.py \
	    build/accuracy/$${runtime}_$$family.json $(ACCURACY_ARGS) || exit 1; \
	done; done
	$(VENV_PYTHON) tests/accuracy/accuracy_tables.py docs/accuracy.md build/accuracy/*.json

bench: build intel-runtime  ## speed against PyTorch's CPU path; writes docs/performance.md anew
	mkdir -p build/bench
	for runtime in $(BENCH_RUNTIMES); do \
	  run="$(VENV_PYTHON) tools/with_runtime.py $$runtime $(VENV_PYTHON) tests/bench"; \
	  $$run/bench.py --sweep --json build/bench/$$runtime.json --plot docs/roofline_$$runtime.png \
	    $(BENCH_ARGS) && \
	  $$run/footprint.py --json build/bench/$${runtime}_footprint.json && \
	  $$run/compiled.py --cpu > build/bench/$${runtime}_compiled.txt || exit 1; \
	done
	$(VENV_PYTHON) tests/bench/performance.py build/bench > build/performance.md
	mv build/performance.md docs/performance.md

bench-language: build intel-runtime  ## speed of a language model (docs/models.md); LLAMA_CPP=its sources, built in build/
	for runtime in $(BENCH_RUNTIMES); do \
	  $(VENV_PYTHON) tools/with_runtime.py $$runtime $(VENV_PYTHON) tests/bench/language.py \
	    $(if $(LLAMA_CPP),--llama-cpp $(LLAMA_CPP)) $(BENCH_ARGS) || exit 1; \
	done

bench-fine-tuning: build intel-runtime  ## speed and memory of fine-tuning a language model (docs/models.md)
	for runtime in $(BENCH_RUNTIMES); do \
	  $(VENV_PYTHON) tools/with_runtime.py $$runtime $(VENV_PYTHON) tests/bench/fine_tuning.py \
	    $(BENCH_ARGS) || exit 1; \
	done

bench-diffusion: build build/clients/.ready intel-runtime  ## speed of diffusion models (docs/models.md)
	for runtime in $(BENCH_RUNTIMES); do \
	  PYTHONPATH=build/clients $(VENV_PYTHON) tools/with_runtime.py $$runtime $(VENV_PYTHON) \
	    tests/bench/diffusion.py $(BENCH_ARGS) || exit 1; \
	done

ops: build  ## write docs/ops.md anew
	$(RUN) $(VENV_PYTHON) -m torch_ocl.coverage --markdown > build/ops.md
	mv build/ops.md docs/ops.md

docs: $(VENV)/.docs-ready  ## the pages of docs/ as a site, in build/site; a broken link is an error
	$(VENV)/bin/mkdocs build --strict

$(VENV)/.docs-ready: $(VENV)/.ready
	$(VENV_PYTHON) tools/make_venv.py $(VENV) --extra docs
	@touch $@

test-wheel: wheel  ## the wheel works outside of this folder
	rm -rf build/wheel_test
	$(VENV_PYTHON) -m pip install --no-deps --target build/wheel_test dist/torch_ocl-*-linux_*.whl
	$(RUN) env PYTHONPATH=build/wheel_test $(VENV_PYTHON) tools/check_wheel.py build/wheel_test

info: build $(INTEL_READY)  ## the OpenCL devices that torch-ocl finds
	$(RUN) $(VENV_PYTHON) -m torch_ocl.info

lint: $(VENV)/.ready  ## formatting, kernels' lines and reserved words, Python errors, folder dependencies
	$(if $(CXX_FILES),$(VENV)/bin/clang-format --dry-run -Werror $(CXX_FILES))
	$(VENV)/bin/ruff check $(PYTHON_FILES)
	$(VENV)/bin/ruff format --check $(PYTHON_FILES)
	! grep -rnE '^.{101}' --include='*.cl' --include='*.clh' kernels
	! grep -rnE '^[^/"]*\b(quad|complex|uniform|pipe)\b' --include='*.cl' --include='*.clh' kernels
	$(VENV_PYTHON) tools/check_layers.py

# In a folder of its own: clang-tidy cannot read a compiler's precompiled headers.
# build/tidy has compile commands for the library's own sources only.
TIDY_FILES = $(CXX_FILES)
tidy: $(VENV)/.ready  ## clang-tidy's checks for likely bugs and for threads (.clang-tidy)
	mkdir -p build
	cmake -S . -B build/tidy -G Ninja -DPython_EXECUTABLE=$(VENV_PYTHON) \
		-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON > build/tidy.log || { cat build/tidy.log; exit 1; }
	cmake --build build/tidy --target generate_registrations > build/tidy.log || { cat build/tidy.log; exit 1; }
	@printf '%s\n' $(filter-out docs/% tests/% tools/%,$(filter %.cpp,$(TIDY_FILES))) | \
		xargs -r -P $(TEST_JOBS) -n 4 $(VENV)/bin/clang-tidy -p build/tidy --quiet

format: $(VENV)/.ready  ## format C++ and Python
	$(if $(CXX_FILES),$(VENV)/bin/clang-format -i $(CXX_FILES))
	$(VENV)/bin/ruff check --fix-only --quiet $(PYTHON_FILES)
	$(VENV)/bin/ruff format $(PYTHON_FILES)

clean:  ## remove what was built
	rm -rf build dist

distclean: clean  ## remove the virtual environment, too
	rm -rf $(VENV) .runtimes
