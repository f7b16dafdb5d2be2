#!/bin/sh
# lm_eval.sh [out]: run in the work folder make.sh prepares, lm-eval on the path (or in LM_EVAL).
set -eu
out=${1:-out}/lm_eval
lm() { # lm MODEL TASK OUT [more]
  model=$1 task=$2 to=$3
  shift 3
  "${LM_EVAL:-lm-eval}" run --model hf --model_args "pretrained=models/$model,dtype=float32" --device cpu --batch_size 8 \
    --tasks "$task" --include_path lm_eval --log_samples --output_path "$to" "$@"
}
lm large-base demo_text "$out/demo_text"
lm large-domain demo_text "$out/demo_text"
lm large-base demo_gen "$out/demo_gen"
lm large-instruct demo_gen "$out/demo_gen" --apply_chat_template
for model in large-base large-domain; do
  lm $model demo_text "$out/demo_text_limit20_2shot" --limit 20 --num_fewshot 2
done
