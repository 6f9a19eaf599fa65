# Every target does its own set-up: `make test` and `make demo` work on a machine that has Python, make and a package
# index. Variables: PYTHON=python3.12 (another interpreter), SPARK=4.1.0 (another PySpark), each with an environment of its
# own; OPTIONS="…" (for pytest, the demo or the benchmark); TESTS=tests/streams; PROVIDER=redis and WORKERS=2 (the demo);
# ROUNDS=3 and SEEDS=10000 (crash-test).

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

SPARK ?=
PROVIDER ?= sqlite
WORKERS ?= 0
TESTS ?= tests
OPTIONS ?=
ROUNDS ?= 1
SEEDS ?= 1000000

# An interpreter that the person names has an environment of its own, called after its version.
ifeq ($(origin PYTHON),undefined)
  PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
    "$$name" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null && echo "$$name" && break; \
    done)
  ifeq ($(PYTHON),)
    $(error There is no Python 3.10 to 3.14 on the PATH. Install one, or name it: make PYTHON=/path/to/python3.12)
  endif
  VENV := .venv
else
  VENV := .venv-$(shell "$(PYTHON)" -c 'import sys; print("py%d.%d" % sys.version_info[:2])')
endif
ifneq ($(SPARK),)
  VENV := $(VENV)-spark-$(SPARK)
endif

SET_UP = @"$(PYTHON)" tools/set_up.py --venv "$(VENV)" $(if $(SPARK),--spark "$(SPARK)")
# Every command runs with the environment's programs, and with the Java and the Redis that set-up found.
IN_VENV = @. "./$(VENV)/anchorbolt.env" &&

# On all cores; the tests of one shared server stay together on one worker.
SIDE_BY_SIDE = -n auto --dist loadgroup

.PHONY: help
help:  ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-16s %s\n", $$1, $$2 }'

.PHONY: venv set-up
venv:
	$(SET_UP)

set-up:  ## everything the other targets need: environment, Java, servers and programs of tests, MkDocs
	$(SET_UP) --java --redis --hbase --kafka --hdfs --s3 --postgres --prometheus --chromium --other-systems \
		--docs

# Run once more with two workers that stay: by `make test`, and by `make test-all`.
IN_WORKERS = tests/engine/spark/test_spark_cluster.py tests/engine/spark/test_standalone_cluster.py \
	tests/engine/spark/test_lost_executors.py tests/crash/test_fault_points.py tests/crash/transactional \
	tests/crash/dead_letters
ALL_IN_WORKERS = tests/engine/spark tests/crash tests/reliability tests/transactional tests/examples

.PHONY: test test-fast test-all test-workers
test: lint types  ## lint, types and the tests: every guarantee once, on real servers
	$(SET_UP) --java --redis --hbase --kafka --hdfs --s3
	$(IN_VENV) python -m tests.support.spark_jvm
	$(IN_VENV) python -m pytest $(SIDE_BY_SIDE) -m "not thorough" $(OPTIONS) $(TESTS)
	$(if $(filter tests,$(TESTS)),$(IN_VENV) ANCHORBOLT_TEST_WORKERS=2 python -m pytest $(SIDE_BY_SIDE) \
		-m "slow and not thorough" $(OPTIONS) $(IN_WORKERS))

test-fast: lint types  ## the same without Spark, HBase and what else takes more than 2 s
	$(SET_UP) --java --redis
	$(IN_VENV) python -m pytest $(SIDE_BY_SIDE) -m "not slow and not thorough" $(OPTIONS) $(TESTS)

test-all: lint types set-up  ## all tests: every kill point, every mutant, every page as printed, the examples
	$(IN_VENV) python -m tests.support.spark_jvm
	$(IN_VENV) python -m pytest $(SIDE_BY_SIDE) $(OPTIONS) $(TESTS)
	$(if $(filter tests,$(TESTS)),$(MAKE) test-workers)

test-workers:  ## the tests of Spark and of crashes once more, with two workers that stay
	$(SET_UP) --java --redis --hbase --kafka --hdfs --s3
	$(IN_VENV) ANCHORBOLT_TEST_WORKERS=2 python -m pytest $(SIDE_BY_SIDE) -m slow $(OPTIONS) $(ALL_IN_WORKERS)

.PHONY: lint types format
lint: venv  ## style and formatting
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .

types: venv  ## static types
	$(IN_VENV) mypy

format: venv  ## fix formatting and what else ruff can fix
	$(IN_VENV) ruff format .
	$(IN_VENV) ruff check --fix .

.PHONY: docs docs-pictures
docs:  ## the documentation's site in build/docs; a dead link, a missing page or a missing anchor fails
	$(SET_UP) --docs
	$(IN_VENV) python tools/build_docs.py

docs-pictures:  ## make the pictures of docs/pictures again: from the code, and of the page of a running topology
	$(SET_UP) --java --chromium
	$(IN_VENV) python tools/pictures/draw.py
	$(IN_VENV) python tools/pictures/take_page.py

