#!/bin/sh
# make.sh WORK: the logs of tests/logs again, in WORK/out. Needs the four harnesses (README.md has the versions); name them by
# PYTHON, LM_EVAL, INSPECT_PYTHON, EEE and LIGHTEVAL_PYTHON when they are not on the path. Nothing is downloaded.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../../../collect/demo
mkdir -p "$1/models"
cd "$1"
"${PYTHON:-python3}" "$here/make_items.py" "$demo/items.jsonl" data
for model in large-base large-domain large-instruct; do cp -r "$demo/models/$model" models/; done
cp -r "$here/lm_eval" "$here"/inspect_*.py "$here"/lighteval_*.py .
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 TOKENIZERS_PARALLELISM=false
HF_HOME=$PWD/hf
export HF_HOME
for harness in ${HARNESSES:-lm_eval inspect every_eval_ever lighteval}; do sh "$here/$harness.sh" out; done
