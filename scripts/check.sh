#!/bin/sh
# Run every gate, name each, and fail if any is not clean. All run, so one call shows all faults.
set -u

cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
failed=

gate() { # NAME COMMAND...
    name=$1
    shift
    if output=$("$@" 2>&1); then
        printf 'ok      %s\n' "$name"
    else
        printf 'FAILED  %s\n%s\n' "$name" "$output"
        failed="$failed $name"
    fi
}

pure_files_by_their_own_tests() { # every branch: [tool.coverage.report] in pyproject.toml
    COVERAGE_FILE=$(mktemp) && export COVERAGE_FILE
    coverage run -m pytest -q -p no:cacheprovider tests/contract tests/lease \
        tests/journal/test_intents.py \
        tests/journal/test_recovery.py tests/journal/test_traces.py tests/driver/test_admission.py tests/driver/test_vitals.py \
        tests/stream/test_protocol.py tests/stream/test_regions.py tests/stream/test_gestures.py \
        tests/stream/test_motion.py tests/stream/test_tiles.py \
        tests/policy/test_normal.py tests/policy/test_lexicon.py tests/policy/test_packs.py \
        tests/policy/test_pages.py tests/policy/test_leaks.py tests/policy/test_detect.py tests/policy/test_adversary.py && coverage report
    status=$?
    rm -f "$COVERAGE_FILE"
    return $status
}

gate format ruff format --check .
gate lint ruff check .
# flake8-async takes files, not folders, and no configuration. Left out: ASYNC114 and ASYNC128 (what a function
# does with its task_status when it passes it on), ASYNC124 and ASYNC91x (a handler or a port method is async
# because its caller awaits it, and need not have a checkpoint).
async_rules() {
    find bodyd adapters fixtures_site bench scripts tests -name '*.py' -exec flake8-async --enable=ASYNC \
        --disable=ASYNC114,ASYNC124,ASYNC128,ASYNC910,ASYNC911,ASYNC912,ASYNC913 {} +
}
gate async async_rules
gate types mypy --strict bodyd adapters
gate walls lint-imports
gate pure pure_files_by_their_own_tests

[ -z "$failed" ] || {
    printf 'not clean:%s\n' "$failed"
    exit 1
}
