# The whole interface. Everything else is a subcommand of bodyd (`.venv/bin/bodyd --help`).

ARGS ?=
ONLY ?=

.DEFAULT_GOAL := help
.PHONY: help run demo test check bench soak clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

run: ## set up, start a body, show it a task, print a link to watch it; Ctrl-C ends it
	@scripts/setup.sh
	@exec .venv/bin/bodyd demo --serve $(ARGS)

demo: ## set up, run the demo task, end with its verdict (0: done, and proved)
	@scripts/setup.sh
	@exec .venv/bin/bodyd demo $(ARGS)

test: ## set up, run every test, two files at a time (ARGS="tests/lease -x" for some)
	@scripts/setup.sh --tests
	@exec .venv/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: ## format, lint, async rules, types, import walls
	@scripts/setup.sh
	@exec scripts/check.sh

bench: ## measure, side by side with peers (ONLY=engine for one)
	@scripts/setup.sh --tests
	@exec .venv/bin/python -m bench $(if $(ONLY),--only $(ONLY))

soak: ## the full counts: kills, attacks, cycles (up to an hour)
	@scripts/setup.sh --soak
	@BODYD_SOAK=1 exec .venv/bin/python -m pytest -m soak --timeout=3600 -o faulthandler_timeout=3600 $(ARGS)

clean: ## remove what was made here, .venv included; bodies and their state stay
	@rm -rf .venv .venv-peers build dist bench/out demo-out *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache .coverage*
