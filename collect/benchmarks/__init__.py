"""Benchmarks that `collect` reads itself: a file each with its source on top, one engine (loading.py) that applies them."""

from collect.benchmarks.arc import ARC
from collect.benchmarks.bbh import BBH
from collect.benchmarks.boolq import BOOLQ
from collect.benchmarks.commonsense_qa import COMMONSENSE_QA
from collect.benchmarks.gpqa import GPQA
from collect.benchmarks.gsm8k import GSM8K
from collect.benchmarks.hellaswag import HELLASWAG
from collect.benchmarks.mathqa import MATHQA
from collect.benchmarks.mctest import MCTEST
from collect.benchmarks.mmlu import MMLU
from collect.benchmarks.musr import MUSR
from collect.benchmarks.piqa import PIQA
from collect.benchmarks.race import RACE
from collect.benchmarks.salad_bench import SALAD_BENCH
from collect.benchmarks.social_iqa import SOCIAL_IQA
from collect.benchmarks.truthfulqa import TRUTHFULQA
from collect.benchmarks.winogrande import WINOGRANDE

# the twelve of arXiv 2510.17776, then five that lie outside its categories
BENCHMARKS = (
    MMLU, BBH, GPQA, MUSR, ARC, TRUTHFULQA, HELLASWAG, SOCIAL_IQA, MCTEST,
    PIQA, COMMONSENSE_QA, SALAD_BENCH, GSM8K, BOOLQ, WINOGRANDE, MATHQA, RACE,
)  # fmt: skip