.PHONY: demo kafka-word-count bench
demo:  ## word count with two kills; PROVIDER=redis, redis-cluster or hbase keeps its state there; WORKERS=2
	$(SET_UP) --java $(if $(filter redis%,$(PROVIDER)),--redis) $(if $(filter hbase,$(PROVIDER)),--hbase)
	$(IN_VENV) python examples/word_count/demo.py --provider "$(PROVIDER)" --workers "$(WORKERS)" $(OPTIONS)

kafka-word-count:  ## word count from topic to topic of a Kafka of its own, with a kill
	$(SET_UP) --java --kafka
	$(IN_VENV) python examples/kafka_word_count/run.py $(OPTIONS)

bench:  ## word count beside its peers; OPTIONS=--short for 5 minutes; without OPTIONS also bench-reliable, -latency, -hourly
	$(SET_UP) --java --redis --peers
	$(IN_VENV) python -m pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/requirements.txt
	$(IN_VENV) python -m benchmarks.word_count $(OPTIONS)
	$(if $(OPTIONS),,$(IN_VENV) python -m benchmarks.reliable)
	$(if $(OPTIONS),,$(IN_VENV) python -m benchmarks.reliable --workers 2 --rounds 3)
	$(if $(OPTIONS),,$(IN_VENV) python -m benchmarks.latency)
	$(if $(OPTIONS),,$(IN_VENV) python -m benchmarks.hourly)

.PHONY: bench-hourly
bench-hourly:  ## benchmarks/hourly: an hourly count with late events, beside Spark's timers and Bytewax's windows
	$(SET_UP) --java --redis --peers
	$(IN_VENV) python -m pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/requirements.txt
	$(IN_VENV) python -m benchmarks.hourly $(OPTIONS)

.PHONY: bench-sliding
bench-sliding:  ## benchmarks/hourly/sliding.py: sliding windows over 100,000 keys, beside a plain count
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.hourly.sliding $(OPTIONS)

.PHONY: bench-sweeps
bench-sweeps:  ## benchmarks/sweeps.py: words/s against the sizes of batch, key and value, the tasks, and the skew
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.sweeps $(OPTIONS)

.PHONY: bench-state
bench-state: set-up  ## benchmarks/state.py: each backend beside its raw client library
	$(IN_VENV) python -m benchmarks.state $(OPTIONS)

.PHONY: bench-size
bench-size: set-up  ## benchmarks/state_size.py: small waves on a namespace of millions of keys
	$(IN_VENV) python -m benchmarks.state_size $(OPTIONS)

.PHONY: bench-expiry
bench-expiry: set-up  ## benchmarks/expiry.py: waves of keys with a TTL, and sweeps, beside the same without
	$(IN_VENV) python -m benchmarks.expiry $(OPTIONS)

.PHONY: bench-timers
bench-timers: set-up  ## benchmarks/due_timers.py: waves in which a million timers fire that are due at once
	$(IN_VENV) python -m benchmarks.due_timers $(OPTIONS)

.PHONY: bench-moving
bench-moving: set-up  ## benchmarks/moving.py: savepoint, restore and rescale beside a raw client, and waves meanwhile
	$(IN_VENV) python -m benchmarks.moving $(OPTIONS)

.PHONY: bench-frames
bench-frames: set-up  ## benchmarks/frames.py: the state as a DataFrame, beside the same data as Parquet
	$(IN_VENV) python -m benchmarks.frames $(OPTIONS)

.PHONY: bench-instructions
bench-instructions: set-up  ## benchmarks/instructions.py: the instructions of a wave, now and as of an earlier commit
	$(IN_VENV) python -m benchmarks.instructions $(OPTIONS)

.PHONY: bench-memory
bench-memory:  ## benchmarks/worker_memory.py: the largest worker with 64 tasks of 200,000 keys on two cores
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.worker_memory $(OPTIONS)

.PHONY: bench-restart
bench-restart:  ## benchmarks/restart.py: the first wave after a start, with 10,000 and with 10,000,000 keys
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.restart $(OPTIONS)

.PHONY: bench-page
bench-page:  ## benchmarks/page_load.py: what 200 scrapes and loads of the page each second cost a topology
	$(SET_UP) --java
	$(IN_VENV) python -m benchmarks.page_load $(OPTIONS)

.PHONY: bench-figures
bench-figures:  ## benchmarks/measuring.py: runs with all figures and the history beside runs without them
	$(SET_UP) --java
	$(IN_VENV) python -m benchmarks.measuring $(OPTIONS)

.PHONY: bench-soak
bench-soak:  ## benchmarks/soak: whether memory, open files, threads or files grow in two hours of a wave a second
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.soak $(OPTIONS)

