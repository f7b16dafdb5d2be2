#!/bin/sh
# every_eval_ever.sh [out]: after lm_eval.sh and inspect.sh, in the same folder; the command on the path (or in EEE). Python 3.12.
set -eu
out=${1:-out}
convert() { # convert HARNESS FROM TO [more]
  harness=$1 from=$2 to=$3
  shift 3
  "${EEE:-every_eval_ever}" convert "$harness" --log_path "$from" --output_dir "$to" \
    --source_organization_name "forgetting-catalog demo" --evaluator_relationship first_party --eval_library_name "$harness" "$@"
}
for log in demo_text_limit20_2shot/models__large-base demo_text_limit20_2shot/models__large-domain demo_gen/models__large-instruct; do
  convert lm_eval "$out/lm_eval/$log" "$out/every_eval_ever/data" --eval_library_version 0.4.13 --include_samples
done
for log in demo_choice demo_scorers; do
  convert inspect "$out/inspect/$log" "$out/every_eval_ever/data"
done
