#!/bin/sh
# inspect.sh [out]: run in the work folder make.sh prepares; INSPECT_PYTHON is the python that inspect-ai is installed for.
set -eu
out=${1:-out}/inspect
export INSPECT_DISPLAY=plain
ins() { "${INSPECT_PYTHON:-python}" inspect_run.py "$@"; }
sampled="--max-tokens 8 --seed 7 --temperature 0.8 --max-samples 1"
instruct="--model hf/local -M model_path=models/large-instruct -M tokenizer_path=models/large-instruct -M device=cpu $sampled"
# shellcheck disable=SC2086
ins eval inspect_demo.py@demo_choice $instruct --limit 6 --epochs 2 --log-dir "$out/demo_choice"
ins log convert "$out/demo_choice" --to json --output-dir "$out/demo_choice_json"
# shellcheck disable=SC2086
ins eval inspect_demo.py@demo_scorers $instruct --log-dir "$out/demo_scorers"
ins eval inspect_demo.py@demo_error --model mockllm/model --max-samples 1 --log-dir "$out/demo_error" || true
ins eval inspect_demo.py@demo_error --model mockllm/model --max-samples 1 --no-fail-on-error --log-dir "$out/demo_unscored"