.PHONY: bench-latency
bench-latency:  ## benchmarks/latency.py: almost empty waves and messages/s, as jobs and in workers that stay
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.latency $(OPTIONS)

.PHONY: bench-chains
bench-chains:  ## benchmarks/chains.py: almost empty waves of four bolts as jobs, chained and with shuffles
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.chains $(OPTIONS)

.PHONY: bench-reliable
bench-reliable:  ## benchmarks/reliable.py: tracked beside untracked tuples, and how soon a message is acked
	$(SET_UP) --java --redis
	$(IN_VENV) python -m benchmarks.reliable $(OPTIONS)

.PHONY: bench-transactional
bench-transactional:  ## benchmarks/transactional.py: whether batches in flight pay, and what a batch costs and needs
	$(SET_UP) --java
	$(IN_VENV) python -m benchmarks.transactional $(OPTIONS)

.PHONY: bench-commits
bench-commits:  ## benchmarks/commits.py: a commit of many tasks, and the bytes of it that pass through the driver
	$(SET_UP) --java --hbase
	$(IN_VENV) python -m benchmarks.commits $(OPTIONS)

.PHONY: bench-migrate
bench-migrate: set-up  ## benchmarks/migrate.py: Base64 to binary beside a plain loop of redis-py
	$(IN_VENV) python -m benchmarks.migrate $(OPTIONS)

.PHONY: crash-test
crash-test: set-up  ## ROUNDS=n campaigns of real kills; SEEDS simulations and damaged inputs
	$(IN_VENV) python -m tests.support.spark_jvm
	$(IN_VENV) python -m tests.crash.campaign --rounds "$(ROUNDS)"
	$(IN_VENV) python -m tests.crash.deaths
	$(IN_VENV) python -m tests.crash.deaths --late --store sqlite
	$(IN_VENV) python -m tests.crash.deaths --unstable
	$(IN_VENV) python -m tests.crash.dead_letters --spout stream
	$(IN_VENV) python -m tests.crash.dead_letters --spout reliable --letters redis
	$(IN_VENV) python -m tests.crash.dead_letters --spout stream --deadly 3
	$(IN_VENV) python -m tests.crash.dead_letters --spout reliable --letters redis --deadly 3
	$(IN_VENV) python -m tests.crash.machines --place directory
	$(IN_VENV) python -m tests.crash.machines --place hdfs
	$(IN_VENV) python -m tests.crash.machines --place s3
	$(IN_VENV) python -m tests.crash.machines --place kafka
	$(IN_VENV) python -m tests.migration_tools.base64_to_binary.kills
	$(IN_VENV) python -m tests.fuzz.fuzzer --inputs "$(SEEDS)"
	$(IN_VENV) python -m tests.simulation.simulate --seeds "$(SEEDS)"

.PHONY: dist
dist: venv  ## what is published, into dist/: wheel, source distribution, SBOM, licences of the dependencies
	$(IN_VENV) python tools/make_dist.py $(OPTIONS)

.PHONY: lock upgrade
# The lock files hold for all supported Pythons; uv makes them, and only here is it needed.
LOCK = .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes \
	--custom-compile-command "make lock"
EXTRAS = $(foreach extra,encryption hbase hdfs kafka testing ui,--extra $(extra))
lock: .venv-lock/bin/uv  ## write requirements/ anew from pyproject.toml, versions kept where they fit
	$(LOCK) $(UPGRADE) pyproject.toml --extra dev -o requirements/dev.txt
	$(LOCK) $(UPGRADE) pyproject.toml --constraint requirements/dev.txt -o requirements/runtime.txt
	$(LOCK) $(UPGRADE) pyproject.toml $(EXTRAS) --constraint requirements/dev.txt -o requirements/extras.txt
	$(LOCK) $(UPGRADE) requirements/dist.in -o requirements/dist.txt
	$(LOCK) $(UPGRADE) requirements/build.in -o requirements/build.txt
	$(LOCK) $(UPGRADE) requirements/debian_python.in -o requirements/debian_python.txt
	$(LOCK) $(UPGRADE) requirements/java.in -o requirements/java.txt
	$(LOCK) $(UPGRADE) requirements/moto.in -o requirements/moto.txt
	$(LOCK) $(UPGRADE) requirements/docs.in -o requirements/docs.txt
	$(LOCK) $(UPGRADE) requirements/other_systems.in -o requirements/other_systems.txt
	$(LOCK) $(UPGRADE) requirements/bytewax.in --constraint requirements/other_systems.txt -o requirements/bytewax.txt
	$(LOCK) $(UPGRADE) requirements/flink.in -o requirements/flink.txt

upgrade:  ## as lock, with the newest versions
	$(MAKE) lock UPGRADE=--upgrade

.venv-lock/bin/uv:
	"$(PYTHON)" -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet uv

.PHONY: clean
clean:  ## remove the environments and caches
	rm -rf .venv* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
