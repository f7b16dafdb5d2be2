#!/bin/sh
# lighteval.sh [out]: run in the work folder make.sh prepares; LIGHTEVAL_PYTHON is the python that lighteval is installed for.
set -eu
out=${1:-out}/lighteval
for model in large-base large-domain; do
  "${LIGHTEVAL_PYTHON:-python}" lighteval_run.py accelerate "model_name=models/$model,device=cpu,dtype=float32,batch_size=4,cache_dir=lighteval_cache" \
    "demo_letters|0,demo_text|0,demo_gen|0" --custom-tasks lighteval_tasks.py --output-dir "$out" --save-details
done
